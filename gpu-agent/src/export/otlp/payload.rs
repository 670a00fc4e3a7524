//! Snapshots as encoded OTLP requests.

use std::time::SystemTime;

use bytes::Bytes;
use gpu_api::metric::attribute::OTEL_METRIC_OVERFLOW;
use gpu_api::metric::{Descriptor, Kind};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Gauge, Histogram, HistogramDataPoint, Metric, NumberDataPoint, ResourceMetrics,
    ScopeMetrics, Sum, metric, number_data_point,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use prost::Message as _;

use super::resource::ResourceAttributes;
use crate::export::snapshot::{Attributes, Point, Snapshot, Value};

/// An encoded `ExportMetricsServiceRequest`, the same for both protocols.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Payload {
    pub(super) bytes: Bytes,
    pub(super) points: u64,
}

/// Encodes `snapshot` into as few requests as keep to `points_per_request`.
pub(super) fn encode(
    snapshot: &Snapshot,
    resource: &ResourceAttributes,
    points_per_request: usize,
) -> Vec<Payload> {
    let limit = points_per_request.max(1);
    let mut payloads = Vec::new();
    let mut metrics = Vec::new();
    let mut points = 0;
    for family in &snapshot.families {
        let mut rest = family.points.as_slice();
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(limit - points));
            metrics.push(metric(family.descriptor, now, snapshot.time));
            points += now.len();
            rest = later;
            if points == limit {
                payloads.push(request(std::mem::take(&mut metrics), resource, points));
                points = 0;
            }
        }
    }
    if points > 0 {
        payloads.push(request(metrics, resource, points));
    }
    payloads
}

fn request(metrics: Vec<Metric>, resource: &ResourceAttributes, points: usize) -> Payload {
    let attributes = resource.iter().map(|(key, value)| string_attribute(key, value)).collect();
    let scope = InstrumentationScope {
        name: env!("CARGO_PKG_NAME").to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..InstrumentationScope::default()
    };
    let request = ExportMetricsServiceRequest {
        resource_metrics: vec![ResourceMetrics {
            resource: Some(Resource { attributes, ..Resource::default() }),
            scope_metrics: vec![ScopeMetrics { scope: Some(scope), metrics, schema_url: String::new() }],
            schema_url: String::new(),
        }],
    };
    Payload { bytes: request.encode_to_vec().into(), points: points as u64 }
}

fn metric(descriptor: &Descriptor, points: &[Point], time: SystemTime) -> Metric {
    let aggregation_temporality = AggregationTemporality::Cumulative as i32;
    let data = match descriptor.kind {
        Kind::Gauge => metric::Data::Gauge(Gauge { data_points: number_points(points, time) }),
        kind @ (Kind::Counter | Kind::UpDownCounter) => metric::Data::Sum(Sum {
            data_points: number_points(points, time),
            aggregation_temporality,
            is_monotonic: kind == Kind::Counter,
        }),
        Kind::Histogram => metric::Data::Histogram(Histogram {
            data_points: histogram_points(points, time),
            aggregation_temporality,
        }),
    };
    Metric {
        name: descriptor.name.to_owned(),
        description: descriptor.description.to_owned(),
        unit: descriptor.unit.to_owned(),
        metadata: Vec::new(),
        data: Some(data),
    }
}

fn number_points(points: &[Point], time: SystemTime) -> Vec<NumberDataPoint> {
    points
        .iter()
        .filter_map(|point| {
            let value = match point.value {
                Value::U64(value) => integer(value),
                Value::I64(value) => number_data_point::Value::AsInt(value),
                Value::F64(value) => number_data_point::Value::AsDouble(value),
                Value::Histogram(_) => return None,
            };
            Some(NumberDataPoint {
                attributes: attributes(&point.attributes),
                start_time_unix_nano: point.start.map_or(0, unix_nanos),
                time_unix_nano: unix_nanos(time),
                value: Some(value),
                ..NumberDataPoint::default()
            })
        })
        .collect()
}

#[expect(
    clippy::cast_precision_loss,
    reason = "OTLP has no unsigned integers; above 2^63 a double is the nearest"
)]
fn integer(value: u64) -> number_data_point::Value {
    i64::try_from(value)
        .map_or(number_data_point::Value::AsDouble(value as f64), number_data_point::Value::AsInt)
}

fn histogram_points(points: &[Point], time: SystemTime) -> Vec<HistogramDataPoint> {
    points
        .iter()
        .filter_map(|point| {
            let Value::Histogram(histogram) = &point.value else { return None };
            Some(HistogramDataPoint {
                attributes: attributes(&point.attributes),
                start_time_unix_nano: point.start.map_or(0, unix_nanos),
                time_unix_nano: unix_nanos(time),
                count: histogram.count,
                sum: Some(histogram.sum),
                bucket_counts: histogram.bucket_counts.clone(),
                explicit_bounds: histogram.bounds.to_vec(),
                ..HistogramDataPoint::default()
            })
        })
        .collect()
}

fn attributes(attributes: &Attributes) -> Vec<KeyValue> {
    attributes
        .iter()
        .map(|(attribute, text)| {
            // The one attribute that the specification defines as a boolean.
            if *attribute == &OTEL_METRIC_OVERFLOW {
                return key_value(attribute.key, any_value::Value::BoolValue(true));
            }
            string_attribute(attribute.key, text.as_str())
        })
        .collect()
}

fn string_attribute(key: &str, value: &str) -> KeyValue {
    key_value(key, any_value::Value::StringValue(value.to_owned()))
}

fn key_value(key: &str, value: any_value::Value) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
}

/// Nanoseconds since 1970; 0, "unknown" in OTLP, for a time before it.
fn unix_nanos(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH)
        .ok()
        .and_then(|elapsed| u64::try_from(elapsed.as_nanos()).ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests;

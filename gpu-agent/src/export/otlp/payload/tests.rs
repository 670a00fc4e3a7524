use std::time::SystemTime;

use gpu_api::metric::attribute::OTEL_METRIC_OVERFLOW;
use gpu_api::metric::{device, tenant};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value;
use opentelemetry_proto::tonic::metrics::v1::{Metric, metric, number_data_point};
use prost::Message as _;

use super::{Payload, encode};
use crate::export::sample;
use crate::export::snapshot::{Snapshot, Value};

const CUMULATIVE: i32 = 2;

fn resource() -> super::ResourceAttributes {
    [("service.name".to_owned(), "gpu-agent".to_owned())].into()
}

fn decode(payload: &Payload) -> ExportMetricsServiceRequest {
    ExportMetricsServiceRequest::decode(payload.bytes.clone()).unwrap()
}

fn metrics(payload: &Payload) -> Vec<Metric> {
    decode(payload).resource_metrics.remove(0).scope_metrics.remove(0).metrics
}

fn find(metrics: &[Metric], name: &str) -> metric::Data {
    metrics.iter().find(|metric| metric.name == name).unwrap().data.clone().unwrap()
}

fn nanos(seconds: u64) -> u64 {
    (1_700_000_000 + seconds) * 1_000_000_000
}

#[test]
fn one_request_holds_every_metric_with_its_resource_and_scope() {
    let payloads = encode(&sample::snapshot(), &resource(), 1000);
    assert_eq!(payloads.len(), 1);
    assert_eq!(payloads[0].points, 11);
    let request = decode(&payloads[0]);
    let resource = request.resource_metrics[0].resource.as_ref().unwrap();
    assert_eq!(resource.attributes[0].key, "service.name");
    let scope = request.resource_metrics[0].scope_metrics[0].scope.as_ref().unwrap();
    assert_eq!((scope.name.as_str(), scope.version.as_str()), ("gpu-agent", env!("CARGO_PKG_VERSION")));

    let metrics = metrics(&payloads[0]);
    for metric in &metrics {
        let descriptor = gpu_api::metric::all().find(|known| known.name == metric.name).unwrap();
        assert_eq!(metric.unit, descriptor.unit);
        assert_eq!(metric.description, descriptor.description);
    }
    assert_eq!(metrics.len(), 11);
}

#[test]
fn a_counter_is_a_cumulative_monotonic_sum_since_its_start() {
    let payloads = encode(&sample::snapshot(), &resource(), 1000);
    let metric::Data::Sum(sum) = find(&metrics(&payloads[0]), "gpu.tenant.launches") else {
        panic!("no sum")
    };
    assert!(sum.is_monotonic);
    assert_eq!(sum.aggregation_temporality, CUMULATIVE);
    let point = &sum.data_points[0];
    assert_eq!((point.start_time_unix_nano, point.time_unix_nano), (nanos(0), nanos(60)));
    assert_eq!(point.value, Some(number_data_point::Value::AsInt(4_294_967_296)));
    let attributes: Vec<_> = point
        .attributes
        .iter()
        .map(|attribute| (attribute.key.as_str(), attribute.value.clone().unwrap().value.unwrap()))
        .collect();
    let text = |text: &str| any_value::Value::StringValue(text.to_owned());
    assert_eq!(
        attributes,
        [
            ("hw.id", text("GPU-5f0e9c0a-0000-4000-8000-000000000001")),
            ("gpu.tenant.name", text("team \"a\"\\b")),
            ("gpu.tenant.kind", text("configured")),
        ]
    );
}

#[test]
fn the_other_kinds() {
    let payloads = encode(&sample::snapshot(), &resource(), 1000);
    let metrics = metrics(&payloads[0]);

    let metric::Data::Sum(held) = find(&metrics, "gpu.tenant.memory.usage") else { panic!("no sum") };
    assert!(!held.is_monotonic);

    let metric::Data::Sum(energy) = find(&metrics, "hw.energy") else { panic!("no sum") };
    assert_eq!(energy.data_points[0].start_time_unix_nano, 0, "0 means unknown");
    assert_eq!(energy.data_points[0].value, Some(number_data_point::Value::AsDouble(1_234.5)));

    let metric::Data::Gauge(gauge) = find(&metrics, "gpu.agent.ledger.discrepancy") else {
        panic!("no gauge")
    };
    assert_eq!(gauge.data_points[0].value, Some(number_data_point::Value::AsInt(-4096)));

    let metric::Data::Histogram(waits) = find(&metrics, "gpu.tenant.sync.duration") else {
        panic!("no histogram")
    };
    assert_eq!(waits.aggregation_temporality, CUMULATIVE);
    let point = &waits.data_points[0];
    assert_eq!((point.count, point.sum), (4, Some(3.5)));
    assert_eq!(point.bucket_counts, [1, 0, 2, 1]);
    assert_eq!(point.explicit_bounds, sample::BOUNDS);
    assert_eq!(point.start_time_unix_nano, nanos(0));
}

#[test]
fn a_request_has_at_most_as_many_points_as_the_receiver_takes() {
    let mut builder = Snapshot::builder(sample::time(0));
    for gpu in 0..7 {
        let id = || vec![(&gpu_api::metric::attribute::HW_ID, format!("GPU-{gpu}").into())];
        builder.point(&device::MEMORY_LIMIT, id(), Value::U64(gpu));
        builder.point(&device::MEMORY_USAGE, id(), Value::U64(gpu));
    }
    let payloads = encode(&builder.build(), &resource(), 5);
    let shape: Vec<Vec<(String, usize)>> = payloads
        .iter()
        .map(|payload| {
            metrics(payload)
                .into_iter()
                .map(|metric| {
                    let Some(metric::Data::Sum(sum)) = metric.data else { panic!("no sum") };
                    (metric.name, sum.data_points.len())
                })
                .collect()
        })
        .collect();
    let (limit, usage) = ("hw.gpu.memory.limit".to_owned(), "hw.gpu.memory.usage".to_owned());
    assert_eq!(shape, [vec![(limit.clone(), 5)], vec![(limit, 2), (usage.clone(), 3)], vec![(usage, 4)]]);
    assert_eq!(payloads.iter().map(|payload| payload.points).collect::<Vec<_>>(), [5, 5, 4]);
    assert!(encode(&Snapshot::builder(sample::time(0)).build(), &resource(), 5).is_empty());
}

#[test]
fn what_otlp_cannot_say_as_it_is() {
    let mut builder = Snapshot::builder(SystemTime::UNIX_EPOCH);
    builder.since(
        &tenant::LAUNCHES,
        vec![(&OTEL_METRIC_OVERFLOW, "true".into())],
        SystemTime::UNIX_EPOCH,
        Value::U64(u64::MAX),
    );
    let payloads = encode(&builder.build(), &resource(), 5);
    let metric::Data::Sum(sum) = find(&metrics(&payloads[0]), "gpu.tenant.launches") else {
        panic!("no sum")
    };
    let point = &sum.data_points[0];
    assert_eq!(point.value, Some(number_data_point::Value::AsDouble(18_446_744_073_709_551_615.0)));
    let overflow = point.attributes[0].value.clone().unwrap().value;
    assert_eq!(overflow, Some(any_value::Value::BoolValue(true)), "a boolean by the specification");
}

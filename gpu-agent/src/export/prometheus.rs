//! The snapshot as Prometheus text, in the format for which the scraper asks.

use std::fmt::{self, Write as _};

use gpu_api::metric::prometheus::prometheus_label;
use gpu_api::metric::{Kind, prometheus_name};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeLabelSet, LabelSetEncoder, MetricEncoder, NoLabelSet,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use super::snapshot::{Attributes, Family, Histogram, Point, Snapshot, Value};

/// A text format that Prometheus reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Prometheus text format 0.0.4, which every scraper reads.
    Text,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl Format {
    /// The format for the value of an `Accept` header: OpenMetrics where the scraper ranks it first.
    ///
    /// A header that is missing or makes no sense gets the plain format, as scrapers expect.
    pub fn from_accept(accept: Option<&str>) -> Self {
        let mut best = (Self::Text, 0.0);
        for range in accept.unwrap_or_default().split(',') {
            let mut parts = range.split(';').map(str::trim);
            let media_type = parts.next().unwrap_or_default();
            let parameters: Vec<_> = parts.filter_map(|part| part.split_once('=')).collect();
            let parameter = |name: &str| {
                let found = parameters.iter().find(|(key, _)| key.trim().eq_ignore_ascii_case(name));
                found.map(|(_, value)| value.trim().trim_matches('"'))
            };
            let format = if media_type.eq_ignore_ascii_case("application/openmetrics-text") {
                if !matches!(parameter("version"), None | Some("1.0.0" | "0.0.1")) {
                    continue;
                }
                Self::OpenMetrics
            } else if media_type.eq_ignore_ascii_case("text/plain") || media_type == "*/*" {
                Self::Text
            } else {
                continue;
            };
            let quality = parameter("q").map_or(Some(1.0), |q| q.parse::<f64>().ok()).unwrap_or(0.0);
            if quality > best.1 {
                best = (format, quality);
            }
        }
        best.0
    }

    /// The value of the `Content-Type` header.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// Renders the whole exposition.
pub fn render(snapshot: Snapshot, format: Format) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(SnapshotCollector(snapshot)));
    let mut text = String::new();
    match format {
        Format::Text => prometheus_client::encoding::prometheus_text::encode(&mut text, &registry)?,
        Format::OpenMetrics => prometheus_client::encoding::text::encode(&mut text, &registry)?,
    }
    Ok(text)
}

#[derive(Debug)]
struct SnapshotCollector(Snapshot);

impl Collector for SnapshotCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        self.0.families.iter().filter(|family| !family.points.is_empty()).try_for_each(|family| {
            let Family { descriptor, points } = family;
            let name = prometheus_name(descriptor);
            let metric_type = match descriptor.kind {
                Kind::Counter => MetricType::Counter,
                Kind::UpDownCounter | Kind::Gauge => MetricType::Gauge,
                Kind::Histogram => MetricType::Histogram,
            };
            // The encoder adds the suffix of counters itself, where the format has it.
            let name = name.strip_suffix("_total").unwrap_or(&name);
            let mut family = encoder.encode_descriptor(name, descriptor.description, None, metric_type)?;
            points.iter().try_for_each(|point| encode_point(&mut family, descriptor.kind, point))
        })
    }
}

fn encode_point(family: &mut MetricEncoder<'_>, kind: Kind, point: &Point) -> Result<(), fmt::Error> {
    let labels = Labels(&point.attributes);
    let mut metric = family.encode_family(&labels)?;
    match (&point.value, kind) {
        (Value::Histogram(histogram), _) => encode_histogram(&mut metric, histogram),
        (Value::U64(value), Kind::Counter) => metric.encode_counter::<NoLabelSet, _, u64>(value, None),
        (Value::F64(value), Kind::Counter) => metric.encode_counter::<NoLabelSet, _, u64>(value, None),
        (Value::U64(value), _) => metric.encode_gauge(value),
        (Value::I64(value), _) => metric.encode_gauge(value),
        (Value::F64(value), _) => metric.encode_gauge(value),
    }
}

fn encode_histogram(metric: &mut MetricEncoder<'_>, histogram: &Histogram) -> Result<(), fmt::Error> {
    let bounds = histogram.bounds.iter().copied().chain([f64::INFINITY]);
    let buckets: Vec<_> = bounds.zip(histogram.bucket_counts.iter().copied()).collect();
    metric.encode_histogram::<NoLabelSet>(histogram.sum, histogram.count, &buckets, None)
}

#[derive(Debug)]
struct Labels<'a>(&'a Attributes);

impl EncodeLabelSet for Labels<'_> {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> Result<(), fmt::Error> {
        self.0.iter().try_for_each(|(attribute, text)| {
            let mut label = encoder.encode_label();
            let mut key = label.encode_label_key()?;
            key.write_str(&prometheus_label(attribute.key))?;
            let mut value = key.encode_label_value()?;
            value.write_str(text.as_str())?;
            value.finish()
        })
    }
}

#[cfg(test)]
mod tests;

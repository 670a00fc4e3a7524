//! Checks of points against the catalogue: a point that breaks them is a defect of the agent.
#![cfg(debug_assertions)]

use std::collections::{HashMap, HashSet};

use gpu_api::metric::attribute::OTEL_METRIC_OVERFLOW;
use gpu_api::metric::{Descriptor, Kind, Number, Requirement};

use super::{Family, Point, Value};

pub(super) fn point(descriptor: &Descriptor, point: &Point) {
    let name = descriptor.name;
    let mut keys = HashSet::new();
    for (attribute, text) in &point.attributes {
        assert!(keys.insert(attribute.key), "{name}: attribute {} given twice", attribute.key);
        assert!(
            *attribute == &OTEL_METRIC_OVERFLOW
                || descriptor.attributes().any(|used| used.attribute == *attribute),
            "{name}: attribute {} is not in the catalogue",
            attribute.key
        );
        assert!(
            attribute.values.is_empty() || attribute.values.contains(&text.as_str()),
            "{name}: {} has no value {text:?}",
            attribute.key
        );
    }
    if !keys.contains(OTEL_METRIC_OVERFLOW.key) {
        for used in descriptor.attributes().filter(|used| used.requirement == Requirement::Required) {
            assert!(keys.contains(used.attribute.key), "{name}: attribute {} is missing", used.attribute.key);
        }
    }
    value(descriptor, &point.value);
}

fn value(descriptor: &Descriptor, value: &Value) {
    let name = descriptor.name;
    match (descriptor.kind, descriptor.number, value) {
        (Kind::Histogram, _, Value::Histogram(histogram)) => {
            assert_eq!(
                histogram.bucket_counts.len(),
                histogram.bounds.len() + 1,
                "{name}: buckets and bounds"
            );
            assert!(histogram.bounds.is_sorted_by(|a, b| a < b), "{name}: bounds ascend");
            assert_eq!(histogram.bucket_counts.iter().sum::<u64>(), histogram.count, "{name}: count");
        }
        (Kind::Counter, Number::Int, Value::U64(_))
        | (Kind::UpDownCounter | Kind::Gauge, Number::Int, Value::U64(_) | Value::I64(_)) => {}
        (Kind::Counter | Kind::UpDownCounter | Kind::Gauge, Number::Double, Value::F64(number)) => {
            assert!(number.is_finite(), "{name}: {number} is not a number; unknown is absent");
        }
        (kind, number, value) => panic!("{name} is a {kind:?} of {number:?}, not {value:?}"),
    }
}

pub(super) fn all_known(left: &HashMap<&'static str, Family>) {
    assert!(left.is_empty(), "{:?} are not in the catalogue", left.keys().collect::<Vec<_>>());
}

pub(super) fn distinct(family: &Family) {
    let mut seen = HashSet::new();
    for point in &family.points {
        let mut key: Vec<_> =
            point.attributes.iter().map(|(attribute, text)| (attribute.key, text.as_str())).collect();
        key.sort_unstable();
        assert!(seen.insert(key), "{}: two points have {:?}", family.descriptor.name, point.attributes);
    }
}

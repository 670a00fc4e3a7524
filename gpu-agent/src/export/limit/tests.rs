use std::num::NonZeroUsize;
use std::time::{Duration, SystemTime};

use gpu_api::metric::attribute::{
    GPU_AGENT_METRIC_NAME, GPU_MEMORY_KIND, GPU_TENANT_KIND, GPU_TENANT_NAME, HW_ID, OTEL_METRIC_OVERFLOW,
};
use gpu_api::metric::{Descriptor, agent, tenant};

use super::{Config, SeriesLimit};
use crate::export::snapshot::{Attributes, Histogram, Snapshot, Value};

const BOUNDS: &[f64] = &[0.1];

fn limit(series: usize) -> SeriesLimit {
    SeriesLimit::new(Config { series_per_metric: NonZeroUsize::new(series).unwrap(), ..Config::default() })
}

fn of(name: &str) -> Attributes {
    vec![
        (&HW_ID, "GPU-0".into()),
        (&GPU_TENANT_NAME, name.to_owned().into()),
        (&GPU_TENANT_KIND, "cgroup".into()),
    ]
}

fn at(second: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(second)
}

/// A snapshot with one counter per tenant: name, second of start, value.
fn launches(points: &[(&str, u64, u64)]) -> Snapshot {
    let mut builder = Snapshot::builder(at(100));
    for (name, start, value) in points {
        builder.since(&tenant::LAUNCHES, of(name), at(*start), Value::U64(*value));
    }
    builder.build()
}

/// Name and value of each series; the overflow series is `*`.
fn series(snapshot: &Snapshot, descriptor: &Descriptor) -> Vec<(String, Value)> {
    let Some(family) = snapshot.family(descriptor) else { return Vec::new() };
    let name = |attributes: &Attributes| {
        if attributes.iter().any(|(attribute, _)| *attribute == &OTEL_METRIC_OVERFLOW) {
            return "*".to_owned();
        }
        let named =
            |(attribute, _): &&(_, _)| *attribute == &GPU_TENANT_NAME || *attribute == &GPU_AGENT_METRIC_NAME;
        attributes.iter().find(named).expect("a series has a name").1.as_str().to_owned()
    };
    family.points.iter().map(|point| (name(&point.attributes), point.value.clone())).collect()
}

fn apply(limit: &mut SeriesLimit, mut snapshot: Snapshot) -> Vec<(String, u64)> {
    limit.apply(&mut snapshot);
    series(&snapshot, &tenant::LAUNCHES)
        .into_iter()
        .map(|(name, value)| match value {
            Value::U64(value) => (name, value),
            other => panic!("{other:?} is no count"),
        })
        .collect()
}

fn expected(points: &[(&str, u64)]) -> Vec<(String, u64)> {
    points.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
}

#[test]
fn up_to_the_limit_nothing_changes() {
    let mut limit = limit(2);
    let mut snapshot = launches(&[("a", 1, 10), ("b", 2, 20)]);
    limit.apply(&mut snapshot);
    assert_eq!(snapshot.families.len(), 1);
    assert_eq!(apply(&mut limit, snapshot), expected(&[("a", 10), ("b", 20)]));
}

#[test]
fn the_youngest_series_are_folded_into_one_and_counted() {
    let mut snapshot = launches(&[("c", 3, 30), ("a", 1, 10), ("d", 4, 40), ("b", 2, 20)]);
    limit(2).apply(&mut snapshot);
    assert_eq!(
        series(&snapshot, &tenant::LAUNCHES),
        [("a".into(), Value::U64(10)), ("b".into(), Value::U64(20)), ("*".into(), Value::U64(70))]
    );
    let overflow = &snapshot.family(&tenant::LAUNCHES).unwrap().points[2];
    assert_eq!(overflow.start, Some(at(3)), "the start of the oldest folded series");
    assert_eq!(
        series(&snapshot, &agent::SERIES_FOLDED),
        [("gpu.tenant.launches".into(), Value::U64(2))],
        "the number of series that cannot be told apart any more"
    );
}

#[test]
fn the_overflow_of_a_counter_never_goes_down() {
    let mut limit = limit(1);
    let first = launches(&[("a", 1, 10), ("b", 2, 20), ("c", 3, 30)]);
    assert_eq!(apply(&mut limit, first), expected(&[("a", 10), ("*", 50)]));
    let b_ended = launches(&[("a", 1, 11), ("c", 3, 33)]);
    assert_eq!(apply(&mut limit, b_ended), expected(&[("a", 11), ("*", 53)]));
    let a_ended_and_c_stays_folded = launches(&[("c", 3, 34)]);
    assert_eq!(apply(&mut limit, a_ended_and_c_stays_folded), expected(&[("*", 54)]));
    let d_takes_the_place_of_a = launches(&[("c", 3, 34), ("d", 4, 1)]);
    assert_eq!(apply(&mut limit, d_takes_the_place_of_a), expected(&[("d", 1), ("*", 54)]));
    let b_is_back_from_zero = launches(&[("c", 3, 34), ("d", 4, 1), ("b", 5, 7)]);
    assert_eq!(apply(&mut limit, b_is_back_from_zero), expected(&[("d", 1), ("*", 61)]));
    let c_began_again = launches(&[("c", 6, 4), ("d", 4, 1), ("b", 5, 7)]);
    assert_eq!(apply(&mut limit, c_began_again), expected(&[("d", 1), ("*", 65)]));
}

#[test]
fn the_overflow_of_an_up_down_counter_is_what_is_held_now() {
    let held = |points: &[(&str, u64)]| {
        let mut builder = Snapshot::builder(at(100));
        for (name, value) in points {
            let mut attributes = of(name);
            attributes.push((&GPU_MEMORY_KIND, "device".into()));
            builder.since(&tenant::MEMORY_USAGE, attributes, at(1), Value::U64(*value));
        }
        builder.build()
    };
    let mut limit = limit(1);
    let mut snapshot = held(&[("a", 10), ("b", 20), ("c", 30)]);
    limit.apply(&mut snapshot);
    assert_eq!(
        series(&snapshot, &tenant::MEMORY_USAGE),
        [("a".into(), Value::U64(10)), ("*".into(), Value::U64(50))]
    );
    let mut snapshot = held(&[("a", 10), ("c", 5)]);
    limit.apply(&mut snapshot);
    assert_eq!(
        series(&snapshot, &tenant::MEMORY_USAGE),
        [("a".into(), Value::U64(10)), ("*".into(), Value::U64(5))]
    );
    let mut snapshot = held(&[("a", 10)]);
    limit.apply(&mut snapshot);
    assert_eq!(series(&snapshot, &tenant::MEMORY_USAGE), [("a".into(), Value::U64(10))]);
    assert!(snapshot.family(&agent::SERIES_FOLDED).is_none());
}

#[test]
fn gauges_beyond_the_limit_are_left_out_because_their_sum_means_nothing() {
    let mut builder = Snapshot::builder(at(100));
    for name in ["a", "b", "c"] {
        builder.point(&tenant::UTILIZATION, of(name), Value::F64(0.5));
    }
    let mut snapshot = builder.build();
    limit(1).apply(&mut snapshot);
    assert_eq!(series(&snapshot, &tenant::UTILIZATION), [("a".into(), Value::F64(0.5))]);
    assert_eq!(series(&snapshot, &agent::SERIES_FOLDED), [("gpu.tenant.utilization".into(), Value::U64(2))]);
}

#[test]
fn histograms_are_added_bucket_by_bucket() {
    let waits = |points: &[(&str, u64, [u64; 2], f64)]| {
        let mut builder = Snapshot::builder(at(100));
        for (name, start, counts, sum) in points {
            let histogram = Histogram {
                bounds: BOUNDS,
                bucket_counts: counts.to_vec(),
                sum: *sum,
                count: counts.iter().sum(),
            };
            builder.since(&tenant::SYNC_DURATION, of(name), at(*start), Value::Histogram(histogram));
        }
        builder.build()
    };
    let mut limit = limit(1);
    let mut snapshot = waits(&[("a", 1, [1, 0], 0.5), ("b", 2, [1, 2], 4.0), ("c", 3, [3, 0], 0.25)]);
    limit.apply(&mut snapshot);
    let folded = Histogram { bounds: BOUNDS, bucket_counts: vec![4, 2], sum: 4.25, count: 6 };
    assert_eq!(series(&snapshot, &tenant::SYNC_DURATION)[1], ("*".into(), Value::Histogram(folded)));

    let mut snapshot = waits(&[("a", 1, [1, 0], 0.5), ("c", 3, [3, 1], 1.25)]);
    limit.apply(&mut snapshot);
    let folded = Histogram { bounds: BOUNDS, bucket_counts: vec![4, 3], sum: 5.25, count: 7 };
    assert_eq!(series(&snapshot, &tenant::SYNC_DURATION)[1], ("*".into(), Value::Histogram(folded)));
}

#[test]
fn a_metric_can_have_a_limit_of_its_own() {
    let config: Config =
        toml::from_str("series_per_metric = 5\nmetrics.\"gpu.tenant.launches\" = 1").unwrap();
    config.validate().unwrap();
    let mut limit = SeriesLimit::new(config);
    assert_eq!(apply(&mut limit, launches(&[("a", 1, 1), ("b", 2, 2)])), expected(&[("a", 1), ("*", 2)]));
}

#[test]
fn a_limit_for_no_metric_is_refused_by_name() {
    let config: Config = toml::from_str("metrics.\"gpu.tenant.lunches\" = 1").unwrap();
    assert_eq!(
        config.validate().unwrap_err().to_string(),
        "`metrics.gpu.tenant.lunches`: no metric has this name; the names are in docs/metrics.md, such as \
         `gpu.tenant.launches`"
    );
    assert!(toml::from_str::<Config>("series_per_metric = 0").is_err());
    assert!(toml::from_str::<Config>("series = 1").is_err());
}

mod fixture;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use gpu_api::metric::{Descriptor, agent, device, value};
use tokio::time::Instant;

use self::fixture::{MAX_AGE, bare, complete, everything, nvlink, pcie, reading, snapshot, uuid};
use super::add_to;
use crate::device::reading::{Memory, Rows, ThrottleReason};
use crate::device::{DeviceSnapshot, ErrorClass, GpuCondition, Reading};
use crate::export::prometheus::{Format, render};
use crate::export::snapshot::{Point, Snapshot};

fn report(devices: &DeviceSnapshot, now: Instant) -> Snapshot {
    let start = SystemTime::UNIX_EPOCH;
    let mut builder = Snapshot::builder(start + Duration::from_secs(60));
    add_to(&mut builder, devices, now, MAX_AGE, start);
    builder.build()
}

/// The samples of all metrics but the agent's own, without the lines that describe them.
fn samples(devices: &DeviceSnapshot, now: Instant) -> String {
    let text = render(report(devices, now), Format::Text).unwrap();
    let of_devices = |line: &&str| !line.starts_with('#') && !line.starts_with("gpu_agent_");
    text.lines().filter(of_devices).map(|line| line.to_owned() + "\n").collect()
}

fn points<'a>(report: &'a Snapshot, descriptor: &Descriptor) -> &'a [Point] {
    report.family(descriptor).map_or(&[], |family| &family.points)
}

#[test]
fn what_is_known_is_exported() {
    let now = Instant::now();
    insta::assert_snapshot!(render(report(&everything(now), now), Format::Text).unwrap());
}

#[test]
fn no_metric_of_the_catalogue_is_a_dead_letter() {
    let now = Instant::now();
    let report = report(&everything(now), now);
    let missing = |descriptor: &&&Descriptor| points(&report, descriptor).is_empty();
    let missing: Vec<_> = device::ALL.iter().filter(missing).map(|descriptor| descriptor.name).collect();
    assert_eq!(missing, [""; 0]);
}

#[test]
fn of_a_bare_gpu_only_identity_and_state_are_exported() {
    let now = Instant::now();
    insta::assert_snapshot!(samples(&snapshot(now, vec![bare(1, now)]), now));
}

#[test]
fn an_empty_reading_adds_nothing() {
    let now = Instant::now();
    let mut state = bare(1, now);
    state.reading = Some((now, Arc::new(Reading::default())));
    let without = samples(&snapshot(now, vec![bare(1, now)]), now);
    assert_eq!(samples(&snapshot(now, vec![state]), now), without);
}

#[test]
fn a_lost_gpu_is_reported_as_failed_next_to_a_good_one() {
    let now = Instant::now();
    let mut lost = complete(1, now);
    lost.condition = GpuCondition::Lost;
    let devices = DeviceSnapshot {
        topology: Arc::new([nvlink(0, 1), nvlink(1, 0)]),
        ..snapshot(now, vec![complete(0, now), lost])
    };
    let text = samples(&devices, now);
    let of_lost = |line: &&str| line.contains(uuid(1).as_str());
    insta::assert_snapshot!(text.lines().filter(of_lost).collect::<Vec<_>>().join("\n"));

    let good: String =
        text.lines().filter(|line| !of_lost(line)).map(|line| line.to_owned() + "\n").collect();
    assert_eq!(good, samples(&snapshot(now, vec![complete(0, now)]), now), "the good one is as if alone");
}

#[test]
fn a_hung_gpu_is_failed_and_one_that_cannot_be_asked_has_no_health() {
    let now = Instant::now();
    for (condition, expected) in [
        (GpuCondition::Ok, [(r#"hw_state="degraded""#, 1), (r#"gpu_condition="ok""#, 1)]),
        (GpuCondition::Hung, [(r#"hw_state="failed""#, 1), (r#"gpu_condition="hung""#, 1)]),
        (
            GpuCondition::Unavailable(ErrorClass::Denied),
            [("hw_state", 0), (r#"gpu_condition="unavailable""#, 1)],
        ),
    ] {
        let mut state = complete(1, now);
        state.condition = condition;
        let text = samples(&snapshot(now, vec![state]), now);
        for (label, count) in expected {
            let set = text.lines().filter(|line| line.contains(label) && line.ends_with(" 1"));
            assert_eq!(set.count(), count, "{condition:?} {label}");
        }
    }
}

#[test]
fn what_was_read_too_long_ago_is_absent() {
    let read_at = Instant::now();
    let mut state = complete(1, read_at);
    let known = |state: &crate::device::GpuState, now| {
        let report = report(&snapshot(now, vec![state.clone()]), now);
        let text = samples(&snapshot(now, vec![state.clone()]), now);
        (points(&report, &device::POWER).len(), text.contains(r#"gpu_condition="ok"} 1"#))
    };
    let at_the_limit = read_at + MAX_AGE;
    let later = at_the_limit + Duration::from_nanos(1);
    assert_eq!(known(&state, at_the_limit), (1, true));
    assert_eq!(known(&state, later), (0, false), "nothing was heard of it");
    state.last_seen = later;
    assert_eq!(known(&state, later), (0, true), "it answers, but not with a reading");
}

#[test]
fn a_stale_gpu_has_no_ways() {
    let seen = Instant::now();
    let now = seen + MAX_AGE + Duration::from_nanos(1);
    let ways = |gpus| {
        let devices =
            DeviceSnapshot { topology: Arc::new([nvlink(0, 1), pcie(1, 0)]), ..snapshot(now, gpus) };
        points(&report(&devices, now), &device::TOPOLOGY_LINKS).len()
    };
    assert_eq!(ways(vec![bare(0, now), bare(1, now)]), 4);
    assert_eq!(ways(vec![bare(0, now), bare(1, seen)]), 0);
    assert_eq!(ways(vec![bare(0, now)]), 0, "the peer was never identified");
}

#[test]
fn bandwidth_is_not_invented() {
    let now = Instant::now();
    let mut unknown_speed = nvlink(0, 1);
    unknown_speed.nvlink_bytes_per_second = None;
    let devices = DeviceSnapshot {
        topology: Arc::new([unknown_speed, pcie(1, 0)]),
        ..snapshot(now, vec![bare(0, now), bare(1, now)])
    };
    let report = report(&devices, now);
    assert_eq!(points(&report, &device::TOPOLOGY_BANDWIDTH), []);
    assert_eq!(points(&report, &device::TOPOLOGY_LINKS).len(), 4);
}

#[test]
fn the_size_of_the_memory_may_be_known_from_the_inventory() {
    let now = Instant::now();
    let with = |memory: Memory| {
        let mut state = complete(1, now);
        state.reading = Some((now, Arc::new(Reading { memory, rows: Rows::default(), ..reading() })));
        samples(&snapshot(now, vec![state]), now)
            .lines()
            .filter(|line| line.starts_with("hw_gpu_memory"))
            .map(|line| {
                let (name, value) = (line.split('{').next(), line.rsplit(' ').next());
                [name, value].map(Option::unwrap_or_default).join(" ")
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(with(Memory::default()), ["hw_gpu_memory_limit_bytes 85520809984"]);
    assert_eq!(
        with(Memory { total_bytes: Some(0), used_bytes: Some(0), ..Memory::default() }),
        ["hw_gpu_memory_limit_bytes 0", "hw_gpu_memory_usage_bytes 0"],
        "there is no share of nothing"
    );
}

#[test]
fn only_counts_that_the_agent_keeps_have_a_start() {
    let now = Instant::now();
    let report = report(&everything(now), now);
    let ours =
        [&device::XID_ERRORS, &agent::NVML_ERRORS, &agent::NVML_REOPENINGS, &agent::NVML_SAMPLES_DROPPED]
            .map(|descriptor| descriptor.name);
    for family in &report.families {
        let expected = ours.contains(&family.descriptor.name).then_some(SystemTime::UNIX_EPOCH);
        for point in &family.points {
            assert_eq!(point.start, expected, "{}", family.descriptor.name);
        }
    }
}

#[test]
fn errors_are_counted_from_zero_in_every_class_but_the_one_that_is_none() {
    let now = Instant::now();
    let text = render(report(&DeviceSnapshot::empty(now), now), Format::Text).unwrap();
    let classes: Vec<_> =
        text.lines().filter(|line| line.starts_with("gpu_agent_nvml_errors_total{")).collect();
    assert_eq!(classes.len(), ErrorClass::ALL.len() - 1);
    assert!(classes.iter().all(|line| line.ends_with(" 0") && !line.contains("not_supported")), "{text}");
}

#[test]
fn the_reasons_for_lower_clocks_are_those_of_the_catalogue() {
    assert_eq!(ThrottleReason::ALL.map(ThrottleReason::as_str), value::ThrottleReason::VALUES);
}

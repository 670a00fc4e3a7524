//! GPUs as points: who they are, how they do, what they are busy with, and how they are connected.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use gpu_api::metric::attribute::{ERROR_TYPE, GPU_AGENT_SAMPLE_DROP_REASON, HW_ID, UNKNOWN};
use gpu_api::metric::value::SampleDropReason;
use gpu_api::metric::{agent, device};
use tokio::time::Instant;

use self::points::{Labels, Points};
use crate::device::utilization::DroppedSamples;
use crate::device::{DeviceSnapshot, ErrorClass, GpuState};
use crate::export::snapshot::{Builder, Value};

mod clocks;
mod identity;
mod links;
mod memory;
mod points;
mod power;
mod state;
mod topology;
mod utilization;

/// Adds a point for everything that is known about the GPUs at `now`.
///
/// Identity and condition of a GPU are reported for as long as the agent remembers it; what it read is reported only while
/// the GPU answers and the reading is not older than `max_age`. Counts that the agent keeps itself began at `agent_start`;
/// when the driver's counters were zero is not known.
pub fn add_to(
    builder: &mut Builder,
    devices: &DeviceSnapshot,
    now: Instant,
    max_age: Duration,
    agent_start: SystemTime,
) {
    let labels: Vec<Labels> = devices.gpus.iter().map(|state| Labels::of(&state.gpu)).collect();
    for (state, labels) in devices.gpus.iter().zip(&labels) {
        let mut points = Points::new(builder, labels);
        identity::add(&mut points, &state.gpu, devices.platform.as_deref());
        state::add(&mut points, state, now, max_age);
        state::add_xids(&mut points, &state.xids, agent_start);
        add_reading(&mut points, state, now, max_age);
    }
    topology::add(builder, devices, &labels, now, max_age);
    add_unidentified(builder, devices);
    add_errors(builder, devices, agent_start);
}

fn add_reading(points: &mut Points<'_>, state: &GpuState, now: Instant, max_age: Duration) {
    let Some(reading) = state.fresh_reading(now, max_age) else { return };
    let gpu = &*state.gpu;
    utilization::add(points, &reading.utilization, &reading.pipes);
    memory::add(points, &reading.memory, gpu.memory_total_bytes);
    memory::add_ecc(points, &reading.ecc);
    memory::add_rows(points, &reading.rows);
    power::add(points, &reading.power);
    power::add_temperature(points, &reading.temperature);
    power::add_fans(points, &reading.fan_ratios);
    clocks::add(points, &reading.clocks, gpu.sm_clock_max_hertz);
    clocks::add_throttling(points, reading);
    links::add_pcie(points, &reading.pcie, gpu);
    links::add_nvlinks(points, &reading.links);
}

/// A slot without an identity has no series of its own: its number can change, and it may be a GPU that is also known.
fn add_unidentified(builder: &mut Builder, devices: &DeviceSnapshot) {
    let mut by_class: BTreeMap<ErrorClass, u64> = BTreeMap::new();
    for (_slot, error) in &devices.unidentified {
        *by_class.entry(error.class).or_default() += 1;
    }
    for (class, count) in by_class {
        let attributes = vec![(&HW_ID, UNKNOWN.into()), (&ERROR_TYPE, class.as_str().into())];
        builder.point(&device::UNIDENTIFIED, attributes, Value::U64(count));
    }
}

/// Every class has a series from the start, so that the first error is an increase and not a new series.
fn add_errors(builder: &mut Builder, devices: &DeviceSnapshot, agent_start: SystemTime) {
    for class in ErrorClass::ALL {
        let failed = devices.counters.errors.get(&class).copied().unwrap_or(0);
        let count = match class {
            // A value that a GPU does not have is no error and is not counted.
            ErrorClass::NotSupported => continue,
            ErrorClass::Hung => failed + devices.counters.timeouts,
            _ => failed,
        };
        let attributes = vec![(&ERROR_TYPE, class.as_str().into())];
        builder.since(&agent::NVML_ERRORS, attributes, agent_start, Value::U64(count));
    }
    let counters = &devices.counters;
    let reopenings = Value::U64(counters.reinitialisations);
    builder.since(&agent::NVML_REOPENINGS, Vec::new(), agent_start, reopenings);
    let DroppedSamples { stale, future, out_of_range, without_process } = counters.dropped_samples;
    for (reason, count) in [
        (SampleDropReason::Stale, stale),
        (SampleDropReason::Future, future),
        (SampleDropReason::OutOfRange, out_of_range),
        (SampleDropReason::WithoutProcess, without_process),
    ] {
        let attributes = vec![(&GPU_AGENT_SAMPLE_DROP_REASON, reason.as_str().into())];
        builder.since(&agent::NVML_SAMPLES_DROPPED, attributes, agent_start, Value::U64(count));
    }
}

#[cfg(test)]
mod tests;

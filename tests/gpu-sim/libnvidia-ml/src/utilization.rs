//! How busy the GPU is.

use std::ffi::{c_uint, c_ulonglong};
use std::sync::atomic::Ordering::Relaxed;

use gpu_sim::machine::clock;
use nvml_wrapper_sys::bindings::{nvmlSample_t, nvmlUtilization_t, nvmlValue_t};

use crate::abi::{Answer, Handle, InOut, Items, Out, code, supported};

/// NVML averages encoder and decoder over a sixth of a second.
const SAMPLING_PERIOD_US: c_uint = 167_000;

/// `NVML_VALUE_TYPE_UNSIGNED_INT`.
const UNSIGNED_INT: c_uint = 1;

export! {
    fn nvmlDeviceGetUtilizationRates(device: Handle, utilization: Out<nvmlUtilization_t>) {
        let device = device.device()?;
        utilization.set(nvmlUtilization_t {
            gpu: device.state().gpu_utilization_percent.load(Relaxed),
            memory: device.state().memory_utilization_percent.load(Relaxed),
        })
    }

    fn nvmlDeviceGetEncoderUtilization(device: Handle, utilization: Out<c_uint>, period_us: Out<c_uint>) {
        idle_engine(device.device()?.model().encoder_count, utilization, period_us)
    }

    fn nvmlDeviceGetDecoderUtilization(device: Handle, utilization: Out<c_uint>, period_us: Out<c_uint>) {
        idle_engine(device.device()?.model().decoder_count, utilization, period_us)
    }

    fn nvmlDeviceGetEncoderStats(
        device: Handle,
        sessions: Out<c_uint>,
        frames_per_second: Out<c_uint>,
        latency_us: Out<c_uint>,
    ) {
        supported(device.device()?.model().encoder_count > 0)?;
        sessions.set(0)?;
        frames_per_second.set(0)?;
        latency_us.set(0)
    }

    fn nvmlDeviceGetEncoderCapacity(device: Handle, _codec: c_uint, capacity: Out<c_uint>) {
        supported(device.device()?.model().encoder_count > 0)?;
        capacity.set(100)
    }

    /// The samples that the driver keeps, as far as it hands them out yet.
    fn nvmlDeviceGetSamples(
        device: Handle,
        kind: c_uint,
        last_seen_us: c_ulonglong,
        value_type: Out<c_uint>,
        count: InOut<c_uint>,
        samples: Items<nvmlSample_t>,
    ) {
        let device = device.device()?;
        let kept = device.state().device_samples.read(last_seen_us, clock::monotonic_ns());
        let value = |sample: &gpu_sim::machine::samples::Sample| match kind {
            0 => Ok(sample.power_mw),
            1 => Ok(sample.sm_percent),
            2 => Ok(sample.memory_percent),
            _ => Err(code::NOT_SUPPORTED),
        };
        let values = kept
            .iter()
            .map(|sample| {
                // The whole union is written, so that no byte of it is undefined.
                let mut union = nvmlValue_t { ullVal: 0 };
                union.uiVal = value(sample)?;
                Ok(nvmlSample_t { timeStamp: sample.timestamp_us, sampleValue: union })
            })
            .collect::<Result<Vec<_>, c_uint>>()?;
        if values.is_empty() {
            supported(kind <= 2)?;
            return Err(code::NOT_FOUND);
        }
        value_type.set(UNSIGNED_INT)?;
        if samples.is_null() {
            return count.set(c_uint::try_from(values.len()).map_err(|_too_many| code::UNKNOWN)?);
        }
        samples.fill(&count, &values)
    }
}

/// An engine that nothing in the simulation uses.
fn idle_engine(engines: u32, utilization: Out<c_uint>, period_us: Out<c_uint>) -> Answer {
    supported(engines > 0)?;
    utilization.set(0)?;
    period_us.set(SAMPLING_PERIOD_US)
}

//! Clock rates, performance state, and why the clocks are held back.

use std::ffi::{c_uint, c_ulonglong};
use std::sync::atomic::Ordering::Relaxed;

use gpu_sim::machine::{Fault, clock};
use nvml_wrapper_sys::bindings::nvmlViolationTime_t;

use crate::abi::{Device, Handle, InOut, Items, Out, code};

/// `nvmlClockType_t`.
const GRAPHICS: c_uint = 0;
const SM: c_uint = 1;
const MEMORY: c_uint = 2;
const VIDEO: c_uint = 3;

/// `nvmlClocksEventReasonGpuIdle`.
const REASON_IDLE: u64 = 1;
/// All reasons that these cards can report.
const REASONS: u64 = 0x1ff;

export! {
    fn nvmlDeviceGetClockInfo(device: Handle, domain: c_uint, megahertz: Out<c_uint>) {
        megahertz.set(current(&device.device()?, domain)?)
    }

    fn nvmlDeviceGetMaxClockInfo(device: Handle, domain: c_uint, megahertz: Out<c_uint>) {
        megahertz.set(maximum(&device.device()?, domain)?)
    }

    fn nvmlDeviceGetMaxCustomerBoostClock(device: Handle, domain: c_uint, megahertz: Out<c_uint>) {
        megahertz.set(maximum(&device.device()?, domain)?)
    }

    fn nvmlDeviceGetApplicationsClock(device: Handle, domain: c_uint, megahertz: Out<c_uint>) {
        megahertz.set(maximum(&device.device()?, domain)?)
    }

    fn nvmlDeviceGetDefaultApplicationsClock(device: Handle, domain: c_uint, megahertz: Out<c_uint>) {
        megahertz.set(maximum(&device.device()?, domain)?)
    }

    fn nvmlDeviceGetClock(device: Handle, domain: c_uint, which: c_uint, megahertz: Out<c_uint>) {
        let device = device.device()?;
        megahertz.set(match which {
            // NVML_CLOCK_ID_CURRENT
            0 => current(&device, domain)?,
            1..=3 => maximum(&device, domain)?,
            _ => return Err(code::INVALID_ARGUMENT),
        })
    }

    fn nvmlDeviceGetSupportedMemoryClocks(device: Handle, count: InOut<c_uint>, clocks: Items<c_uint>) {
        let device = device.device()?;
        let model = &device.model().clocks;
        let mut all = vec![model.max_memory_mhz, model.idle_memory_mhz];
        all.dedup();
        clocks.fill(&count, &all)
    }

    fn nvmlDeviceGetSupportedGraphicsClocks(
        device: Handle,
        memory: c_uint,
        count: InOut<c_uint>,
        clocks: Items<c_uint>,
    ) {
        let device = device.device()?;
        let model = &device.model().clocks;
        if memory != model.max_memory_mhz && memory != model.idle_memory_mhz {
            return Err(code::NOT_FOUND);
        }
        let all: Vec<c_uint> = (model.idle_sm_mhz..=model.max_sm_mhz).rev().step_by(15).collect();
        clocks.fill(&count, &all)
    }

    fn nvmlDeviceGetPerformanceState(device: Handle, state: Out<c_uint>) {
        state.set(performance_state(&device.device()?))
    }

    fn nvmlDeviceGetPowerState(device: Handle, state: Out<c_uint>) {
        state.set(performance_state(&device.device()?))
    }

    fn nvmlDeviceGetCurrentClocksThrottleReasons(device: Handle, reasons: Out<c_ulonglong>) {
        reasons.set(throttle_reasons(&device.device()?))
    }

    fn nvmlDeviceGetCurrentClocksEventReasons(device: Handle, reasons: Out<c_ulonglong>) {
        reasons.set(throttle_reasons(&device.device()?))
    }

    fn nvmlDeviceGetSupportedClocksThrottleReasons(device: Handle, reasons: Out<c_ulonglong>) {
        device.device()?;
        reasons.set(REASONS)
    }

    fn nvmlDeviceGetSupportedClocksEventReasons(device: Handle, reasons: Out<c_ulonglong>) {
        device.device()?;
        reasons.set(REASONS)
    }

    /// Nothing in the simulation lowers the clocks for a time.
    fn nvmlDeviceGetViolationStatus(device: Handle, policy: c_uint, time: Out<nvmlViolationTime_t>) {
        device.device()?;
        if !matches!(policy, 0..=5 | 10 | 11) {
            return Err(code::INVALID_ARGUMENT);
        }
        time.set(nvmlViolationTime_t { referenceTime: clock::realtime_ns() / 1000, violationTime: 0 })
    }
}

fn current(device: &Device, domain: c_uint) -> Result<c_uint, c_uint> {
    let (state, clocks) = (device.state(), &device.model().clocks);
    let sm_mhz = state.sm_clock_mhz.load(Relaxed);
    match domain {
        GRAPHICS | SM => Ok(sm_mhz),
        MEMORY => Ok(state.memory_clock_mhz.load(Relaxed)),
        // The video clock keeps its ratio to the SM clock.
        VIDEO => Ok(clocks.max_video_mhz * sm_mhz / clocks.max_sm_mhz.max(1)),
        _ => Err(code::INVALID_ARGUMENT),
    }
}

fn maximum(device: &Device, domain: c_uint) -> Result<c_uint, c_uint> {
    let clocks = &device.model().clocks;
    match domain {
        GRAPHICS | SM => Ok(clocks.max_sm_mhz),
        MEMORY => Ok(clocks.max_memory_mhz),
        VIDEO => Ok(clocks.max_video_mhz),
        _ => Err(code::INVALID_ARGUMENT),
    }
}

fn is_idle(device: &Device) -> bool {
    device.state().gpu_utilization_percent.load(Relaxed) == 0
}

/// Cards with stacked memory stay in P0; the others fall to P8 when idle.
fn performance_state(device: &Device) -> c_uint {
    if is_idle(device) && !device.has_stacked_memory() { 8 } else { 0 }
}

fn throttle_reasons(device: &Device) -> u64 {
    let idle = if is_idle(device) { REASON_IDLE } else { 0 };
    idle | (device.fault(Fault::ThrottleReasons) & REASONS)
}

//! The PCIe link.

use std::ffi::c_uint;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use gpu_sim::machine::{Fault, MachineFault};

use crate::abi::{Handle, Out, code};

/// The window over which the driver measures throughput, and so the time that the call takes.
const THROUGHPUT_WINDOW: Duration = Duration::from_millis(20);

/// MT/s of a lane, by generation.
const LANE_SPEEDS: [c_uint; 6] = [2_500, 5_000, 8_000, 16_000, 32_000, 64_000];

export! {
    fn nvmlDeviceGetMaxPcieLinkGeneration(device: Handle, generation: Out<c_uint>) {
        generation.set(device.device()?.model().pcie.generation)
    }

    fn nvmlDeviceGetGpuMaxPcieLinkGeneration(device: Handle, generation: Out<c_uint>) {
        generation.set(device.device()?.model().pcie.generation)
    }

    fn nvmlDeviceGetMaxPcieLinkWidth(device: Handle, width: Out<c_uint>) {
        width.set(device.device()?.model().pcie.width)
    }

    /// An idle card lowers the link's speed, unless it is one that stays in P0.
    fn nvmlDeviceGetCurrPcieLinkGeneration(device: Handle, generation: Out<c_uint>) {
        let device = device.device()?;
        let is_idle = device.state().gpu_utilization_percent.load(Relaxed) == 0;
        let lowered = is_idle && !device.has_stacked_memory();
        generation.set(if lowered { 1 } else { device.model().pcie.generation })
    }

    fn nvmlDeviceGetCurrPcieLinkWidth(device: Handle, width: Out<c_uint>) {
        width.set(device.device()?.model().pcie.width)
    }

    fn nvmlDeviceGetPcieSpeed(device: Handle, speed: Out<c_uint>) {
        speed.set(lane_speed(device.device()?.model().pcie.generation)?)
    }

    fn nvmlDeviceGetPcieLinkMaxSpeed(device: Handle, speed: Out<c_uint>) {
        // NVML_PCIE_LINK_MAX_SPEED_*: 1 for the first generation, and so on.
        speed.set(device.device()?.model().pcie.generation)
    }

    fn nvmlDeviceGetPcieThroughput(device: Handle, counter: c_uint, kilobytes_per_second: Out<c_uint>) {
        let device = device.device()?;
        if device.machine.machine_fault(MachineFault::RealTime) != 0 {
            std::thread::sleep(THROUGHPUT_WINDOW);
        }
        match counter {
            0 => kilobytes_per_second.set(device.state().pcie_tx_kb_per_s.load(Relaxed)),
            1 => kilobytes_per_second.set(device.state().pcie_rx_kb_per_s.load(Relaxed)),
            _ => Err(code::INVALID_ARGUMENT),
        }
    }

    fn nvmlDeviceGetPcieReplayCounter(device: Handle, count: Out<c_uint>) {
        let replays = device.device()?.fault(Fault::PcieReplays);
        count.set(c_uint::try_from(replays).map_err(|_too_large| code::UNKNOWN)?)
    }

    fn nvmlDeviceGetIrqNum(device: Handle, number: Out<c_uint>) {
        let device = device.device()?;
        number.set(128 + device.gpu().minor)
    }
}

fn lane_speed(generation: u32) -> Result<c_uint, c_uint> {
    let position = generation.checked_sub(1).ok_or(code::NOT_SUPPORTED)?;
    LANE_SPEEDS.get(position as usize).copied().ok_or(code::NOT_SUPPORTED)
}

//! The layout of the shared mapping. Zero is the initial state of everything but the header and the GPUs' idle values.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use super::{
    channel::ChannelState,
    counters::Counters,
    published::ProcessList,
    samples::{DeviceSamples, ProcessSamples},
};
use crate::scenario::{Gpu, MAX_GPUS, MAX_NVLINKS};

/// First word of the mapping: `GPUSIM` and a format mark.
pub const MAGIC: u64 = u64::from_le_bytes(*b"GPUSIM\x00\x01");

/// Changes with every change of the layout.
pub const VERSION: u32 = 1;

/// The most processes that can use the machine at one time.
pub const MAX_PROCESSES: usize = 256;

/// The most streams, of all processes together.
pub const MAX_CHANNELS: usize = 1024;

/// The most CUDA events with a pending or recorded time, of all processes together.
pub const MAX_EVENTS: usize = 16 * 1024;

/// Words for fault injection in each GPU.
pub const FAULT_WORDS: usize = 32;

/// The whole mapping.
#[repr(C)]
#[derive(Debug)]
pub struct Shared {
    pub header: Header,
    pub gpus: [GpuState; MAX_GPUS],
    pub processes: [ProcessState; MAX_PROCESSES],
    pub events: [EventState; MAX_EVENTS],
    pub channels: [ChannelState; MAX_CHANNELS],
}

/// How deeply the daemon sleeps; the value of [`Header::armed`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum SleepDepth {
    /// It will be back within a few milliseconds; only a caller that waits for something wakes it.
    Ticking = 1,
    /// No work is queued: the first launch wakes it.
    Idle = 2,
}

#[repr(C, align(64))]
#[derive(Debug)]
pub struct Header {
    pub magic: AtomicU64,
    pub size_bytes: AtomicU64,
    pub version: AtomicU32,
    pub gpu_count: AtomicU32,
    pub created_realtime_ns: AtomicU64,
    /// 1 while a daemon runs the GPUs.
    pub served: AtomicU32,
    /// 0 while the daemon is awake, otherwise the [`SleepDepth`]. Whoever sets it back to 0 wakes the daemon.
    pub armed: AtomicU32,
    /// The futex that the daemon sleeps on.
    pub doorbell: AtomicU32,
    /// Changes whenever a channel is claimed or given up, so that the daemon looks through them again.
    pub channels_epoch: AtomicU32,
    /// Changes whenever a process slot is claimed, so that the daemon looks for its pid at once.
    pub processes_epoch: AtomicU32,
    pub padding: AtomicU32,
}

/// The dynamic state of one GPU. The daemon alone writes it, except for `faults`.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct GpuState {
    /// Time in which an SM ran a kernel.
    pub busy_ns: AtomicU64,
    /// Time in which a copy engine moved data.
    pub copy_busy_ns: AtomicU64,
    /// Energy since the machine was created, in microjoules.
    pub energy_uj: AtomicU64,
    /// Bytes that arrived over PCIe (host to device).
    pub pcie_rx_bytes: AtomicU64,
    /// Bytes that left over PCIe (device to host).
    pub pcie_tx_bytes: AtomicU64,
    /// Bytes that left over each NVLink link.
    pub nvlink_tx_bytes: [AtomicU64; MAX_NVLINKS],
    /// Bytes that arrived over each NVLink link.
    pub nvlink_rx_bytes: [AtomicU64; MAX_NVLINKS],
    /// PCIe throughput over the last sample period, in KB/s, as nvmlDeviceGetPcieThroughput reports it.
    pub pcie_rx_kb_per_s: AtomicU32,
    pub pcie_tx_kb_per_s: AtomicU32,
    /// Utilisation over the last sample window.
    pub gpu_utilization_percent: AtomicU32,
    /// Share of the window in which device memory was read or written.
    pub memory_utilization_percent: AtomicU32,
    pub power_mw: AtomicU32,
    pub temperature_millicelsius: AtomicU32,
    pub sm_clock_mhz: AtomicU32,
    pub memory_clock_mhz: AtomicU32,
    /// The power limit in force; nvmlDeviceSetPowerManagementLimit may lower it.
    pub power_limit_mw: AtomicU32,
    /// NVML's compute mode (0 default).
    pub compute_mode: AtomicU32,
    /// Counters of processes that have ended.
    pub ended: Counters,
    pub device_samples: DeviceSamples,
    pub process_samples: ProcessSamples,
    pub process_list: ProcessList,
    /// Fault injection; all zero is a healthy GPU.
    pub faults: [AtomicU64; FAULT_WORDS],
}

/// A process slot. Its owner writes it while it lives, then the daemon.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct ProcessState {
    /// A [`super::process::SlotState`].
    pub state: AtomicU32,
    /// Changes with every claim, so that a slot's number alone never identifies a process.
    pub generation: AtomicU32,
    /// The owner's pid in its own PID namespace; a claim, shown for orientation.
    pub claimed_pid: AtomicU32,
    /// The owner's pid in the daemon's PID namespace, found out by the daemon; 0 while unknown.
    pub pid: AtomicU32,
    pub gpus: [ProcessGpuState; MAX_GPUS],
}

/// What one process holds and did on one GPU.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct ProcessGpuState {
    /// Device memory in whole blocks of 2 MiB, contexts included: what NVML calls used memory.
    pub memory_bytes: AtomicU64,
    /// Contexts that exist; NVML lists the process while there is one.
    pub contexts: AtomicU32,
    pub padding: AtomicU32,
    /// SM time, written by the daemon.
    pub busy_ns: AtomicU64,
    pub counters: Counters,
}

/// The time at which a CUDA event completed.
#[repr(C)]
#[derive(Debug)]
pub struct EventState {
    /// Slot number + 1 of the process that owns it; 0 when free.
    pub owner: AtomicU32,
    /// Counts completions.
    pub completions: AtomicU32,
    /// CLOCK_MONOTONIC at the last completion; 0 when never.
    pub completed_ns: AtomicU64,
}

impl GpuState {
    /// Sets what is not zero on an idle GPU.
    pub(super) fn initialise(&self, gpu: &Gpu) {
        let model = &gpu.model;
        self.power_mw.store(model.power.idle_mw, Relaxed);
        self.power_limit_mw.store(model.power.limit_mw, Relaxed);
        self.temperature_millicelsius.store(model.temperature.idle_celsius * 1000, Relaxed);
        self.sm_clock_mhz.store(model.clocks.idle_sm_mhz, Relaxed);
        self.memory_clock_mhz.store(model.clocks.idle_memory_mhz, Relaxed);
    }
}

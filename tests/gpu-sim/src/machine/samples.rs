//! Utilisation samples as the driver keeps them: about six a second, averaged over half a second, seen late.

use std::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// Time between two samples.
pub const SAMPLE_INTERVAL_NS: u64 = 166_666_667;

/// Samples that one average covers: half a second.
pub const WINDOW_SAMPLES: usize = 3;

/// Samples of a device that are kept: about 20 seconds.
const DEVICE_CAPACITY: usize = 120;

/// Samples of processes that are kept for one GPU.
const PROCESS_CAPACITY: usize = 2048;

/// One sample. `None` for a process means the whole device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Pid in the daemon's PID namespace; 0 in a device sample.
    pub pid: u32,
    /// End of the averaged window, in microseconds since the epoch.
    pub timestamp_us: u64,
    /// CLOCK_MONOTONIC from which on the driver hands the sample out.
    pub visible_ns: u64,
    /// Share of the window in which an SM ran a kernel.
    pub sm_percent: u32,
    /// Share of the window in which device memory was read or written.
    pub memory_percent: u32,
    /// Power at the end of the window.
    pub power_mw: u32,
}

/// The samples of a device.
pub type DeviceSamples = Ring<DEVICE_CAPACITY>;

/// The samples of all processes on a device.
pub type ProcessSamples = Ring<PROCESS_CAPACITY>;

/// A ring that one writer fills and many readers copy; the oldest sample gives way.
#[repr(C)]
#[derive(Debug)]
pub struct Ring<const CAPACITY: usize> {
    /// Samples written since the machine was created.
    written: AtomicU64,
    entries: [Entry; CAPACITY],
}

#[repr(C)]
#[derive(Debug)]
struct Entry {
    /// Number of the sample in this place + 1, odd bits apart: 0 while it is being written.
    number: AtomicU64,
    timestamp_us: AtomicU64,
    visible_ns: AtomicU64,
    pid: AtomicU32,
    sm_percent: AtomicU32,
    memory_percent: AtomicU32,
    power_mw: AtomicU32,
}

impl<const CAPACITY: usize> Ring<CAPACITY> {
    /// Appends a sample. Only the daemon calls this, from one thread.
    pub fn push(&self, sample: &Sample) {
        let number = self.written.load(Relaxed);
        let entry = &self.entries[(number % CAPACITY as u64) as usize];
        entry.number.store(0, Relaxed);
        std::sync::atomic::fence(Release);
        entry.timestamp_us.store(sample.timestamp_us, Relaxed);
        entry.visible_ns.store(sample.visible_ns, Relaxed);
        entry.pid.store(sample.pid, Relaxed);
        entry.sm_percent.store(sample.sm_percent, Relaxed);
        entry.memory_percent.store(sample.memory_percent, Relaxed);
        entry.power_mw.store(sample.power_mw, Relaxed);
        entry.number.store(number + 1, Release);
        self.written.store(number + 1, Release);
    }

    /// The samples whose time stamp is after `after_us` and which the driver hands out at `now_ns`, oldest first.
    pub fn read(&self, after_us: u64, now_ns: u64) -> Vec<Sample> {
        let written = self.written.load(Acquire);
        let first = written.saturating_sub(CAPACITY as u64);
        (first..written)
            .filter_map(|number| self.get(number))
            .filter(|sample| sample.timestamp_us > after_us && sample.visible_ns <= now_ns)
            .collect()
    }

    /// The sample with this number, unless it has been or is being overwritten.
    fn get(&self, number: u64) -> Option<Sample> {
        let entry = &self.entries[(number % CAPACITY as u64) as usize];
        if entry.number.load(Acquire) != number + 1 {
            return None;
        }
        let sample = Sample {
            pid: entry.pid.load(Relaxed),
            timestamp_us: entry.timestamp_us.load(Relaxed),
            visible_ns: entry.visible_ns.load(Relaxed),
            sm_percent: entry.sm_percent.load(Relaxed),
            memory_percent: entry.memory_percent.load(Relaxed),
            power_mw: entry.power_mw.load(Relaxed),
        };
        std::sync::atomic::fence(Acquire);
        (entry.number.load(Relaxed) == number + 1).then_some(sample)
    }
}

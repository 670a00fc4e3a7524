//! The driver's list of the processes on a GPU, which lags behind: the daemon copies it every 100 ms.

use std::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
    fence,
};

use super::layout::MAX_PROCESSES;

/// Time between two copies.
pub const PUBLISH_INTERVAL_NS: u64 = 100_000_000;

/// A list that one writer replaces and many readers copy.
#[repr(C)]
#[derive(Debug)]
pub struct ProcessList {
    /// Odd while the writer is at work.
    sequence: AtomicU32,
    count: AtomicU32,
    entries: [Entry; MAX_PROCESSES],
}

#[repr(C)]
#[derive(Debug)]
struct Entry {
    pid: AtomicU32,
    kind: AtomicU32,
    used_bytes: AtomicU64,
}

/// How a process uses the GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum ProcessKind {
    Compute = 0,
    Graphics = 1,
}

/// One process on a GPU, as NVML lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListedProcess {
    /// Pid in the daemon's PID namespace.
    pub pid: u32,
    pub kind: ProcessKind,
    /// Whole blocks of 2 MiB, the context's own cost included.
    pub used_bytes: u64,
}

impl ProcessList {
    /// Replaces the list. Only the daemon calls this, from one thread.
    pub fn publish(&self, processes: &[ListedProcess]) {
        let sequence = self.sequence.load(Relaxed);
        self.sequence.store(sequence.wrapping_add(1), Relaxed);
        fence(Release);
        let processes = &processes[..processes.len().min(MAX_PROCESSES)];
        self.count.store(processes.len() as u32, Relaxed);
        for (entry, process) in self.entries.iter().zip(processes) {
            entry.pid.store(process.pid, Relaxed);
            entry.kind.store(process.kind as u32, Relaxed);
            entry.used_bytes.store(process.used_bytes, Relaxed);
        }
        self.sequence.store(sequence.wrapping_add(2), Release);
    }

    /// A consistent copy of the list.
    pub fn read(&self) -> Vec<ListedProcess> {
        loop {
            let before = self.sequence.load(Acquire);
            let count = (self.count.load(Relaxed) as usize).min(MAX_PROCESSES);
            let list = self.entries[..count]
                .iter()
                .map(|entry| ListedProcess {
                    pid: entry.pid.load(Relaxed),
                    kind: if entry.kind.load(Relaxed) == ProcessKind::Graphics as u32 {
                        ProcessKind::Graphics
                    } else {
                        ProcessKind::Compute
                    },
                    used_bytes: entry.used_bytes.load(Relaxed),
                })
                .collect();
            fence(Acquire);
            if before.is_multiple_of(2) && self.sequence.load(Relaxed) == before {
                return list;
            }
            std::thread::yield_now();
        }
    }
}

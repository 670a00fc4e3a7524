//! Makes the samples and the process lists that NVML hands out.

use std::{
    collections::VecDeque,
    sync::atomic::Ordering::{Acquire, Relaxed},
};

use super::physics::Physics;
use crate::machine::{
    Machine, clock,
    layout::MAX_PROCESSES,
    process::SlotState,
    published::{ListedProcess, ProcessKind},
    samples::{Sample, WINDOW_SAMPLES},
};

/// A sample is handed out at least this long after its time stamp ...
const LATENCY_MIN_NS: u64 = 100_000_000;
/// ... and at most this much later than that.
const LATENCY_SPREAD_NS: u64 = 200_000_000;

/// Keeps what the averages need.
#[derive(Debug)]
pub(super) struct Sampler {
    gpus: Vec<GpuHistory>,
    count: u64,
}

#[derive(Debug)]
struct GpuHistory {
    /// Totals at the last sample times, oldest first.
    totals: VecDeque<Totals>,
    physics: Physics,
}

#[derive(Debug)]
struct Totals {
    at_ns: u64,
    busy_ns: u64,
    copy_busy_ns: u64,
    pcie_rx_bytes: u64,
    pcie_tx_bytes: u64,
    processes: Vec<ProcessTotal>,
}

#[derive(Clone, Copy, Debug)]
struct ProcessTotal {
    slot: usize,
    generation: u32,
    pid: u32,
    busy_ns: u64,
}

impl Sampler {
    pub(super) fn new(machine: &Machine, now_ns: u64) -> Self {
        let gpus = (0..machine.scenario().gpus.len())
            .map(|gpu| GpuHistory {
                totals: VecDeque::from([totals(machine, gpu, now_ns)]),
                physics: Physics::new(&machine.scenario().gpus[gpu].model),
            })
            .collect();
        Self { gpus, count: 0 }
    }

    /// Makes one sample of everything.
    pub(super) fn sample(&mut self, machine: &Machine, now_ns: u64) {
        self.count += 1;
        let timestamp_us = clock::realtime_ns() / 1000;
        let visible_ns = now_ns + latency_ns(self.count);
        for (index, history) in self.gpus.iter_mut().enumerate() {
            let Some(gpu) = machine.gpu(index) else { continue };
            let current = totals(machine, index, now_ns);
            let Some(oldest) = history.totals.front() else { continue };
            let window_ns = (now_ns - oldest.at_ns).max(1);
            let sm_percent = percent(current.busy_ns - oldest.busy_ns, window_ns);
            let copy_percent = percent(current.copy_busy_ns - oldest.copy_busy_ns, window_ns);
            // A kernel is assumed to touch memory in four tenths of its time.
            let memory_percent = (sm_percent * 2 / 5 + copy_percent / 4).min(100);
            history.physics.step(gpu, f64::from(sm_percent) / 100.0, now_ns - last_ns(&history.totals));
            gpu.gpu_utilization_percent.store(sm_percent, Relaxed);
            gpu.memory_utilization_percent.store(memory_percent, Relaxed);
            let kb_per_s = |bytes: u64| u32::try_from(bytes * 1_000_000 / window_ns).unwrap_or(u32::MAX);
            gpu.pcie_rx_kb_per_s.store(kb_per_s(current.pcie_rx_bytes - oldest.pcie_rx_bytes), Relaxed);
            gpu.pcie_tx_kb_per_s.store(kb_per_s(current.pcie_tx_bytes - oldest.pcie_tx_bytes), Relaxed);
            let sample = Sample {
                pid: 0,
                timestamp_us,
                visible_ns,
                sm_percent,
                memory_percent,
                power_mw: gpu.power_mw.load(Relaxed),
            };
            gpu.device_samples.push(&sample);
            for process in &current.processes {
                let before = oldest
                    .processes
                    .iter()
                    .find(|old| old.slot == process.slot && old.generation == process.generation)
                    .map_or(0, |old| old.busy_ns);
                let busy_ns = process.busy_ns.saturating_sub(before);
                // Like the driver, a process that did nothing in the window has no sample.
                if process.pid != 0 && busy_ns > 0 {
                    let sm_percent = percent(busy_ns, window_ns);
                    let memory_percent = (sm_percent * 2 / 5).min(100);
                    gpu.process_samples.push(&Sample {
                        pid: process.pid,
                        sm_percent,
                        memory_percent,
                        ..sample
                    });
                }
            }
            history.totals.push_back(current);
            while history.totals.len() > WINDOW_SAMPLES {
                history.totals.pop_front();
            }
        }
    }
}

/// Copies the list of processes with a context on each GPU to where NVML reads it.
pub(super) fn publish_processes(machine: &Machine) {
    let shared = machine.shared();
    for (index, gpu) in shared.gpus.iter().enumerate().take(machine.scenario().gpus.len()) {
        let mut list = Vec::new();
        for process in &shared.processes {
            let held = &process.gpus[index];
            let pid = process.pid.load(Relaxed);
            if process.state.load(Acquire) == SlotState::Live as u32
                && pid != 0
                && held.contexts.load(Acquire) > 0
            {
                let used_bytes = held.memory_bytes.load(Relaxed);
                list.push(ListedProcess { pid, kind: ProcessKind::Compute, used_bytes });
            }
        }
        debug_assert!(list.len() <= MAX_PROCESSES);
        gpu.process_list.publish(&list);
    }
}

fn totals(machine: &Machine, gpu: usize, at_ns: u64) -> Totals {
    let shared = machine.shared();
    let state = &shared.gpus[gpu];
    let live = shared.processes.iter().enumerate().filter(|(_, process)| {
        process.state.load(Acquire) == SlotState::Live as u32 && process.gpus[gpu].contexts.load(Relaxed) > 0
    });
    Totals {
        at_ns,
        busy_ns: state.busy_ns.load(Relaxed),
        copy_busy_ns: state.copy_busy_ns.load(Relaxed),
        pcie_rx_bytes: state.pcie_rx_bytes.load(Relaxed),
        pcie_tx_bytes: state.pcie_tx_bytes.load(Relaxed),
        processes: live
            .map(|(slot, process)| ProcessTotal {
                slot,
                generation: process.generation.load(Relaxed),
                pid: process.pid.load(Relaxed),
                busy_ns: process.gpus[gpu].busy_ns.load(Relaxed),
            })
            .collect(),
    }
}

fn last_ns(totals: &VecDeque<Totals>) -> u64 {
    totals.back().map_or(0, |totals| totals.at_ns)
}

fn percent(part_ns: u64, window_ns: u64) -> u32 {
    u32::try_from(part_ns.saturating_mul(100) / window_ns).unwrap_or(100).min(100)
}

/// Between 100 and 300 ms, different for each sample and the same in every run.
fn latency_ns(number: u64) -> u64 {
    LATENCY_MIN_NS + (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) * LATENCY_SPREAD_NS / (1 << 32)
}

//! A snapshot of a machine, as `gpu-sim show` prints it.

use std::{
    collections::BTreeMap,
    sync::atomic::Ordering::{Acquire, Relaxed},
};

use serde::{Deserialize, Serialize};

use crate::machine::{
    Machine,
    counters::{CopyKind, Counters, MemoryKind},
    process::SlotState,
};

/// The whole machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineSnapshot {
    pub scenario: String,
    /// Whether a daemon runs the GPUs.
    pub served: bool,
    /// Processes that have initialised the driver and not been cleaned up after. When it is 0, everything else is final.
    pub process_count: usize,
    pub gpus: Vec<GpuSnapshot>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuSnapshot {
    pub uuid: String,
    pub name: String,
    pub memory_total_bytes: u64,
    /// Claimed by processes, and the driver's reserve.
    pub memory_used_bytes: u64,
    pub busy_ns: u64,
    pub copy_busy_ns: u64,
    pub energy_uj: u64,
    pub power_mw: u32,
    pub temperature_millicelsius: u32,
    pub utilization_percent: u32,
    pub pcie_rx_bytes: u64,
    pub pcie_tx_bytes: u64,
    /// Living processes that used this GPU or hold memory of it.
    pub processes: Vec<ProcessSnapshot>,
    /// Sums over the processes that have ended.
    pub ended: CounterSnapshot,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessSnapshot {
    /// Pid in the daemon's PID namespace; absent while the daemon does not know it.
    pub pid: Option<u32>,
    pub contexts: u32,
    pub memory_bytes: u64,
    pub busy_ns: u64,
    pub counters: CounterSnapshot,
}

/// [`Counters`] at one time. Kinds that never occurred are absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CounterSnapshot {
    pub launches: u64,
    pub graph_launches: u64,
    pub synchronizes: u64,
    pub errors: u64,
    pub memory: BTreeMap<MemoryKind, AllocationSnapshot>,
    pub copies: BTreeMap<CopyKind, TrafficSnapshot>,
    pub memset: TrafficSnapshot,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllocationSnapshot {
    pub allocations: u64,
    pub allocated_bytes: u64,
    pub frees: u64,
    pub freed_bytes: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrafficSnapshot {
    pub calls: u64,
    pub bytes: u64,
}

/// Reads a machine's state. Values of a running machine belong to slightly different instants.
pub fn read(machine: &Machine) -> MachineSnapshot {
    let scenario = machine.scenario();
    // Read before everything else: the daemon frees a slot when it has dealt with all that its owner left.
    let slots = machine.shared().processes.iter();
    let process_count = slots.filter(|slot| slot.state.load(Acquire) != SlotState::Free as u32).count();
    let gpus = scenario.gpus.iter().enumerate().filter_map(|(index, gpu)| {
        let state = machine.gpu(index)?;
        Some(GpuSnapshot {
            uuid: gpu.uuid.clone(),
            name: gpu.model.name.clone(),
            memory_total_bytes: gpu.model.memory.total_bytes,
            memory_used_bytes: machine.memory_used_bytes(index),
            busy_ns: state.busy_ns.load(Relaxed),
            copy_busy_ns: state.copy_busy_ns.load(Relaxed),
            energy_uj: state.energy_uj.load(Relaxed),
            power_mw: state.power_mw.load(Relaxed),
            temperature_millicelsius: state.temperature_millicelsius.load(Relaxed),
            utilization_percent: state.gpu_utilization_percent.load(Relaxed),
            pcie_rx_bytes: state.pcie_rx_bytes.load(Relaxed),
            pcie_tx_bytes: state.pcie_tx_bytes.load(Relaxed),
            processes: processes(machine, index),
            ended: counters(&state.ended),
        })
    });
    let gpus = gpus.collect();
    MachineSnapshot { scenario: scenario.name.clone(), served: machine.is_served(), process_count, gpus }
}

fn processes(machine: &Machine, gpu: usize) -> Vec<ProcessSnapshot> {
    let slots = machine.shared().processes.iter();
    let live = slots.filter(|process| process.state.load(Acquire) == SlotState::Live as u32);
    let snapshots = live.map(|process| {
        let held = &process.gpus[gpu];
        ProcessSnapshot {
            pid: Some(process.pid.load(Relaxed)).filter(|pid| *pid != 0),
            contexts: held.contexts.load(Relaxed),
            memory_bytes: held.memory_bytes.load(Relaxed),
            busy_ns: held.busy_ns.load(Relaxed),
            counters: counters(&held.counters),
        }
    });
    snapshots
        .filter(|process| {
            process.contexts > 0 || process.memory_bytes > 0 || process.counters != CounterSnapshot::default()
        })
        .collect()
}

fn counters(counters: &Counters) -> CounterSnapshot {
    let memory = MemoryKind::ALL.into_iter().map(|kind| {
        let words = &counters.memory[kind as usize];
        let snapshot = AllocationSnapshot {
            allocations: words.allocations.load(Relaxed),
            allocated_bytes: words.allocated_bytes.load(Relaxed),
            frees: words.frees.load(Relaxed),
            freed_bytes: words.freed_bytes.load(Relaxed),
        };
        (kind, snapshot)
    });
    let traffic = |words: &crate::machine::counters::Traffic| TrafficSnapshot {
        calls: words.calls.load(Relaxed),
        bytes: words.bytes.load(Relaxed),
    };
    let copies = CopyKind::ALL.into_iter().map(|kind| (kind, traffic(&counters.copies[kind as usize])));
    CounterSnapshot {
        launches: counters.launches.load(Relaxed),
        graph_launches: counters.graph_launches.load(Relaxed),
        synchronizes: counters.synchronizes.load(Relaxed),
        errors: counters.errors.load(Relaxed),
        memory: memory.filter(|(_, snapshot)| *snapshot != AllocationSnapshot::default()).collect(),
        copies: copies.filter(|(_, snapshot)| *snapshot != TrafficSnapshot::default()).collect(),
        memset: traffic(&counters.memset),
    }
}

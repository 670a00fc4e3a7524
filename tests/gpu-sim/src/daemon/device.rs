//! One GPU in the daemon: connects the shared channels with the model of its time.

use std::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};

use crate::{
    engine::{ContextKey, Engine, Lane, World},
    machine::{
        Machine,
        channel::{ChannelState, Work, WorkKind},
        layout::MAX_PROCESSES,
    },
};

/// Callers that wait for completion are woken at most this often.
const SYNC_GRAIN_NS: u64 = 60_000;

/// Callers that wait for room in a queue are woken at most this often: they come again at once.
const SPACE_GRAIN_NS: u64 = 500_000;

#[derive(Debug)]
pub(super) struct Device {
    index: usize,
    engine: Engine,
    /// The channels that the engine has lanes for, with the generation that they had when adopted.
    channels: Vec<(usize, u32)>,
}

impl Device {
    pub(super) fn new(index: usize, now_ns: u64) -> Self {
        Self { index, engine: Engine::new(now_ns), channels: Vec::new() }
    }

    pub(super) fn has_work(&self) -> bool {
        self.engine.has_work()
    }

    /// Takes in channels that are new and lets go of those that were given up or lost their owner.
    pub(super) fn adopt_channels(&mut self, machine: &Machine) {
        for (index, state) in machine.shared().channels.iter().enumerate() {
            let owner = state.owner.load(Acquire);
            let known = self.channels.iter().position(|(channel, _)| *channel == index);
            // Every word here is the tenant's to write, so none is used as an index unchecked.
            let mine = (1..=MAX_PROCESSES as u32).contains(&owner)
                && state.ready.load(Acquire) == 1
                && state.gpu.load(Relaxed) as usize == self.index;
            let generation = state.generation.load(Relaxed);
            if let Some(position) = known {
                let closing = mine && state.closing.load(Acquire) == 1;
                if mine && !closing && self.channels[position].1 == generation {
                    continue;
                }
                self.engine.remove_lane(index);
                self.channels.swap_remove(position);
                if closing {
                    state.free();
                    continue;
                }
            }
            if mine {
                if state.closing.load(Acquire) == 1 {
                    state.free();
                    continue;
                }
                let key = ContextKey { slot: owner as usize - 1, context: state.context.load(Relaxed) };
                self.engine.add_lane(key, index, state.completed());
                self.channels.push((index, generation));
            }
        }
    }

    /// Whether a channel has work that the engine has not taken in.
    pub(super) fn has_arrivals(&self, machine: &Machine) -> bool {
        let channels = &machine.shared().channels;
        self.engine.lanes().any(|lane| channels[lane.channel()].submitted.load(SeqCst) > lane.accepted())
    }

    /// Takes in work, runs the GPU up to `now_ns` and publishes what completed.
    pub(super) fn advance(&mut self, machine: &Machine, now_ns: u64) {
        let shared = machine.shared();
        let channels = &shared.channels;
        for (channel, _) in &self.channels {
            let state = &channels[*channel];
            let submitted = state.submitted.load(SeqCst);
            let Some(lane) = self.engine.lane_mut(*channel) else { continue };
            // A tenant owns its counter and could write anything; no more than one full queue is ever taken in.
            let first = lane.accepted();
            let last = submitted.min(lane.completed() + crate::machine::channel::CAPACITY);
            for number in first..last {
                lane.push(state.work(number).unwrap_or(NOTHING));
            }
        }
        let gpu = &shared.gpus[self.index];
        let (busy_before, copy_before) = (self.engine.busy_ns(), self.engine.copy_busy_ns());
        self.engine.advance(now_ns, &mut SharedWorld { machine, gpu: self.index });
        gpu.busy_ns.fetch_add(self.engine.busy_ns() - busy_before, Relaxed);
        gpu.copy_busy_ns.fetch_add(self.engine.copy_busy_ns() - copy_before, Relaxed);
        for (key, busy_ns) in self.engine.take_busy() {
            shared.processes[key.slot].gpus[self.index].busy_ns.fetch_add(busy_ns, Relaxed);
        }
        for lane in self.engine.lanes() {
            publish(machine, lane);
        }
    }

    /// When the next caller that waits can be satisfied.
    pub(super) fn next_wake_ns(&self, machine: &Machine, now_ns: u64) -> Option<u64> {
        self.engine
            .lanes()
            .filter_map(|lane| {
                let [sync, space] = machine.shared().channels[lane.channel()].targets();
                let at = |target: Option<u64>, grain_ns: u64| {
                    let earliest_ns = self.engine.earliest_ns(lane.channel(), target?)?;
                    Some(earliest_ns.max(now_ns + grain_ns))
                };
                [at(sync, SYNC_GRAIN_NS), at(space, SPACE_GRAIN_NS)].into_iter().flatten().min()
            })
            .min()
    }
}

/// What stands for an entry that cannot be understood: it completes at once.
const NOTHING: Work =
    Work { kind: WorkKind::Kernel, duration_ns: 0, bytes: 0, argument: 0, count: 0, submitted_ns: 0 };

fn publish(machine: &Machine, lane: &Lane) {
    let state = &machine.shared().channels[lane.channel()];
    let waited_for = state.targets() != [None, None];
    if waited_for || state.completed() != lane.completed() {
        state.complete(lane.completed());
    }
}

/// The rest of the machine, as one engine sees it.
struct SharedWorld<'a> {
    machine: &'a Machine,
    gpu: usize,
}

impl World for SharedWorld<'_> {
    fn completed_elsewhere(&self, channel: u32) -> u64 {
        // A channel that is gone has nothing left to wait for.
        let state = self.machine.shared().channels.get(channel as usize);
        state.filter(|state| state.owner.load(Acquire) != 0).map_or(u64::MAX, ChannelState::completed)
    }

    fn host_functions_done(&self, channel: usize) -> u64 {
        u64::from(self.machine.shared().channels[channel].host_functions.load(SeqCst))
    }

    fn event_completed(&mut self, event: u32, at_ns: u64) {
        if let Some(event) = self.machine.shared().events.get(event as usize) {
            event.completed_ns.store(at_ns, SeqCst);
            event.completions.fetch_add(1, SeqCst);
        }
    }

    fn copied(&mut self, work: &Work) {
        let shared = self.machine.shared();
        let gpu = &shared.gpus[self.gpu];
        match work.kind {
            WorkKind::HostToDevice => _ = gpu.pcie_rx_bytes.fetch_add(work.bytes, Relaxed),
            WorkKind::DeviceToHost => _ = gpu.pcie_tx_bytes.fetch_add(work.bytes, Relaxed),
            WorkKind::Peer => self.copied_to_peer(work),
            WorkKind::DeviceToDevice
            | WorkKind::Kernel
            | WorkKind::RecordEvent
            | WorkKind::WaitChannel
            | WorkKind::HostFunction => {}
        }
    }
}

impl SharedWorld<'_> {
    /// Spreads a copy between GPUs over the NVLink links that join them, or over PCIe when there are none.
    fn copied_to_peer(&self, work: &Work) {
        let shared = self.machine.shared();
        let peer = work.argument as usize;
        let (Some(from), Some(to)) = (self.machine.gpu(self.gpu), self.machine.gpu(peer)) else { return };
        let outgoing = self.machine.scenario().nvlinks_towards(self.gpu, peer);
        let incoming = self.machine.scenario().nvlinks_towards(peer, self.gpu);
        if outgoing.is_empty() || incoming.is_empty() {
            from.pcie_tx_bytes.fetch_add(work.bytes, Relaxed);
            to.pcie_rx_bytes.fetch_add(work.bytes, Relaxed);
            return;
        }
        spread(work.bytes, &outgoing, &shared.gpus[self.gpu].nvlink_tx_bytes);
        spread(work.bytes, &incoming, &shared.gpus[peer].nvlink_rx_bytes);
    }
}

/// Adds equal parts to the counters of `links`; the remainder goes to the first.
fn spread(bytes: u64, links: &[usize], counters: &[std::sync::atomic::AtomicU64]) {
    let count = links.len() as u64;
    for (position, link) in links.iter().enumerate() {
        let part = bytes / count + if position == 0 { bytes % count } else { 0 };
        counters[*link].fetch_add(part, Relaxed);
    }
}

//! The model of one GPU's time: contexts share the SMs round robin, copies have engines of their own.
//!
//! Pure: work and a clock go in, completions come out. Contexts with ready kernels are served in slices of
//! [`SLICE_NS`]; changing to another context costs [`SWITCH_NS`]; a kernel is preempted at the end of its slice, and a
//! context that runs dry yields at once. Work in one lane (a stream) runs in order. Lanes of one context share its slices,
//! oldest submission first. Copies in each direction are served one at a time, without preemption.

use crate::machine::channel::{Work, WorkKind};

mod lane;

pub use lane::Lane;

/// Longest time for which a context runs while another one waits.
pub const SLICE_NS: u64 = 2_000_000;

/// Time that a change of contexts takes, in which nothing runs.
pub const SWITCH_NS: u64 = 50_000;

/// Copy engines: host to device, device to host, and within or between devices.
const COPY_ENGINES: usize = 3;

/// Which context a lane belongs to: contexts are numbered within each process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ContextKey {
    /// The process slot.
    pub slot: usize,
    pub context: u32,
}

/// What the engine needs from and tells the rest of the machine.
pub trait World {
    /// Completed entries of a channel that another GPU serves.
    fn completed_elsewhere(&self, channel: u32) -> u64;
    /// Host functions that the owner of a channel has run.
    fn host_functions_done(&self, channel: usize) -> u64;
    /// A CUDA event completed.
    fn event_completed(&mut self, event: u32, at_ns: u64);
    /// A copy ended.
    fn copied(&mut self, work: &Work);
}

/// One GPU.
#[derive(Debug, Default)]
pub struct Engine {
    now_ns: u64,
    contexts: Vec<Context>,
    /// The context on the SMs, which stays there while nothing runs.
    resident: Option<ContextKey>,
    slice_end_ns: u64,
    switch_end_ns: u64,
    copies: [Option<RunningCopy>; COPY_ENGINES],
    busy_ns: u64,
    copy_busy_ns: u64,
}

#[derive(Debug)]
struct Context {
    key: ContextKey,
    lanes: Vec<Lane>,
    busy_ns: u64,
}

#[derive(Clone, Copy, Debug)]
struct RunningCopy {
    channel: usize,
    end_ns: u64,
}

impl Engine {
    /// An idle GPU at `now_ns`.
    pub fn new(now_ns: u64) -> Self {
        Self { now_ns, ..Self::default() }
    }

    /// Model time.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Time in which a kernel ran.
    pub fn busy_ns(&self) -> u64 {
        self.busy_ns
    }

    /// Time in which a copy engine worked, summed over the engines.
    pub fn copy_busy_ns(&self) -> u64 {
        self.copy_busy_ns
    }

    /// Adds a lane for a channel that has completed `completed` entries.
    pub fn add_lane(&mut self, key: ContextKey, channel: usize, completed: u64) {
        let lane = Lane::new(channel, completed);
        match self.contexts.iter_mut().find(|context| context.key == key) {
            Some(context) => context.lanes.push(lane),
            None => self.contexts.push(Context { key, lanes: vec![lane], busy_ns: 0 }),
        }
    }

    /// Removes a lane with all its work, also what is running.
    pub fn remove_lane(&mut self, channel: usize) {
        for context in &mut self.contexts {
            context.lanes.retain(|lane| lane.channel() != channel);
        }
        for copy in &mut self.copies {
            if copy.is_some_and(|copy| copy.channel == channel) {
                *copy = None;
            }
        }
        self.contexts.retain(|context| !context.lanes.is_empty());
    }

    /// The lane of a channel.
    pub fn lane_mut(&mut self, channel: usize) -> Option<&mut Lane> {
        self.contexts.iter_mut().flat_map(|context| &mut context.lanes).find(|lane| lane.channel() == channel)
    }

    /// All lanes.
    pub fn lanes(&self) -> impl Iterator<Item = &Lane> {
        self.contexts.iter().flat_map(|context| &context.lanes)
    }

    /// Whether any lane has work.
    pub fn has_work(&self) -> bool {
        self.lanes().any(|lane| !lane.is_empty())
    }

    /// SM time of each context since the last call.
    pub fn take_busy(&mut self) -> impl Iterator<Item = (ContextKey, u64)> {
        self.contexts.iter_mut().map(|context| (context.key, std::mem::take(&mut context.busy_ns)))
    }

    /// Runs the GPU until `to_ns`.
    pub fn advance(&mut self, to_ns: u64, world: &mut impl World) {
        while self.now_ns < to_ns {
            self.settle(world);
            self.start_copies();
            let horizon = self.horizon(to_ns);
            match self.pick() {
                None => self.now_ns = horizon,
                Some(index) => self.run(index, horizon),
            }
            self.finish_copies(world);
        }
        self.settle(world);
    }

    /// The earliest time at which a lane can have completed `count` entries.
    pub fn earliest_ns(&self, channel: usize, count: u64) -> Option<u64> {
        let (context, lane) = self.contexts.iter().find_map(|context| {
            let lane = context.lanes.iter().find(|lane| lane.channel() == channel)?;
            Some((context, lane))
        })?;
        let own_ns = lane.time_until(count);
        let mut start_ns = self.now_ns;
        let others =
            self.contexts.iter().find(|other| Some(other.key) == self.resident && other.key != context.key);
        if let Some(resident) = others.filter(|_| lane.head_is(WorkKind::Kernel)) {
            let backlog_ns = resident.lanes.iter().map(Lane::backlog_ns).fold(0, u64::saturating_add);
            if backlog_ns > 0 {
                start_ns = self.slice_end_ns.min(self.now_ns.saturating_add(backlog_ns)).max(self.now_ns)
                    + SWITCH_NS;
            }
        }
        Some(start_ns.saturating_add(own_ns))
    }

    /// Completes everything at the heads of lanes that takes no time, until nothing changes.
    fn settle(&mut self, world: &mut impl World) {
        loop {
            let mut changed = false;
            for context in 0..self.contexts.len() {
                for lane in 0..self.contexts[context].lanes.len() {
                    while self.settle_head(context, lane, world) {
                        changed = true;
                    }
                }
            }
            if !changed {
                return;
            }
        }
    }

    fn settle_head(&mut self, context: usize, lane: usize, world: &mut impl World) -> bool {
        let lane_ref = &self.contexts[context].lanes[lane];
        let Some(work) = lane_ref.ready_head(self.now_ns).copied() else { return false };
        match work.kind {
            WorkKind::RecordEvent => world.event_completed(work.argument, self.now_ns),
            WorkKind::WaitChannel => {
                let channel = work.argument as usize;
                let own = self.lanes().find(|other| other.channel() == channel).map(Lane::completed);
                if own.unwrap_or_else(|| world.completed_elsewhere(work.argument)) < work.count {
                    return false;
                }
            }
            WorkKind::HostFunction => {
                if world.host_functions_done(lane_ref.channel()) < work.count {
                    return false;
                }
            }
            WorkKind::Kernel
            | WorkKind::HostToDevice
            | WorkKind::DeviceToHost
            | WorkKind::DeviceToDevice
            | WorkKind::Peer => return false,
        }
        self.contexts[context].lanes[lane].complete_head();
        true
    }

    /// Gives each idle copy engine the oldest ready copy for it.
    fn start_copies(&mut self) {
        for (number, slot) in self.copies.iter_mut().enumerate() {
            if slot.is_some() {
                continue;
            }
            let now_ns = self.now_ns;
            let oldest = self
                .contexts
                .iter()
                .flat_map(|context| &context.lanes)
                .filter_map(|lane| Some((lane.ready_head(now_ns)?, lane.channel())))
                .filter(|(work, _)| copy_engine(work.kind) == Some(number))
                .min_by_key(|(work, _)| work.submitted_ns);
            *slot = oldest.map(|(work, channel)| RunningCopy {
                channel,
                end_ns: now_ns.saturating_add(work.duration_ns),
            });
        }
    }

    fn finish_copies(&mut self, world: &mut impl World) {
        for number in 0..COPY_ENGINES {
            let Some(copy) = self.copies[number].filter(|copy| copy.end_ns <= self.now_ns) else { continue };
            self.copies[number] = None;
            if let Some(work) = self.lane_mut(copy.channel).and_then(Lane::complete_head) {
                self.copy_busy_ns += work.duration_ns;
                world.copied(&work);
            }
        }
    }

    /// The next time at which something other than a kernel's end changes what can run.
    fn horizon(&self, to_ns: u64) -> u64 {
        let copies = self.copies.iter().flatten().map(|copy| copy.end_ns);
        let arrivals = self.lanes().filter_map(|lane| lane.arrival_after(self.now_ns));
        copies.chain(arrivals).fold(to_ns, u64::min).max(self.now_ns)
    }

    /// The context to run now: the resident one until its slice ends, then the next in turn that has a ready kernel.
    fn pick(&mut self) -> Option<usize> {
        let resident = self.contexts.iter().position(|context| Some(context.key) == self.resident);
        let count = self.contexts.len();
        let first = resident.map_or(0, |index| index + 1);
        let next = (first..first + count)
            .map(|index| index % count)
            .find(|index| Some(*index) != resident && self.contexts[*index].has_ready_kernel(self.now_ns));
        if let Some(index) = resident.filter(|index| self.contexts[*index].has_ready_kernel(self.now_ns)) {
            if self.now_ns < self.slice_end_ns {
                return Some(index);
            }
            if next.is_none() {
                self.slice_end_ns = self.now_ns + SLICE_NS;
                return Some(index);
            }
        }
        let index = next?;
        // An empty machine needs no switch: there is nothing to save.
        let switch_ns = if self.resident.is_some() { SWITCH_NS } else { 0 };
        self.resident = Some(self.contexts[index].key);
        self.switch_end_ns = self.now_ns + switch_ns;
        self.slice_end_ns = self.switch_end_ns + SLICE_NS;
        Some(index)
    }

    /// Runs kernels of a context until the horizon, the end of the slice or until it has none ready.
    fn run(&mut self, index: usize, horizon: u64) {
        if self.now_ns < self.switch_end_ns {
            self.now_ns = self.switch_end_ns.min(horizon);
            return;
        }
        let context = &mut self.contexts[index];
        let until_ns = self.slice_end_ns.min(horizon);
        let started_ns = self.now_ns;
        while self.now_ns < until_ns {
            let now_ns = self.now_ns;
            let ready = context.lanes.iter_mut().filter(|lane| lane.has_ready_kernel(now_ns));
            let Some(lane) = ready.min_by_key(|lane| lane.head_submitted_ns()) else { break };
            self.now_ns += lane.run_head(until_ns - now_ns);
            if !lane.is_empty() && !lane.head_is(WorkKind::Kernel) {
                break;
            }
        }
        let ran_ns = self.now_ns - started_ns;
        context.busy_ns += ran_ns;
        self.busy_ns += ran_ns;
    }
}

impl Context {
    fn has_ready_kernel(&self, now_ns: u64) -> bool {
        self.lanes.iter().any(|lane| lane.has_ready_kernel(now_ns))
    }
}

/// The copy engine for a kind of work.
fn copy_engine(kind: WorkKind) -> Option<usize> {
    match kind {
        WorkKind::HostToDevice => Some(0),
        WorkKind::DeviceToHost => Some(1),
        WorkKind::DeviceToDevice | WorkKind::Peer => Some(2),
        WorkKind::Kernel | WorkKind::RecordEvent | WorkKind::WaitChannel | WorkKind::HostFunction => None,
    }
}

#[cfg(test)]
mod tests;

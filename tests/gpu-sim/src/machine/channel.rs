//! Channels: the bounded queue behind each CUDA stream, from one process to the daemon.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{
            AtomicU32, AtomicU64,
            Ordering::{Acquire, Relaxed, Release, SeqCst},
        },
    },
    time::Duration,
};

use super::{
    Machine, clock, futex,
    layout::{MAX_CHANNELS, SleepDepth},
    process::Slot,
};

/// Entries that one channel holds: the depth at which a launch blocks on real hardware.
pub const CAPACITY: u64 = 1024;

/// How long a waiter sleeps before it looks whether a daemon is still there.
const WAIT_SLICE: Duration = Duration::from_millis(200);

/// No target: larger than every count of completed entries.
const NO_TARGET: u64 = u64::MAX;

/// One queued piece of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    pub kind: WorkKind,
    /// Time that it takes on its engine once it runs.
    pub duration_ns: u64,
    /// Bytes that cross the link, for copies.
    pub bytes: u64,
    /// Depends on the kind: event number, channel number, peer GPU.
    pub argument: u32,
    /// Depends on the kind: count to wait for.
    pub count: u64,
    /// CLOCK_MONOTONIC of the submission.
    pub submitted_ns: u64,
}

/// What a piece of work is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum WorkKind {
    /// Runs on the SMs.
    Kernel = 1,
    /// Runs on the copy engine for this direction.
    HostToDevice = 2,
    DeviceToHost = 3,
    /// Within the device; `argument` is unused.
    DeviceToDevice = 4,
    /// To another GPU, number `argument`.
    Peer = 5,
    /// Stores its completion time in event `argument`.
    RecordEvent = 6,
    /// Waits until channel `argument` has completed `count` entries.
    WaitChannel = 7,
    /// Waits until the owner has run `count` host functions for this channel.
    HostFunction = 8,
}

impl WorkKind {
    fn from_word(word: u32) -> Option<Self> {
        [
            Self::Kernel,
            Self::HostToDevice,
            Self::DeviceToHost,
            Self::DeviceToDevice,
            Self::Peer,
            Self::RecordEvent,
            Self::WaitChannel,
            Self::HostFunction,
        ]
        .into_iter()
        .find(|kind| *kind as u32 == word)
    }
}

/// The shared state of a channel.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct ChannelState {
    /// Slot number + 1 of the owner; 0 when free. Set first and cleared last.
    pub owner: AtomicU32,
    /// 1 once the fields below are set.
    pub ready: AtomicU32,
    pub gpu: AtomicU32,
    /// Number of the context within the process; contexts share the GPU, not channels.
    pub context: AtomicU32,
    /// Changes with every claim.
    pub generation: AtomicU32,
    /// 1 when the owner has given it up: the daemon drops what is queued, then frees it.
    pub closing: AtomicU32,
    /// Host functions that the owner has run.
    pub host_functions: AtomicU32,
    pub padding: AtomicU32,
    /// Entries submitted; the owner writes it.
    pub submitted: AtomicU64,
    daemon: DaemonSide,
    entries: [Entry; CAPACITY as usize],
}

/// On cache lines of its own, because the daemon writes what the owner reads.
#[repr(C, align(64))]
#[derive(Debug)]
struct DaemonSide {
    completed: AtomicU64,
    /// Waiters for completion want to be woken from this count on.
    sync_target: AtomicU64,
    /// Waiters for room want to be woken from this count on.
    space_target: AtomicU64,
    /// The futex that both sleep on.
    wake: AtomicU32,
}

#[repr(C)]
#[derive(Debug)]
struct Entry {
    kind: AtomicU32,
    argument: AtomicU32,
    duration_ns: AtomicU64,
    bytes: AtomicU64,
    count: AtomicU64,
    submitted_ns: AtomicU64,
}

/// Why work could not be queued or awaited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChannelError {
    #[error("all {MAX_CHANNELS} channels of the simulated machine are taken")]
    NoChannel,
    #[error("no daemon serves the simulated machine")]
    NotServed,
}

/// The owner's handle of a channel. The channel is given up when the handle is dropped.
#[derive(Debug)]
pub struct Channel {
    machine: Arc<Machine>,
    index: usize,
    /// Serialises the submitting threads, as the driver does for one stream.
    submit: Mutex<()>,
}

impl Channel {
    /// Claims a channel for work on `gpu` in the process's context number `context`.
    pub fn claim(slot: &Slot, gpu: usize, context: u32) -> Result<Self, ChannelError> {
        let machine = slot.machine();
        let owner = slot.index() as u32 + 1;
        for (index, state) in machine.shared().channels.iter().enumerate() {
            if state.owner.load(Relaxed) != 0
                || state.owner.compare_exchange(0, owner, SeqCst, SeqCst).is_err()
            {
                continue;
            }
            state.gpu.store(gpu as u32, Relaxed);
            state.context.store(context, Relaxed);
            state.generation.fetch_add(1, Relaxed);
            state.closing.store(0, Relaxed);
            state.host_functions.store(0, Relaxed);
            state.submitted.store(0, Relaxed);
            state.daemon.completed.store(0, Relaxed);
            state.daemon.sync_target.store(NO_TARGET, Relaxed);
            state.daemon.space_target.store(NO_TARGET, Relaxed);
            state.ready.store(1, Release);
            machine.shared().header.channels_epoch.fetch_add(1, SeqCst);
            return Ok(Self { machine: Arc::clone(machine), index, submit: Mutex::new(()) });
        }
        Err(ChannelError::NoChannel)
    }

    /// The channel's number, by which another channel can wait for it.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Appends work and returns the number of completed entries that says it is done. Blocks while the queue is full.
    ///
    /// `submitted_ns` is set here.
    pub fn submit(&self, work: Work) -> Result<u64, ChannelError> {
        let _guard = self.submit.lock().unwrap_or_else(PoisonError::into_inner);
        let state = self.state();
        let number = state.submitted.load(Relaxed);
        if number - state.daemon.completed.load(Acquire) >= CAPACITY {
            self.wait_for(number + 1 - CAPACITY, &state.daemon.space_target)?;
        }
        let entry = &state.entries[(number % CAPACITY) as usize];
        entry.kind.store(work.kind as u32, Relaxed);
        entry.argument.store(work.argument, Relaxed);
        entry.duration_ns.store(work.duration_ns, Relaxed);
        entry.bytes.store(work.bytes, Relaxed);
        entry.count.store(work.count, Relaxed);
        entry.submitted_ns.store(clock::monotonic_ns(), Relaxed);
        // Sequentially consistent together with `armed`: either the daemon sees the entry or this thread sees it asleep.
        state.submitted.store(number + 1, SeqCst);
        self.machine.ring(SleepDepth::Idle);
        Ok(number + 1)
    }

    /// Entries submitted so far.
    pub fn submitted(&self) -> u64 {
        self.state().submitted.load(Acquire)
    }

    /// Entries completed so far.
    pub fn completed(&self) -> u64 {
        self.state().daemon.completed.load(Acquire)
    }

    /// Blocks until `count` entries are completed.
    pub fn wait(&self, count: u64) -> Result<(), ChannelError> {
        self.wait_for(count, &self.state().daemon.sync_target)
    }

    /// Whether `count` entries are completed. When they are not, the daemon is asked to publish that as soon as they are,
    /// so that a program that polls is not told late.
    pub fn poll(&self, count: u64) -> bool {
        let daemon = &self.state().daemon;
        if daemon.completed.load(SeqCst) >= count {
            return true;
        }
        if daemon.sync_target.fetch_min(count, SeqCst) > count {
            self.machine.ring(SleepDepth::Ticking);
        }
        daemon.completed.load(SeqCst) >= count
    }

    /// Tells the daemon that one more host function has run.
    pub fn host_function_done(&self) {
        self.state().host_functions.fetch_add(1, SeqCst);
        self.machine.ring(SleepDepth::Ticking);
    }

    fn wait_for(&self, count: u64, target: &AtomicU64) -> Result<(), ChannelError> {
        let daemon = &self.state().daemon;
        loop {
            if daemon.completed.load(SeqCst) >= count {
                return Ok(());
            }
            if !self.machine.is_served() {
                return Err(ChannelError::NotServed);
            }
            let wake = daemon.wake.load(SeqCst);
            target.fetch_min(count, SeqCst);
            // The daemon stores `completed` before it looks for targets, so one of both sees the other.
            if daemon.completed.load(SeqCst) >= count {
                return Ok(());
            }
            self.machine.ring(SleepDepth::Ticking);
            futex::wait(&daemon.wake, wake, WAIT_SLICE);
        }
    }

    fn state(&self) -> &ChannelState {
        &self.machine.shared().channels[self.index]
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        self.state().closing.store(1, SeqCst);
        self.machine.shared().header.channels_epoch.fetch_add(1, SeqCst);
        self.machine.ring(SleepDepth::Ticking);
    }
}

/// What the daemon does with a channel.
impl ChannelState {
    /// The entry with this number; `None` when its kind is not one that this version knows.
    pub(crate) fn work(&self, number: u64) -> Option<Work> {
        let entry = &self.entries[(number % CAPACITY) as usize];
        Some(Work {
            kind: WorkKind::from_word(entry.kind.load(Relaxed))?,
            duration_ns: entry.duration_ns.load(Relaxed),
            bytes: entry.bytes.load(Relaxed),
            argument: entry.argument.load(Relaxed),
            count: entry.count.load(Relaxed),
            submitted_ns: entry.submitted_ns.load(Relaxed),
        })
    }

    /// Entries completed so far.
    pub fn completed(&self) -> u64 {
        self.daemon.completed.load(Acquire)
    }

    /// Publishes the number of completed entries and wakes the callers that it satisfies.
    pub(crate) fn complete(&self, completed: u64) {
        self.daemon.completed.store(completed, SeqCst);
        let mut wake = false;
        for target in [&self.daemon.sync_target, &self.daemon.space_target] {
            if completed >= target.load(SeqCst) {
                target.store(NO_TARGET, SeqCst);
                wake = true;
            }
        }
        if wake {
            self.daemon.wake.fetch_add(1, SeqCst);
            futex::wake_all(&self.daemon.wake);
        }
    }

    /// The counts that callers wait for: completion, and room in the queue.
    pub(crate) fn targets(&self) -> [Option<u64>; 2] {
        [&self.daemon.sync_target, &self.daemon.space_target]
            .map(|target| Some(target.load(SeqCst)).filter(|count| *count != NO_TARGET))
    }

    /// Frees the channel; everybody who still waits on it is woken.
    pub(crate) fn free(&self) {
        self.ready.store(0, Relaxed);
        self.complete(NO_TARGET);
        self.owner.store(0, Release);
    }
}

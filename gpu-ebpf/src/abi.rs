//! Keys, values and records that cross the kernel/user boundary, defined once.
//!
//! Every type is `repr(C)`, fixed-width, explicitly padded and free of `bool`, `usize` and enums, so
//! that any bit pattern is a valid value and both sides agree on the layout. [`VERSION`] changes
//! whenever a layout or a meaning does; it is part of the pin path, so that an agent never adopts maps
//! that it would misread.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::{
    call::{CopyDirection, MemoryKind},
    histogram::BUCKETS,
};

/// The version of every layout in this module.
pub const VERSION: u32 = 2;

/// The device ordinal of a call whose context was never seen.
pub const DEVICE_UNKNOWN: i32 = -1;

/// Device ordinals from here on are taken for unknown: no machine has so many, and each would be a row of counters.
pub const DEVICES: u32 = 256;

/// A device ordinal as the tenant gave it, bounded. An `int` is in the lower half of its register; what is in the
/// upper one means nothing.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "the upper half means nothing")]
pub const fn bounded_device(register: u64) -> i32 {
    let ordinal = register as u32;
    if ordinal < DEVICES { ordinal.cast_signed() } else { DEVICE_UNKNOWN }
}

/// `CUDA_ERROR_UNKNOWN`, under which every code is counted that no driver returns.
pub const ERROR_UNKNOWN: i32 = 999;
/// `CUDA_ERROR_NOT_READY`, an answer and no failure.
pub const ERROR_NOT_READY: i32 = 600;

/// A `CUresult` as the tenant's library gave it, bounded: each code is a row of counters.
#[inline(always)]
pub const fn bounded_error(code: i32) -> i32 {
    if code > 0 && code < ERROR_UNKNOWN { code } else { ERROR_UNKNOWN }
}

/// Slots of the array `SLOTS`, a power of two: an array look-up is a few instructions where a hash look-up is a call.
pub const SLOTS: u32 = 16_384;

/// The slot that a thread may have.
#[inline(always)]
pub const fn slot_of(tid: u32) -> u32 {
    tid & (SLOTS - 1)
}

/// Context stack entries that are remembered per thread; deeper pushes make the device unknown.
pub const CONTEXT_STACK_DEPTH: usize = 8;

macro_rules! wire {
    ($(#[$meta:meta])* pub struct $name:ident [$size:literal] { $($(#[$field_meta:meta])* pub $field:ident: $ty:ty,)* }) => {
        $(#[$meta])*
        #[repr(C)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
        pub struct $name { $($(#[$field_meta])* pub $field: $ty,)* }
        const _: [(); $size] = [(); size_of::<$name>()];
    };
}

wire! {
    /// What a process is, from its first CUDA call in one executable image to its end.
    ///
    /// Map `PROCESSES`, keyed by thread-group id (`u32`).
    pub struct Process[32] {
        /// Boot-time clock at the first call seen. With the thread-group id it names one image of one
        /// process for ever: a reused pid or an `exec` gets another epoch.
        pub epoch_ns: u64,
        /// `task_struct.start_boottime` of the thread-group leader, comparable with field 22 of
        /// `/proc/<pid>/stat`; 0 when the kernel's type information is missing.
        pub start_boottime_ns: u64,
        /// cgroup v2 id at the first call.
        pub cgroup_id: u64,
        /// [`PROCESS_SEEN_FROM_START`].
        pub flags: u64,
    }
}

/// [`Process::flags`]: the first call was `cuInit`, so nothing of the process was missed, and a call
/// without a known context has none.
pub const PROCESS_SEEN_FROM_START: u64 = 1;

wire! {
    /// One context in the thread's context stack.
    pub struct StackedContext[16] {
        /// The `CUcontext` value, a claim by the tenant that is only ever compared with other claims of
        /// the same process.
        pub context: u64,
        /// Device ordinal in the process's own numbering, or [`DEVICE_UNKNOWN`].
        pub device: i32,
        pub pad: u32,
    }
}

wire! {
    /// Per-thread state; only the thread itself writes it.
    ///
    /// Array `SLOTS`, indexed by the low bits of the thread id ([`slot_of`]), for whoever has the slot; map
    /// `THREADS`, keyed by thread id (`u32`), for those whose slot another thread has.
    pub struct Thread[304] {
        /// The thread that this is the state of; 0 in a slot that nobody has.
        pub tid: u32,
        pub tgid: u32,
        pub epoch_ns: u64,
        /// cgroup v2 id, as of `cgroup_generation`.
        pub cgroup_id: u64,
        /// Value of `CGROUP_MOVES` when `cgroup_id` was read.
        pub cgroup_generation: u64,
        /// See [`crate::quick`].
        pub quick: crate::quick::Quick,
        /// Device ordinal of the current context, or [`DEVICE_UNKNOWN`].
        pub device: i32,
        pub pad: u32,
        pub in_flight: crate::inflight::InFlight,
        /// What a `free` that is under way took out of `ALLOCATIONS`, to be put back if the call fails.
        pub pending: Allocation,
        /// 1 while `pending` holds an allocation.
        pub pending_valid: u32,
        /// Contexts pushed by this thread; may exceed [`CONTEXT_STACK_DEPTH`].
        pub context_depth: u32,
        pub contexts: [StackedContext; CONTEXT_STACK_DEPTH],
    }
}

wire! {
    /// Key of `CONTEXTS`.
    pub struct ContextKey[24] {
        pub epoch_ns: u64,
        /// The `CUcontext`, or for `PRIMARY_CONTEXTS` the device ordinal.
        pub handle: u64,
        pub tgid: u32,
        pub pad: u32,
    }
}

wire! {
    /// A live context. Maps `CONTEXTS` (by handle) and `PRIMARY_CONTEXTS` (by device ordinal).
    pub struct Context[32] {
        /// Unique among the contexts of this process: handles are reused, identities are not.
        pub id: u64,
        pub handle: u64,
        /// Times retained and not yet released (primary contexts only).
        pub references: u64,
        pub device: i32,
        pub pad: u32,
    }
}

wire! {
    /// Key of `ALLOCATIONS`: one address or handle of one process.
    pub struct AllocationKey[24] {
        pub epoch_ns: u64,
        /// Device pointer, handle or array, by `space`.
        pub address: u64,
        pub tgid: u32,
        /// A [`crate::call::AddressSpace`].
        pub space: u32,
    }
}

wire! {
    /// A live allocation. Map `ALLOCATIONS`.
    pub struct Allocation[56] {
        /// Requested bytes (pitched: returned pitch × height).
        pub bytes: u64,
        /// The cgroup that made the allocation, which pays for it until it is freed.
        pub cgroup_id: u64,
        /// [`Context::id`] it lives in; 0 if the context was never seen.
        pub context_id: u64,
        /// Physical memory: live mappings of the handle. Mapping: the handle that is mapped.
        pub link: u64,
        /// Physical memory: times that the handle has yet to be released; the memory goes when it is released and
        /// mapped nowhere.
        pub references: u64,
        /// Tells allocations apart that had the same address or handle, one after the other.
        pub stamp: u64,
        pub device: i32,
        /// A [`MemoryKind`].
        pub kind: u32,
    }
}

wire! {
    /// Key of `COUNTERS`: who did it, where.
    pub struct CounterKey[24] {
        /// cgroup v2 id of the calling thread at the call.
        pub cgroup_id: u64,
        pub epoch_ns: u64,
        pub tgid: u32,
        pub device: i32,
    }
}

wire! {
    /// Calls and their total duration, with a log2 histogram of it.
    pub struct Timed[208] {
        /// The sum of the buckets, which is taken by whoever reads: each addition that the programs do not make counts.
        pub calls: u64,
        pub total_ns: u64,
        pub buckets: [u64; BUCKETS],
    }
}

wire! {
    /// Calls and the bytes they moved.
    pub struct Transfer[16] {
        pub calls: u64,
        pub bytes: u64,
    }
}

wire! {
    /// Successful allocations and frees of one memory kind.
    pub struct MemoryFlow[32] {
        pub allocations: u64,
        pub allocated_bytes: u64,
        pub frees: u64,
        pub freed_bytes: u64,
    }
}

wire! {
    /// Allocations and bytes of each memory kind that went back with their context. Map `RETURNED`.
    pub struct Returns[96] {
        pub kinds: [Transfer; MemoryKind::COUNT],
    }
}

wire! {
    /// Everything that successful calls add up to. Map `COUNTERS`, one value per CPU.
    pub struct Counters[752] {
        pub launch: Timed,
        pub synchronize: Timed,
        pub graph_launch: Transfer,
        pub memset: Transfer,
        pub copies: [Transfer; CopyDirection::COUNT],
        pub memory: [MemoryFlow; MemoryKind::COUNT],
    }
}

wire! {
    /// Key of `ERRORS`.
    pub struct ErrorKey[32] {
        pub who: CounterKey,
        /// A [`crate::call::Class`].
        pub class: u32,
        /// `CUresult`.
        pub code: i32,
    }
}

wire! {
    /// A rare event. Rings `EVENTS` (contexts, first sights) and `EXITS` (ends and errors, which a burst
    /// of anything else must not push out).
    pub struct Record[72] {
        /// A [`RecordKind`].
        pub kind: u32,
        pub tgid: u32,
        /// Boot-time clock.
        pub time_ns: u64,
        pub epoch_ns: u64,
        pub start_boottime_ns: u64,
        pub cgroup_id: u64,
        pub tid: u32,
        pub device: i32,
        /// Context records: the context id. Errors: the class. Fork: the child's thread-group id.
        pub subject: u64,
        /// Errors: the `CUresult`.
        pub detail: i64,
        /// [`Process::flags`].
        pub flags: u64,
    }
}

impl Counters {
    /// Nothing counted yet.
    pub const ZERO: Self = {
        const TIMED: Timed = Timed { calls: 0, total_ns: 0, buckets: [0; BUCKETS] };
        const NONE: Transfer = Transfer { calls: 0, bytes: 0 };
        const FLOW: MemoryFlow = MemoryFlow { allocations: 0, allocated_bytes: 0, frees: 0, freed_bytes: 0 };
        Self {
            launch: TIMED,
            synchronize: TIMED,
            graph_launch: NONE,
            memset: NONE,
            copies: [NONE; CopyDirection::COUNT],
            memory: [FLOW; MemoryKind::COUNT],
        }
    };

    /// Number of counters.
    pub const WORDS: usize = size_of::<Self>() / 8;

    /// The counters in memory order.
    pub fn words(self) -> [u64; Self::WORDS] {
        zerocopy::transmute!(self)
    }

    /// The inverse of [`Self::words`].
    pub fn from_words(words: [u64; Self::WORDS]) -> Self {
        zerocopy::transmute!(words)
    }

    /// Combines two sets counter by counter.
    fn combine(self, other: Self, operation: impl Fn(u64, u64) -> u64) -> Self {
        let mut words = self.words();
        for (word, other) in words.iter_mut().zip(other.words()) {
            *word = operation(*word, other);
        }
        Self::from_words(words)
    }

    /// Fills in the numbers of calls, which the programs leave at 0.
    #[must_use]
    pub fn with_calls(mut self) -> Self {
        for timed in [&mut self.launch, &mut self.synchronize] {
            timed.calls = timed.buckets.iter().fold(0, |sum: u64, count| sum.wrapping_add(*count));
        }
        self
    }

    /// The sum of both, as of two CPUs.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        self.combine(other, u64::wrapping_add)
    }

    /// What was added since `earlier`; nothing where a counter went back.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        self.combine(earlier, u64::saturating_sub)
    }
}

/// What a [`Record`] says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum RecordKind {
    /// The first CUDA call of a process image.
    ProcessSeen = 1,
    /// A context ended, and with it every allocation in it.
    ContextDestroyed = 3,
    /// The process replaced its image: what the old one held is gone.
    Exec = 4,
    /// A process that uses CUDA forked; the child (in `subject`) inherits nothing.
    Fork = 5,
    /// The last thread of the process is gone.
    Exit = 6,
    /// The first failure of one class with one code on one device; later ones are only counted.
    FirstError = 7,
}

impl RecordKind {
    /// Reads a kind from the wire; `None` for a kind that this version does not know.
    pub const fn from_wire(value: u32) -> Option<Self> {
        Some(match value {
            1 => Self::ProcessSeen,
            3 => Self::ContextDestroyed,
            4 => Self::Exec,
            5 => Self::Fork,
            6 => Self::Exit,
            7 => Self::FirstError,
            _ => return None,
        })
    }
}

/// Slots of the per-CPU array `STATS`: everything that was not counted, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Stat {
    /// `THREADS` was full: the thread's calls are not seen.
    ThreadsFull = 0,
    /// `PROCESSES` was full: the process's calls are not seen.
    ProcessesFull = 1,
    /// `CONTEXTS` was full: the device of the context is unknown.
    ContextsFull = 2,
    /// `ALLOCATIONS` was full: the allocation is counted, its free will not be.
    AllocationsFull = 3,
    /// `COUNTERS` was full: the call is not counted.
    CountersFull = 4,
    /// `ERRORS` was full: the error is not counted.
    ErrorsFull = 5,
    /// The ring `EVENTS` was full.
    EventsDropped = 6,
    /// The ring `EXITS` was full.
    ExitsDropped = 7,
    /// A call that the driver made of itself inside another call; belongs to the outer one.
    Nested = 8,
    /// The same entry reported twice (two probes at one instruction); counted once.
    Duplicate = 9,
    /// A call that was entered and never returned (a signal handler jumped out of it).
    Abandoned = 10,
    /// A return without a known entry: calls under way when the probes were attached.
    Unmatched = 11,
    /// User memory that a call points to could not be read; the size or the handle is unknown.
    UserFault = 12,
    /// A free of something that was allocated before we looked.
    UnknownFree = 13,
    /// A batch or a range was longer than the programs follow.
    Truncated = 14,
    /// An array format whose element size is not known; counted as zero bytes.
    UnknownFormat = 15,
}

impl Stat {
    /// Number of slots.
    pub const COUNT: u32 = 16;

    /// Every slot with the label it is exported under.
    pub const ALL: [(Self, &'static str); Self::COUNT as usize] = [
        (Self::ThreadsFull, "threads_full"),
        (Self::ProcessesFull, "processes_full"),
        (Self::ContextsFull, "contexts_full"),
        (Self::AllocationsFull, "allocations_full"),
        (Self::CountersFull, "counters_full"),
        (Self::ErrorsFull, "errors_full"),
        (Self::EventsDropped, "events_dropped"),
        (Self::ExitsDropped, "exits_dropped"),
        (Self::Nested, "nested"),
        (Self::Duplicate, "duplicate"),
        (Self::Abandoned, "abandoned"),
        (Self::Unmatched, "unmatched"),
        (Self::UserFault, "user_fault"),
        (Self::UnknownFree, "unknown_free"),
        (Self::Truncated, "truncated"),
        (Self::UnknownFormat, "unknown_format"),
    ];
}

/// Names of the maps, shared by the programs' object and its loader.
pub mod maps {
    pub const PROCESSES: &str = "PROCESSES";
    pub const THREADS: &str = "THREADS";
    pub const SLOTS: &str = "SLOTS";
    pub const SLOT_OWNERS: &str = "SLOT_OWNERS";
    pub const CGROUP_MOVES: &str = "CGROUP_MOVES";
    pub const CONTEXTS: &str = "CONTEXTS";
    pub const PRIMARY_CONTEXTS: &str = "PRIMARY";
    pub const ALLOCATIONS: &str = "ALLOCATIONS";
    pub const COUNTERS: &str = "COUNTERS";
    pub const ERRORS: &str = "ERRORS";
    pub const RETURNED: &str = "RETURNED";
    pub const STATS: &str = "STATS";
    pub const EVENTS: &str = "EVENTS";
    pub const EXITS: &str = "EXITS";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_survives_the_wire() {
        let record = Record {
            kind: RecordKind::Exit as u32,
            tgid: 7,
            time_ns: 1,
            epoch_ns: 2,
            start_boottime_ns: 3,
            cgroup_id: 4,
            tid: 8,
            device: DEVICE_UNKNOWN,
            subject: u64::MAX,
            detail: -5,
            flags: PROCESS_SEEN_FROM_START,
        };
        assert_eq!(Record::read_from_bytes(record.as_bytes()), Ok(record));
        assert!(Record::read_from_bytes(&record.as_bytes()[1..]).is_err(), "a short record must not be read");
    }

    #[test]
    fn every_record_kind_survives_the_wire_and_others_are_refused() {
        for value in [1, 3, 4, 5, 6, 7] {
            assert_eq!(RecordKind::from_wire(value).map(|kind| kind as u32), Some(value));
        }
        assert_eq!(RecordKind::from_wire(0), None);
        assert_eq!(RecordKind::from_wire(8), None);
    }

    #[test]
    fn what_a_tenant_chooses_is_bounded() {
        assert_eq!(bounded_device(0), 0);
        assert_eq!(bounded_device(255), 255);
        assert_eq!(bounded_device(256), DEVICE_UNKNOWN);
        assert_eq!(bounded_device(u64::from(u32::MAX)), DEVICE_UNKNOWN);
        assert_eq!(bounded_error(2), 2);
        assert_eq!(bounded_error(-2), ERROR_UNKNOWN);
        assert_eq!(bounded_error(i32::MAX), ERROR_UNKNOWN);
    }

    #[test]
    fn stat_labels_stand_in_slot_order() {
        for (slot, (stat, _)) in Stat::ALL.iter().enumerate() {
            assert_eq!(*stat as usize, slot);
        }
    }
}

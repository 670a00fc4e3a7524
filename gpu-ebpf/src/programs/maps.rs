//! The maps. Sizes are defaults; the loader sets what is configured.

use aya_ebpf::{
    macros::map,
    maps::{Array, HashMap, PerCpuArray, PerCpuHashMap, RingBuf},
};
use gpu_ebpf::abi::{
    self, Allocation, AllocationKey, Context, ContextKey, CounterKey, Counters, ErrorKey, Process, Returns,
    Stat, Thread,
};

/// Thread-group id → process image. Written here, read and swept by the agent.
#[map]
pub(crate) static PROCESSES: HashMap<u32, Process> = HashMap::with_max_entries(16_384, 0);

/// Slot → what the thread that has the slot is doing. Written by the thread itself only.
#[map]
pub(crate) static SLOTS: Array<Thread> = Array::with_max_entries(abi::SLOTS, 0);

/// Slot → the thread that has it. An insertion that succeeds is the claim.
#[map]
pub(crate) static SLOT_OWNERS: HashMap<u32, u32> = HashMap::with_max_entries(abi::SLOTS, 0);

/// How often any thread has changed its cgroup.
#[map]
pub(crate) static CGROUP_MOVES: Array<u64> = Array::with_max_entries(1, 0);

/// Thread id → what the thread is doing, for threads whose slot another one has.
#[map]
pub(crate) static THREADS: HashMap<u32, Thread> = HashMap::with_max_entries(65_536, 0);

/// Context handle → context.
#[map]
pub(crate) static CONTEXTS: HashMap<ContextKey, Context> = HashMap::with_max_entries(32_768, 0);

/// Device ordinal → primary context.
#[map]
pub(crate) static PRIMARY: HashMap<ContextKey, Context> = HashMap::with_max_entries(16_384, 0);

/// What is held. Written here; the agent removes what ended with its context or process.
#[map]
pub(crate) static ALLOCATIONS: HashMap<AllocationKey, Allocation> = HashMap::with_max_entries(131_072, 0);

/// What was done, by cgroup, process and device. The agent reads it in batches.
#[map]
pub(crate) static COUNTERS: PerCpuHashMap<CounterKey, Counters> = PerCpuHashMap::with_max_entries(8192, 0);

/// Failures by class and code.
#[map]
pub(crate) static ERRORS: PerCpuHashMap<ErrorKey, u64> = PerCpuHashMap::with_max_entries(8192, 0);

/// What ended with its context. Written by the agent alone; it is here so that it lives as long as the counters do.
#[map]
pub(crate) static RETURNED: HashMap<CounterKey, Returns> = HashMap::with_max_entries(8192, 0);

/// What could not be counted, by [`Stat`].
#[map]
pub(crate) static STATS: PerCpuArray<u64> = PerCpuArray::with_max_entries(Stat::COUNT, 0);

/// First sights, contexts and forks.
#[map]
pub(crate) static EVENTS: RingBuf = RingBuf::with_byte_size(256 * 1024, 0);

/// Ends and errors, in a ring of their own so that nothing else pushes them out.
#[map]
pub(crate) static EXITS: RingBuf = RingBuf::with_byte_size(256 * 1024, 0);

//! The calling thread: its state, made at its first call, and whom its calls belong to.

use aya_ebpf::{
    helpers::{
        bpf_get_current_pid_tgid, bpf_probe_read_kernel,
        generated::{bpf_get_current_cgroup_id, bpf_get_current_task, bpf_ktime_get_boot_ns},
    },
    programs::ProbeContext,
};
use aya_log_ebpf::debug;
use gpu_ebpf::{
    abi::{
        Allocation, CONTEXT_STACK_DEPTH, CounterKey, Counters, DEVICE_UNKNOWN, PROCESS_SEEN_FROM_START,
        Process, RecordKind, StackedContext, Stat, Thread, slot_of,
    },
    call::Call,
    inflight::InFlight,
    quick::Quick,
};

use crate::{
    maps::{CGROUP_MOVES, COUNTERS, PROCESSES, SLOT_OWNERS, SLOTS, THREADS},
    ring::{self, About},
    stats::{add, count},
};

/// Offsets into kernel structures, set by the loader from the kernel's own type information; 0 when it is
/// missing, and then the leader's start time stays unknown.
#[unsafe(no_mangle)]
static TASK_GROUP_LEADER: u32 = 0;
#[unsafe(no_mangle)]
static TASK_START_BOOTTIME: u32 = 0;

/// 1 where a program follows the threads that change their cgroup, set by the loader.
#[unsafe(no_mangle)]
static CGROUP_MOVES_ARE_SEEN: u32 = 0;

/// A generation that `CGROUP_MOVES` does not reach.
const NEVER_READ: u64 = u64::MAX;

const BPF_NOEXIST: u64 = 1;
const NO_ALLOCATION: Allocation = Allocation {
    bytes: 0,
    cgroup_id: 0,
    context_id: 0,
    link: 0,
    references: 0,
    stamp: 0,
    device: DEVICE_UNKNOWN,
    kind: 0,
};
static NO_COUNTERS: Counters = Counters::ZERO;

/// Reads a global that the loader patches: a plain read would be folded to its value here.
#[inline(always)]
pub(crate) fn setting(global: &u32) -> u32 {
    // SAFETY: a reference is always readable.
    unsafe { core::ptr::read_volatile(global) }
}

/// Reads an eight-byte field of a kernel structure.
#[inline(always)]
pub(crate) fn kernel_field(base: u64, offset: u32) -> Option<u64> {
    // SAFETY: the helper copies with fault handling and never dereferences the pointer here.
    unsafe { bpf_probe_read_kernel((base + u64::from(offset)) as *const u64) }.ok()
}

/// The id of the calling thread.
#[inline(always)]
pub(crate) fn current_tid() -> u32 {
    bpf_get_current_pid_tgid() as u32
}

/// The state of the calling thread, if it has made a call before.
#[inline(always)]
pub(crate) fn known() -> Option<*mut Thread> {
    of(bpf_get_current_pid_tgid())
}

/// The state of a thread that has made a call. What is left of a thread of another process that had the same id, and
/// whose end nobody saw, is not this thread's.
#[inline(always)]
fn of(pid_tgid: u64) -> Option<*mut Thread> {
    let (tgid, tid) = ((pid_tgid >> 32) as u32, pid_tgid as u32);
    if let Some(slot) = SLOTS.get_ptr_mut(slot_of(tid)) {
        // SAFETY: the pointer is to a live element of an array, which is never removed.
        let (slot_tid, slot_tgid) = unsafe { ((*slot).tid, (*slot).tgid) };
        if slot_tid == tid && slot_tgid == tgid {
            return Some(slot);
        }
    }
    let thread = THREADS.get_ptr_mut(tid)?;
    // SAFETY: the pointer is to a live map value, which is removed only with the thread.
    (unsafe { (*thread).tgid } == tgid).then_some(thread)
}

/// The state of the calling thread, made if this is its first call.
#[inline(always)]
pub(crate) fn current(ctx: &ProbeContext, call: Call) -> Option<*mut Thread> {
    let pid_tgid = bpf_get_current_pid_tgid();
    if let Some(thread) = of(pid_tgid) {
        return Some(thread);
    }
    first_call(call as u32);
    debug!(ctx, "first call of thread {}: {}", pid_tgid as u32, call as u32);
    of(pid_tgid)
}

#[inline(never)]
fn first_call(call: u32) -> u32 {
    let pid_tgid = bpf_get_current_pid_tgid();
    let (tgid, tid) = ((pid_tgid >> 32) as u32, pid_tgid as u32);
    // A thread of another process may have had the id, and ended unseen.
    forget(tid);
    let Some(epoch_ns) = process_epoch(tgid, tid, call) else {
        count(Stat::ProcessesFull);
        return 0;
    };
    let thread = Thread {
        tid,
        tgid,
        epoch_ns,
        cgroup_id: 0,
        cgroup_generation: NEVER_READ,
        quick: Quick { tick: 0, duration_ns: 0, bucket: 0, owed_ns: 0 },
        device: DEVICE_UNKNOWN,
        pad: 0,
        in_flight: InFlight { stack_pointer: 0, entered_ns: 0, call: 0, active: 0, arguments: [0; 3] },
        pending: NO_ALLOCATION,
        pending_valid: 0,
        context_depth: 0,
        contexts: [StackedContext { context: 0, device: DEVICE_UNKNOWN, pad: 0 }; CONTEXT_STACK_DEPTH],
    };
    let slot = slot_of(tid);
    if SLOT_OWNERS.insert(slot, tid, BPF_NOEXIST).is_ok()
        && let Some(state) = SLOTS.get_ptr_mut(slot)
    {
        // SAFETY: the pointer is to a live element of an array, and the claim above makes it this thread's.
        unsafe { *state = thread };
        return 0;
    }
    if THREADS.insert(tid, &thread, BPF_NOEXIST).is_err() {
        count(Stat::ThreadsFull);
    }
    0
}

/// Forgets a thread that ends or whose image is replaced.
#[inline(always)]
pub(crate) fn forget(tid: u32) {
    let slot = slot_of(tid);
    if let Some(state) = SLOTS.get_ptr_mut(slot) {
        // SAFETY: the pointer is to a live element of an array; while it names this thread nobody else writes it.
        if unsafe { (*state).tid } == tid {
            // SAFETY: as above.
            unsafe { (*state).tid = 0 };
            SLOT_OWNERS.remove(slot).ok();
            return;
        }
    }
    // Most threads of a host never called CUDA, and then there is nothing to remove.
    THREADS.remove(tid).ok();
}

#[inline(always)]
fn process_epoch(tgid: u32, tid: u32, call: u32) -> Option<u64> {
    // SAFETY: the entry is only removed when the process ends or replaces its image, which cannot happen
    // while one of its threads is here.
    if let Some(process) = unsafe { PROCESSES.get(tgid) } {
        let started = process.start_boottime_ns;
        if started == leader_start_boottime_ns() {
            return Some(process.epoch_ns);
        }
        // Another process had the id, and ended unseen: the agent finds its rows without a process.
        PROCESSES.remove(tgid).ok();
    }
    let flags = if call == Call::Initialize as u32 { PROCESS_SEEN_FROM_START } else { 0 };
    let process = Process {
        // SAFETY: the helper has no preconditions.
        epoch_ns: unsafe { bpf_ktime_get_boot_ns() },
        start_boottime_ns: leader_start_boottime_ns(),
        // SAFETY: as above.
        cgroup_id: unsafe { bpf_get_current_cgroup_id() },
        flags,
    };
    if PROCESSES.insert(tgid, &process, BPF_NOEXIST).is_ok() {
        ring::event(
            &process,
            &About {
                kind: RecordKind::ProcessSeen,
                tgid,
                tid,
                device: DEVICE_UNKNOWN,
                subject: 0,
                detail: 0,
            },
        );
    }
    // Another thread of the process may have been faster; its epoch is the process's.
    // SAFETY: as for the first lookup.
    unsafe { PROCESSES.get(tgid) }.map(|process| process.epoch_ns)
}

#[inline(always)]
fn leader_start_boottime_ns() -> u64 {
    let (leader, start) = (setting(&TASK_GROUP_LEADER), setting(&TASK_START_BOOTTIME));
    if leader == 0 || start == 0 {
        return 0;
    }
    // SAFETY: the helper has no preconditions.
    let task = unsafe { bpf_get_current_task() };
    kernel_field(task, leader).and_then(|leader| kernel_field(leader, start)).unwrap_or(0)
}

/// Whom a call of this thread counts for, right now.
#[inline(always)]
pub(crate) fn counter_key(thread: &mut Thread) -> CounterKey {
    CounterKey {
        cgroup_id: cgroup_id(thread),
        epoch_ns: thread.epoch_ns,
        tgid: thread.tgid,
        device: thread.device,
    }
}

/// The thread's cgroup, asked again only after some thread has moved to another one: the helper is a call, the
/// generation a few instructions.
#[inline(always)]
fn cgroup_id(thread: &mut Thread) -> u64 {
    if setting(&CGROUP_MOVES_ARE_SEEN) != 0
        && let Some(generation) = CGROUP_MOVES.get_ptr(0)
    {
        // SAFETY: the pointer is to a live element of an array.
        let generation = unsafe { core::ptr::read_volatile(generation) };
        if thread.cgroup_generation == generation {
            return thread.cgroup_id;
        }
        thread.cgroup_generation = generation;
    }
    // SAFETY: the helper has no preconditions.
    thread.cgroup_id = unsafe { bpf_get_current_cgroup_id() };
    thread.cgroup_id
}

/// A thread has moved to another cgroup.
#[inline(always)]
pub(crate) fn cgroup_moved() {
    if let Some(moves) = CGROUP_MOVES.get_ptr_mut(0) {
        add(moves, 1);
    }
}

/// The counters of a key on this CPU, made if they are missing.
#[inline(always)]
pub(crate) fn counters(key: &CounterKey) -> Option<*mut Counters> {
    if let Some(counters) = COUNTERS.get_ptr_mut(key) {
        return Some(counters);
    }
    first_count(key);
    COUNTERS.get_ptr_mut(key)
}

#[inline(never)]
fn first_count(key: &CounterKey) -> u32 {
    // Another CPU may have made the entry meanwhile, which is as good.
    if COUNTERS.insert(key, &NO_COUNTERS, BPF_NOEXIST).is_err() && COUNTERS.get_ptr_mut(key).is_none() {
        count(Stat::CountersFull);
    }
    0
}

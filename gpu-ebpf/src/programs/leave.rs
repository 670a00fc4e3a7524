//! Returns: count what was done, or that it failed.

use aya_ebpf::{helpers::generated::bpf_ktime_get_ns, programs::RetProbeContext};
use aya_log_ebpf::debug;
use gpu_ebpf::{
    abi::{ERROR_NOT_READY, ErrorKey, Process, RecordKind, Stat, Thread, Timed, bounded_error},
    call::{Call, Class},
    histogram,
};

use crate::{
    allocate, context, free,
    maps::ERRORS,
    processor::{RETURN_SLOT_BYTES, return_stack_pointer},
    ring::{self, About},
    stats::{add, count},
    thread, transfer,
};

const CUDA_SUCCESS: i32 = 0;
const BPF_NOEXIST: u64 = 1;

/// A launch.
#[inline(always)]
pub(crate) fn launch(ctx: &RetProbeContext) {
    let Some(thread) = end(ctx) else { return };
    let result = ctx.ret::<i32>();
    if result != CUDA_SUCCESS {
        return failed(thread, Class::Launch, result);
    }
    let Some(counters) = thread::counters(&thread::counter_key(thread)) else { return };
    // SAFETY: the pointer is to a live map value; the field's address is inside it.
    let launches = unsafe { &raw mut (*counters).launch };
    if thread.in_flight.entered_ns == 0 {
        add_to_bucket(launches, thread.quick.assume() as usize);
    } else {
        let duration_ns = elapsed_ns(thread);
        thread.quick.learn(thread.in_flight.arguments[1], duration_ns);
        timed(launches, duration_ns, thread.quick.pay());
    }
}

/// A graph launch, a wait, a copy or a memset.
#[inline(always)]
pub(crate) fn work(ctx: &RetProbeContext) {
    let Some((thread, call)) = succeeded(ctx) else { return };
    let Some(counters) = thread::counters(&thread::counter_key(thread)) else { return };
    match call {
        Call::Synchronize => {
            let duration_ns = elapsed_ns(thread);
            // SAFETY: the pointer is to a live map value; the field's address is inside it.
            let waits = unsafe { &raw mut (*counters).synchronize };
            timed(waits, duration_ns, 0);
        }
        // SAFETY: as above.
        Call::GraphLaunch => add(unsafe { &raw mut (*counters).graph_launch.calls }, 1),
        _ => transfer::leave(thread, call, counters),
    }
}

/// An allocation, a free or a mapping.
#[inline(always)]
pub(crate) fn memory(ctx: &RetProbeContext) {
    let Some((thread, call)) = succeeded(ctx) else { return };
    if (call as u32) < Call::Free as u32 {
        allocate::leave(thread, call);
    } else {
        free::leave(thread, call);
    }
}

/// A context call.
#[inline(always)]
pub(crate) fn context(ctx: &RetProbeContext) {
    let Some((thread, call)) = succeeded(ctx) else { return };
    if !matches!(call, Call::Initialize) {
        context::leave(thread, call);
    }
}

/// The thread whose tracked call ends here, and the call, unless it failed.
#[inline(always)]
fn succeeded<'a>(ctx: &RetProbeContext) -> Option<(&'a mut Thread, Call)> {
    let thread = end(ctx)?;
    let call = Call::from_wire(thread.in_flight.call)?;
    let result = ctx.ret::<i32>();
    if result == CUDA_SUCCESS {
        return Some((thread, call));
    }
    free::undo(thread);
    failed(thread, call.class(), result);
    None
}

/// The thread whose tracked call ends here.
#[inline(always)]
fn end<'a>(ctx: &RetProbeContext) -> Option<&'a mut Thread> {
    let Some(thread) = thread::known() else {
        count(Stat::Unmatched);
        debug!(ctx, "return in thread {} without an entry", thread::current_tid());
        return None;
    };
    // SAFETY: the value belongs to the calling thread, which is here; it is removed only when the thread
    // ends or replaces its image.
    let thread = unsafe { &mut *thread };
    if !thread.in_flight.ends_at(return_stack_pointer(ctx), RETURN_SLOT_BYTES) {
        if thread.in_flight.active == 0 {
            count(Stat::Unmatched);
        }
        return None;
    }
    thread.in_flight.active = 0;
    Some(thread)
}

#[inline(always)]
fn elapsed_ns(thread: &Thread) -> u64 {
    // SAFETY: the helper has no preconditions.
    let now = unsafe { bpf_ktime_get_ns() };
    now.saturating_sub(thread.in_flight.entered_ns)
}

/// Adds a call that was timed, and time that is owed by calls that were not.
#[inline(always)]
fn timed(timed: *mut Timed, duration_ns: u64, owed_ns: u64) {
    add_to_bucket(timed, histogram::bucket(duration_ns));
    // SAFETY: `timed` points into a live map value.
    add(unsafe { &raw mut (*timed).total_ns }, duration_ns.wrapping_add(owed_ns));
}

/// Adds a call; the number of calls is the sum of the buckets.
#[inline(always)]
fn add_to_bucket(timed: *mut Timed, bucket: usize) {
    let bucket = bucket & 31;
    if bucket < histogram::BUCKETS {
        // SAFETY: `timed` points into a live map value and `bucket` is below the array's length.
        add(unsafe { (&raw mut (*timed).buckets).cast::<u64>().add(bucket) }, 1);
    }
}

/// Counts a failure, and reports the first of its kind.
#[inline(never)]
fn failed(thread: &mut Thread, class: Class, code: i32) {
    if code == ERROR_NOT_READY {
        return;
    }
    let code = bounded_error(code);
    let key = ErrorKey { who: thread::counter_key(thread), class: class as u32, code };
    if let Some(counter) = ERRORS.get_ptr_mut(key) {
        add(counter, 1);
        return;
    }
    if ERRORS.insert(key, 0, BPF_NOEXIST).is_ok() {
        ring::exit(
            &Process {
                epoch_ns: thread.epoch_ns,
                start_boottime_ns: 0,
                cgroup_id: key.who.cgroup_id,
                flags: 0,
            },
            &About {
                kind: RecordKind::FirstError,
                tgid: thread.tgid,
                tid: thread::current_tid(),
                device: thread.device,
                subject: u64::from(class as u32),
                detail: i64::from(code),
            },
        );
    }
    match ERRORS.get_ptr_mut(key) {
        Some(counter) => add(counter, 1),
        None => count(Stat::ErrorsFull),
    }
}

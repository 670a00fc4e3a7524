//! Entries: remember what the return will need.

use aya_ebpf::{
    helpers::generated::{bpf_jiffies64, bpf_ktime_get_ns},
    programs::ProbeContext,
};
use aya_log_ebpf::debug;
use gpu_ebpf::{
    abi::{Stat, Thread},
    call::Call,
    inflight::Entry,
};

use crate::{free, processor::entry_stack_pointer, stats::count, thread, transfer};

/// A launch: nothing but the time is needed, and not always that.
#[inline(always)]
pub(crate) fn launch(ctx: &ProbeContext) {
    let Some(thread) = thread::current(ctx, Call::Launch) else { return };
    let Some(thread) = begin(ctx, thread, Call::Launch) else { return };
    // SAFETY: the helper has no preconditions; the kernel replaces its call by one load.
    let tick = unsafe { bpf_jiffies64() };
    // The first of the arguments tells entries apart, the others are free.
    thread.in_flight.arguments[1] = tick;
    thread.in_flight.entered_ns = if thread.quick.must_time(tick) { now_ns() } else { 0 };
}

/// Any other call.
#[inline(always)]
pub(crate) fn call(ctx: &ProbeContext, call: Call) {
    let Some(thread) = thread::current(ctx, call) else { return };
    let Some(thread) = begin(ctx, thread, call) else { return };
    thread.in_flight.entered_ns = now_ns();
    match call {
        Call::Launch | Call::GraphLaunch | Call::Synchronize | Call::Initialize => {}
        Call::CopyHostToDevice
        | Call::CopyDeviceToHost
        | Call::CopyDeviceToDevice
        | Call::CopyUnified
        | Call::CopyPeer
        | Call::CopyArrayLinear
        | Call::CopyArrayToArray
        | Call::Copy2d
        | Call::Copy3d
        | Call::Copy3dPeer
        | Call::CopyBatch
        | Call::Copy3dBatch
        | Call::Memset8
        | Call::Memset16
        | Call::Memset32
        | Call::Memset2d8
        | Call::Memset2d16
        | Call::Memset2d32 => transfer::enter(ctx, thread, call),
        Call::ContextCreateAffinity => thread.in_flight.arguments[1] = argument(ctx, 4),
        Call::ContextCreateParameters => thread.in_flight.arguments[1] = argument(ctx, 3),
        Call::ContextCreate => thread.in_flight.arguments[1] = argument(ctx, 2),
        Call::AllocatePitch | Call::Map => {
            thread.in_flight.arguments[1] = argument(ctx, 1);
            thread.in_flight.arguments[2] = argument(ctx, 3);
        }
        Call::Free | Call::ReleasePhysical | Call::FreeArray | Call::FreeHost => free::enter(thread, call),
        _ => {
            thread.in_flight.arguments[1] = argument(ctx, 1);
            thread.in_flight.arguments[2] = argument(ctx, 2);
        }
    }
}

/// An integer argument by position; the first six are in registers.
#[inline(always)]
pub(crate) fn argument(ctx: &ProbeContext, position: usize) -> u64 {
    ctx.arg::<u64>(position).unwrap_or(0)
}

#[inline(always)]
fn now_ns() -> u64 {
    // SAFETY: the helper has no preconditions.
    unsafe { bpf_ktime_get_ns() }
}

/// Starts tracking a call, unless the entry is not one.
#[inline(always)]
fn begin<'a>(ctx: &ProbeContext, thread: *mut Thread, call: Call) -> Option<&'a mut Thread> {
    // SAFETY: the value belongs to the calling thread, which is here; it is removed only when the thread
    // ends or replaces its image.
    let thread = unsafe { &mut *thread };
    let (stack_pointer, first) = (entry_stack_pointer(ctx), argument(ctx, 0));
    match thread.in_flight.classify_entry(stack_pointer, call as u32, first) {
        Entry::Fresh => {}
        Entry::Duplicate => {
            count(Stat::Duplicate);
            return None;
        }
        Entry::Nested => {
            count(Stat::Nested);
            return None;
        }
        Entry::Abandoned => {
            count(Stat::Abandoned);
            // Whether the memory went is not known; if it did, the next allocation at its address tells.
            free::undo_abandoned(thread);
            debug!(ctx, "call {} never returned, call {} is entered", thread.in_flight.call, call as u32);
        }
    }
    thread.in_flight.stack_pointer = stack_pointer;
    thread.in_flight.call = call as u32;
    thread.in_flight.arguments[0] = first;
    thread.in_flight.active = 1;
    Some(thread)
}

//! Contexts: which device a thread is talking to.

use aya_ebpf::helpers::generated::bpf_ktime_get_boot_ns;
use gpu_ebpf::{
    abi::{
        CONTEXT_STACK_DEPTH, Context, ContextKey, DEVICE_UNKNOWN, Process, RecordKind, StackedContext, Stat,
        Thread, bounded_device,
    },
    call::Call,
};

use crate::{
    maps::{CONTEXTS, PRIMARY},
    ring::{self, About},
    stats::{add, count},
    thread,
    user::read,
};

const BPF_ANY: u64 = 0;

#[inline(always)]
fn key(thread: &Thread, handle: u64) -> ContextKey {
    ContextKey { epoch_ns: thread.epoch_ns, handle, tgid: thread.tgid, pad: 0 }
}

/// The identity of the context that is current to the thread; 0 if it was never seen.
#[inline(always)]
pub(crate) fn current_id(thread: &Thread) -> u64 {
    let Some(top) = top(thread) else { return 0 };
    // SAFETY: the value is copied at once.
    unsafe { CONTEXTS.get(key(thread, top)) }.map_or(0, |context| context.id)
}

/// Follows a context call that succeeded.
#[inline(never)]
pub(crate) fn leave(thread: &mut Thread, call: Call) {
    let [first, second, _] = thread.in_flight.arguments;
    match call {
        Call::ContextCreate | Call::ContextCreateAffinity | Call::ContextCreateParameters => {
            let Some(handle) = read::<u64>(first, 0) else { return };
            create(thread, handle, bounded_device(second));
            push(thread, handle);
        }
        Call::ContextDestroy => {
            destroy(thread, first);
            if top(thread) == Some(first) {
                pop(thread);
            }
        }
        Call::ContextSetCurrent => {
            if thread.context_depth > 0 {
                pop(thread);
            }
            if first != 0 {
                push(thread, first);
            }
        }
        Call::ContextPush => push(thread, first),
        Call::ContextPop => pop(thread),
        Call::PrimaryRetain => {
            let Some(handle) = read::<u64>(first, 0) else { return };
            retain(thread, handle, bounded_device(second));
        }
        Call::PrimaryRelease => release(thread, bounded_device(first), false),
        _ => release(thread, bounded_device(first), true),
    }
}

#[inline(always)]
fn top(thread: &Thread) -> Option<u64> {
    let depth = thread.context_depth as usize;
    if depth == 0 || depth > CONTEXT_STACK_DEPTH {
        return None;
    }
    Some(thread.contexts[(depth - 1) & (CONTEXT_STACK_DEPTH - 1)].context)
}

#[inline(always)]
fn push(thread: &mut Thread, handle: u64) {
    // SAFETY: the value is copied at once.
    let device =
        unsafe { CONTEXTS.get(key(thread, handle)) }.map_or(DEVICE_UNKNOWN, |context| context.device);
    let depth = thread.context_depth as usize;
    if depth < CONTEXT_STACK_DEPTH {
        thread.contexts[depth & (CONTEXT_STACK_DEPTH - 1)] =
            StackedContext { context: handle, device, pad: 0 };
    }
    thread.context_depth = thread.context_depth.wrapping_add(1);
    thread.device = if depth < CONTEXT_STACK_DEPTH { device } else { DEVICE_UNKNOWN };
}

#[inline(always)]
fn pop(thread: &mut Thread) {
    if thread.context_depth == 0 {
        return;
    }
    thread.context_depth -= 1;
    let depth = thread.context_depth as usize;
    thread.device = if depth == 0 || depth > CONTEXT_STACK_DEPTH {
        DEVICE_UNKNOWN
    } else {
        thread.contexts[(depth - 1) & (CONTEXT_STACK_DEPTH - 1)].device
    };
}

#[inline(always)]
fn create(thread: &mut Thread, handle: u64, device: i32) -> u64 {
    // SAFETY: the helper has no preconditions.
    let id = unsafe { bpf_ktime_get_boot_ns() };
    let context = Context { id, handle, references: 1, device, pad: 0 };
    if CONTEXTS.insert(key(thread, handle), &context, BPF_ANY).is_err() {
        count(Stat::ContextsFull);
    }
    id
}

#[inline(always)]
fn destroy(thread: &mut Thread, handle: u64) {
    let key = key(thread, handle);
    // SAFETY: the value is copied at once.
    let Some(context) = unsafe { CONTEXTS.get(key) }.copied() else { return };
    if CONTEXTS.remove(key).is_ok() {
        report(thread, RecordKind::ContextDestroyed, context.id, context.device);
    }
}

#[inline(always)]
fn retain(thread: &mut Thread, handle: u64, device: i32) {
    let primary_key = key(thread, u64::from(device.cast_unsigned()));
    if let Some(primary) = PRIMARY.get_ptr_mut(primary_key) {
        // SAFETY: the pointer is to a live map value.
        unsafe {
            if (*primary).handle == handle && CONTEXTS.get(key(thread, handle)).is_some() {
                add(&raw mut (*primary).references, 1);
                return;
            }
        }
    }
    let id = create(thread, handle, device);
    let primary = Context { id, handle, references: 1, device, pad: 0 };
    if PRIMARY.insert(primary_key, &primary, BPF_ANY).is_err() {
        count(Stat::ContextsFull);
    }
}

#[inline(always)]
fn release(thread: &mut Thread, device: i32, reset: bool) {
    let primary_key = key(thread, u64::from(device.cast_unsigned()));
    let Some(primary) = PRIMARY.get_ptr_mut(primary_key) else { return };
    // SAFETY: the pointer is to a live map value.
    unsafe {
        if !reset {
            add(&raw mut (*primary).references, u64::MAX);
            if (*primary).references != 0 {
                return;
            }
        }
        let handle = (*primary).handle;
        destroy(thread, handle);
        if reset && (*primary).references != 0 {
            // The context starts anew under the same handle, and its holders keep their references.
            create(thread, handle, device);
            return;
        }
    }
    // Whoever else removed it meant the same.
    PRIMARY.remove(primary_key).ok();
}

#[inline(always)]
fn report(thread: &mut Thread, kind: RecordKind, id: u64, device: i32) {
    let process = Process {
        epoch_ns: thread.epoch_ns,
        start_boottime_ns: 0,
        cgroup_id: thread::counter_key(thread).cgroup_id,
        flags: 0,
    };
    ring::event(
        &process,
        &About { kind, tgid: thread.tgid, tid: thread::current_tid(), device, subject: id, detail: 0 },
    );
}

//! The BPF programs: uprobes on libcuda's exported functions and the life cycle of processes.
//!
//! Launches have an entry and a return program of their own, because nothing is called more often. All other
//! functions share one entry program, which tells them apart by the attach cookie, and one return program for
//! each family. An entry only remembers; counting happens at the return, when the result is known.

#![no_std]
#![no_main]
#![expect(clippy::needless_pass_by_value, reason = "the attribute macros pass the context on by value")]
#![feature(core_intrinsics)]
#![expect(
    clippy::inline_always,
    reason = "a BPF call costs a frame of the 512 bytes of stack, and what is hot must not be one"
)]
#![expect(
    clippy::needless_borrows_for_generic_args,
    reason = "a value that is passed on by value is copied onto that stack"
)]
#![expect(
    clippy::cast_possible_truncation,
    reason = "ids and ordinals are 32-bit values in 64-bit registers"
)]
#![expect(
    internal_features,
    reason = "the target has no `AtomicU64::fetch_add`; this intrinsic is the instruction itself"
)]

mod allocate;
mod context;
mod enter;
mod free;
mod leave;
mod lifecycle;
mod maps;
mod processor;
mod ring;
mod stats;
mod thread;
mod transfer;
mod user;

use aya_ebpf::{
    EbpfContext as _,
    helpers::generated::bpf_get_attach_cookie,
    macros::{raw_tracepoint, uprobe, uretprobe},
    programs::{ProbeContext, RawTracePointContext, RetProbeContext},
};
use gpu_ebpf::call::Call;

/// Entry of every launch function.
#[uprobe]
fn enter_launch(ctx: ProbeContext) -> u32 {
    enter::launch(&ctx);
    0
}

/// Return of every launch function.
#[uretprobe]
fn leave_launch(ctx: RetProbeContext) -> u32 {
    leave::launch(&ctx);
    0
}

/// Entry of every other function; the cookie is the [`Call`].
#[uprobe]
fn enter_call(ctx: ProbeContext) -> u32 {
    // SAFETY: the helper reads the cookie that belongs to this context, which is ours.
    let cookie = unsafe { bpf_get_attach_cookie(ctx.as_ptr()) };
    if let Some(call) = Call::from_wire(cookie as u32) {
        enter::call(&ctx, call);
    }
    0
}

/// Return of a graph launch, a wait, a copy or a memset; which one it is was remembered at the entry.
#[uretprobe]
fn leave_work(ctx: RetProbeContext) -> u32 {
    leave::work(&ctx);
    0
}

/// Return of an allocation, a free or a mapping.
#[uretprobe]
fn leave_memory(ctx: RetProbeContext) -> u32 {
    leave::memory(&ctx);
    0
}

/// Return of a context call.
#[uretprobe]
fn leave_context(ctx: RetProbeContext) -> u32 {
    leave::context(&ctx);
    0
}

/// A thread ends, and perhaps its process.
#[raw_tracepoint(tracepoint = "sched_process_exit")]
fn process_exit(_ctx: RawTracePointContext) -> i32 {
    lifecycle::exit();
    0
}

/// A process replaces its image.
#[raw_tracepoint(tracepoint = "sched_process_exec")]
fn process_exec(ctx: RawTracePointContext) -> i32 {
    lifecycle::exec(ctx.arg::<i32>(1).cast_unsigned());
    0
}

/// A process forks.
#[raw_tracepoint(tracepoint = "sched_process_fork")]
fn process_fork(ctx: RawTracePointContext) -> i32 {
    lifecycle::fork(ctx.arg::<u64>(1));
    0
}

/// A thread changes its cgroup.
#[raw_tracepoint(tracepoint = "cgroup_attach_task")]
fn cgroup_attach(_ctx: RawTracePointContext) -> i32 {
    thread::cgroup_moved();
    0
}

#[cfg(not(test))]
#[panic_handler]
fn panic(_info: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";

/// Read by the loader before anything else: an object of another version is not loaded.
#[unsafe(no_mangle)]
static ABI_VERSION: u32 = gpu_ebpf::abi::VERSION;

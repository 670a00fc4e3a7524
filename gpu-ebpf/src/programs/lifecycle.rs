//! Processes: their threads' ends, their own, new images, forks.

use aya_ebpf::helpers::{bpf_get_current_pid_tgid, bpf_probe_read_kernel, generated::bpf_get_current_task};
use gpu_ebpf::abi::{DEVICE_UNKNOWN, RecordKind};

use crate::{
    maps::PROCESSES,
    ring::{self, About},
    thread::{self, kernel_field, setting},
};

/// Offsets into kernel structures, set by the loader from the kernel's own type information; 0 when it is
/// missing, and then the agent learns of a process's end by looking.
#[unsafe(no_mangle)]
static TASK_SIGNAL: u32 = 0;
#[unsafe(no_mangle)]
static SIGNAL_LIVE: u32 = 0;
#[unsafe(no_mangle)]
static TASK_TGID: u32 = 0;

/// A thread ends; if it is the last one, so does the process.
#[inline(always)]
pub(crate) fn exit() {
    let pid_tgid = bpf_get_current_pid_tgid();
    thread::forget(pid_tgid as u32);
    let tgid = (pid_tgid >> 32) as u32;
    if PROCESSES.get_ptr(tgid).is_some() && last_thread() {
        end(RecordKind::Exit, tgid, pid_tgid as u32);
    }
}

/// The calling process replaces its image; `old_tid` is the id that the calling thread had before it took
/// over the leader's.
#[inline(always)]
pub(crate) fn exec(old_tid: u32) {
    let pid_tgid = bpf_get_current_pid_tgid();
    thread::forget(old_tid);
    thread::forget(pid_tgid as u32);
    end(RecordKind::Exec, (pid_tgid >> 32) as u32, pid_tgid as u32);
}

/// The calling process forks; threads of its own do not count.
#[inline(always)]
pub(crate) fn fork(child_task: u64) {
    let pid_tgid = bpf_get_current_pid_tgid();
    let tgid = (pid_tgid >> 32) as u32;
    // SAFETY: the value is copied at once.
    let Some(process) = unsafe { PROCESSES.get(tgid) }.copied() else { return };
    let offset = setting(&TASK_TGID);
    if offset == 0 {
        return;
    }
    // SAFETY: the helper copies with fault handling and never dereferences the pointer here.
    let child =
        unsafe { bpf_probe_read_kernel((child_task + u64::from(offset)) as *const u32) }.unwrap_or(tgid);
    if child != tgid {
        ring::event(
            &process,
            &About {
                kind: RecordKind::Fork,
                tgid,
                tid: pid_tgid as u32,
                device: DEVICE_UNKNOWN,
                subject: u64::from(child),
                detail: 0,
            },
        );
    }
}

#[inline(always)]
fn end(kind: RecordKind, tgid: u32, tid: u32) {
    // SAFETY: the value is copied at once.
    let Some(process) = unsafe { PROCESSES.get(tgid) }.copied() else { return };
    // Of two last threads that both see themselves last, one removes the entry and reports.
    if PROCESSES.remove(tgid).is_ok() {
        ring::exit(&process, &About { kind, tgid, tid, device: DEVICE_UNKNOWN, subject: 0, detail: 0 });
    }
}

/// Whether no thread of the process is left: `signal->live` has been decremented before the tracepoint.
#[inline(always)]
fn last_thread() -> bool {
    let (signal, live) = (setting(&TASK_SIGNAL), setting(&SIGNAL_LIVE));
    if signal == 0 || live == 0 {
        return false;
    }
    // SAFETY: the helper has no preconditions.
    let task = unsafe { bpf_get_current_task() };
    let Some(signal) = kernel_field(task, signal) else { return false };
    // SAFETY: the helper copies with fault handling and never dereferences the pointer here.
    let live = unsafe { bpf_probe_read_kernel((signal + u64::from(live)) as *const i32) };
    live == Ok(0)
}

//! Sending records.

use aya_ebpf::{helpers::generated::bpf_ktime_get_boot_ns, maps::RingBuf};
use gpu_ebpf::abi::{Process, Record, RecordKind, Stat};

use crate::{
    maps::{EVENTS, EXITS},
    stats::count,
};

/// What differs between records of one process.
pub(crate) struct About {
    pub(crate) kind: RecordKind,
    pub(crate) tgid: u32,
    pub(crate) tid: u32,
    pub(crate) device: i32,
    pub(crate) subject: u64,
    pub(crate) detail: i64,
}

#[inline(always)]
fn send(ring: &RingBuf, full: Stat, process: &Process, subject: &About) {
    let Some(mut entry) = ring.reserve::<Record>(0) else {
        count(full);
        return;
    };
    // SAFETY: the helper has no preconditions.
    let time_ns = unsafe { bpf_ktime_get_boot_ns() };
    entry.write(Record {
        kind: subject.kind as u32,
        tgid: subject.tgid,
        time_ns,
        epoch_ns: process.epoch_ns,
        start_boottime_ns: process.start_boottime_ns,
        cgroup_id: process.cgroup_id,
        tid: subject.tid,
        device: subject.device,
        subject: subject.subject,
        detail: subject.detail,
        flags: process.flags,
    });
    entry.submit(0);
}

/// Sends a record about something that begins.
#[inline(never)]
pub(crate) fn event(process: &Process, subject: &About) {
    send(&EVENTS, Stat::EventsDropped, process, subject);
}

/// Sends a record about an end or an error.
#[inline(never)]
pub(crate) fn exit(process: &Process, subject: &About) {
    send(&EXITS, Stat::ExitsDropped, process, subject);
}

//! What the launch instrumentation is compared with: probes that do nothing, a probe that sends one event
//! per call, and a probe that is slow on purpose, so that a benchmark can show that it would notice.

#![no_std]
#![no_main]

use aya_ebpf::{
    helpers::{bpf_get_current_pid_tgid, generated::bpf_ktime_get_ns},
    macros::{map, uprobe, uretprobe},
    maps::RingBuf,
    programs::{ProbeContext, RetProbeContext},
};

/// One record of 64 bytes per call, as tracers send them.
#[map]
static CALLS: RingBuf = RingBuf::with_byte_size(1 << 20, 0);

/// Does nothing at an entry.
#[uprobe]
fn enter_empty(_ctx: ProbeContext) -> u32 {
    0
}

/// Does nothing at a return.
#[uretprobe]
fn leave_empty(_ctx: RetProbeContext) -> u32 {
    0
}

/// Sends an event at an entry.
#[uprobe]
fn enter_event(_ctx: ProbeContext) -> u32 {
    if let Some(mut entry) = CALLS.reserve::<[u64; 8]>(0) {
        entry.write([bpf_get_current_pid_tgid(); 8]);
        entry.submit(0);
    }
    0
}

/// How often [`enter_slow`] reads the clock: some microseconds on any machine.
const CLOCK_READS: u32 = 256;

/// Spends time at an entry.
#[uprobe]
fn enter_slow(_ctx: ProbeContext) -> u32 {
    for _ in 0..CLOCK_READS {
        // SAFETY: the helper has no preconditions.
        unsafe { bpf_ktime_get_ns() };
    }
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

//! Counters that never lose an increment, although programs can be preempted on their CPU.

use core::intrinsics::{AtomicOrdering, atomic_xadd};

use gpu_ebpf::abi::Stat;

use crate::maps::STATS;

/// Adds to a counter in a map value.
///
/// The value belongs to one CPU, but a program that is preempted half way through a plain read-modify-write
/// would lose what another one added meanwhile; the atomic form costs a few cycles without contention and
/// needs no fetching atomics, which kernels before 5.12 lack.
#[inline(always)]
pub(crate) fn add(counter: *mut u64, amount: u64) {
    // SAFETY: callers pass a pointer into a live map value, which is aligned to eight bytes; the verifier
    // checks its bounds.
    unsafe { atomic_xadd::<u64, u64, { AtomicOrdering::Relaxed }>(counter, amount) };
}

/// Counts one loss or oddity.
#[inline(always)]
pub(crate) fn count(stat: Stat) {
    if let Some(slot) = STATS.get_ptr_mut(stat as u32) {
        add(slot, 1);
    }
}

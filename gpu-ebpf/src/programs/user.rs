//! Reading the tenant's memory. What is found there is a claim by the tenant.

use aya_ebpf::helpers::bpf_probe_read_user;
use gpu_ebpf::abi::Stat;

use crate::stats::count;

/// Reads a value at `address + offset`; `None`, counted, if it is not mapped.
#[inline(always)]
pub(crate) fn read<T>(address: u64, offset: usize) -> Option<T> {
    let pointer = address.wrapping_add(offset as u64) as *const T;
    // SAFETY: the helper copies with fault handling and never dereferences the pointer here.
    let value = unsafe { bpf_probe_read_user(pointer) };
    if value.is_err() {
        count(Stat::UserFault);
    }
    value.ok()
}

//! What differs between processor architectures: where a probe finds the stack pointer and the sixth
//! argument.

use aya_ebpf::{
    bindings::pt_regs,
    programs::{ProbeContext, RetProbeContext},
};

/// What a return takes off the stack: the return address.
#[cfg(not(bpf_target_arch = "aarch64"))]
pub(crate) const RETURN_SLOT_BYTES: u64 = 8;
/// What a return takes off the stack: nothing, the return address is in a register.
#[cfg(bpf_target_arch = "aarch64")]
pub(crate) const RETURN_SLOT_BYTES: u64 = 0;

#[inline(always)]
fn stack_pointer(regs: *const pt_regs) -> u64 {
    // SAFETY: the kernel passes a valid register frame to a probe; the verifier checks the access.
    #[cfg(not(bpf_target_arch = "aarch64"))]
    unsafe {
        (*regs).rsp
    }
    // SAFETY: as above.
    #[cfg(bpf_target_arch = "aarch64")]
    unsafe {
        (*regs.cast::<aya_ebpf::bindings::user_pt_regs>()).sp
    }
}

/// Stack pointer at a function's entry.
#[inline(always)]
pub(crate) fn entry_stack_pointer(ctx: &ProbeContext) -> u64 {
    stack_pointer(ctx.regs)
}

/// Stack pointer after a function's return.
#[inline(always)]
pub(crate) fn return_stack_pointer(ctx: &RetProbeContext) -> u64 {
    stack_pointer(ctx.regs)
}

//! The BPF programs' ABI with user space, and the pure decision logic that both sides share.
//!
//! Everything here is `no_std` and runs on the host too, so that the decisions which the kernel
//! programs take (what an entry or a return means, which histogram bucket a duration falls into,
//! how many bytes a descriptor moves) are tested by `cargo test` without a kernel.

#![cfg_attr(not(test), no_std)]
#![expect(
    clippy::inline_always,
    reason = "BPF calls cost a frame and kernels before 5.10 know few of them; what is hot must not be one"
)]

pub mod abi;
pub mod call;
pub mod descriptor;
pub mod histogram;
pub mod inflight;
pub mod quick;
pub mod symbols;

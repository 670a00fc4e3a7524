//! The GPU test double: one simulated machine in shared memory, its front ends, and workloads that log the truth.

#![expect(
    clippy::cast_possible_truncation,
    reason = "sizes and addresses are 64 bits wide on every target (asserted below); indices are below small limits"
)]
#![expect(
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "times, powers and temperatures that are floats somewhere are positive and far below 2^52"
)]

const _: () =
    assert!(size_of::<usize>() == size_of::<u64>(), "the driver's ABI is modelled for 64-bit Linux only");

pub mod daemon;
pub mod engine;
pub mod machine;
pub mod scenario;
pub mod state;
pub mod truth;
pub mod workload;

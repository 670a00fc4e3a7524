//! The GPU test double: one simulated machine in shared memory, its front ends, and workloads that log the truth.

pub mod daemon;
pub mod engine;
pub mod machine;
pub mod scenario;
pub mod state;

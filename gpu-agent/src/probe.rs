//! The kernel probes: the BPF programs, and what user space does with them.

pub mod object;

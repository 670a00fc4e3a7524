//! A node on one machine: the release agent, real BPF programs, real cgroups, real processes on the test double.
//!
//! The agent is started as its users start it and knows nothing of the test double; what it says is compared
//! with the logs that the workloads wrote themselves.

pub mod agent;
pub mod agree;
pub mod binaries;
pub mod cgroup;
pub mod compare;
pub mod demo;
pub mod http;
pub mod machine;
pub mod metrics;
pub mod mounts;
pub mod node;
pub mod peers;
pub mod process;
pub mod summary;
pub mod wait;
pub mod workload;

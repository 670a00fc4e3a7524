//! The double as its users see it: the daemon, the library and the workloads, each in a process of its own.

mod abi;
mod library;
mod sharing;
mod support;
mod symbols;
mod workloads;

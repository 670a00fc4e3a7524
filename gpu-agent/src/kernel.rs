//! The kernel side as the agent sees it: loading, attaching, adopting and reading the BPF object.

pub mod adopt;
pub mod batch;
pub mod btf;
pub mod diagnostics;
pub mod loader;
pub mod mounts;
pub mod multi;
pub mod pins;
pub mod reader;
pub mod syscall;

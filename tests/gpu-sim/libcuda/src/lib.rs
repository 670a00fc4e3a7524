//! libcuda.so.1 with the ABI of the CUDA driver API, on the simulated machine.
//!
//! `exports` holds the entry points, one file for each group of calls: they turn C arguments into Rust values, call the
//! internal function of the same meaning, and turn its result into a `CUresult`. No entry point calls another one, so
//! that each call a program makes enters exactly one exported function, as in the real driver.

mod abi;
mod allocator;
mod array;
mod capture;
mod context;
mod copy;
mod device;
mod driver;
mod entry;
mod error;
mod event;
mod exports;
mod graph;
mod host;
mod ipc;
mod kernel;
mod launch;
mod managed;
mod memory;
mod module;
mod pool;
mod proc_address;
mod stream;
mod table;
mod virtual_memory;
mod visible;

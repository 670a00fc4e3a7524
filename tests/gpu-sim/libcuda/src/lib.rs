//! libcuda.so.1 with the ABI of the CUDA driver API, on the simulated machine.
//!
//! `exports` holds the entry points, one file for each group of calls: they turn C arguments into Rust values, call the
//! internal function of the same meaning, and turn its result into a `CUresult`. No entry point calls another one, so
//! that each call a program makes enters exactly one exported function, as in the real driver.

#![expect(
    clippy::cast_possible_truncation,
    reason = "sizes and addresses are 64 bits wide on every target, which gpu-sim asserts"
)]
#![expect(clippy::cast_precision_loss, reason = "times between events are far below 2^52 ns")]
#![expect(clippy::map_err_ignore, reason = "a CUresult is all that a caller gets to know")]

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

//! `libnvidia-ml.so.1` on the simulated machine: NVML's C ABI, NVML's error codes, and nothing that a card of the scenario
//! does not have.
//!
//! Structures and numbers come from the bindings of `nvml-wrapper-sys`, so that a layout cannot differ from what the agent
//! expects. A function that the simulated cards never support answers `NVML_ERROR_NOT_SUPPORTED`, as the driver's does.

#[macro_use]
mod abi;

mod clocks;
mod events;
mod fields;
mod gpm;
mod identity;
mod library;
mod memory;
mod mig;
mod nvlink;
mod pcie;
mod power;
mod processes;
mod reliability;
mod system;
mod topology;
mod unsupported;
mod utilization;

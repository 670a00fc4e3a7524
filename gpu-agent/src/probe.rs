//! Finding libcuda wherever a process has it, and putting the probes on it.

pub mod elf;
pub mod library;
pub mod manager;
pub mod object;
pub mod open;
pub mod overlay;
pub mod scan;

//! The compiler and linker that build the BPF programs.

pub(crate) mod choice;
pub(crate) mod detect;
pub(crate) mod remedies;

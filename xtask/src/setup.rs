//! `setup`: finds or installs what the other commands need.

pub(crate) mod bpf;
mod machine;
mod step;

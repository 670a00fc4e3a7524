//! The `gpu-sim` command.
fn main() {}

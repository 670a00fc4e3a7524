//! The `gpu-agent` command.
fn main() {}

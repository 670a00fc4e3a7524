//! Every development command of this repository.
fn main() {}

//! The BPF programs, their ABI with user space, and the pure decision logic that both share.

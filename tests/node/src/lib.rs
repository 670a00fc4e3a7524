//! Node-level tests: the release agent, real BPF programs, real cgroups, real processes on the test double.

//! The built library, loaded as programs load NVML.

#![expect(clippy::unwrap_used, reason = "in tests' helpers, a step that fails fails the test")]

mod agent;
mod presets;
mod state;
mod support;
mod symbols;

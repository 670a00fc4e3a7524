//! What leaves the agent: one snapshot of the ledger, rendered for Prometheus and pushed by OTLP.

pub mod limit;
pub mod prometheus;
pub mod snapshot;

#[cfg(test)]
mod sample;

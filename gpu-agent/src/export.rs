//! What leaves the agent: one snapshot of the ledger, rendered for Prometheus and pushed by OTLP.

pub mod limit;
pub mod otlp;
pub mod prometheus;
pub mod snapshot;

use snapshot::Snapshot;

/// Where exporters and endpoints get what they show. Its methods are called on threads that may block.
pub trait SnapshotSource: Send + Sync + 'static {
    /// Every series as it is now, with the limits on series applied.
    fn snapshot(&self) -> Snapshot;

    /// Whether the agent does its work; otherwise why not, in words for an operator.
    fn ready(&self) -> Result<(), String>;

    /// The answer of `/v1/status`.
    fn status(&self) -> serde_json::Value;
}

#[cfg(test)]
pub(crate) mod sample;

//! What became of the pushes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use gpu_api::metric::agent::{OTLP_EXPORTS, OTLP_POINTS_DROPPED};
use gpu_api::metric::attribute::{GPU_AGENT_EXPORT_DROP_REASON, GPU_AGENT_EXPORT_OUTCOME};
use gpu_api::metric::value::{ExportDropReason, ExportOutcome};

use crate::export::snapshot::{Builder, Value};

/// Counters of the exporter, which the agent puts into its snapshots.
///
/// Each counter stands for itself, so relaxed order is enough.
#[derive(Debug, Default)]
pub struct Stats {
    exports: [AtomicU64; ExportOutcome::ALL.len()],
    points_dropped: [AtomicU64; ExportDropReason::ALL.len()],
}

impl Stats {
    /// Pushes that ended in `outcome`.
    pub fn exports(&self, outcome: ExportOutcome) -> u64 {
        self.exports[outcome as usize].load(Ordering::Relaxed)
    }

    /// Points that did not reach the receiver because of `reason`.
    pub fn points_dropped(&self, reason: ExportDropReason) -> u64 {
        self.points_dropped[reason as usize].load(Ordering::Relaxed)
    }

    /// Adds the counters to a snapshot; `start` is that of the agent.
    pub fn add_to(&self, snapshot: &mut Builder, start: SystemTime) {
        for outcome in ExportOutcome::ALL {
            let attributes = vec![(&GPU_AGENT_EXPORT_OUTCOME, outcome.as_str().into())];
            snapshot.since(&OTLP_EXPORTS, attributes, start, Value::U64(self.exports(*outcome)));
        }
        for reason in ExportDropReason::ALL {
            let attributes = vec![(&GPU_AGENT_EXPORT_DROP_REASON, reason.as_str().into())];
            snapshot.since(&OTLP_POINTS_DROPPED, attributes, start, Value::U64(self.points_dropped(*reason)));
        }
    }

    pub(super) fn count(&self, outcome: ExportOutcome) {
        self.exports[outcome as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn drop_points(&self, reason: ExportDropReason, points: u64) {
        self.points_dropped[reason as usize].fetch_add(points, Ordering::Relaxed);
    }
}

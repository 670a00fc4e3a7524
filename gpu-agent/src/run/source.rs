//! What exporters and endpoints get: the latest view and the devices' readings as one snapshot.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use crate::{
    collect::view::Views,
    device,
    export::{
        SnapshotSource,
        limit::{self, SeriesLimit},
        otlp::Stats,
        snapshot::Snapshot,
    },
    report::{self, tenants::Labels},
};

/// Readings older than this many intervals are not exported, and an agent without younger ones is not ready.
const MAX_AGE_INTERVALS: u32 = 5;

/// The agent as a source of snapshots.
#[derive(Debug)]
pub(super) struct AgentSource {
    views: Arc<Views>,
    devices: Option<device::Handle>,
    stats: Arc<Stats>,
    limit: Mutex<SeriesLimit>,
    labels: Labels,
    interval: Duration,
    start: SystemTime,
}

impl AgentSource {
    pub(super) fn new(
        views: Arc<Views>,
        devices: Option<device::Handle>,
        stats: Arc<Stats>,
        limit: limit::Config,
        labels: Labels,
        interval: Duration,
        start: SystemTime,
    ) -> Self {
        Self { views, devices, stats, limit: Mutex::new(SeriesLimit::new(limit)), labels, interval, start }
    }
}

impl AgentSource {
    /// The age from which what was read says nothing about the present.
    fn max_age(&self) -> Duration {
        self.interval.saturating_mul(MAX_AGE_INTERVALS).max(Duration::from_secs(5))
    }
}

impl SnapshotSource for AgentSource {
    fn snapshot(&self) -> Snapshot {
        let view = self.views.latest();
        let time = view.as_ref().map_or_else(SystemTime::now, |view| view.time);
        let mut builder = Snapshot::builder(time);
        if let Some(view) = &view {
            report::tenants::add_to(&mut builder, view, self.labels, self.start);
            report::agent::add_to(&mut builder, view, self.labels, self.start);
        }
        if let Some(devices) = &self.devices {
            let max_age = self.max_age();
            let now = tokio::time::Instant::now();
            report::devices::add_to(&mut builder, &devices.snapshot(), now, max_age, self.start);
        }
        self.stats.add_to(&mut builder, self.start);
        let mut snapshot = builder.build();
        self.limit.lock().unwrap_or_else(PoisonError::into_inner).apply(&mut snapshot);
        snapshot
    }

    fn ready(&self) -> Result<(), String> {
        let view = self.views.latest().ok_or("the first reading has not been taken")?;
        let age = SystemTime::now().duration_since(view.time).unwrap_or_default();
        if age > self.max_age() {
            return Err(format!("the last reading was taken {} s ago", age.as_secs()));
        }
        Ok(())
    }

    fn status(&self) -> serde_json::Value {
        let devices = self.devices.as_ref().map(device::Handle::snapshot);
        let status = report::status::status(self.views.latest().as_deref(), devices.as_deref());
        // Numbers, texts and lists always have a JSON form.
        serde_json::to_value(status).unwrap_or_default()
    }
}

//! A tenant on a GPU over time, and what of it is stored between agents.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, SystemTime},
};

use serde::{Deserialize, Serialize};

use super::{GpuLabel, RowKey, totals::Totals};
use crate::tenant::Tenant;

/// A tenant on a GPU; `None` is use whose GPU could not be established.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SeriesKey {
    pub tenant: Arc<Tenant>,
    pub gpu: GpuLabel,
}

/// What is known of a series beside its living processes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Series {
    /// When its totals were zero.
    pub start: SystemTime,
    /// Boot-time clock of the last observation with a living process, in nanoseconds.
    pub last_active_ns: u64,
    /// Totals of the processes that have ended.
    pub base: Totals,
}

impl Series {
    /// A series that begins.
    pub fn starting(wall_clock: SystemTime, now_ns: u64) -> Self {
        Self { start: wall_clock, last_active_ns: now_ns, base: Totals::default() }
    }
}

/// A row whose totals are in a base, up to `totals`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettledRow {
    pub key: RowKey,
    pub totals: Totals,
}

/// A stored series.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedSeries {
    pub key: SeriesKey,
    pub series: Series,
}

/// What outlives the agent besides the kernel's maps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Saved {
    pub series: Vec<SavedSeries>,
    pub settled: Vec<SettledRow>,
    pub unseen: Vec<(Arc<Tenant>, Duration)>,
}

impl Saved {
    pub(super) fn of(
        series: &BTreeMap<SeriesKey, Series>,
        settled: &BTreeMap<RowKey, SettledRow>,
        unseen: &BTreeMap<Arc<Tenant>, Duration>,
    ) -> Self {
        let series = series
            .iter()
            .map(|(key, series)| SavedSeries { key: key.clone(), series: series.clone() })
            .collect();
        let unseen = unseen.iter().map(|(tenant, duration)| (Arc::clone(tenant), *duration)).collect();
        Self { series, settled: settled.values().cloned().collect(), unseen }
    }
}

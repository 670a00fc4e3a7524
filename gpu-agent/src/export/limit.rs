//! The limit on the number of series of a metric, and what becomes of the rest.
//!
//! What is beyond the limit is folded into one series with `otel.metric.overflow`, so that sums over all series
//! stay exact. That series must not go down when a folded tenant ends, so the limit remembers, for the folded
//! series only, how far each has been counted. Gauges have no sum: theirs are left out and counted.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::num::NonZeroUsize;
use std::time::SystemTime;

use gpu_api::metric::attribute::{GPU_AGENT_METRIC_NAME, OTEL_METRIC_OVERFLOW};
use gpu_api::metric::{Kind, agent};
use serde::Deserialize;

use super::snapshot::{Attributes, Family, Point, Snapshot, Value};

mod sum;

/// How many series a metric may have.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Series that a metric may have beside its overflow series. Default: 10 000.
    pub series_per_metric: NonZeroUsize,
    /// Limits of single metrics, by OpenTelemetry name. Default: none.
    pub metrics: BTreeMap<String, NonZeroUsize>,
}

impl Default for Config {
    fn default() -> Self {
        const SERIES: NonZeroUsize = NonZeroUsize::new(10_000).expect("10 000 is not zero");
        Self { series_per_metric: SERIES, metrics: BTreeMap::new() }
    }
}

/// A limit names a metric that does not exist.
#[derive(Debug, thiserror::Error)]
#[error(
    "`metrics.{name}`: no metric has this name; the names are in docs/metrics.md, such as `gpu.tenant.launches`"
)]
pub struct UnknownMetric {
    name: String,
}

impl Config {
    /// Checks that each limit is one of a metric in the catalogue.
    pub fn validate(&self) -> Result<(), UnknownMetric> {
        match self.metrics.keys().find(|name| !gpu_api::metric::all().any(|metric| metric.name == **name)) {
            None => Ok(()),
            Some(name) => Err(UnknownMetric { name: name.clone() }),
        }
    }

    fn limit(&self, metric: &str) -> usize {
        self.metrics.get(metric).copied().unwrap_or(self.series_per_metric).get()
    }
}

/// Applies the limits to one snapshot after another. Exporters that see different snapshots must share it.
#[derive(Debug, Default)]
pub struct SeriesLimit {
    config: Config,
    overflows: HashMap<&'static str, Overflow>,
}

/// What has been folded of one metric.
#[derive(Debug)]
struct Overflow {
    /// When the oldest folded series was zero.
    start: Option<SystemTime>,
    /// The sum of all that was ever folded; `None` where nothing can be summed.
    total: Option<Value>,
    /// The folded series that are alive, with the value up to which each is in `total`.
    folded: HashMap<Attributes, Value>,
}

impl SeriesLimit {
    pub fn new(config: Config) -> Self {
        Self { config, overflows: HashMap::new() }
    }

    /// Folds what is beyond the limits, and adds [`agent::SERIES_FOLDED`] where something is.
    ///
    /// A series that was exported is not folded later as long as series of the same age are not overtaken: the
    /// oldest are kept. One that was folded stays folded until it ends, or it would be counted twice.
    pub fn apply(&mut self, snapshot: &mut Snapshot) {
        let mut counts = Vec::new();
        for family in &mut snapshot.families {
            let name = family.descriptor.name;
            let limit = self.config.limit(name);
            if family.points.len() <= limit && !self.overflows.contains_key(name) {
                continue;
            }
            let overflow = self.overflows.entry(name).or_insert_with(Overflow::empty);
            overflow.apply(family, limit);
            if !overflow.folded.is_empty() {
                counts.push((name, overflow.folded.len() as u64));
            }
        }
        if counts.is_empty() {
            return;
        }
        let points = counts
            .into_iter()
            .map(|(name, folded)| Point {
                attributes: vec![(&GPU_AGENT_METRIC_NAME, name.into())],
                start: None,
                value: Value::U64(folded),
            })
            .collect();
        snapshot.families.push(Family { descriptor: &agent::SERIES_FOLDED, points });
    }
}

impl Overflow {
    fn empty() -> Self {
        Self { start: None, total: None, folded: HashMap::new() }
    }

    fn apply(&mut self, family: &mut Family, limit: usize) {
        let (mut folded, mut kept): (Vec<_>, Vec<_>) = std::mem::take(&mut family.points)
            .into_iter()
            .partition(|point| self.folded.contains_key(&point.attributes));
        if kept.len() > limit {
            // A stable sort: series without a start, and those of one start, keep the order of the snapshot.
            kept.sort_by_key(|point| point.start);
            folded.extend(kept.drain(limit..));
        }
        let alive: HashSet<&Attributes> = folded.iter().map(|point| &point.attributes).collect();
        self.folded.retain(|attributes, _| alive.contains(attributes));
        drop(alive);

        match family.descriptor.kind {
            Kind::Counter | Kind::Histogram => {
                for point in folded {
                    self.start = earliest(self.start, point.start);
                    let last = self.folded.insert(point.attributes, point.value.clone());
                    sum::add(&mut self.total, sum::increase(&point.value, last.as_ref()));
                }
            }
            Kind::UpDownCounter => {
                self.total = None;
                for point in folded {
                    self.start = earliest(self.start, point.start);
                    sum::add(&mut self.total, point.value.clone());
                    self.folded.insert(point.attributes, point.value);
                }
            }
            Kind::Gauge => {
                self.folded.extend(folded.into_iter().map(|point| (point.attributes, point.value)));
            }
        }
        family.points = kept;
        if let Some(total) = &self.total {
            family.points.push(Point {
                attributes: vec![(&OTEL_METRIC_OVERFLOW, "true".into())],
                start: self.start,
                value: total.clone(),
            });
        }
    }
}

fn earliest(a: Option<SystemTime>, b: Option<SystemTime>) -> Option<SystemTime> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests;

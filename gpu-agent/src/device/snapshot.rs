//! What readers get: everything that is known at one instant, immutable, with the age of each part.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::error::{DeviceError, ErrorClass};
use super::model::{Gpu, PeerLink, Platform, ProcessOnGpu};
use super::reading::Reading;
use super::utilization::{DroppedSamples, ProcessUtilization};
use super::uuid::GpuUuid;

/// Everything that is known about the GPUs of one backend.
#[derive(Debug, Clone)]
pub struct DeviceSnapshot {
    /// When it was put together.
    pub taken_at: Instant,
    /// Whether the library answers.
    pub source: SourceState,
    /// Driver and library, from the last time that it could be opened.
    pub platform: Option<Arc<Platform>>,
    /// Every GPU that was ever identified, by index.
    pub gpus: Vec<GpuState>,
    /// Slots whose GPU could not be identified, with the reason.
    pub unidentified: Vec<(u32, DeviceError)>,
    /// The ways between GPUs.
    pub topology: Arc<[PeerLink]>,
    /// What was lost and what failed.
    pub counters: DeviceCounters,
}

/// Whether the library answers.
#[derive(Debug, Clone, PartialEq)]
pub enum SourceState {
    /// It has not been asked yet.
    Starting,
    /// It is open.
    Ok,
    /// It cannot be opened, or asked to be opened again.
    Unavailable {
        /// Why.
        error: DeviceError,
        /// Attempts in a row that failed.
        failures: u32,
        /// When the next attempt is due.
        retry_at: Instant,
    },
    /// A call that concerns no single GPU has not returned.
    Hung {
        /// When it was made.
        since: Instant,
    },
}

impl SourceState {
    /// The value of an attribute.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Ok => "ok",
            Self::Unavailable { .. } => "unavailable",
            Self::Hung { .. } => "hung",
        }
    }
}

/// Whether a GPU answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GpuCondition {
    /// Its last reading succeeded.
    Ok,
    /// It could not be read, for this reason; it may come back by itself.
    Unavailable(ErrorClass),
    /// It fell off the bus, or is no longer listed.
    Lost,
    /// A call to it has not returned.
    Hung,
}

impl GpuCondition {
    /// The value of an attribute.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Unavailable(_) => "unavailable",
            Self::Lost => "lost",
            Self::Hung => "hung",
        }
    }
}

/// One GPU. What it said last is kept when it falls silent; [`GpuState::fresh_reading`] and
/// [`GpuState::fresh_processes`] give only what may be exported as present.
#[derive(Debug, Clone)]
pub struct GpuState {
    /// Who it is.
    pub gpu: Arc<Gpu>,
    /// Whether it answers.
    pub condition: GpuCondition,
    /// When it last answered anything.
    pub last_seen: Instant,
    /// Its last reading and when that was taken.
    pub reading: Option<(Instant, Arc<Reading>)>,
    /// Its last list of processes and when that was taken.
    pub processes: Option<(Instant, Arc<[ProcessOnGpu]>)>,
    /// Utilisation samples of the configured window, oldest first. A sample is in many snapshots in a row: a reader that
    /// wants each once remembers the last timestamp of each GPU.
    pub utilization: Arc<[ProcessUtilization]>,
    /// XIDs by code. The library's queue loses some of a burst: the kernel's own report is the better source.
    pub xids: BTreeMap<u64, XidCount>,
}

/// How often an XID was reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct XidCount {
    /// Since the agent started.
    pub count: u64,
    /// The last time.
    pub last_seen: Instant,
}

impl GpuState {
    /// The reading, if the GPU answers and it is not older than `max_age`.
    pub fn fresh_reading(&self, now: Instant, max_age: Duration) -> Option<&Reading> {
        let (taken_at, reading) = self.reading.as_ref()?;
        self.is_fresh(*taken_at, now, max_age).then_some(reading)
    }

    /// The list of processes, if the GPU answers and it is not older than `max_age`. `None` is "not known", which is not
    /// the same as an empty list.
    pub fn fresh_processes(&self, now: Instant, max_age: Duration) -> Option<&[ProcessOnGpu]> {
        let (taken_at, processes) = self.processes.as_ref()?;
        self.is_fresh(*taken_at, now, max_age).then_some(processes)
    }

    fn is_fresh(&self, taken_at: Instant, now: Instant, max_age: Duration) -> bool {
        self.condition == GpuCondition::Ok && now.saturating_duration_since(taken_at) <= max_age
    }
}

impl DeviceSnapshot {
    /// A snapshot of nothing, before the library was asked.
    pub fn empty(now: Instant) -> Self {
        Self {
            taken_at: now,
            source: SourceState::Starting,
            platform: None,
            gpus: Vec::new(),
            unidentified: Vec::new(),
            topology: Arc::new([]),
            counters: DeviceCounters::default(),
        }
    }

    /// The state of one GPU.
    pub fn gpu(&self, uuid: &GpuUuid) -> Option<&GpuState> {
        self.gpus.iter().find(|state| state.gpu.uuid == *uuid)
    }

    /// Every process on every GPU whose list is not older than `max_age`.
    pub fn fresh_processes(&self, now: Instant, max_age: Duration) -> impl Iterator<Item = &ProcessOnGpu> {
        self.gpus.iter().filter_map(move |state| state.fresh_processes(now, max_age)).flatten()
    }
}

/// Counters since the agent started.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeviceCounters {
    /// Calls that did not return within the deadline.
    pub timeouts: u64,
    /// Calls that returned after they had been given up.
    pub late_returns: u64,
    /// Threads that wait in a call that has not returned.
    pub hung_threads: u64,
    /// Times that the library was opened again.
    pub reinitialisations: u64,
    /// Failed calls by cause; values that a GPU does not have are not counted.
    pub errors: BTreeMap<ErrorClass, u64>,
    /// Utilisation samples that were not used.
    pub dropped_samples: DroppedSamples,
}

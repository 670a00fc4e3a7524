//! The GPUs under supervision: who is in which slot, what each said last, and what is due.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::{DeviceConfig, Job};
use crate::device::backend::{Activity, DeviceEvent};
use crate::device::error::{DeviceError, ErrorClass, Reaction};
use crate::device::model::{Gpu, PeerLink, ProcessOnGpu};
use crate::device::reading::Reading;
use crate::device::snapshot::{GpuCondition, GpuState, XidCount};
use crate::device::utilization::{DroppedSamples, ProcessUtilization, SampleFilter};
use crate::device::uuid::GpuUuid;

/// The XID under which an event without a number is counted; NVML's header uses it the same way.
const XID_UNKNOWN: u64 = 999;

#[derive(Debug)]
pub(super) struct Gpus {
    config: DeviceConfig,
    tracked: BTreeMap<GpuUuid, Tracked>,
    unidentified: BTreeMap<u32, DeviceError>,
    links: BTreeMap<GpuUuid, Vec<PeerLink>>,
}

#[derive(Debug)]
struct Tracked {
    /// Its place in the current session; `None` while it is not in it.
    slot: Option<u32>,
    gpu: Arc<Gpu>,
    condition: GpuCondition,
    last_seen: Instant,
    reading: Option<(Instant, Arc<Reading>)>,
    processes: Option<(Instant, Arc<[ProcessOnGpu]>)>,
    filter: SampleFilter,
    samples: VecDeque<ProcessUtilization>,
    xids: BTreeMap<u64, XidCount>,
    reading_at: Instant,
    activity_at: Instant,
}

impl Gpus {
    pub(super) fn new(config: DeviceConfig) -> Self {
        Self { config, tracked: BTreeMap::new(), unidentified: BTreeMap::new(), links: BTreeMap::new() }
    }

    /// A session was opened. Slots are handed out anew, except those whose call still hangs.
    pub(super) fn begin_session(&mut self, quarantined: &[u32]) {
        self.unidentified.retain(|slot, _| quarantined.contains(slot));
        for tracked in self.tracked.values_mut() {
            if tracked.slot.is_none_or(|slot| !quarantined.contains(&slot)) {
                tracked.slot = None;
            }
        }
    }

    pub(super) fn identified(&mut self, now: Instant, slot: u32, gpu: Gpu) {
        let gpu = Arc::new(gpu);
        let tracked = self.tracked.entry(gpu.uuid.clone()).or_insert_with(|| Tracked {
            slot: None,
            gpu: Arc::clone(&gpu),
            condition: GpuCondition::Ok,
            last_seen: now,
            reading: None,
            processes: None,
            filter: SampleFilter::default(),
            samples: VecDeque::new(),
            xids: BTreeMap::new(),
            reading_at: now,
            activity_at: now,
        });
        tracked.slot = Some(slot);
        tracked.gpu = gpu;
        tracked.last_seen = now;
        tracked.condition = match tracked.condition {
            // The one that was denied must prove itself by a reading: identity often still answers.
            GpuCondition::Unavailable(class) if class.reaction() == Reaction::SuspectAccess => {
                tracked.condition
            }
            _ => GpuCondition::Ok,
        };
        tracked.reading_at = tracked.reading_at.min(now);
        tracked.activity_at = tracked.activity_at.min(now);
    }

    pub(super) fn unidentified(&mut self, slot: u32, error: DeviceError) {
        self.unidentified.insert(slot, error);
    }

    /// All slots were asked: a GPU that is in none of them is gone. Says whether there is one.
    pub(super) fn forget_unlisted(&mut self) -> bool {
        let mut any = false;
        for tracked in self.tracked.values_mut().filter(|tracked| tracked.slot.is_none()) {
            tracked.condition = GpuCondition::Lost;
            any = true;
        }
        any
    }

    pub(super) fn linked(&mut self, slot: u32, links: Vec<PeerLink>) {
        if let Some(uuid) = self.in_slot(slot).map(|tracked| tracked.gpu.uuid.clone()) {
            self.links.insert(uuid, links);
        }
    }

    pub(super) fn read(&mut self, now: Instant, slot: u32, reading: Reading) {
        if let Some(tracked) = self.in_slot(slot) {
            tracked.condition = GpuCondition::Ok;
            tracked.last_seen = now;
            tracked.reading = Some((now, Arc::new(reading)));
        }
    }

    pub(super) fn active(&mut self, now: Instant, slot: u32, activity: Activity) -> DroppedSamples {
        let window_us = u64::try_from(self.config.utilization_window.as_micros()).unwrap_or(u64::MAX);
        let Some(tracked) = self.in_slot(slot) else { return DroppedSamples::default() };
        tracked.last_seen = now;
        if let Some(processes) = activity.processes {
            tracked.processes = Some((now, processes.into()));
        }
        let (samples, dropped) = tracked.filter.accept(&tracked.gpu.uuid, &activity.samples, activity.now_us);
        tracked.samples.extend(samples);
        let oldest_us = activity.now_us.saturating_sub(window_us);
        tracked.samples.retain(|sample| sample.timestamp_us >= oldest_us);
        dropped
    }

    pub(super) fn report(&mut self, now: Instant, events: &[DeviceEvent]) {
        for event in events {
            let Some(tracked) = event.gpu.as_ref().and_then(|uuid| self.tracked.get_mut(uuid)) else {
                continue;
            };
            let xid = tracked
                .xids
                .entry(event.xid.unwrap_or(XID_UNKNOWN))
                .or_insert(XidCount { count: 0, last_seen: now });
            xid.count += 1;
            xid.last_seen = now;
        }
    }

    pub(super) fn fail(&mut self, slot: u32, class: ErrorClass) {
        let Some(tracked) = self.in_slot(slot) else { return };
        match class.reaction() {
            Reaction::LoseDevice => tracked.condition = GpuCondition::Lost,
            Reaction::SuspectAccess | Reaction::Reinitialise => {
                tracked.condition = GpuCondition::Unavailable(class);
            }
            Reaction::OmitValue | Reaction::Retry => {}
        }
    }

    pub(super) fn hang(&mut self, slot: u32) {
        match self.in_slot(slot) {
            Some(tracked) => tracked.condition = GpuCondition::Hung,
            None => {
                self.unidentified.insert(slot, DeviceError::bare("identify", ErrorClass::Hung));
            }
        }
    }

    pub(super) fn hang_all(&mut self) {
        self.set_all(GpuCondition::Hung);
    }

    /// The library was closed: nobody answers.
    pub(super) fn suspend(&mut self, class: ErrorClass) {
        self.set_all(GpuCondition::Unavailable(class));
    }

    fn set_all(&mut self, condition: GpuCondition) {
        for tracked in self.tracked.values_mut() {
            // A GPU that was lost before stays so: that it fell off the bus is the more useful thing to know.
            if tracked.condition != GpuCondition::Lost {
                tracked.condition = condition;
            }
        }
    }

    /// The job that has been due for longest; its next time is set.
    pub(super) fn due(&mut self, now: Instant) -> Option<Job> {
        let DeviceConfig { reading_interval, process_interval, .. } = self.config;
        let tracked = self
            .tracked
            .values_mut()
            .filter(|tracked| tracked.is_asked() && tracked.next_due() <= now)
            .min_by_key(|tracked| tracked.next_due())?;
        let slot = tracked.slot?;
        if tracked.activity_at <= tracked.reading_at {
            tracked.activity_at = following(tracked.activity_at, process_interval, now);
            Some(Job::Activity { slot, since_us: tracked.filter.last_timestamp_us() })
        } else {
            tracked.reading_at = following(tracked.reading_at, reading_interval, now);
            Some(Job::Read(slot))
        }
    }

    pub(super) fn next_due(&self) -> Option<Instant> {
        self.tracked.values().filter(|tracked| tracked.is_asked()).map(Tracked::next_due).min()
    }

    pub(super) fn all_ok(&self) -> bool {
        self.unidentified.is_empty()
            && self.tracked.values().all(|tracked| tracked.condition == GpuCondition::Ok)
    }

    pub(super) fn states(&self) -> Vec<GpuState> {
        let mut states: Vec<GpuState> = self.tracked.values().map(Tracked::state).collect();
        states.sort_by_key(|state| state.gpu.index);
        states
    }

    pub(super) fn unidentified_slots(&self) -> Vec<(u32, DeviceError)> {
        self.unidentified.iter().map(|(slot, error)| (*slot, error.clone())).collect()
    }

    pub(super) fn topology(&self) -> Arc<[PeerLink]> {
        self.links.values().flatten().cloned().collect()
    }

    fn in_slot(&mut self, slot: u32) -> Option<&mut Tracked> {
        self.tracked.values_mut().find(|tracked| tracked.slot == Some(slot))
    }
}

impl Tracked {
    fn is_asked(&self) -> bool {
        self.slot.is_some() && !matches!(self.condition, GpuCondition::Hung | GpuCondition::Lost)
    }

    fn next_due(&self) -> Instant {
        self.reading_at.min(self.activity_at)
    }

    fn state(&self) -> GpuState {
        GpuState {
            gpu: Arc::clone(&self.gpu),
            condition: self.condition,
            last_seen: self.last_seen,
            reading: self.reading.clone(),
            processes: self.processes.clone(),
            utilization: self.samples.iter().cloned().collect(),
            xids: self.xids.clone(),
        }
    }
}

/// The next time in a series; times that were missed are not made up for.
fn following(last: Instant, interval: Duration, now: Instant) -> Instant {
    let next = last + interval;
    if next > now { next } else { now + interval }
}

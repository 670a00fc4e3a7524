//! A machine of GPUs that fail on request, as a backend for tests.
#![cfg(test)]

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;

use super::backend::{Activity, DeviceEvent, GpuBackend, Session};
use super::error::{DeviceError, ErrorClass};
use super::model::{Gpu, PeerLink, Platform, ProcessKind, ProcessOnGpu};
use super::reading::{Memory, Reading};
use super::utilization::RawUtilization;
use super::uuid::GpuUuid;

/// The clock of the samples.
pub(super) const NOW_US: u64 = 1_800_000_000_000_000;

/// A machine whose library and GPUs can be broken and mended at any time; clones share it.
#[derive(Clone)]
pub(super) struct FakeMachine {
    inner: Arc<Mutex<Inner>>,
    /// What does not answer: a slot, or `None` for the calls that concern no single GPU.
    hanging: watch::Sender<BTreeSet<Option<u32>>>,
    call_time: Duration,
}

struct Inner {
    library: Option<ErrorClass>,
    gpus: Vec<FakeGpu>,
    events: VecDeque<DeviceEvent>,
    calls: BTreeMap<(&'static str, Option<u32>), u32>,
}

#[derive(Clone)]
struct FakeGpu {
    uuid: GpuUuid,
    fault: Option<ErrorClass>,
    samples: Vec<RawUtilization>,
    panics: bool,
}

pub(super) fn uuid(slot: u8) -> GpuUuid {
    GpuUuid::from_bytes([slot; 16])
}

impl FakeMachine {
    pub(super) fn new(gpus: u8) -> Self {
        let gpus = (0..gpus)
            .map(|slot| FakeGpu { uuid: uuid(slot), fault: None, samples: Vec::new(), panics: false })
            .collect();
        let inner = Inner { library: None, gpus, events: VecDeque::new(), calls: BTreeMap::new() };
        Self {
            inner: Arc::new(Mutex::new(inner)),
            hanging: watch::Sender::new(BTreeSet::new()),
            call_time: Duration::ZERO,
        }
    }

    /// The same machine, each of whose calls takes this long.
    pub(super) fn slowed(self, call_time: Duration) -> Self {
        Self { call_time, ..self }
    }

    pub(super) fn break_library(&self, class: ErrorClass) {
        self.lock().library = Some(class);
    }

    pub(super) fn mend_library(&self) {
        self.lock().library = None;
    }

    pub(super) fn break_gpu(&self, slot: usize, class: ErrorClass) {
        self.lock().gpus[slot].fault = Some(class);
    }

    pub(super) fn mend_gpu(&self, slot: usize) {
        self.lock().gpus[slot].fault = None;
    }

    pub(super) fn panic_on(&self, slot: usize) {
        self.lock().gpus[slot].panics = true;
    }

    pub(super) fn remove_last_gpu(&self) {
        self.lock().gpus.pop();
    }

    pub(super) fn sample(&self, slot: usize, samples: Vec<RawUtilization>) {
        self.lock().gpus[slot].samples = samples;
    }

    pub(super) fn report(&self, event: DeviceEvent) {
        self.lock().events.push_back(event);
    }

    pub(super) fn hang(&self, what: Option<u32>) {
        self.hanging.send_modify(|hanging| {
            hanging.insert(what);
        });
    }

    pub(super) fn release(&self, what: Option<u32>) {
        self.hanging.send_modify(|hanging| {
            hanging.remove(&what);
        });
    }

    /// Returns when a call about `what` returns.
    pub(super) async fn answers(&self, what: Option<u32>) {
        let mut hanging = self.hanging.subscribe();
        sleep(self.call_time).await;
        hanging.wait_for(|hanging| !hanging.contains(&what)).await.expect("the machine owns the sender");
    }

    /// How often a call was made.
    pub(super) fn calls(&self, name: &'static str, slot: Option<u32>) -> u32 {
        self.lock().calls.get(&(name, slot)).copied().unwrap_or(0)
    }

    pub(super) fn open(&self) -> Result<FakeSession, DeviceError> {
        self.count("open", None);
        match self.lock().library {
            Some(class) => Err(DeviceError::bare("fakeInit", class)),
            None => Ok(FakeSession { machine: self.clone() }),
        }
    }

    fn count(&self, name: &'static str, slot: Option<u32>) {
        *self.lock().calls.entry((name, slot)).or_default() += 1;
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl GpuBackend for FakeMachine {
    fn name(&self) -> &'static str {
        "fake"
    }

    fn with_session(&self, serve: &mut dyn FnMut(&mut dyn Session)) -> Result<(), DeviceError> {
        serve(&mut self.open()?);
        Ok(())
    }
}

pub(super) struct FakeSession {
    machine: FakeMachine,
}

impl FakeSession {
    fn gpu(&self, call: &'static str, slot: u32) -> Result<FakeGpu, DeviceError> {
        self.machine.count(call, Some(slot));
        let inner = self.machine.lock();
        let gpu = inner.gpus.get(slot as usize).cloned();
        if let Some(class) = inner.library.or(gpu.as_ref().and_then(|gpu| gpu.fault)) {
            return Err(DeviceError::bare(call, class));
        }
        gpu.ok_or(DeviceError::bare(call, ErrorClass::NotSupported))
    }
}

impl Session for FakeSession {
    fn platform(&mut self) -> Result<Platform, DeviceError> {
        let gpu_count = u32::try_from(self.machine.lock().gpus.len()).expect("a small number");
        Ok(Platform { driver_version: Some("570.86.15".to_owned()), gpu_count, ..Platform::default() })
    }

    fn identify(&mut self, slot: u32) -> Result<Gpu, DeviceError> {
        Ok(Gpu::new(self.gpu("identify", slot)?.uuid, slot))
    }

    fn links(&mut self, slot: u32) -> Result<Vec<PeerLink>, DeviceError> {
        let from = self.gpu("links", slot)?.uuid;
        let inner = self.machine.lock();
        let peers = inner.gpus.iter().filter(|gpu| gpu.uuid != from).map(|gpu| PeerLink {
            from: from.clone(),
            to: gpu.uuid.clone(),
            pcie: None,
            nvlinks: Some(0),
            through_switch: false,
            nvlink_bytes_per_second: None,
            peer_read: None,
        });
        Ok(peers.collect())
    }

    fn read(&mut self, slot: u32) -> Result<Reading, DeviceError> {
        let gpu = self.gpu("read", slot)?;
        assert!(!gpu.panics, "asked to");
        Ok(Reading {
            memory: Memory { used_bytes: Some(u64::from(slot)), ..Memory::default() },
            ..Reading::default()
        })
    }

    fn activity(&mut self, slot: u32, since_us: u64) -> Result<Activity, DeviceError> {
        let gpu = self.gpu("activity", slot)?;
        let process = ProcessOnGpu {
            gpu: gpu.uuid,
            pid: 100 + slot,
            kind: ProcessKind::Compute,
            used_memory_bytes: Some(1 << 20),
        };
        let samples = gpu.samples.into_iter().filter(|sample| sample.timestamp_us > since_us).collect();
        Ok(Activity { processes: Some(vec![process]), samples, now_us: NOW_US, errors: BTreeMap::new() })
    }

    fn events(&mut self) -> Result<Vec<DeviceEvent>, DeviceError> {
        self.machine.count("events", None);
        Ok(self.machine.lock().events.drain(..).collect())
    }
}

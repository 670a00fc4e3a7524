//! An open NVML, and what is remembered of each GPU between two calls.

use std::time::{SystemTime, UNIX_EPOCH};

use nvml_wrapper::bitmasks::event::EventTypes;
use nvml_wrapper::enums::event::XidError;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, EventSet, Nvml};

use super::classify::failed;
use super::gpm::Gpm;
use super::inventory::Place;
use super::links::{FarEnds, LinkErrors};
use super::{inventory, links, processes, readings};
use crate::device::backend::{Activity, DeviceEvent, Session};
use crate::device::error::{DeviceError, ErrorClass};
use crate::device::model::{Gpu, PeerLink, Platform};
use crate::device::reading::Reading;
use crate::device::uuid::GpuUuid;

/// Critical errors taken from the driver's queue at once. A GPU that reports without end must not hold the thread.
const EVENTS_PER_CALL_MAX: usize = 256;

/// An open NVML.
pub(super) struct NvmlSession<'nvml> {
    pub(super) nvml: &'nvml Nvml,
    pub(super) slots: Vec<Option<Slot<'nvml>>>,
    events: Option<EventSet<'nvml>>,
}

/// A GPU of this session.
pub(super) struct Slot<'nvml> {
    pub(super) device: Device<'nvml>,
    pub(super) uuid: GpuUuid,
    pub(super) pci: Option<Place>,
    pub(super) gpm: Gpm<'nvml>,
    pub(super) link_errors: LinkErrors,
    /// As they were when the GPU was identified.
    pub(super) far_ends: FarEnds,
}

impl<'nvml> NvmlSession<'nvml> {
    pub(super) fn new(nvml: &'nvml Nvml) -> Self {
        Self { nvml, slots: Vec::new(), events: None }
    }

    fn slot(&mut self, slot: u32) -> Result<&mut Slot<'nvml>, DeviceError> {
        self.slots
            .get_mut(slot as usize)
            .and_then(Option::as_mut)
            .ok_or(DeviceError::bare("nvmlDeviceGetHandleByIndex_v2", ErrorClass::Transient))
    }

    /// Adds a GPU to the set whose events are waited for. A GPU that cannot report is not an error.
    fn register_events(&mut self, device: &Device<'nvml>) {
        let wanted = EventTypes::CRITICAL_XID_ERROR;
        if !device.supported_event_types().is_ok_and(|types| types.contains(wanted)) {
            return;
        }
        let Some(set) = self.events.take().or_else(|| self.nvml.create_event_set().ok()) else { return };
        match device.register_events(wanted, set) {
            Ok(set) => self.events = Some(set),
            // The wrapper frees the set, and with it the GPUs that were registered before.
            Err(error) => {
                tracing::warn!(%error, "Cannot register for a GPU's critical errors; NVML reports none in this session.");
            }
        }
    }
}

impl Session for NvmlSession<'_> {
    fn platform(&mut self) -> Result<Platform, DeviceError> {
        inventory::platform(self.nvml)
    }

    fn identify(&mut self, slot: u32) -> Result<Gpu, DeviceError> {
        let device = self.nvml.device_by_index(slot).map_err(failed("nvmlDeviceGetHandleByIndex_v2"))?;
        let (gpu, pci) = inventory::gpu(&device, slot)?;
        self.register_events(&device);
        let position = slot as usize;
        if self.slots.len() <= position {
            self.slots.resize_with(position + 1, || None);
        }
        self.slots[position] = Some(Slot {
            gpm: Gpm::new(&device),
            link_errors: LinkErrors::default(),
            far_ends: FarEnds::of(self.nvml, &device),
            uuid: gpu.uuid.clone(),
            device,
            pci,
        });
        Ok(gpu)
    }

    fn links(&mut self, slot: u32) -> Result<Vec<PeerLink>, DeviceError> {
        self.slot(slot)?;
        links::peers(self.nvml, &self.slots, slot as usize)
    }

    fn read(&mut self, slot: u32) -> Result<Reading, DeviceError> {
        let nvml = self.nvml;
        readings::read(nvml, self.slot(slot)?)
    }

    fn activity(&mut self, slot: u32, since_us: u64) -> Result<Activity, DeviceError> {
        let slot = self.slot(slot)?;
        processes::activity(&slot.device, &slot.uuid, since_us, unix_now_us())
    }

    fn events(&mut self) -> Result<Vec<DeviceEvent>, DeviceError> {
        const CALL: &str = "nvmlEventSetWait_v2";
        let Some(set) = &self.events else { return Err(DeviceError::bare(CALL, ErrorClass::NotSupported)) };
        let mut events = Vec::new();
        while events.len() < EVENTS_PER_CALL_MAX {
            match set.wait(0) {
                Ok(event) => events.push(DeviceEvent {
                    gpu: event.device.uuid().ok().and_then(|uuid| GpuUuid::parse(&uuid).ok()),
                    xid: match event.event_data {
                        Some(XidError::Value(xid)) => Some(xid),
                        Some(XidError::Unknown) | None => None,
                    },
                }),
                Err(NvmlError::Timeout) => break,
                // What was taken from the queue must not be lost with a later error, which comes again.
                Err(_) if !events.is_empty() => break,
                Err(error) => return Err(failed(CALL)(error)),
            }
        }
        Ok(events)
    }
}

fn unix_now_us() -> u64 {
    // A clock before 1970 makes every sample one of the future: they are counted as such.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_micros()).unwrap_or(u64::MAX)
}

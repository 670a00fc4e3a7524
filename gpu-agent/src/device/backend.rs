//! The trait behind which each vendor's library stands.

use std::collections::BTreeMap;

use super::error::{DeviceError, ErrorClass};
use super::model::{Gpu, PeerLink, Platform, ProcessOnGpu};
use super::reading::Reading;
use super::utilization::RawUtilization;
use super::uuid::GpuUuid;

/// A vendor's management library.
///
/// It is shared by the threads that the worker starts: when a call hangs, its thread is given up and another one opens a
/// session of its own.
pub trait GpuBackend: Send + Sync + 'static {
    /// The backend's name in logs and attributes, for example `nvml`.
    fn name(&self) -> &'static str;

    /// Opens the library and hands a session to `serve`, which returns when the session is to be closed.
    ///
    /// An error means that `serve` was not called. The session lives within the call because what a library hands out
    /// (devices, samples, event sets) borrows from the library.
    fn with_session(&self, serve: &mut dyn FnMut(&mut dyn Session)) -> Result<(), DeviceError>;
}

/// An open library. Each method may block for as long as the driver likes.
///
/// A slot is a position in this session's order, from 0 up to [`Platform::gpu_count`].
pub trait Session {
    /// Versions and the number of GPUs.
    fn platform(&mut self) -> Result<Platform, DeviceError>;

    /// Who is in a slot. Comes before every other call with that slot.
    fn identify(&mut self, slot: u32) -> Result<Gpu, DeviceError>;

    /// The ways from this GPU to every other one that this session has identified.
    fn links(&mut self, slot: u32) -> Result<Vec<PeerLink>, DeviceError>;

    /// One sample. Values that the GPU does not have are absent; an error means that no value could be had.
    fn read(&mut self, slot: u32) -> Result<Reading, DeviceError>;

    /// Who uses the GPU, and the utilisation samples that are newer than `since_us` (as far as the driver keeps to it).
    fn activity(&mut self, slot: u32, since_us: u64) -> Result<Activity, DeviceError>;

    /// Critical errors since the last call, without waiting for any.
    fn events(&mut self) -> Result<Vec<DeviceEvent>, DeviceError>;
}

/// Who uses a GPU at one instant.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Activity {
    /// Processes with a context; `None` where the list could not be had.
    pub processes: Option<Vec<ProcessOnGpu>>,
    /// Utilisation samples, unfiltered.
    pub samples: Vec<RawUtilization>,
    /// Lists that should have been there and were not, by cause.
    pub errors: BTreeMap<ErrorClass, u32>,
    /// The clock against which the samples' timestamps are checked, in microseconds since the Unix epoch.
    pub now_us: u64,
}

/// A critical error that a GPU reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceEvent {
    /// The GPU, where the driver says which.
    pub gpu: Option<GpuUuid>,
    /// The XID; `None` where the driver only says that there was one.
    pub xid: Option<u64>,
}

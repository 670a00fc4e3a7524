//! GPU devices: inventory, readings, process lists and faults, read on a thread that may hang without hurting anyone.
//!
//! A [`backend::GpuBackend`] talks to one vendor's library. The [`supervisor`] decides, without any I/O, what is asked next,
//! when a call counts as hung, and when the library is opened again. The [`worker`] joins the two and publishes a
//! [`DeviceSnapshot`] that readers take without waiting:
//!
//! ```text
//! readers ◄── watch<Arc<DeviceSnapshot>> ◄── worker task ⇄ supervisor (pure)
//!                                              │ jobs, deadline
//!                                              ▼
//!                                            thread ── Session ── libnvidia-ml.so.1
//! ```
//!
//! Architecture invariant: no code outside the worker's thread calls a vendor library, and a value that the library did
//! not give is absent, never 0.

pub mod backend;
pub mod error;
pub mod model;
pub mod nvml;
pub mod reading;
pub mod sentinel;
pub mod snapshot;
pub mod supervisor;
pub mod utilization;
pub mod uuid;
pub mod worker;

mod backoff;
mod fake;

pub use error::{DeviceError, ErrorClass, Reaction};
pub use model::{Gpu, PcieAncestor, PeerLink, Platform, ProcessKind, ProcessOnGpu};
pub use reading::Reading;
pub use snapshot::{DeviceSnapshot, GpuCondition, GpuState, SourceState};
pub use utilization::ProcessUtilization;
pub use uuid::GpuUuid;
pub use worker::{DeviceConfig, Handle, spawn};

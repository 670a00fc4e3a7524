//! Keeps the truth log while a workload runs.

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{Mutex, MutexGuard, PoisonError},
};

use super::WorkloadError;
use crate::truth::{CallClass, GpuTruth, MemoryKind, Truth, UNKNOWN_GPU};

/// What an allocation is known by: addresses, arrays and handles are different spaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Name {
    Address(u64),
    Array(u64),
    Physical(u64),
    Registered(u64),
}

/// A live allocation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub(super) kind: MemoryKind,
    pub(super) bytes: u64,
    /// Index of the GPU in the log.
    pub(super) gpu: usize,
    /// Handle of the context that it ends with.
    pub(super) context: u64,
}

/// The log of this process.
#[derive(Debug)]
pub(super) struct Log {
    workload: String,
    path: Option<PathBuf>,
    /// UUIDs and what was done there; index 0 is what belongs to no GPU.
    gpus: Mutex<Vec<(String, GpuTruth)>>,
    held: Mutex<HashMap<Name, Held>>,
}

/// Index of what belongs to no GPU.
pub(super) const UNKNOWN: usize = 0;

impl Log {
    pub(super) fn new(workload: String, path: Option<PathBuf>) -> Self {
        let unknown = (UNKNOWN_GPU.to_owned(), GpuTruth::default());
        Self { workload, path, gpus: Mutex::new(vec![unknown]), held: Mutex::default() }
    }

    /// The index of the GPU with this UUID.
    pub(super) fn gpu(&self, uuid: &str) -> usize {
        let mut gpus = lock(&self.gpus);
        if let Some(index) = gpus.iter().position(|(known, _)| known == uuid) {
            return index;
        }
        gpus.push((uuid.to_owned(), GpuTruth::default()));
        gpus.len() - 1
    }

    /// Changes what is logged for a GPU.
    pub(super) fn count(&self, gpu: usize, change: impl FnOnce(&mut GpuTruth)) {
        if let Some((_, truth)) = lock(&self.gpus).get_mut(gpu) {
            change(truth);
        }
    }

    /// Logs a failed call.
    pub(super) fn failed(&self, gpu: usize, class: CallClass, name: &str) {
        self.count(gpu, |truth| truth.failed(class, name));
    }

    /// Logs an allocation.
    pub(super) fn allocated(&self, name: Name, held: Held) {
        lock(&self.held).insert(name, held);
        self.count(held.gpu, |truth| truth.allocated(held.kind, held.bytes));
    }

    /// Makes a call that frees an allocation, and logs the free where the memory was allocated if the call succeeds.
    ///
    /// The name is given up before the call: as soon as the call has freed the memory, another thread can get the same
    /// address for an allocation of its own.
    pub(super) fn free(
        &self,
        name: Name,
        call: impl FnOnce() -> Result<(), WorkloadError>,
    ) -> Result<(), WorkloadError> {
        let held: Vec<(Name, Held)> = lock(&self.held).remove_entry(&name).into_iter().collect();
        self.free_all(held, call)
    }

    /// The same for a call that ends a context, and with it everything in it. Physical memory belongs to no context.
    pub(super) fn end_context(
        &self,
        context: u64,
        call: impl FnOnce() -> Result<(), WorkloadError>,
    ) -> Result<(), WorkloadError> {
        let held = lock(&self.held)
            .extract_if(|name, held| {
                held.context == context && !matches!(name, Name::Physical(_) | Name::Registered(_))
            })
            .collect();
        self.free_all(held, call)
    }

    fn free_all(
        &self,
        held: Vec<(Name, Held)>,
        call: impl FnOnce() -> Result<(), WorkloadError>,
    ) -> Result<(), WorkloadError> {
        let result = call();
        if result.is_err() {
            lock(&self.held).extend(held);
            return result;
        }
        for (_, Held { kind, bytes, gpu, .. }) in held {
            self.count(gpu, |truth| truth.freed(kind, bytes));
        }
        result
    }

    /// Everything that is held.
    pub(super) fn all_held(&self) -> Vec<(Name, Held)> {
        lock(&self.held).iter().map(|(name, held)| (*name, *held)).collect()
    }

    /// The log as it is now.
    pub(super) fn truth(&self, complete: bool) -> Truth {
        let gpus = lock(&self.gpus);
        let used = gpus.iter().filter(|(_, truth)| *truth != GpuTruth::default());
        Truth {
            pid: std::process::id(),
            workload: self.workload.clone(),
            complete,
            gpus: used.cloned().collect(),
        }
    }

    /// Writes the log, where it is wanted.
    pub(super) fn write(&self, complete: bool) -> Result<(), WorkloadError> {
        let Some(path) = &self.path else { return Ok(()) };
        self.truth(complete).write(path).map_err(|source| WorkloadError::Write { path: path.clone(), source })
    }

    /// Where the log goes.
    pub(super) fn path(&self) -> Option<&PathBuf> {
        self.path.as_ref()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

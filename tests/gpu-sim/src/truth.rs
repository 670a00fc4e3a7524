//! The truth log: exactly what a workload called, and what each call returned.
//!
//! A workload writes it from its own point of view. Only successful calls count as launches, allocations, copies and so
//! on; a failed call counts as an error of its class, and as nothing else. Queries that succeed are not logged.
//!
//! - Bytes of an allocation are what was requested: pitch x height as returned for pitched memory; width x height x
//!   depth x channels x element size for arrays, where a height or depth of 0 counts as 1; the size for cuMemCreate.
//! - Freeing a null pointer counts as nothing. An implicit free (its context is destroyed or reset, or the last
//!   reference to a primary context is released) counts as a free. Memory counts where it was allocated, whichever thread
//!   or context frees it.
//! - A copy whose call names no direction (cuMemcpy, cuMemcpyAsync, batch copies) is `unified`; one by a call that names
//!   an array is `array`; 2D and 3D copies go by the memory types in the descriptor, where `array` and then `unified`
//!   prevail. A batch is one call with the sum of its sizes.
//! - A call belongs to the GPU of the context that was current; to `unknown` where there was none.

use std::{collections::BTreeMap, fs, io, path::Path};

use serde::{Deserialize, Serialize};

pub use crate::machine::counters::{CopyKind, MemoryKind};

/// Key of what belongs to no GPU.
pub const UNKNOWN_GPU: &str = "unknown";

/// One process's log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Truth {
    /// Pid in the process's own PID namespace.
    pub pid: u32,
    /// Name of the workload.
    pub workload: String,
    /// Whether the process is done: nothing follows. `false` in the logs that are written on the way, and for a
    /// workload that ends without warning.
    pub complete: bool,
    /// By UUID as NVML prints it, or [`UNKNOWN_GPU`].
    pub gpus: BTreeMap<String, GpuTruth>,
}

/// What was done on one GPU. Kinds that never occurred are absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuTruth {
    pub launches: u64,
    pub graph_launches: u64,
    pub memory: BTreeMap<MemoryKind, MemoryTruth>,
    pub copies: BTreeMap<CopyKind, TrafficTruth>,
    pub memset: TrafficTruth,
    pub synchronize: CallTruth,
    /// By class of call, then by name of the result.
    pub errors: BTreeMap<CallClass, BTreeMap<String, u64>>,
}

/// One kind of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryTruth {
    pub allocations: u64,
    pub allocated_bytes: u64,
    pub frees: u64,
    pub freed_bytes: u64,
    /// Allocated and not freed. At the end of a process: just before it ended.
    pub held_bytes: u64,
}

/// Calls that move or set bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrafficTruth {
    pub calls: u64,
    pub bytes: u64,
}

/// Calls without a size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallTruth {
    pub calls: u64,
}

/// Classes by which failed calls are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallClass {
    Launch,
    GraphLaunch,
    Alloc,
    Free,
    Copy,
    Memset,
    Synchronize,
    /// cuInit, and calls that make, destroy, retain, release or select contexts.
    Context,
    /// Modules and functions, and the building of graphs.
    Module,
    /// Everything else: devices, streams, events.
    Query,
}

impl Truth {
    /// Reads a log.
    pub fn read(path: &Path) -> io::Result<Self> {
        Ok(serde_json::from_slice(&fs::read(path)?)?)
    }

    /// Writes the log so that a reader sees the previous one or this one, never a part.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let mut unfinished = path.as_os_str().to_owned();
        unfinished.push(".new");
        fs::write(&unfinished, serde_json::to_vec_pretty(self)?)?;
        fs::rename(&unfinished, path)
    }
}

impl GpuTruth {
    /// Counts an allocation.
    pub fn allocated(&mut self, kind: MemoryKind, bytes: u64) {
        let memory = self.memory.entry(kind).or_default();
        memory.allocations += 1;
        memory.allocated_bytes += bytes;
        memory.held_bytes += bytes;
    }

    /// Counts the free of an allocation of `bytes`.
    pub fn freed(&mut self, kind: MemoryKind, bytes: u64) {
        let memory = self.memory.entry(kind).or_default();
        memory.frees += 1;
        memory.freed_bytes += bytes;
        memory.held_bytes = memory.held_bytes.saturating_sub(bytes);
    }

    /// Counts a copy.
    pub fn copied(&mut self, kind: CopyKind, bytes: u64) {
        let copies = self.copies.entry(kind).or_default();
        copies.calls += 1;
        copies.bytes += bytes;
    }

    /// Counts a failed call.
    pub fn failed(&mut self, class: CallClass, name: &str) {
        *self.errors.entry(class).or_default().entry(name.to_owned()).or_default() += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_has_the_documented_shape() {
        let mut gpu = GpuTruth { launches: 3, ..GpuTruth::default() };
        gpu.allocated(MemoryKind::Device, 100);
        gpu.allocated(MemoryKind::Device, 50);
        gpu.freed(MemoryKind::Device, 100);
        gpu.copied(CopyKind::HostToDevice, 7);
        gpu.failed(CallClass::Alloc, "CUDA_ERROR_OUT_OF_MEMORY");
        let truth = Truth {
            pid: 1,
            workload: "train".to_owned(),
            complete: true,
            gpus: BTreeMap::from([("GPU-1".to_owned(), gpu)]),
        };
        let json = serde_json::json!({
            "pid": 1, "workload": "train", "complete": true,
            "gpus": {"GPU-1": {
                "launches": 3, "graph_launches": 0,
                "memory": {"device": {
                    "allocations": 2, "allocated_bytes": 150, "frees": 1, "freed_bytes": 100, "held_bytes": 50,
                }},
                "copies": {"host_to_device": {"calls": 1, "bytes": 7}},
                "memset": {"calls": 0, "bytes": 0},
                "synchronize": {"calls": 0},
                "errors": {"alloc": {"CUDA_ERROR_OUT_OF_MEMORY": 1}},
            }},
        });
        assert_eq!(serde_json::to_value(&truth).expect("JSON"), json);
        let directory = tempfile::tempdir().expect("temporary directory");
        let path = directory.path().join("log.json");
        truth.write(&path).expect("written");
        assert_eq!(Truth::read(&path).expect("read"), truth);
        assert_eq!(fs::read_dir(directory.path()).expect("listing").count(), 1);
    }
}

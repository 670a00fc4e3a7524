//! What readers see: one consistent picture, replaced as a whole with every step.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use crate::{
    kernel::loader::Mechanism,
    ledger::{Current, series::SeriesKey},
    tenant::{Tenant, cgroup_id::IndexStats},
};

/// The agent's knowledge at one moment.
#[derive(Clone, Debug)]
pub struct View {
    pub time: SystemTime,
    pub series: BTreeMap<SeriesKey, Current>,
    /// Rows of counters that are not in any series yet, because their GPU is not decided.
    pub undecided: usize,
    /// Time that each tenant's processes ran with libcuda before it was probed.
    pub unseen: Vec<(Arc<Tenant>, Duration)>,
    pub footprints: Vec<Footprint>,
    /// `None` while the kernel's probes are not in use.
    pub kernel: Option<KernelState>,
    /// Time without any probe before this agent.
    pub blind: Duration,
    /// What became of looking up cgroups.
    pub cgroups: IndexStats,
}

/// What the driver charges to a tenant's processes on one GPU.
#[derive(Clone, Debug)]
pub struct Footprint {
    pub tenant: Arc<Tenant>,
    pub gpu: Arc<str>,
    /// `None` once the driver does not say it for one of the processes.
    pub bytes: Option<u64>,
    pub processes: BTreeSet<u32>,
    /// Part of the GPU's time that the processes' kernels ran, from the driver's latest samples, 0 to 1; `None`
    /// while it has none.
    pub utilization_ratio: Option<f64>,
}

impl Footprint {
    /// Nothing charged yet.
    pub fn none(tenant: Arc<Tenant>, gpu: Arc<str>) -> Self {
        Self { tenant, gpu, bytes: Some(0), processes: BTreeSet::new(), utilization_ratio: None }
    }

    /// Adds a process; a process that is in two of the driver's lists counts once.
    pub fn add(&mut self, pid: u32, bytes: Option<u64>, utilization_ratio: Option<f64>) {
        if self.processes.insert(pid) {
            self.bytes = self.bytes.zip(bytes).map(|(sum, more)| sum.saturating_add(more));
            if let Some(ratio) = utilization_ratio {
                self.utilization_ratio = Some((self.utilization_ratio.unwrap_or_default() + ratio).min(1.0));
            }
        }
    }
}

/// The state of the kernel's probes.
#[derive(Clone, Debug)]
pub struct KernelState {
    pub mechanism: Mechanism,
    /// Why not the faster mechanism.
    pub mechanism_reason: Option<String>,
    pub pinned: bool,
    pub adopted: bool,
    pub libraries: Vec<LibraryState>,
    pub refused: Vec<(String, String)>,
    /// By label of [`gpu_ebpf::abi::Stat`].
    pub stats: BTreeMap<&'static str, u64>,
    /// Runs that the kernel skipped because a program was already running on the CPU.
    pub recursion_misses: u64,
    /// Records that could not be decoded.
    pub undecodable: u64,
    /// Entries in use by map.
    pub entries: BTreeMap<&'static str, usize>,
}

/// A probed library.
#[derive(Clone, Debug)]
pub struct LibraryState {
    pub id: String,
    pub path: String,
    pub functions: usize,
    pub missing: Vec<String>,
    pub conflicting: Vec<String>,
}

/// The latest view, for any number of readers.
#[derive(Debug, Default)]
pub struct Views {
    latest: Mutex<Option<Arc<View>>>,
}

impl Views {
    /// Replaces the view.
    pub fn publish(&self, view: View) {
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(view));
    }

    /// The latest view; `None` before the first step.
    pub fn latest(&self) -> Option<Arc<View>> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

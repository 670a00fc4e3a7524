//! What each tenant holds and did, per GPU: a pure state machine over kernel counters, process ends, GPU
//! identities and a clock.
//!
//! The kernel keeps one row of counters for each (cgroup, process image, device ordinal). A row of a living
//! process is part of its tenant's series as it stands; when the process has ended, the row is *settled*: its
//! totals move into the series' base, which is stored, and only then does the caller delete it from the kernel.
//! An agent that is killed at any point in between finds either the row or the stored base, never neither, and
//! [`Saved::settled`] tells it when it finds both.

pub mod series;
pub mod totals;

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use gpu_ebpf::abi::{CounterKey, Counters, DEVICE_UNKNOWN, ErrorKey, PROCESS_SEEN_FROM_START, Returns};

use self::{
    series::{Saved, Series, SeriesKey, SettledRow},
    totals::{Returned, Totals},
};
use crate::{
    identity::{
        Assignment, assign,
        assign::{Evidence, NvmlSample},
    },
    tenant::Tenant,
};

/// One image of one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessKey {
    pub tgid: u32,
    pub epoch_ns: u64,
}

/// What is known of a process that makes CUDA calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// Start of the process after boot, in nanoseconds; `None` where the kernel does not say.
    pub start_boottime_ns: Option<u64>,
    /// [`gpu_ebpf::abi::Process::flags`].
    pub flags: u64,
    /// The GPUs that the process's environment makes visible, in ordinal order; `None` where that is not
    /// known.
    pub visible: Option<Vec<String>>,
}

/// How the ledger decides.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// How long the calls of a process wait for the driver's process list before their GPU is taken from the
    /// environment alone or given up as unknown.
    pub gpu_identity: Duration,
    /// How far the driver's process list may be behind.
    pub process_list_lag: Duration,
    /// How long the series of an ended tenant stay, so that a last scrape sees its last values.
    pub ended_tenant: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            gpu_identity: Duration::from_secs(2),
            process_list_lag: Duration::from_millis(500),
            ended_tenant: Duration::from_secs(60),
        }
    }
}

/// One reading of everything outside the ledger.
pub struct Observation<'a> {
    pub now: Instant,
    /// Boot-time clock, which means the same to the next agent, in nanoseconds.
    pub now_ns: u64,
    pub wall_clock: SystemTime,
    /// The kernel's counters, added up over CPUs; every key that exists.
    pub counters: Vec<(CounterKey, Counters)>,
    /// The kernel's error counters.
    pub errors: Vec<(ErrorKey, u64)>,
    /// What ended with its context.
    pub returned: Vec<(CounterKey, Returns)>,
    /// GPUs that the driver lists processes on; `None` while the driver's lists are not available.
    pub listed: Option<&'a ListedProcesses>,
    /// The tenant of a cgroup, given a process in it.
    pub tenant_of: &'a mut dyn FnMut(u64, u32) -> Arc<Tenant>,
    /// Whether the tenant's cgroup still exists.
    pub exists: &'a dyn Fn(&Tenant) -> bool,
}

/// The driver's process lists, of all GPUs.
#[derive(Clone, Debug)]
pub struct ListedProcesses {
    /// GPU UUIDs by process.
    pub gpus: BTreeMap<u32, BTreeSet<String>>,
    /// When the oldest of the lists was read.
    pub sampled_at: Instant,
}

/// A GPU's UUID; `None` where it could not be established.
pub type GpuLabel = Option<Arc<str>>;

#[derive(Clone, Debug)]
struct Row {
    tenant: Arc<Tenant>,
    /// The GPU, once it is decided.
    gpu: Option<GpuLabel>,
    first_seen: Instant,
    totals: Totals,
    /// What of `totals` is in a base already.
    settled: Totals,
}

/// See the module's documentation.
#[derive(Debug)]
pub struct Ledger {
    patience: Patience,
    processes: BTreeMap<ProcessKey, Process>,
    rows: BTreeMap<RowKey, Row>,
    series: BTreeMap<SeriesKey, Series>,
    unseen: BTreeMap<Arc<Tenant>, Duration>,
    ended: BTreeSet<ProcessKey>,
    settled: BTreeMap<RowKey, SettledRow>,
    /// Whether the restored part of `settled` was compared with the rows that the kernel still has.
    compared: bool,
    /// Whether something was added that a next agent must know.
    changed: bool,
}

/// What has ended with an observation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settled {
    /// Rows that can be deleted from the kernel once [`Ledger::saved`] is stored.
    pub rows: Vec<RowKey>,
    /// Processes that have ended, with or without rows.
    pub processes: BTreeSet<ProcessKey>,
}

/// [`CounterKey`] with an order.
pub type RowKey = (u64, u32, u64, i32);

/// The ordered form of a counter key.
pub fn row_key(key: &CounterKey) -> RowKey {
    (key.cgroup_id, key.tgid, key.epoch_ns, key.device)
}

/// The counter key of a row.
pub fn counter_key(key: &RowKey) -> CounterKey {
    let &(cgroup_id, tgid, epoch_ns, device) = key;
    CounterKey { cgroup_id, epoch_ns, tgid, device }
}

fn process_of(key: &RowKey) -> ProcessKey {
    ProcessKey { tgid: key.1, epoch_ns: key.2 }
}

impl Ledger {
    /// A ledger that goes on where `saved` ended.
    pub fn new(patience: Patience, saved: Saved) -> Self {
        let Saved { series, settled, unseen } = saved;
        Self {
            patience,
            processes: BTreeMap::new(),
            rows: BTreeMap::new(),
            series: series.into_iter().map(|entry| (entry.key, entry.series)).collect(),
            unseen: unseen.into_iter().collect(),
            ended: BTreeSet::new(),
            settled: settled.into_iter().map(|row| (row.key, row)).collect(),
            compared: false,
            changed: true,
        }
    }

    /// Whether something was added since the last call that must be stored even if no process ends.
    pub fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// What must be stored before rows are deleted from the kernel.
    pub fn saved(&self) -> Saved {
        Saved::of(&self.series, &self.settled, &self.unseen)
    }

    /// Takes note of a process.
    pub fn process_seen(&mut self, key: ProcessKey, process: Process) {
        self.processes.insert(key, process);
    }

    /// Processes that have not ended.
    pub fn processes(&self) -> impl Iterator<Item = (&ProcessKey, &Process)> {
        self.processes.iter().filter(|(key, _)| !self.ended.contains(key))
    }

    /// Processes of which it is not known what their ordinals stand for, ended ones that are still to be settled
    /// included.
    pub fn unnamed(&self) -> Vec<ProcessKey> {
        let unnamed = self.processes.iter().filter(|(_, process)| process.visible.is_none());
        unnamed.map(|(key, _)| *key).collect()
    }

    /// Says what a process's ordinals stand for.
    pub fn name_gpus(&mut self, key: ProcessKey, visible: Vec<String>) {
        if let Some(process) = self.processes.get_mut(&key) {
            process.visible = Some(visible);
        }
    }

    /// Takes note of the end of a process, or of its image; its rows are settled with the next observation, which
    /// must have been read after the end.
    pub fn process_ended(&mut self, key: ProcessKey) {
        self.ended.insert(key);
    }

    /// Adds time during which a tenant's process ran unseen.
    pub fn unseen(&mut self, tenant: Arc<Tenant>, duration: Duration) {
        self.changed = true;
        *self.unseen.entry(tenant).or_default() += duration;
    }

    /// Takes in a reading. Returns what has ended.
    pub fn observe(&mut self, observation: Observation<'_>) -> Settled {
        let Observation { now, now_ns, wall_clock, counters, errors, returned, listed, tenant_of, exists } =
            observation;
        for (key, totals) in counters {
            self.row(&key, now, tenant_of).totals.counters = totals;
        }
        for (key, count) in errors {
            self.row(&key.who, now, tenant_of).totals.errors.insert((key.class, key.code), count);
        }
        for (key, returns) in returned {
            let row = self.row(&key, now, tenant_of);
            for (total, kind) in row.totals.with_context.iter_mut().zip(returns.kinds) {
                *total = Returned { allocations: kind.calls, bytes: kind.bytes };
            }
        }
        if !self.compared {
            // What an earlier agent had settled and deleted is in the bases and nowhere else.
            self.compared = true;
            let rows = &self.rows;
            self.settled.retain(|key, _| rows.contains_key(key));
        }
        let rows = self.decide(now, now_ns, wall_clock, listed);
        let processes = std::mem::take(&mut self.ended);
        for process in &processes {
            self.processes.remove(process);
        }
        self.end_series(now_ns, exists);
        Settled { rows, processes }
    }

    /// Forgets rows that the caller has deleted from the kernel.
    pub fn forget(&mut self, rows: &[RowKey]) {
        for key in rows {
            self.settled.remove(key);
        }
    }

    /// Every series with its current totals.
    pub fn totals(&self) -> BTreeMap<SeriesKey, Current> {
        let mut current: BTreeMap<SeriesKey, Current> = self
            .series
            .iter()
            .map(|(key, series)| {
                let current =
                    Current { start: series.start, totals: series.base.clone(), processes: BTreeSet::new() };
                (key.clone(), current)
            })
            .collect();
        for (key, row) in &self.rows {
            let Some(gpu) = &row.gpu else { continue };
            let series = SeriesKey { tenant: Arc::clone(&row.tenant), gpu: gpu.clone() };
            if let Some(current) = current.get_mut(&series) {
                current.totals.add(&row.totals.since(&row.settled));
                current.processes.insert(process_of(key));
            }
        }
        current
    }

    /// Time that each tenant's processes ran unseen.
    pub fn unseen_durations(&self) -> impl Iterator<Item = (&Arc<Tenant>, Duration)> {
        self.unseen.iter().map(|(tenant, duration)| (tenant, *duration))
    }

    /// Rows whose GPU is not decided yet.
    pub fn undecided(&self) -> usize {
        self.rows.values().filter(|row| row.gpu.is_none()).count()
    }

    fn row(
        &mut self,
        key: &CounterKey,
        now: Instant,
        tenant_of: &mut dyn FnMut(u64, u32) -> Arc<Tenant>,
    ) -> &mut Row {
        let row_key = row_key(key);
        let settled = &self.settled;
        self.rows.entry(row_key).or_insert_with(|| Row {
            tenant: tenant_of(key.cgroup_id, key.tgid),
            gpu: None,
            first_seen: now,
            totals: Totals::default(),
            settled: settled.get(&row_key).map(|row| row.totals.clone()).unwrap_or_default(),
        })
    }

    /// Decides on GPUs and settles the rows of processes that ended.
    fn decide(
        &mut self,
        now: Instant,
        now_ns: u64,
        wall_clock: SystemTime,
        listed: Option<&ListedProcesses>,
    ) -> Vec<RowKey> {
        let nobody = BTreeSet::new();
        let mut finished = Vec::new();
        for (key, row) in &mut self.rows {
            let process = self.processes.get(&process_of(key));
            let ended = self.ended.contains(&process_of(key));
            if row.gpu.is_none() {
                let nvml = listed.map(|listed| NvmlSample {
                    gpus: listed.gpus.get(&key.1).unwrap_or(&nobody),
                    sampled_at: listed.sampled_at,
                });
                let waited = now.saturating_duration_since(row.first_seen);
                let last_word = ended || waited >= self.patience.gpu_identity;
                row.gpu = gpu_of(key.3, process, row.first_seen, nvml, last_word, &self.patience);
            }
            let Some(gpu) = &row.gpu else { continue };
            let series_key = SeriesKey { tenant: Arc::clone(&row.tenant), gpu: gpu.clone() };
            let changed = &mut self.changed;
            let series = self.series.entry(series_key).or_insert_with(|| {
                *changed = true;
                Series::starting(wall_clock, now_ns)
            });
            series.last_active_ns = now_ns;
            if ended {
                row.totals.reclaim_all();
                series.base.add(&row.totals.since(&row.settled));
                self.settled.insert(*key, SettledRow { key: *key, totals: row.totals.clone() });
                finished.push(*key);
            }
        }
        for key in &finished {
            self.rows.remove(key);
        }
        finished
    }

    /// Ends the series of tenants that are gone.
    fn end_series(&mut self, now_ns: u64, exists: &dyn Fn(&Tenant) -> bool) {
        let patience_ns = u64::try_from(self.patience.ended_tenant.as_nanos()).unwrap_or(u64::MAX);
        self.series.retain(|key, series| {
            now_ns.saturating_sub(series.last_active_ns) < patience_ns || exists(&key.tenant)
        });
        let series = &self.series;
        self.unseen.retain(|tenant, _| exists(tenant) || series.keys().any(|key| key.tenant == *tenant));
    }
}

/// A series as it stands.
#[derive(Clone, Debug)]
pub struct Current {
    /// When its totals were zero.
    pub start: SystemTime,
    pub totals: Totals,
    /// Living processes that use the GPU.
    pub processes: BTreeSet<ProcessKey>,
}

/// The GPU of a row: `None` while it is too early to say, `Some(None)` for "unknown" as the last word.
fn gpu_of(
    device: i32,
    process: Option<&Process>,
    since: Instant,
    nvml: Option<NvmlSample<'_>>,
    last_word: bool,
    patience: &Patience,
) -> Option<GpuLabel> {
    let seen_from_start = process.is_some_and(|process| process.flags & PROCESS_SEEN_FROM_START != 0);
    if device == DEVICE_UNKNOWN && seen_from_start {
        // Nothing of the process was missed: either the call has no context, or the context came by a way that
        // cannot be seen. No list tells the two apart.
        return Some(None);
    }
    let evidence = Evidence {
        visible: process.and_then(|process| process.visible.as_deref()),
        ordinal: u32::try_from(device).ok(),
        since,
        nvml,
    };
    match assign(&evidence, patience.process_list_lag) {
        Assignment::Confirmed(gpu) => Some(Some(Arc::from(gpu))),
        Assignment::Inferred(gpu) => last_word.then(|| Some(Arc::from(gpu))),
        Assignment::Unknown(_) => last_word.then_some(None),
    }
}

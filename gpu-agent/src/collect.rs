//! The agent's loop: kernel records and counters, GPU lists and tenants in, the ledger forward, a view out.

pub mod dump;
pub mod kernel_side;
pub mod processes;
pub mod records;
pub mod store;
pub mod view;

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use gpu_ebpf::abi::{Process as KernelProcess, RecordKind};
use tracing::{debug, info, warn};

use self::{
    kernel_side::KernelSide,
    processes::{Facts, ProcessReader},
    records::{Records, Seen},
    store::{Store, StoreError},
    view::{Footprint, View, Views},
};
use crate::{
    device::{self, DeviceSnapshot, GpuUuid},
    identity::{self, process::is_same_start},
    kernel::reader::ReadError,
    ledger::{
        Ledger, ListedProcesses, Observation, Patience, Process, ProcessKey, Settled, counter_key,
        series::Saved,
    },
    probe::manager::{Late, boottime_ns},
    tenant::{Host, ProcessRef, Resolver, Tenant, TenantKind},
};

/// How often processes are compared with `/proc`, for ends that the kernel did not report.
const RECONCILE_INTERVAL: Duration = Duration::from_secs(10);
/// A driver's list older than this says nothing.
const MAX_LIST_AGE: Duration = Duration::from_secs(2);

/// Everything that moves the ledger.
#[derive(Debug)]
pub struct Collector {
    kernel: Option<KernelSide>,
    devices: Option<device::Handle>,
    resolver: Resolver<Host>,
    processes: ProcessReader,
    ledger: Ledger,
    store: Option<Store>,
    views: Arc<Views>,
    facts: BTreeMap<ProcessKey, Facts>,
    contexts_changed: bool,
    reconciled_at: Instant,
    /// Processes whose unseen time has been counted, with their start.
    late: BTreeSet<(u32, u64)>,
    /// Time without any probe before this agent, in nanoseconds.
    blind_ns: u64,
    store_failures: u64,
}

/// What a collector is made of.
#[derive(Debug)]
pub struct Parts {
    pub kernel: Option<KernelSide>,
    pub devices: Option<device::Handle>,
    pub resolver: Resolver<Host>,
    pub processes: ProcessReader,
    pub store: Option<Store>,
    pub saved: Saved,
    pub blind_ns: u64,
    pub patience: Patience,
}

impl Collector {
    /// A collector that goes on where `saved` ended; readers take what it finds from `views`.
    pub fn new(parts: Parts, views: Arc<Views>, now: Instant) -> Self {
        let Parts { kernel, devices, resolver, processes, store, saved, blind_ns, patience } = parts;
        Self {
            kernel,
            devices,
            resolver,
            processes,
            ledger: Ledger::new(patience, saved),
            store,
            views,
            facts: BTreeMap::new(),
            contexts_changed: true,
            reconciled_at: now,
            late: BTreeSet::new(),
            blind_ns,
            store_failures: 0,
        }
    }

    /// The programs' rings, to be emptied by a task of their own.
    pub fn records(&self) -> Option<Records> {
        self.kernel.as_ref().map(|kernel| kernel.records().clone())
    }

    /// Takes over the processes that an earlier agent, or its maps, knew.
    pub fn adopt_processes(&mut self, now: Instant) -> Result<(), ReadError> {
        self.reconcile(now)
    }

    /// Handles what the rings hold.
    fn take_records(&mut self, now: Instant) {
        let Some(kernel) = &self.kernel else { return };
        for seen in kernel.records().take() {
            self.take_record(seen, now);
        }
    }

    /// Looks for libraries and takes note of processes that had one before.
    pub fn rescan(&mut self, now: Instant) {
        let Some(kernel) = &mut self.kernel else { return };
        let late = kernel.rescan();
        self.take_late(late, now);
    }

    /// Reads everything and moves the ledger.
    pub fn step(&mut self, now: Instant) -> Result<(), ReadError> {
        self.take_records(now);
        if now.saturating_duration_since(self.reconciled_at) >= RECONCILE_INTERVAL {
            self.reconciled_at = now;
            self.reconcile(now)?;
            self.resolver.refresh(now);
        }
        let devices = self.devices.as_ref().map(device::Handle::snapshot);
        self.name_gpus(devices.as_deref());
        let listed = devices.as_deref().and_then(|devices| listed_processes(devices, now));
        let settled = self.observe(listed.as_ref(), now)?;
        self.settle(&settled)?;
        self.beat();
        let footprints = devices.as_deref().map(|devices| self.footprints(devices, now)).unwrap_or_default();
        self.publish(footprints)
    }

    /// Stores what a next agent needs and, where nothing is pinned, the kernel's maps.
    pub fn stop(&mut self, now: Instant) {
        if let Err(error) = self.step(now) {
            warn!(%error, "the last reading failed");
        }
        self.save();
        if let (Some(kernel), Some(store)) = (&mut self.kernel, &self.store) {
            kernel.stop(store);
        }
    }

    fn take_record(&mut self, seen: Seen, now: Instant) {
        let Seen { record, facts } = seen;
        let key = ProcessKey { tgid: record.tgid, epoch_ns: record.epoch_ns };
        match RecordKind::from_wire(record.kind) {
            Some(RecordKind::ProcessSeen) => {
                let process = KernelProcess {
                    epoch_ns: record.epoch_ns,
                    start_boottime_ns: record.start_boottime_ns,
                    cgroup_id: record.cgroup_id,
                    flags: record.flags,
                };
                self.process_seen(record.tgid, &process, facts, now);
            }
            Some(RecordKind::ContextDestroyed) => self.contexts_changed = true,
            Some(RecordKind::Exit | RecordKind::Exec) => self.ledger.process_ended(key),
            Some(RecordKind::Fork) | None => {}
            Some(RecordKind::FirstError) => {
                debug!(
                    pid = record.tgid,
                    class = record.subject,
                    code = record.detail,
                    device = record.device,
                    "first failure of its kind"
                );
            }
        }
    }

    fn process_seen(&mut self, tgid: u32, process: &KernelProcess, facts: Option<Facts>, now: Instant) {
        let key = ProcessKey { tgid, epoch_ns: process.epoch_ns };
        let start_ns = start_of(process);
        if let Some(start_time_ns) = start_ns {
            self.resolver.note_process(ProcessRef { pid: tgid, start_time_ns }, now);
        }
        if let Some(facts) = facts {
            self.facts.insert(key, facts);
        }
        let process = Process { start_boottime_ns: start_ns, flags: process.flags, visible: None };
        self.ledger.process_seen(key, process);
    }

    /// Takes note of processes that had their library before it was probed.
    pub fn take_late(&mut self, late: Vec<Late>, now: Instant) {
        for late in late {
            self.late_process(late, now);
        }
    }

    fn late_process(&mut self, late: Late, now: Instant) {
        let start_time_ns = identity::process::nanoseconds(late.start_ticks);
        let process = ProcessRef { pid: late.pid, start_time_ns };
        let unseen = Duration::from_nanos(late.seen_since_boottime_ns.saturating_sub(start_time_ns));
        let seen_before = self.ledger.processes().any(|(key, process)| {
            let start_ns = process.start_boottime_ns;
            key.tgid == late.pid && start_ns.is_some_and(|start_ns| is_same_start(start_ns, late.start_ticks))
        });
        if unseen.is_zero() || seen_before || !self.late.insert((late.pid, start_time_ns)) {
            return;
        }
        match self.resolver.resolve_process(process, now) {
            Ok(tenant) => {
                info!(
                    pid = late.pid,
                    tenant = %tenant.name,
                    unseen_seconds = unseen.as_secs_f64(),
                    "a process had libcuda loaded before it was probed"
                );
                self.ledger.unseen(tenant, unseen);
            }
            Err(error) => debug!(pid = late.pid, %error, "a late process has no tenant"),
        }
    }

    /// Works out which GPUs the processes' ordinals stand for, as soon as the GPUs are known.
    fn name_gpus(&mut self, devices: Option<&DeviceSnapshot>) {
        let Some(gpus) = devices.map(processes::visible_gpus).filter(|gpus| !gpus.is_empty()) else { return };
        for key in self.ledger.unnamed() {
            let visible =
                self.facts.get(&key).map(|facts| identity::visible_devices(&facts.environment(), &gpus));
            if let Some(Ok(visible)) = visible {
                self.ledger.name_gpus(key, visible);
            }
        }
    }

    fn observe(&mut self, listed: Option<&ListedProcesses>, now: Instant) -> Result<Settled, ReadError> {
        let Some(kernel) = &mut self.kernel else { return Ok(Settled::default()) };
        if self.contexts_changed {
            self.contexts_changed = false;
            kernel.sweep_contexts()?;
        }
        let reading = kernel.read()?;
        let starts: BTreeMap<u32, u64> = self
            .ledger
            .processes()
            .filter_map(|(key, process)| Some((key.tgid, process.start_boottime_ns?)))
            .collect();
        let resolver = RefCell::new(&mut self.resolver);
        let settled = self.ledger.observe(Observation {
            now,
            now_ns: boottime_ns(),
            wall_clock: SystemTime::now(),
            counters: reading.counters,
            errors: reading.errors,
            returned: reading.returned,
            listed,
            tenant_of: &mut |cgroup_id, tgid| {
                let process = starts.get(&tgid).map(|start| ProcessRef { pid: tgid, start_time_ns: *start });
                resolver.borrow_mut().resolve(cgroup_id, process, now).unwrap_or_else(|error| {
                    debug!(cgroup_id, pid = tgid, %error, "a call has no tenant");
                    unknown_tenant()
                })
            },
            exists: &|tenant| resolver.borrow().exists(tenant),
        });
        Ok(settled)
    }

    /// Stores the ledger if it must be, then deletes from the kernel what has ended; what cannot be stored stays in
    /// the kernel and is settled again later.
    fn settle(&mut self, settled: &Settled) -> Result<(), ReadError> {
        let changed = self.ledger.take_changed();
        if (changed || !settled.rows.is_empty()) && !self.save() {
            return Ok(());
        }
        let Some(kernel) = &self.kernel else { return Ok(()) };
        if settled.processes.is_empty() {
            return Ok(());
        }
        let keys: Vec<_> = settled.rows.iter().map(counter_key).collect();
        kernel.delete_rows(&keys)?;
        self.ledger.forget(&settled.rows);
        self.facts.retain(|key, _| !settled.processes.contains(key));
        kernel.sweep_ended(&settled.processes)
    }

    /// Catches up with what no record told: processes that the ledger does not know, rows whose process the kernel's
    /// table does not have, and entries of that table whose process `/proc` does not have.
    fn reconcile(&mut self, now: Instant) -> Result<(), ReadError> {
        let Some(kernel) = &mut self.kernel else { return Ok(()) };
        // Rows first: the process of a row that is read here is in the table that is read next, unless it has ended.
        let mut candidates = kernel.row_processes()?;
        candidates.extend(self.ledger.processes().map(|(key, _)| *key));
        let living = kernel.reconcile_processes(&self.processes)?;
        for key in candidates.iter().filter(|key| !living.contains_key(key)) {
            self.ledger.process_ended(*key);
        }
        self.late.retain(|(pid, start_ns)| self.processes.is_alive(*pid, Some(*start_ns)));
        self.contexts_changed = true;
        let known: BTreeSet<ProcessKey> = self.ledger.processes().map(|(key, _)| *key).collect();
        for (key, process) in living.iter().filter(|(key, _)| !known.contains(key)) {
            let facts = self.processes.facts(key.tgid, start_of(process));
            self.process_seen(key.tgid, process, facts, now);
        }
        Ok(())
    }

    fn footprints(&mut self, devices: &DeviceSnapshot, now: Instant) -> Vec<Footprint> {
        let mut footprints: BTreeMap<(Arc<Tenant>, Arc<str>), Footprint> = BTreeMap::new();
        // Samples are oldest first, so the latest of each process stays.
        let utilization: BTreeMap<(u32, &GpuUuid), f64> = devices
            .gpus
            .iter()
            .flat_map(|state| state.utilization.iter())
            .map(|sample| ((sample.pid, &sample.gpu), sample.sm_ratio))
            .collect();
        for process in devices.fresh_processes(now.into(), MAX_LIST_AGE) {
            let Some(start_time_ns) = self.processes.start_time_ns(process.pid) else { continue };
            let reference = ProcessRef { pid: process.pid, start_time_ns };
            let tenant = self.resolver.resolve_process(reference, now).unwrap_or_else(|_| unknown_tenant());
            let gpu: Arc<str> = Arc::from(process.gpu.as_str());
            footprints
                .entry((Arc::clone(&tenant), Arc::clone(&gpu)))
                .or_insert_with(|| Footprint::none(tenant, gpu))
                .add(
                    process.pid,
                    process.used_memory_bytes,
                    utilization.get(&(process.pid, &process.gpu)).copied(),
                );
        }
        footprints.into_values().collect()
    }

    fn publish(&mut self, footprints: Vec<Footprint>) -> Result<(), ReadError> {
        let unseen =
            self.ledger.unseen_durations().map(|(tenant, duration)| (Arc::clone(tenant), duration)).collect();
        let kernel = self.kernel.as_ref().map(KernelSide::state).transpose()?;
        self.views.publish(View {
            time: SystemTime::now(),
            series: self.ledger.totals(),
            undecided: self.ledger.undecided(),
            unseen,
            footprints,
            kernel,
            blind: Duration::from_nanos(self.blind_ns),
            cgroups: self.resolver.index_stats(),
        });
        Ok(())
    }

    fn save(&mut self) -> bool {
        let Some(store) = &self.store else { return true };
        let result = store.save(self.ledger.saved(), self.blind_ns);
        self.note(result)
    }

    fn beat(&mut self) {
        let Some(store) = &self.store else { return };
        if store.beat().is_err() {
            self.save();
        }
    }

    fn note(&mut self, result: Result<(), StoreError>) -> bool {
        match result {
            Ok(()) => true,
            Err(error) => {
                self.store_failures += 1;
                if self.store_failures.is_power_of_two() {
                    warn!(%error, failures = self.store_failures, "the ledger cannot be stored");
                }
                false
            }
        }
    }
}

/// When a process started, where the kernel says it.
fn start_of(process: &KernelProcess) -> Option<u64> {
    (process.start_boottime_ns != 0).then_some(process.start_boottime_ns)
}

/// The tenant of calls that nobody can be named for.
fn unknown_tenant() -> Arc<Tenant> {
    Arc::new(Tenant {
        name: gpu_api::metric::attribute::UNKNOWN.to_owned(),
        kind: TenantKind::Unknown,
        cgroup_path: None,
        container_id: None,
        pod_uid: None,
        unit: None,
    })
}

/// The driver's lists by process, if they are complete and fresh.
fn listed_processes(devices: &DeviceSnapshot, now: Instant) -> Option<ListedProcesses> {
    let mut listed = ListedProcesses { gpus: BTreeMap::new(), sampled_at: now };
    for state in &devices.gpus {
        let (taken_at, _) = state.processes.as_ref()?;
        for process in state.fresh_processes(now.into(), MAX_LIST_AGE)? {
            listed.gpus.entry(process.pid).or_default().insert(process.gpu.as_str().to_owned());
        }
        listed.sampled_at = listed.sampled_at.min(taken_at.into_std());
    }
    (!devices.gpus.is_empty()).then_some(listed)
}

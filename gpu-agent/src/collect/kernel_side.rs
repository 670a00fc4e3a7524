//! The kernel's probes with everything that reads them.

use std::collections::{BTreeMap, BTreeSet};

use gpu_ebpf::{
    abi::{Allocation, AllocationKey, ContextKey, CounterKey, Counters, ErrorKey, Process, Returns, maps},
    call::MemoryKind,
};
use tracing::{info, warn};
use zerocopy::FromZeros as _;

use super::{
    dump::Dump,
    processes::ProcessReader,
    records::Records,
    store::Store,
    view::{KernelState, LibraryState},
};
use crate::{
    kernel::{
        loader::{Kernel, KernelError},
        reader::{ReadError, Reader},
    },
    ledger::ProcessKey,
    probe::manager::{Late, Manager},
};

/// One reading of the counters.
#[derive(Debug)]
pub struct Reading {
    pub counters: Vec<(CounterKey, Counters)>,
    pub errors: Vec<(ErrorKey, u64)>,
    pub returned: Vec<(CounterKey, Returns)>,
}

/// The loaded programs, their rings and the probes on libraries.
#[derive(Debug)]
pub struct KernelSide {
    kernel: Kernel,
    reader: Reader,
    manager: Manager,
    records: Records,
    /// Entries in use by map, as of the last time that each was read.
    entries: BTreeMap<&'static str, usize>,
}

impl KernelSide {
    /// Puts the parts together; probes are attached by [`Self::start`].
    pub fn new(
        mut kernel: Kernel,
        reader: Reader,
        manager: Manager,
        processes: ProcessReader,
    ) -> Result<Self, KernelError> {
        let (events, exits) = (kernel.take_ring(maps::EVENTS)?, kernel.take_ring(maps::EXITS)?);
        Ok(Self {
            kernel,
            reader,
            manager,
            records: Records::new(events, exits, processes),
            entries: BTreeMap::new(),
        })
    }

    /// The programs' rings.
    pub fn records(&self) -> &Records {
        &self.records
    }

    /// Restores maps that could not be pinned, then attaches what can be found. Returns processes that had their
    /// library before.
    pub fn start(&mut self, store: Option<&Store>, processes: &ProcessReader) -> Vec<Late> {
        // Taken in any case: beside adopted maps a stored copy is of an older agent.
        let stored = store.and_then(|store| Dump::take(&store.maps(), store.boot_id()));
        if let Some(dump) = stored.filter(|_| !self.kernel.adopted()) {
            self.restore(dump, processes);
        }
        self.manager.attach_known_paths(&mut self.kernel);
        let late = self.manager.rescan(&mut self.kernel);
        self.kernel.drop_stale_links();
        late
    }

    fn restore(&self, mut dump: Dump, processes: &ProcessReader) {
        dump.keep_living(
            |tgid, process| {
                process.start_boottime_ns != 0 && processes.is_alive(tgid, Some(process.start_boottime_ns))
            },
            |tgid, tid| processes.has_thread(tgid, tid),
        );
        match dump.restore(self.reader, &self.kernel) {
            Ok(()) => info!(
                processes = dump.processes.len(),
                allocations = dump.allocations.len(),
                "what processes hold is taken over from the stored maps"
            ),
            Err(error) => warn!(%error, "the stored maps could not be restored in full"),
        }
    }

    /// Whether maps of an earlier agent were taken over.
    pub fn adopted(&self) -> bool {
        self.kernel.adopted()
    }

    /// Looks for libraries; returns processes that had theirs before it was probed.
    pub fn rescan(&mut self) -> Vec<Late> {
        self.manager.rescan(&mut self.kernel)
    }

    /// Stores the maps where they are not pinned; the probes go with the agent then.
    pub fn stop(&mut self, store: &Store) {
        if self.kernel.pinned() {
            return;
        }
        // Links by the hundred take many seconds to go; a few go at once, and then nothing changes under the dump.
        if self.kernel.detaches_quickly() {
            self.kernel.detach_all();
        }
        match Dump::read(self.reader, &self.kernel) {
            Ok(dump) => {
                if let Err(error) = dump.save(&store.maps(), store.boot_id()) {
                    warn!(%error, "the maps cannot be stored: the next agent begins with nothing");
                }
            }
            Err(error) => warn!(%error, "the maps cannot be read: the next agent begins with nothing"),
        }
    }

    /// Reads all counters.
    pub fn read(&mut self) -> Result<Reading, ReadError> {
        self.kernel.flush_diagnostics();
        let reading = Reading {
            counters: self.reader.counters(&self.kernel)?,
            errors: self.reader.errors(&self.kernel)?,
            returned: self.reader.returned(&self.kernel)?,
        };
        self.entries.insert(maps::COUNTERS, reading.counters.len());
        self.entries.insert(maps::ERRORS, reading.errors.len());
        Ok(reading)
    }

    /// The kernel's table of processes.
    pub fn processes(&self) -> Result<Vec<(u32, Process)>, ReadError> {
        self.reader.processes(&self.kernel)
    }

    /// The processes that have rows of counters.
    pub fn row_processes(&self) -> Result<BTreeSet<ProcessKey>, ReadError> {
        let rows = self.reader.counters(&self.kernel)?.into_iter().map(|(key, _)| key);
        let error_rows = self.reader.errors(&self.kernel)?.into_iter().map(|(key, _)| key.who);
        Ok(rows.chain(error_rows).map(|key| ProcessKey { tgid: key.tgid, epoch_ns: key.epoch_ns }).collect())
    }

    /// Removes processes from the kernel's table that are not there any more; returns the others.
    pub fn reconcile_processes(
        &mut self,
        alive: &ProcessReader,
    ) -> Result<BTreeMap<ProcessKey, Process>, ReadError> {
        let mut living = BTreeMap::new();
        for (tgid, process) in self.processes()? {
            let start_ns = (process.start_boottime_ns != 0).then_some(process.start_boottime_ns);
            if alive.is_alive(tgid, start_ns) {
                living.insert(ProcessKey { tgid, epoch_ns: process.epoch_ns }, process);
            } else {
                self.reader.remove(&self.kernel, maps::PROCESSES, &tgid)?;
            }
        }
        self.entries.insert(maps::PROCESSES, living.len());
        Ok(living)
    }

    /// Takes what ended with its context out of the table, and counts it.
    pub fn sweep_contexts(&mut self) -> Result<(), ReadError> {
        // Allocations first: the context of one that is read is in the later list, unless it has ended.
        let allocations = self.reader.allocations(&self.kernel)?;
        let contexts = self.reader.contexts(&self.kernel)?;
        self.entries.insert(maps::ALLOCATIONS, allocations.len());
        self.entries.insert(maps::CONTEXTS, contexts.values().map(BTreeSet::len).sum());
        let none = BTreeSet::new();
        for (key, allocation) in allocations {
            let living = contexts.get(&(key.tgid, key.epoch_ns)).unwrap_or(&none);
            if allocation.context_id != 0
                && !living.contains(&allocation.context_id)
                && self.reader.take_allocation(&self.kernel, &key, &allocation)?
            {
                self.count_returned(&key, &allocation)?;
            }
        }
        Ok(())
    }

    /// Deletes rows that have been settled.
    pub fn delete_rows(&self, rows: &[CounterKey]) -> Result<(), ReadError> {
        let gone: BTreeSet<_> = rows.iter().map(crate::ledger::row_key).collect();
        for key in rows {
            self.reader.remove(&self.kernel, maps::COUNTERS, key)?;
            self.reader.remove(&self.kernel, maps::RETURNED, key)?;
        }
        for (key, _) in self.reader.errors(&self.kernel)? {
            if gone.contains(&crate::ledger::row_key(&key.who)) {
                self.reader.remove(&self.kernel, maps::ERRORS, &key)?;
            }
        }
        Ok(())
    }

    /// Removes the allocations and contexts of processes that ended.
    pub fn sweep_ended(&self, processes: &BTreeSet<ProcessKey>) -> Result<(), ReadError> {
        let ended: BTreeSet<(u32, u64)> =
            processes.iter().map(|process| (process.tgid, process.epoch_ns)).collect();
        for (key, _) in self.reader.allocations(&self.kernel)? {
            if ended.contains(&(key.tgid, key.epoch_ns)) {
                self.reader.remove(&self.kernel, maps::ALLOCATIONS, &key)?;
            }
        }
        if !self.kernel.sees_ends() {
            for (tid, thread) in self.reader.threads(&self.kernel)? {
                if ended.contains(&(thread.tgid, thread.epoch_ns)) {
                    self.reader.forget_thread(&self.kernel, tid)?;
                }
            }
        }
        for map in [maps::CONTEXTS, maps::PRIMARY_CONTEXTS] {
            for (key, _) in self.reader.all::<ContextKey, gpu_ebpf::abi::Context>(&self.kernel, map)? {
                if ended.contains(&(key.tgid, key.epoch_ns)) {
                    self.reader.remove(&self.kernel, map, &key)?;
                }
            }
        }
        Ok(())
    }

    /// The state of the probes.
    pub fn state(&self) -> Result<KernelState, ReadError> {
        let (mechanism, reason) = self.kernel.mechanism();
        let libraries = self
            .manager
            .libraries()
            .iter()
            .map(|(id, library)| LibraryState {
                id: id.to_string(),
                path: library.path.display().to_string(),
                functions: library.functions,
                missing: library.missing.clone(),
                conflicting: library.conflicting.clone(),
            })
            .collect();
        let refused = self
            .manager
            .refused()
            .map(|refused| (refused.path.display().to_string(), refused.reason.clone()))
            .collect();
        Ok(KernelState {
            mechanism,
            mechanism_reason: reason.map(str::to_owned),
            pinned: self.kernel.pinned(),
            adopted: self.kernel.adopted(),
            libraries,
            refused,
            stats: self.reader.stats(&self.kernel)?,
            recursion_misses: self.kernel.recursion_misses(),
            undecodable: self.records.undecodable(),
            entries: self.entries.clone(),
        })
    }

    fn count_returned(&self, key: &AllocationKey, allocation: &Allocation) -> Result<(), ReadError> {
        let Some(kind) = MemoryKind::ALL.get(allocation.kind as usize) else { return Ok(()) };
        let row = CounterKey {
            cgroup_id: allocation.cgroup_id,
            epoch_ns: key.epoch_ns,
            tgid: key.tgid,
            device: allocation.device,
        };
        let mut returns: Returns =
            self.reader.one(&self.kernel, maps::RETURNED, &row)?.unwrap_or_else(Returns::new_zeroed);
        let sum = &mut returns.kinds[*kind as usize];
        sum.calls = sum.calls.saturating_add(1);
        sum.bytes = sum.bytes.saturating_add(allocation.bytes);
        self.reader.write(&self.kernel, maps::RETURNED, &row, &returns)
    }
}

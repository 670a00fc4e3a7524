//! Typed reads and writes of the programs' maps.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    os::fd::BorrowedFd,
};

use gpu_ebpf::abi::{
    self, Allocation, AllocationKey, Context, ContextKey, CounterKey, Counters, ErrorKey, Process, Returns,
    Stat, Thread, maps,
};
use thiserror::Error;
use zerocopy::{FromBytes, FromZeros as _, Immutable, IntoBytes};

use super::{
    batch,
    loader::{Kernel, KernelError},
    syscall,
};

/// The kernel's own "not supported", which leaks out of `bpf(2)` and has no name in the C library.
const ENOTSUPP: i32 = 524;

/// Why a map could not be read or written.
#[derive(Debug, Error)]
pub enum ReadError {
    #[error(transparent)]
    Kernel(#[from] KernelError),
    #[error("map `{map}` cannot be {action}")]
    Map {
        map: &'static str,
        action: &'static str,
        #[source]
        source: io::Error,
    },
}

/// Reads the maps of one kernel side.
#[derive(Clone, Copy, Debug)]
pub struct Reader {
    cpus: usize,
    batched: bool,
}

impl Reader {
    /// A reader that uses batched reads if it may.
    ///
    /// # Errors
    /// When the number of possible CPUs cannot be read.
    pub fn new(batched: bool) -> io::Result<Self> {
        Ok(Self { cpus: batch::possible_cpus()?, batched })
    }

    /// Possible CPUs: per-CPU maps cost their values' size times this.
    pub fn cpus(self) -> usize {
        self.cpus
    }

    /// Every row of counters, added up over CPUs.
    pub fn counters(self, kernel: &Kernel) -> Result<Vec<(CounterKey, Counters)>, ReadError> {
        let mut rows = Vec::new();
        self.each(kernel, maps::COUNTERS, self.cpus, |key: CounterKey, values: &[Counters]| {
            let sum = values.iter().fold(Counters::ZERO, |sum, value| sum.plus(*value));
            rows.push((key, sum.with_calls()));
        })?;
        Ok(rows)
    }

    /// Every row of error counters, added up over CPUs.
    pub fn errors(self, kernel: &Kernel) -> Result<Vec<(ErrorKey, u64)>, ReadError> {
        let mut rows = Vec::new();
        self.each(kernel, maps::ERRORS, self.cpus, |key: ErrorKey, values: &[u64]| {
            rows.push((key, values.iter().fold(0, |sum: u64, value| sum.wrapping_add(*value))));
        })?;
        Ok(rows)
    }

    /// What could not be counted, since the maps were made.
    pub fn stats(self, kernel: &Kernel) -> Result<BTreeMap<&'static str, u64>, ReadError> {
        let map = kernel.map(maps::STATS)?;
        let mut stats = BTreeMap::new();
        for (stat, label) in Stat::ALL {
            let mut value = vec![0; 8 * self.cpus];
            syscall::lookup(map, &(stat as u32).to_ne_bytes(), &mut value)
                .map_err(|source| ReadError::Map { map: maps::STATS, action: "read", source })?;
            let sum = value
                .chunks_exact(8)
                .filter_map(|bytes| u64::read_from_bytes(bytes).ok())
                .fold(0, u64::wrapping_add);
            stats.insert(label, sum);
        }
        Ok(stats)
    }

    /// Every process image that has made a call and has not ended.
    pub fn processes(self, kernel: &Kernel) -> Result<Vec<(u32, Process)>, ReadError> {
        self.all(kernel, maps::PROCESSES)
    }

    /// Every thread that has made a call and has not ended, by thread id.
    pub fn threads(self, kernel: &Kernel) -> Result<Vec<(u32, Thread)>, ReadError> {
        let mut threads: Vec<(u32, Thread)> = self.all(kernel, maps::THREADS)?;
        let slots = self.all::<u32, Thread>(kernel, maps::SLOTS)?;
        threads.extend(
            slots.into_iter().filter(|(_, thread)| thread.tid != 0).map(|(_, thread)| (thread.tid, thread)),
        );
        Ok(threads)
    }

    /// Forgets a thread that has ended.
    pub fn forget_thread(self, kernel: &Kernel, tid: u32) -> Result<(), ReadError> {
        let slot = abi::slot_of(tid);
        let owner: Option<u32> = self.one(kernel, maps::SLOT_OWNERS, &slot)?;
        if owner == Some(tid) {
            self.write(kernel, maps::SLOTS, &slot, &Thread::new_zeroed())?;
            self.remove(kernel, maps::SLOT_OWNERS, &slot)?;
        }
        self.remove(kernel, maps::THREADS, &tid)
    }

    /// What ended with its context, as far as an agent counted it.
    pub fn returned(self, kernel: &Kernel) -> Result<Vec<(CounterKey, Returns)>, ReadError> {
        self.all(kernel, maps::RETURNED)
    }

    /// Everything that is held.
    pub fn allocations(self, kernel: &Kernel) -> Result<Vec<(AllocationKey, Allocation)>, ReadError> {
        self.all(kernel, maps::ALLOCATIONS)
    }

    /// The identities of the living contexts of each process, by (thread-group id, epoch).
    pub fn contexts(self, kernel: &Kernel) -> Result<BTreeMap<(u32, u64), BTreeSet<u64>>, ReadError> {
        let mut contexts: BTreeMap<(u32, u64), BTreeSet<u64>> = BTreeMap::new();
        for (key, context) in self.all::<ContextKey, Context>(kernel, maps::CONTEXTS)? {
            contexts.entry((key.tgid, key.epoch_ns)).or_default().insert(context.id);
        }
        Ok(contexts)
    }

    /// One element of a map of single values.
    pub fn one<K, V>(self, kernel: &Kernel, map: &'static str, key: &K) -> Result<Option<V>, ReadError>
    where
        K: IntoBytes + Immutable,
        V: FromBytes + IntoBytes,
    {
        let mut value = V::new_zeroed();
        let found = syscall::lookup(kernel.map(map)?, key.as_bytes(), value.as_mut_bytes())
            .map_err(|source| ReadError::Map { map, action: "read", source })?;
        Ok(found.then_some(value))
    }

    /// Every element of a map of single values.
    pub fn all<K, V>(self, kernel: &Kernel, map: &'static str) -> Result<Vec<(K, V)>, ReadError>
    where
        K: FromBytes + IntoBytes + Immutable + Copy,
        V: FromBytes + Immutable + Copy,
    {
        let mut all = Vec::new();
        self.each(kernel, map, 1, |key, values: &[V]| all.extend(values.first().map(|value| (key, *value))))?;
        Ok(all)
    }

    /// Takes an allocation out of the table, if it still is the one that was read: its address may have been
    /// freed and given out again meanwhile.
    pub fn take_allocation(
        self,
        kernel: &Kernel,
        key: &AllocationKey,
        expected: &Allocation,
    ) -> Result<bool, ReadError> {
        let map = kernel.map(maps::ALLOCATIONS)?;
        let error = |source| ReadError::Map { map: maps::ALLOCATIONS, action: "written", source };
        let mut taken = Allocation::new_zeroed();
        match syscall::lookup_and_delete(map, key.as_bytes(), taken.as_mut_bytes()) {
            Ok(false) => Ok(false),
            Ok(true) if taken.context_id == expected.context_id => Ok(true),
            Ok(true) => {
                syscall::update(map, key.as_bytes(), taken.as_bytes()).map_err(error)?;
                Ok(false)
            }
            // Before 5.14 there is no such step for hash maps; a window of a microsecond remains.
            Err(cause) if is_unsupported(&cause) => {
                let found = syscall::lookup(map, key.as_bytes(), taken.as_mut_bytes()).map_err(error)?;
                if !found || taken.context_id != expected.context_id {
                    return Ok(false);
                }
                syscall::delete(map, key.as_bytes()).map_err(error)
            }
            Err(cause) => Err(error(cause)),
        }
    }

    /// Writes one element of a map of single values.
    pub fn write<K: IntoBytes + Immutable, V: IntoBytes + Immutable>(
        self,
        kernel: &Kernel,
        map: &'static str,
        key: &K,
        value: &V,
    ) -> Result<(), ReadError> {
        syscall::update(kernel.map(map)?, key.as_bytes(), value.as_bytes()).map_err(|source| ReadError::Map {
            map,
            action: "written",
            source,
        })
    }

    /// Writes elements of a per-CPU map, all of the value on the first CPU.
    pub fn write_per_cpu<K: IntoBytes + Immutable, V: IntoBytes + Immutable>(
        self,
        kernel: &Kernel,
        map: &'static str,
        rows: &[(K, V)],
    ) -> Result<(), ReadError> {
        let descriptor = kernel.map(map)?;
        for (key, value) in rows {
            let mut values = value.as_bytes().to_vec();
            values.resize(value.as_bytes().len() * self.cpus, 0);
            syscall::update(descriptor, key.as_bytes(), &values).map_err(|source| ReadError::Map {
                map,
                action: "written",
                source,
            })?;
        }
        Ok(())
    }

    /// Removes one element; none there is no error.
    pub fn remove<K: IntoBytes + Immutable>(
        self,
        kernel: &Kernel,
        map: &'static str,
        key: &K,
    ) -> Result<(), ReadError> {
        syscall::delete(kernel.map(map)?, key.as_bytes()).map(drop).map_err(|source| ReadError::Map {
            map,
            action: "written",
            source,
        })
    }

    fn each<K, V>(
        self,
        kernel: &Kernel,
        map: &'static str,
        values: usize,
        each: impl FnMut(K, &[V]),
    ) -> Result<(), ReadError>
    where
        K: FromBytes + IntoBytes + Immutable + Copy,
        V: FromBytes + Immutable + Copy,
    {
        let descriptor: BorrowedFd<'_> = kernel.map(map)?;
        batch::for_each(descriptor, values, self.batched, each).map_err(|source| ReadError::Map {
            map,
            action: "read",
            source,
        })
    }
}

fn is_unsupported(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINVAL | ENOTSUPP | libc::EOPNOTSUPP))
}

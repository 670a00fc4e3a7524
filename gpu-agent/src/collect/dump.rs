//! The kernel's maps on disk, for nodes where they cannot be pinned.
//!
//! What processes hold and which device their threads talk to survives a restart this way too; what they did
//! meanwhile does not, and that time is exported as blind.

use std::{collections::BTreeSet, fs, io, path::Path};

use gpu_ebpf::abi::{
    self, Allocation, AllocationKey, Context, ContextKey, CounterKey, Counters, ErrorKey, Process, Returns,
    Thread, maps,
};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::store::{StoreError, write_whole};
use crate::kernel::{
    loader::Kernel,
    reader::{ReadError, Reader},
};

/// Everything that a new agent needs to go on.
#[derive(Debug, Default, PartialEq)]
pub struct Dump {
    pub processes: Vec<(u32, Process)>,
    pub threads: Vec<(u32, Thread)>,
    pub contexts: Vec<(ContextKey, Context)>,
    pub primary: Vec<(ContextKey, Context)>,
    pub allocations: Vec<(AllocationKey, Allocation)>,
    pub returned: Vec<(CounterKey, Returns)>,
    pub counters: Vec<(CounterKey, Counters)>,
    pub errors: Vec<(ErrorKey, u64)>,
}

impl Dump {
    /// Reads it from the kernel.
    pub fn read(reader: Reader, kernel: &Kernel) -> Result<Self, ReadError> {
        Ok(Self {
            processes: reader.processes(kernel)?,
            threads: reader.threads(kernel)?,
            contexts: reader.all(kernel, maps::CONTEXTS)?,
            primary: reader.all(kernel, maps::PRIMARY_CONTEXTS)?,
            allocations: reader.allocations(kernel)?,
            returned: reader.returned(kernel)?,
            counters: reader.counters(kernel)?,
            errors: reader.errors(kernel)?,
        })
    }

    /// Drops what belongs to processes that are gone, except for what they did.
    pub fn keep_living(
        &mut self,
        lives: impl Fn(u32, &Process) -> bool,
        has_thread: impl Fn(u32, u32) -> bool,
    ) {
        self.processes.retain(|(tgid, process)| lives(*tgid, process));
        let living: BTreeSet<(u32, u64)> =
            self.processes.iter().map(|(tgid, process)| (*tgid, process.epoch_ns)).collect();
        let lives = |tgid, epoch_ns| living.contains(&(tgid, epoch_ns));
        self.threads
            .retain(|(tid, thread)| lives(thread.tgid, thread.epoch_ns) && has_thread(thread.tgid, *tid));
        self.contexts.retain(|(key, _)| lives(key.tgid, key.epoch_ns));
        self.primary.retain(|(key, _)| lives(key.tgid, key.epoch_ns));
        self.allocations.retain(|(key, _)| lives(key.tgid, key.epoch_ns));
        for (_, thread) in &mut self.threads {
            // Whatever call was under way has returned unseen.
            thread.in_flight.active = 0;
            thread.pending_valid = 0;
            // The count of moves begins anew.
            thread.cgroup_generation = u64::MAX;
        }
    }

    /// Writes it into new maps, before anything is attached.
    pub fn restore(&self, reader: Reader, kernel: &Kernel) -> Result<(), ReadError> {
        fn each<K, V>(
            reader: Reader,
            kernel: &Kernel,
            map: &'static str,
            rows: &[(K, V)],
        ) -> Result<(), ReadError>
        where
            K: IntoBytes + Immutable,
            V: IntoBytes + Immutable,
        {
            rows.iter().try_for_each(|(key, value)| reader.write(kernel, map, key, value))
        }
        each(reader, kernel, maps::PROCESSES, &self.processes)?;
        each(reader, kernel, maps::THREADS, &self.threads)?;
        each(reader, kernel, maps::CONTEXTS, &self.contexts)?;
        each(reader, kernel, maps::PRIMARY_CONTEXTS, &self.primary)?;
        each(reader, kernel, maps::ALLOCATIONS, &self.allocations)?;
        each(reader, kernel, maps::RETURNED, &self.returned)?;
        reader.write_per_cpu(kernel, maps::COUNTERS, &self.counters)?;
        reader.write_per_cpu(kernel, maps::ERRORS, &self.errors)
    }

    /// Writes it to a file.
    pub fn save(&self, path: &Path, boot_id: &str) -> Result<(), StoreError> {
        let Self { processes, threads, contexts, primary, allocations, returned, counters, errors } = self;
        let mut bytes = Vec::new();
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&abi::VERSION.to_le_bytes());
        bytes.extend_from_slice(boot_id.as_bytes());
        bytes.push(b'\n');
        encode(&mut bytes, processes);
        encode(&mut bytes, threads);
        encode(&mut bytes, contexts);
        encode(&mut bytes, primary);
        encode(&mut bytes, allocations);
        encode(&mut bytes, returned);
        encode(&mut bytes, counters);
        encode(&mut bytes, errors);
        write_whole(path, &bytes)
    }

    /// Takes it from a file, which is then gone; `None` if there is none, or none of this boot and version: epochs and
    /// cgroup ids mean nothing in another.
    pub fn take(path: &Path, boot_id: &str) -> Option<Self> {
        let bytes = match fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) => {
                if error.kind() != io::ErrorKind::NotFound {
                    tracing::warn!(path = %path.display(), %error, "the stored maps cannot be read");
                }
                return None;
            }
        };
        if let Err(error) = fs::remove_file(path) {
            tracing::warn!(path = %path.display(), %error, "the stored maps cannot be removed");
        }
        let dump = Self::decode(&bytes, boot_id);
        if dump.is_none() {
            tracing::warn!(path = %path.display(), "the stored maps are damaged, or of another boot or version");
        }
        dump
    }

    fn decode(bytes: &[u8], boot_id: &str) -> Option<Self> {
        let rest = bytes.strip_prefix(MAGIC)?;
        let rest = rest.strip_prefix(&abi::VERSION.to_le_bytes())?;
        let mut rest = rest.strip_prefix(boot_id.as_bytes())?.strip_prefix(b"\n")?;
        let dump = Self {
            processes: decode(&mut rest)?,
            threads: decode(&mut rest)?,
            contexts: decode(&mut rest)?,
            primary: decode(&mut rest)?,
            allocations: decode(&mut rest)?,
            returned: decode(&mut rest)?,
            counters: decode(&mut rest)?,
            errors: decode(&mut rest)?,
        };
        rest.is_empty().then_some(dump)
    }
}

const MAGIC: &[u8] = b"gpu-agent maps\n";

fn encode<K: IntoBytes + Immutable, V: IntoBytes + Immutable>(bytes: &mut Vec<u8>, rows: &[(K, V)]) {
    bytes.extend_from_slice(&(rows.len() as u64).to_le_bytes());
    for (key, value) in rows {
        bytes.extend_from_slice(key.as_bytes());
        bytes.extend_from_slice(value.as_bytes());
    }
}

fn decode<K: FromBytes, V: FromBytes>(bytes: &mut &[u8]) -> Option<Vec<(K, V)>> {
    let (count, mut rest) = u64::read_from_prefix(bytes).ok()?;
    // No more can be in there than the bytes allow, whatever the count says.
    let count = usize::try_from(u64::from_le(count)).ok()?;
    if count > rest.len() / (size_of::<K>() + size_of::<V>()) {
        return None;
    }
    let mut rows = Vec::with_capacity(count);
    for _ in 0..count {
        let (key, after_key) = K::read_from_prefix(rest).ok()?;
        let (value, after_value) = V::read_from_prefix(after_key).ok()?;
        rows.push((key, value));
        rest = after_value;
    }
    *bytes = rest;
    Some(rows)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use zerocopy::FromZeros as _;

    use super::*;

    fn process(epoch_ns: u64) -> Process {
        Process { epoch_ns, ..Process::new_zeroed() }
    }

    fn sample() -> Dump {
        let mut thread = Thread::new_zeroed();
        thread.tgid = 7;
        thread.epoch_ns = 70;
        thread.in_flight.active = 1;
        let key = |tgid, epoch_ns| CounterKey { cgroup_id: 1, epoch_ns, tgid, device: 0 };
        Dump {
            processes: vec![(7, process(70)), (8, process(80))],
            threads: vec![(7, thread), (9, thread)],
            allocations: vec![(
                AllocationKey { epoch_ns: 80, address: 4096, tgid: 8, space: 0 },
                Allocation::new_zeroed(),
            )],
            counters: vec![(key(7, 70), Counters::ZERO), (key(8, 80), Counters::ZERO)],
            ..Dump::default()
        }
    }

    #[test]
    fn a_dump_survives_the_file_and_is_taken_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("maps.bin");
        sample().save(&path, "boot").unwrap();
        assert_eq!(Dump::take(&path, "boot"), Some(sample()));
        assert_eq!(Dump::take(&path, "boot"), None);
        sample().save(&path, "boot").unwrap();
        assert_eq!(Dump::take(&path, "another"), None, "epochs of another boot mean nothing");
    }

    #[test]
    fn the_dead_keep_only_what_they_did() {
        let mut dump = sample();
        dump.keep_living(|tgid, _| tgid == 7, |_, tid| tid == 7);
        assert_eq!(dump.processes, [(7, process(70))]);
        assert!(dump.allocations.is_empty());
        assert_eq!(dump.counters.len(), 2);
        assert_eq!(dump.threads.len(), 1, "a thread that ended meanwhile leaves its id to others");
        assert_eq!(dump.threads[0].1.in_flight.active, 0, "the call under way ended unseen");
        assert_eq!(dump.threads[0].1.cgroup_generation, u64::MAX, "its cgroup is asked for again");
    }

    proptest! {
        #[test]
        fn damaged_files_are_refused_or_read_and_never_panic(at in 0_usize..600, value in any::<u8>(), cut in 0_usize..600) {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("maps.bin");
            sample().save(&path, "boot").unwrap();
            let mut bytes = fs::read(&path).unwrap();
            if let Some(byte) = bytes.get_mut(at) {
                *byte = value;
            }
            let length = bytes.len();
            bytes.truncate(length.saturating_sub(cut));
            let decoded = Dump::decode(&bytes, "boot");
            if cut > 0 {
                prop_assert_eq!(decoded, None);
            }
        }
    }
}

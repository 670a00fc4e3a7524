//! The programs' rings, emptied at once.
//!
//! What a record calls for cannot wait for the next reading of the counters: a process may be gone by then, and
//! its environment with it. A task of its own empties the rings as soon as they have something; the collector
//! takes what has come so far.

use std::{
    fmt, io,
    os::fd::{AsFd as _, OwnedFd},
    sync::{Arc, Mutex, PoisonError},
};

use aya::maps::{MapData, RingBuf};
use gpu_ebpf::abi::{Record, RecordKind};
use tokio::io::unix::AsyncFd;
use tokio_util::sync::CancellationToken;
use tracing::warn;
use zerocopy::FromBytes as _;

use super::processes::{Facts, ProcessReader};

/// A record, with what was read about its process if it is the process's first.
#[derive(Clone, Debug)]
pub struct Seen {
    pub record: Record,
    pub facts: Option<Facts>,
}

/// The rings and what was taken out of them; cheap to clone.
#[derive(Clone, Debug)]
pub struct Records {
    rings: Arc<Mutex<Rings>>,
}

struct Rings {
    events: RingBuf<MapData>,
    exits: RingBuf<MapData>,
    processes: ProcessReader,
    taken: Vec<Seen>,
    undecodable: u64,
}

impl fmt::Debug for Rings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Rings").field("taken", &self.taken.len()).finish_non_exhaustive()
    }
}

impl Records {
    /// Takes over both rings.
    pub fn new(events: RingBuf<MapData>, exits: RingBuf<MapData>, processes: ProcessReader) -> Self {
        let rings = Rings { events, exits, processes, taken: Vec::new(), undecodable: 0 };
        Self { rings: Arc::new(Mutex::new(rings)) }
    }

    /// Everything that has come since the last call, oldest first. What the kernel had counted for a process
    /// that is said to have ended is final when this returns.
    pub fn take(&self) -> Vec<Seen> {
        let mut rings = self.lock();
        rings.empty();
        let mut taken = std::mem::take(&mut rings.taken);
        drop(rings);
        taken.sort_by_key(|seen| seen.record.time_ns);
        taken
    }

    /// Records that could not be read.
    pub fn undecodable(&self) -> u64 {
        self.lock().undecodable
    }

    /// Empties the rings whenever they have something, until `stop`.
    pub async fn run(self, stop: CancellationToken) {
        let rings = match self.descriptors() {
            Ok(rings) => rings,
            Err(error) => {
                warn!(%error, "the rings cannot be waited for: short processes may stay without a GPU");
                return;
            }
        };
        let [events, exits] = rings;
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = readable(&events) => {}
                () = readable(&exits) => {}
            }
            self.lock().empty();
        }
    }

    fn descriptors(&self) -> io::Result<[AsyncFd<OwnedFd>; 2]> {
        let rings = self.lock();
        let events = rings.events.as_fd().try_clone_to_owned()?;
        let exits = rings.exits.as_fd().try_clone_to_owned()?;
        drop(rings);
        // SAFETY: the descriptors are owned by the `AsyncFd`s and stay the same for as long as those live.
        let register = |ring| unsafe { AsyncFd::register(ring) }.map_err(|error| error.into_parts().1);
        Ok([register(events)?, register(exits)?])
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Rings> {
        self.rings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Rings {
    /// Takes everything out. Ends first: what a process did before its end is in the other ring by then.
    fn empty(&mut self) {
        let Self { events, exits, processes, taken, undecodable } = self;
        for ring in [exits, events] {
            while let Some(item) = ring.next() {
                let record = Record::read_from_bytes(&item).ok();
                let known = record.and_then(|record| Some((record, RecordKind::from_wire(record.kind)?)));
                let Some((record, kind)) = known else {
                    *undecodable += 1;
                    continue;
                };
                let start_ns = (record.start_boottime_ns != 0).then_some(record.start_boottime_ns);
                let facts = (kind == RecordKind::ProcessSeen)
                    .then(|| processes.facts(record.tgid, start_ns))
                    .flatten();
                taken.push(Seen { record, facts });
            }
        }
    }
}

async fn readable(ring: &AsyncFd<OwnedFd>) {
    match ring.readable().await {
        Ok(mut guard) => guard.clear_ready(),
        // Only when the runtime goes down.
        Err(_) => std::future::pending().await,
    }
}

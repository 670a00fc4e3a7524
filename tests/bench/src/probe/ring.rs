//! Counting what programs send.

use std::{
    os::fd::{AsFd as _, OwnedFd},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
};

use anyhow::{Context as _, Result};
use aya::maps::{MapData, RingBuf};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// How long the consumer sleeps at most before it looks whether it should end.
const PATIENCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };

/// A ring whose records are counted and thrown away.
#[derive(Clone)]
pub(super) struct Ring(Arc<Mutex<Counted>>);

struct Counted {
    ring: RingBuf<MapData>,
    records: u64,
}

impl Ring {
    pub(super) fn new(ring: RingBuf<MapData>) -> Self {
        Self(Arc::new(Mutex::new(Counted { ring, records: 0 })))
    }

    /// Empties the ring; returns how many records there have been in all.
    pub(super) fn records(&self) -> u64 {
        let mut counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while counted.ring.next().is_some() {
            counted.records += 1;
        }
        counted.records
    }

    fn descriptor(&self) -> Result<OwnedFd> {
        let counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counted.ring.as_fd().try_clone_to_owned().context("cannot duplicate a ring's descriptor")
    }
}

/// A thread that empties a ring whenever it is woken, as whoever wants events must.
pub(super) struct Consumer {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Consumer {
    pub(super) fn start(ring: &Ring) -> Result<Self> {
        let (ring, descriptor) = (ring.clone(), ring.descriptor()?);
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            while !stopped.load(Relaxed) {
                let mut awaited = [PollFd::new(&descriptor, PollFlags::IN)];
                if poll(&mut awaited, Some(&PATIENCE)).is_ok_and(|ready| ready > 0) {
                    ring.records();
                }
            }
        });
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic has been reported when it happened.
            drop(thread.join());
        }
    }
}

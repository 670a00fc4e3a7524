//! Finds processes that have ended and frees what they held.

use std::{
    os::fd::OwnedFd,
    sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, PidfdFlags, pidfd_open},
};

use crate::machine::{Holder, Machine, MachineError, layout::ProcessState, process::SlotState};

/// Watches the owners of process slots.
#[derive(Debug, Default)]
pub(super) struct Reaper {
    watched: Vec<Watched>,
}

#[derive(Debug)]
struct Watched {
    slot: usize,
    generation: u32,
    /// Becomes readable when the process ends; absent where the process is outside the daemon's PID namespace.
    pidfd: Option<OwnedFd>,
}

impl Reaper {
    /// Learns about new owners, and frees the slots of those that have ended.
    pub(super) fn look(&mut self, machine: &Machine) -> Result<(), MachineError> {
        for slot in self.possibly_ended() {
            if machine.lock()?.slot_holder(slot)? == Holder::Nobody {
                free(machine, slot);
            }
        }
        let processes = &machine.shared().processes;
        self.watched.retain(|watched| {
            let process = &processes[watched.slot];
            process.state.load(Acquire) != SlotState::Free as u32
                && process.generation.load(Relaxed) == watched.generation
        });
        for (slot, process) in processes.iter().enumerate() {
            let in_use = process.state.load(Acquire) != SlotState::Free as u32;
            if in_use && !self.watched.iter().any(|watched| watched.slot == slot) {
                self.watch(machine, slot, process)?;
            }
        }
        Ok(())
    }

    /// Slots whose owner's pidfd says that it ended, and those that have no pidfd.
    fn possibly_ended(&self) -> Vec<usize> {
        let (with, without): (Vec<&Watched>, Vec<&Watched>) =
            self.watched.iter().partition(|watched| watched.pidfd.is_some());
        let mut fds: Vec<PollFd<'_>> = with
            .iter()
            .filter_map(|watched| watched.pidfd.as_ref())
            .map(|fd| PollFd::new(fd, PollFlags::IN))
            .collect();
        let polled = poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
        let ended = with.iter().zip(&fds).filter(|(_, fd)| polled.is_err() || !fd.revents().is_empty());
        ended.map(|(watched, _)| watched.slot).chain(without.iter().map(|watched| watched.slot)).collect()
    }

    fn watch(&mut self, machine: &Machine, slot: usize, process: &ProcessState) -> Result<(), MachineError> {
        let lock = machine.lock()?;
        let holder = lock.slot_holder(slot)?;
        let Holder::Process(pid) = holder else {
            free(machine, slot);
            return Ok(());
        };
        // A slot in `Claiming` gets its generation only now; it is looked at again when it is `Live`.
        if process.state.load(SeqCst) != SlotState::Live as u32 {
            return Ok(());
        }
        let generation = process.generation.load(Relaxed);
        let pidfd = pid
            .and_then(|pid| i32::try_from(pid).ok())
            .and_then(Pid::from_raw)
            .and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        // The pid could have been reused between the two calls; the lock says whether it is still the same process.
        let confirmed = lock.slot_holder(slot)? == holder;
        process.pid.store(pid.unwrap_or(0), Relaxed);
        self.watched.push(Watched { slot, generation, pidfd: pidfd.filter(|_| confirmed) });
        Ok(())
    }
}

/// Frees everything that the former owner of a slot held.
fn free(machine: &Machine, slot: usize) {
    let shared = machine.shared();
    let owner = slot as u32 + 1;
    for channel in &shared.channels {
        if channel.owner.load(Acquire) == owner {
            if channel.ready.load(Acquire) == 1 {
                channel.closing.store(1, SeqCst);
            } else {
                // Its owner died while claiming it, so no GPU knows it.
                channel.free();
            }
        }
    }
    shared.header.channels_epoch.fetch_add(1, SeqCst);
    for event in &shared.events {
        if event.owner.load(Relaxed) == owner {
            event.owner.store(0, Release);
        }
    }
    let process = &shared.processes[slot];
    for (gpu, held) in shared.gpus.iter().zip(&process.gpus) {
        held.memory_bytes.store(0, SeqCst);
        held.contexts.store(0, Relaxed);
        held.busy_ns.store(0, Relaxed);
        gpu.ended.absorb(&held.counters);
    }
    process.pid.store(0, Relaxed);
    process.claimed_pid.store(0, Relaxed);
    process.state.store(SlotState::Free as u32, Release);
}

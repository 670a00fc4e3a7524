//! Process slots: who uses the machine, and whether they still live.

use std::sync::{
    Arc,
    atomic::Ordering::{Acquire, Relaxed, SeqCst},
};

use super::{
    Machine, MachineError,
    layout::{MAX_PROCESSES, ProcessGpuState, ProcessState, SleepDepth},
};

/// What a process slot is used for; the value of [`ProcessState::state`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum SlotState {
    Free = 0,
    /// Being set up; the daemon frees it if the owner dies meanwhile.
    Claiming = 1,
    Live = 2,
}

impl SlotState {
    /// The state behind a stored word; `None` for a value that no version of this program writes.
    pub fn from_word(word: u32) -> Option<Self> {
        [Self::Free, Self::Claiming, Self::Live].into_iter().find(|state| *state as u32 == word)
    }
}

/// The slot of the calling process. It belongs to the process until that ends; dropping the value changes nothing.
#[derive(Clone, Debug)]
pub struct Slot {
    machine: Arc<Machine>,
    index: usize,
}

impl Slot {
    /// Claims a slot for the calling process.
    pub fn claim(machine: &Arc<Machine>) -> Result<Self, MachineError> {
        let lock = machine.lock()?;
        for (index, process) in machine.shared().processes.iter().enumerate() {
            // The state comes first: locking a byte that another part of this process holds would succeed.
            if process.state.load(Acquire) != SlotState::Free as u32 || !lock.acquire_slot(index)? {
                continue;
            }
            let claimed = process.state.compare_exchange(
                SlotState::Free as u32,
                SlotState::Claiming as u32,
                SeqCst,
                SeqCst,
            );
            if claimed.is_err() {
                lock.release_slot(index)?;
                continue;
            }
            process.generation.fetch_add(1, Relaxed);
            process.pid.store(0, Relaxed);
            process.claimed_pid.store(std::process::id(), Relaxed);
            process.state.store(SlotState::Live as u32, SeqCst);
            machine.shared().header.processes_epoch.fetch_add(1, SeqCst);
            machine.ring(SleepDepth::Ticking);
            return Ok(Self { machine: Arc::clone(machine), index });
        }
        Err(MachineError::NoProcessSlot { limit: MAX_PROCESSES })
    }

    /// The slot's number.
    pub fn index(&self) -> usize {
        self.index
    }

    /// The machine that it belongs to.
    pub fn machine(&self) -> &Arc<Machine> {
        &self.machine
    }

    /// The slot's shared state.
    pub fn state(&self) -> &ProcessState {
        &self.machine.shared().processes[self.index]
    }

    /// What this process holds and did on one GPU; `gpu` is below [`crate::scenario::MAX_GPUS`].
    pub fn gpu(&self, gpu: usize) -> &ProcessGpuState {
        &self.state().gpus[gpu]
    }
}

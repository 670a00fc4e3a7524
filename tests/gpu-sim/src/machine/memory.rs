//! Device memory: claimed in blocks of 2 MiB by each process, counted against the GPU's total.
//!
//! There is no lock and no shared total that a dying or stopped process could leave wrong: each process owns one counter
//! for each GPU, and what is used is their sum.

use std::sync::atomic::Ordering::SeqCst;

use super::{Machine, process::Slot};

/// Device memory is handed to processes in blocks of this size.
pub const BLOCK_BYTES: u64 = 2 * 1024 * 1024;

/// Attempts of two processes that exceed the total only together; each withdraws and tries again.
const ATTEMPTS: u32 = 16;

/// The GPU has too little free memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("out of device memory: {requested_bytes} bytes requested, {free_bytes} free")]
pub struct OutOfMemory {
    pub requested_bytes: u64,
    pub free_bytes: u64,
}

/// Rounds up to whole blocks; `None` when that exceeds 64 bits.
pub fn round_to_blocks(bytes: u64) -> Option<u64> {
    bytes.checked_next_multiple_of(BLOCK_BYTES)
}

impl Machine {
    /// Memory of one GPU that processes and the driver's reserve take together.
    pub fn memory_used_bytes(&self, gpu: usize) -> u64 {
        let reserved = self.scenario().gpus.get(gpu).map_or(0, |gpu| gpu.model.memory.reserved_bytes);
        let processes = &self.shared().processes;
        processes
            .iter()
            .map(|process| process.gpus[gpu].memory_bytes.load(SeqCst))
            .fold(reserved, u64::saturating_add)
    }

    /// Memory of one GPU that nothing has claimed.
    pub fn memory_free_bytes(&self, gpu: usize) -> u64 {
        let total = self.scenario().gpus.get(gpu).map_or(0, |gpu| gpu.model.memory.total_bytes);
        total.saturating_sub(self.memory_used_bytes(gpu))
    }
}

impl Slot {
    /// Claims `bytes` (whole blocks) of a GPU's memory for this process.
    pub fn claim_memory(&self, gpu: usize, bytes: u64) -> Result<(), OutOfMemory> {
        let machine = self.machine();
        let total = machine.scenario().gpus.get(gpu).map_or(0, |gpu| gpu.model.memory.total_bytes);
        let counter = &self.gpu(gpu).memory_bytes;
        for attempt in 0..ATTEMPTS {
            let free_bytes = machine.memory_free_bytes(gpu);
            if bytes > free_bytes {
                return Err(OutOfMemory { requested_bytes: bytes, free_bytes });
            }
            counter.fetch_add(bytes, SeqCst);
            if machine.memory_used_bytes(gpu) <= total {
                return Ok(());
            }
            counter.fetch_sub(bytes, SeqCst);
            // Different pauses let one of the competitors through.
            for _ in 0..(attempt as usize + 1) * (self.index() + 1) * 16 {
                std::hint::spin_loop();
            }
        }
        Err(OutOfMemory { requested_bytes: bytes, free_bytes: machine.memory_free_bytes(gpu) })
    }

    /// Gives `bytes` back that [`Slot::claim_memory`] granted.
    pub fn release_memory(&self, gpu: usize, bytes: u64) {
        self.gpu(gpu).memory_bytes.fetch_sub(bytes, SeqCst);
    }
}

//! Device memory: which allocation lies where, and whose it is.

use std::{collections::BTreeMap, sync::atomic::Ordering::Relaxed};

use gpu_sim::machine::counters::MemoryKind;

use crate::{
    abi::{MEMORY_TYPE_DEVICE, MEMORY_TYPE_HOST},
    allocator::{Allocator, Placement},
    context::{self, Context},
    driver::{Driver, driver},
    error::{CudaError, Result},
    host, managed,
};

/// First address of GPU 0, and the distance to the next GPU. Linux on x86-64 maps nothing there by itself.
const FIRST_ADDRESS: u64 = 0x2000_0000_0000;
const GPU_STRIDE: u64 = 1 << 40;

/// cuMemAllocPitch's pitch is a multiple of this.
const PITCH_BYTES: u64 = 512;

/// All memory that this process got from the driver.
#[derive(Debug)]
pub(crate) struct Memory {
    allocators: Vec<Allocator>,
    live: BTreeMap<u64, Allocation>,
}

/// One allocation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allocation {
    pub(crate) kind: MemoryKind,
    /// What the caller asked for.
    pub(crate) bytes: u64,
    pub(crate) gpu: usize,
    /// Number of the context that owns it.
    pub(crate) context: u32,
    /// Handle of the pool that it came from.
    pub(crate) pool: Option<u64>,
}

/// cuMemAlloc.
pub(crate) fn allocate(bytes: usize) -> Result<u64> {
    let context = context::current()?;
    allocate_in(&context, MemoryKind::Device, bytes as u64, None)
}

/// cuMemAllocPitch: address and pitch.
pub(crate) fn allocate_pitch(width: usize, height: usize, element_bytes: u32) -> Result<(u64, usize)> {
    if width == 0 || height == 0 || !matches!(element_bytes, 4 | 8 | 16) {
        return Err(CudaError::InvalidValue);
    }
    let context = context::current()?;
    let pitch = (width as u64).checked_next_multiple_of(PITCH_BYTES).ok_or(CudaError::OutOfMemory)?;
    let bytes = pitch.checked_mul(height as u64).ok_or(CudaError::OutOfMemory)?;
    Ok((allocate_in(&context, MemoryKind::Device, bytes, None)?, pitch as usize))
}

/// Allocates device memory in a context and counts it.
pub(crate) fn allocate_in(context: &Context, kind: MemoryKind, bytes: u64, pool: Option<u64>) -> Result<u64> {
    let driver = driver()?;
    let address = driver.memory().take(driver, context.gpu, bytes)?;
    let allocation = Allocation { kind, bytes, gpu: context.gpu, context: context.number, pool };
    driver.memory().live.insert(address, allocation);
    context.counters()?.allocated(kind, bytes);
    Ok(address)
}

/// cuMemFree.
pub(crate) fn free(address: u64) -> Result {
    context::current()?;
    if address == 0 {
        return Ok(());
    }
    let driver = driver()?;
    let mut memory = driver.memory();
    let allocation = memory.live.get(&address).copied().ok_or(CudaError::InvalidValue)?;
    if !matches!(allocation.kind, MemoryKind::Device | MemoryKind::Managed | MemoryKind::Pool) {
        return Err(CudaError::InvalidValue);
    }
    memory.release(driver, address);
    Ok(())
}

impl Memory {
    pub(crate) fn new(gpus: usize) -> Self {
        let allocators = (0..gpus as u64).map(|gpu| Allocator::new(FIRST_ADDRESS + gpu * GPU_STRIDE));
        Self { allocators: allocators.collect(), live: BTreeMap::new() }
    }

    /// Takes device memory of a GPU without remembering it as an allocation.
    pub(crate) fn take(&mut self, driver: &Driver, gpu: usize, bytes: u64) -> Result<u64> {
        if bytes == 0 {
            return Err(CudaError::InvalidValue);
        }
        let rounded = Allocator::round(bytes).ok_or(CudaError::OutOfMemory)?;
        let allocator = self.allocators.get_mut(gpu).ok_or(CudaError::InvalidDevice)?;
        let placement = allocator.find(rounded);
        if let Placement::New(claim) = placement {
            driver.slot.claim_memory(gpu, claim)?;
        }
        Ok(allocator.place(rounded, placement))
    }

    /// Gives back what [`Memory::take`] took.
    pub(crate) fn give_back(&mut self, driver: &Driver, gpu: usize, address: u64, bytes: u64) {
        let (Some(allocator), Some(rounded)) = (self.allocators.get_mut(gpu), Allocator::round(bytes)) else {
            return;
        };
        let freed = allocator.free(address, rounded);
        if freed > 0 {
            driver.slot.release_memory(gpu, freed);
        }
    }

    /// Remembers an allocation that lies outside the devices' own memory.
    pub(crate) fn remember(&mut self, address: u64, allocation: Allocation) {
        self.live.insert(address, allocation);
    }

    /// The allocation that starts at an address.
    pub(crate) fn at(&self, address: u64) -> Option<&Allocation> {
        self.live.get(&address)
    }

    /// The allocation that contains an address, with its start.
    pub(crate) fn containing(&self, address: u64) -> Option<(u64, &Allocation)> {
        let (start, allocation) = self.live.range(..=address).next_back()?;
        (address - start < allocation.bytes).then_some((*start, allocation))
    }

    /// Ends an allocation and counts that.
    pub(crate) fn release(&mut self, driver: &Driver, address: u64) {
        let Some(allocation) = self.live.remove(&address) else { return };
        let Allocation { kind, bytes, gpu, .. } = allocation;
        match kind {
            MemoryKind::Device | MemoryKind::Pool | MemoryKind::Array => {
                self.give_back(driver, gpu, address, bytes);
            }
            MemoryKind::Managed => managed::unmap(address, bytes),
            MemoryKind::Host => host::release(address, bytes),
            MemoryKind::Virtual => {}
        }
        driver.slot.gpu(gpu).counters.freed(kind, bytes);
    }

    /// Ends an allocation, whose memory stays with a pool.
    pub(crate) fn release_to_pool(&mut self, driver: &Driver, address: u64) {
        if let Some(Allocation { kind, bytes, gpu, .. }) = self.live.remove(&address) {
            driver.slot.gpu(gpu).counters.freed(kind, bytes);
        }
    }

    /// Ends every allocation of a context that is destroyed.
    pub(crate) fn free_context(&mut self, driver: &Driver, context: u32) {
        let owned = self.live.iter().filter(|(_, allocation)| allocation.context == context);
        let addresses: Vec<u64> = owned.map(|(address, _)| *address).collect();
        for address in addresses {
            self.release(driver, address);
        }
    }
}

/// cuMemGetInfo: free and total bytes of the current device.
pub(crate) fn info() -> Result<(usize, usize)> {
    let context = context::current()?;
    let driver = driver()?;
    let total = driver.facts(context.ordinal)?.model.memory.total_bytes;
    Ok((driver.slot.machine().memory_free_bytes(context.gpu) as usize, total as usize))
}

/// cuMemGetAddressRange: start and size of the allocation that contains an address.
pub(crate) fn address_range(address: u64) -> Result<(u64, usize)> {
    context::current()?;
    let memory = driver()?.memory();
    let (start, allocation) = memory.containing(address).ok_or(CudaError::NotFound)?;
    Ok((start, allocation.bytes as usize))
}

/// CU_POINTER_ATTRIBUTE_CONTEXT, the only attribute that is not a 32-bit number here.
pub(crate) const POINTER_ATTRIBUTE_CONTEXT: u32 = 1;

/// cuPointerGetAttribute for CU_POINTER_ATTRIBUTE_CONTEXT: the handle of the context that owns an address.
pub(crate) fn context_of(address: u64) -> Result<u64> {
    let driver = driver()?;
    let number = driver.memory().containing(address).map(|(_, allocation)| allocation.context);
    let number = number.ok_or(CudaError::InvalidValue)?;
    driver.contexts.find(|context| context.number == number).map(|context| context.handle)
}

/// cuPointerGetAttribute for memory type (2), managed (8) and device ordinal (9).
pub(crate) fn pointer_attribute(attribute: u32, address: u64) -> Result<u32> {
    let driver = driver()?;
    let memory = driver.memory();
    let (_, allocation) = memory.containing(address).ok_or(CudaError::InvalidValue)?;
    let on_host = allocation.kind == MemoryKind::Host;
    match attribute {
        2 => Ok(if on_host { MEMORY_TYPE_HOST } else { MEMORY_TYPE_DEVICE }),
        8 => Ok(u32::from(allocation.kind == MemoryKind::Managed)),
        9 => {
            let ordinal = driver.devices.iter().position(|device| device.gpu == allocation.gpu);
            ordinal.and_then(|ordinal| u32::try_from(ordinal).ok()).ok_or(CudaError::InvalidValue)
        }
        _ => Err(CudaError::NotSupported),
    }
}

/// Counts a memset of `bytes` on a context's GPU.
pub(crate) fn count_memset(context: &Context, bytes: u64) -> Result {
    let memset = &context.counters()?.memset;
    memset.calls.fetch_add(1, Relaxed);
    memset.bytes.fetch_add(bytes, Relaxed);
    Ok(())
}

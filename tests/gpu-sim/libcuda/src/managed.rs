//! Managed memory, which really is host memory.

use gpu_sim::machine::counters::MemoryKind;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use crate::{
    context,
    driver::driver,
    error::{CudaError, Result},
    memory::Allocation,
};

/// CU_MEM_ATTACH_GLOBAL and CU_MEM_ATTACH_HOST.
const ATTACH_FLAGS: [u32; 2] = [1, 2];

/// cuMemAllocManaged.
pub(crate) fn allocate(bytes: usize, flags: u32) -> Result<u64> {
    let context = context::current()?;
    if !ATTACH_FLAGS.contains(&flags) {
        return Err(CudaError::InvalidValue);
    }
    let address = map(bytes)?;
    let allocation = Allocation {
        kind: MemoryKind::Managed,
        bytes: bytes as u64,
        gpu: context.gpu,
        context: context.number,
        pool: None,
    };
    driver()?.memory().remember(address, allocation);
    context.counters()?.allocated(MemoryKind::Managed, bytes as u64);
    Ok(address)
}

/// cuMemPrefetchAsync, cuMemAdvise and relatives: no effect, but the range must be managed memory.
pub(crate) fn check_range(address: u64, bytes: usize) -> Result {
    context::current()?;
    let memory = driver()?.memory();
    let (start, allocation) = memory.containing(address).ok_or(CudaError::InvalidValue)?;
    let fits = (address - start).checked_add(bytes as u64).is_some_and(|end| end <= allocation.bytes);
    if bytes > 0 && fits && allocation.kind == MemoryKind::Managed {
        Ok(())
    } else {
        Err(CudaError::InvalidValue)
    }
}

/// Maps anonymous memory; pages are taken when they are touched.
pub(crate) fn map(bytes: usize) -> Result<u64> {
    if bytes == 0 {
        return Err(CudaError::InvalidValue);
    }
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new anonymous mapping at an address of the kernel's choice touches no existing memory.
    let mapped = unsafe {
        mmap_anonymous(std::ptr::null_mut(), bytes, protection, MapFlags::PRIVATE | MapFlags::NORESERVE)
    };
    mapped.map(|address| address as u64).map_err(|_| CudaError::OutOfMemory)
}

/// Unmaps what [`map`] mapped.
pub(crate) fn unmap(address: u64, bytes: u64) {
    // SAFETY: the caller took this allocation out of the table of live ones, so it is unmapped once, as a whole.
    let result = unsafe { munmap(address as *mut _, bytes as usize) };
    debug_assert!(result.is_ok(), "munmap: {result:?}");
}

//! Virtual memory management: physical allocations, reserved addresses, and what is mapped where.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use gpu_sim::machine::{counters::MemoryKind, memory::BLOCK_BYTES};

use crate::{
    abi::{LOCATION_DEVICE, MemAllocationProp},
    context,
    driver::driver,
    error::{CudaError, Result},
};

/// First address that is handed out. It lies above the addresses of plain device memory.
const FIRST_ADDRESS: u64 = 0x3800_0000_0000;

/// CU_MEM_ALLOCATION_TYPE_PINNED.
const PINNED: u32 = 1;

/// Physical memory behind a CUmemGenericAllocationHandle.
#[derive(Debug)]
pub(crate) struct Physical {
    pub(crate) gpu: usize,
    pub(crate) bytes: u64,
    /// Whether this process claimed it; imported memory belongs to another.
    owned: bool,
    /// Times that its handle has yet to be released.
    references: AtomicU64,
}

impl Physical {
    fn new(gpu: usize, bytes: u64, owned: bool) -> Self {
        Self { gpu, bytes, owned, references: AtomicU64::new(1) }
    }
}

/// Memory that is mapped at an address.
#[derive(Debug)]
struct Mapping {
    bytes: u64,
    handle: u64,
    /// Held, because memory lives as long as it is mapped.
    _physical: Arc<Physical>,
}

/// Addresses outside the plain device memory.
#[derive(Debug, Default)]
pub(crate) struct AddressSpace {
    handed_out_bytes: u64,
    reserved: BTreeMap<u64, u64>,
    mapped: BTreeMap<u64, Mapping>,
    /// Memory of other processes, opened through IPC handles: address to size.
    opened: BTreeMap<u64, u64>,
    /// Registered host memory: address to size and GPU.
    registered: BTreeMap<u64, (u64, usize)>,
}

/// cuMemCreate.
pub(crate) fn create(bytes: usize, properties: &MemAllocationProp) -> Result<u64> {
    let driver = driver()?;
    let bytes = bytes as u64;
    if properties.kind != PINNED || properties.location.kind != LOCATION_DEVICE {
        return Err(CudaError::InvalidValue);
    }
    let gpu = driver.device(properties.location.id)?.gpu;
    if bytes == 0 || !bytes.is_multiple_of(BLOCK_BYTES) {
        return Err(CudaError::InvalidValue);
    }
    driver.slot.claim_memory(gpu, bytes)?;
    driver.slot.gpu(gpu).counters.allocated(MemoryKind::Virtual, bytes);
    Ok(driver.physical.insert(Physical::new(gpu, bytes, true)))
}

/// cuMemRelease: the memory itself goes when it is mapped nowhere.
pub(crate) fn release(handle: u64) -> Result {
    let driver = driver()?;
    // Calls about mappings exclude each other, so that no handle is retained while its last release is under way.
    let _space = driver.address_space();
    if find(handle)?.references.fetch_sub(1, Relaxed) > 1 {
        return Ok(());
    }
    let physical = driver.physical.remove(handle).map_err(|_| CudaError::InvalidValue)?;
    if physical.owned {
        driver.slot.gpu(physical.gpu).counters.freed(MemoryKind::Virtual, physical.bytes);
    }
    Ok(())
}

/// cuMemRetainAllocationHandle: the handle that an address was mapped with, to be released once more. The double knows
/// handles that were not all released only.
pub(crate) fn retain(address: u64) -> Result<u64> {
    let space = driver()?.address_space();
    let (start, mapping) = space.mapped.range(..=address).next_back().ok_or(CudaError::InvalidValue)?;
    if address >= start + mapping.bytes {
        return Err(CudaError::InvalidValue);
    }
    find(mapping.handle)?.references.fetch_add(1, Relaxed);
    Ok(mapping.handle)
}

/// The physical memory behind a handle.
pub(crate) fn find(handle: u64) -> Result<Arc<Physical>> {
    driver()?.physical.get(handle).map_err(|_| CudaError::InvalidValue)
}

/// Makes a handle for memory that another process owns; it counts there.
pub(crate) fn import(gpu: usize, bytes: u64) -> Result<u64> {
    let driver = driver()?;
    if !driver.devices.iter().any(|device| device.gpu == gpu) {
        return Err(CudaError::InvalidDevice);
    }
    Ok(driver.physical.insert(Physical::new(gpu, bytes, false)))
}

/// cuMemAddressReserve.
pub(crate) fn reserve(bytes: usize) -> Result<u64> {
    let bytes = bytes as u64;
    if bytes == 0 || !bytes.is_multiple_of(BLOCK_BYTES) {
        return Err(CudaError::InvalidValue);
    }
    let mut space = driver()?.address_space();
    let address = space.next_address(bytes)?;
    space.reserved.insert(address, bytes);
    Ok(address)
}

/// cuMemAddressFree.
pub(crate) fn free_address(address: u64, bytes: usize) -> Result {
    let mut space = driver()?.address_space();
    if space.reserved.get(&address) != Some(&(bytes as u64)) || space.is_mapped(address, bytes as u64) {
        return Err(CudaError::InvalidValue);
    }
    space.reserved.remove(&address);
    Ok(())
}

/// cuMemMap.
pub(crate) fn map(address: u64, bytes: usize, offset: usize, handle: u64) -> Result {
    let physical = find(handle)?;
    let bytes = bytes as u64;
    let mut space = driver()?.address_space();
    let end = address.checked_add(bytes).ok_or(CudaError::InvalidValue)?;
    let reserved =
        space.reserved.range(..=address).next_back().is_some_and(|(start, length)| end <= start + length);
    if !reserved || offset != 0 || bytes != physical.bytes || space.overlaps(address, bytes) {
        return Err(CudaError::InvalidValue);
    }
    space.mapped.insert(address, Mapping { bytes, handle, _physical: physical });
    Ok(())
}

/// cuMemUnmap.
pub(crate) fn unmap(address: u64, bytes: usize) -> Result {
    let mut space = driver()?.address_space();
    match space.mapped.get(&address) {
        Some(mapping) if mapping.bytes == bytes as u64 => {
            space.mapped.remove(&address);
            Ok(())
        }
        _ => Err(CudaError::InvalidValue),
    }
}

/// cuMemSetAccess: the range must be mapped.
pub(crate) fn set_access(address: u64, bytes: usize) -> Result {
    if driver()?.address_space().is_mapped(address, bytes as u64) {
        Ok(())
    } else {
        Err(CudaError::InvalidValue)
    }
}

/// cuIpcOpenMemHandle: an address for another process's memory.
pub(crate) fn open_ipc(bytes: u64) -> Result<u64> {
    context::current()?;
    let mut space = driver()?.address_space();
    let address = space.next_address(bytes.max(1))?;
    space.opened.insert(address, bytes);
    Ok(address)
}

/// cuIpcCloseMemHandle.
pub(crate) fn close_ipc(address: u64) -> Result {
    context::current()?;
    driver()?.address_space().opened.remove(&address).map(drop).ok_or(CudaError::InvalidValue)
}

impl AddressSpace {
    /// Whether a range is backed by mapped or opened memory as a whole.
    pub(crate) fn is_mapped(&self, address: u64, bytes: u64) -> bool {
        let Some(end) = address.checked_add(bytes) else { return false };
        let mapped = self.mapped.range(..=address).next_back().map(|(start, mapping)| start + mapping.bytes);
        let opened = self.opened.range(..=address).next_back().map(|(start, length)| start + length);
        mapped.into_iter().chain(opened).any(|limit| end <= limit)
    }

    pub(crate) fn register_host(&mut self, address: u64, bytes: u64, gpu: usize) -> Result {
        let end = address.checked_add(bytes).ok_or(CudaError::InvalidValue)?;
        if self
            .registered
            .range(..end)
            .next_back()
            .is_some_and(|(start, (length, _))| start + length > address)
        {
            return Err(CudaError::HostMemoryAlreadyRegistered);
        }
        self.registered.insert(address, (bytes, gpu));
        Ok(())
    }

    pub(crate) fn is_registered(&self, address: u64) -> bool {
        let before = self.registered.range(..=address).next_back();
        before.is_some_and(|(start, (length, _))| address < start + length)
    }

    pub(crate) fn unregister_host(&mut self, address: u64) -> Result<(u64, usize)> {
        self.registered.remove(&address).ok_or(CudaError::HostMemoryNotRegistered)
    }

    /// Addresses are not used twice: a process would need years to run out of them.
    fn next_address(&mut self, bytes: u64) -> Result<u64> {
        let rounded = bytes.checked_next_multiple_of(BLOCK_BYTES).ok_or(CudaError::OutOfMemory)?;
        let next = self.handed_out_bytes.checked_add(rounded).filter(|sum| *sum < 1 << 45);
        let address = FIRST_ADDRESS + self.handed_out_bytes;
        self.handed_out_bytes = next.ok_or(CudaError::OutOfMemory)?;
        Ok(address)
    }

    fn overlaps(&self, address: u64, bytes: u64) -> bool {
        let before = self.mapped.range(..address + bytes).next_back();
        before.is_some_and(|(start, mapping)| start + mapping.bytes > address)
    }
}

impl Drop for Physical {
    fn drop(&mut self) {
        if self.owned
            && let Ok(driver) = driver()
        {
            driver.slot.release_memory(self.gpu, self.bytes);
        }
    }
}

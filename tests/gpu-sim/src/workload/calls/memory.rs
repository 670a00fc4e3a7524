//! Allocations and frees.

use crate::{
    truth::{
        CallClass::{Alloc, Free, Query},
        MemoryKind,
    },
    workload::{
        WorkloadError,
        log::{Held, Name},
        session::Session,
    },
};

type Result<T = ()> = std::result::Result<T, WorkloadError>;

/// CU_MEM_ATTACH_GLOBAL.
const ATTACH_GLOBAL: u32 = 1;

/// Granularity of cuMemCreate.
pub(in crate::workload) const PHYSICAL_GRANULE_BYTES: u64 = 2 << 20;

impl Session<'_> {
    pub(in crate::workload) fn alloc(&self, bytes: u64) -> Result<u64> {
        let mut address = 0;
        // SAFETY: the call stores to the variable.
        let code = unsafe { (self.process.api.mem_alloc)(&raw mut address, bytes as usize) };
        self.check(Alloc, "cuMemAlloc", code)?;
        self.allocated(Name::Address(address), MemoryKind::Device, bytes);
        Ok(address)
    }

    pub(in crate::workload) fn alloc_pitch(&self, width: u64, height: u64) -> Result<u64> {
        let (mut address, mut pitch) = (0, 0);
        // SAFETY: the call stores to the variables.
        let code = unsafe {
            (self.process.api.mem_alloc_pitch)(
                &raw mut address,
                &raw mut pitch,
                width as usize,
                height as usize,
                4,
            )
        };
        self.check(Alloc, "cuMemAllocPitch", code)?;
        self.allocated(Name::Address(address), MemoryKind::Device, pitch as u64 * height);
        Ok(address)
    }

    pub(in crate::workload) fn alloc_managed(&self, bytes: u64) -> Result<u64> {
        let mut address = 0;
        // SAFETY: the call stores to the variable.
        let code =
            unsafe { (self.process.api.mem_alloc_managed)(&raw mut address, bytes as usize, ATTACH_GLOBAL) };
        self.check(Alloc, "cuMemAllocManaged", code)?;
        self.allocated(Name::Address(address), MemoryKind::Managed, bytes);
        Ok(address)
    }

    pub(in crate::workload) fn alloc_async(&self, bytes: u64, stream: u64) -> Result<u64> {
        let mut address = 0;
        // SAFETY: the call stores to the variable.
        let code = unsafe { (self.process.api.mem_alloc_async)(&raw mut address, bytes as usize, stream) };
        self.check(Alloc, "cuMemAllocAsync", code)?;
        self.allocated(Name::Address(address), MemoryKind::Pool, bytes);
        Ok(address)
    }

    pub(in crate::workload) fn alloc_from_pool(&self, bytes: u64, stream: u64) -> Result<u64> {
        let mut pool = 0;
        // SAFETY: the call stores to the variable.
        let code = unsafe { (self.process.api.default_mem_pool)(&raw mut pool, self.ordinal) };
        self.check(Query, "cuDeviceGetDefaultMemPool", code)?;
        let mut address = 0;
        // SAFETY: the call stores to the variable.
        let code = unsafe {
            (self.process.api.mem_alloc_from_pool_async)(&raw mut address, bytes as usize, pool, stream)
        };
        self.check(Alloc, "cuMemAllocFromPoolAsync", code)?;
        self.allocated(Name::Address(address), MemoryKind::Pool, bytes);
        Ok(address)
    }

    pub(in crate::workload) fn free(&self, address: u64) -> Result {
        self.process.log.free(Name::Address(address), || {
            // SAFETY: the call takes no pointers that it follows.
            let code = unsafe { (self.process.api.mem_free)(address) };
            self.check(Free, "cuMemFree", code)
        })
    }

    pub(in crate::workload) fn free_async(&self, address: u64, stream: u64) -> Result {
        self.process.log.free(Name::Address(address), || {
            // SAFETY: the call takes no pointers that it follows.
            let code = unsafe { (self.process.api.mem_free_async)(address, stream) };
            self.check(Free, "cuMemFreeAsync", code)
        })
    }

    /// Physical memory of this session's device: a handle.
    pub(in crate::workload) fn create_physical(&self, bytes: u64) -> Result<u64> {
        // CUmemAllocationProp: pinned (1), no shareable handle, location: device (1) with this ordinal.
        let location = 1 | u64::from(self.ordinal.cast_unsigned()) << 32;
        let properties = [1, location, 0, 0];
        let mut handle = 0;
        // SAFETY: the properties outlive the call, which stores to the variable.
        let code = unsafe {
            (self.process.api.mem_create)(&raw mut handle, bytes as usize, &raw const properties, 0)
        };
        self.check(Alloc, "cuMemCreate", code)?;
        self.allocated(Name::Physical(handle), MemoryKind::Virtual, bytes);
        Ok(handle)
    }

    pub(in crate::workload) fn release_physical(&self, handle: u64) -> Result {
        self.process.log.free(Name::Physical(handle), || {
            // SAFETY: the call takes no pointers.
            let code = unsafe { (self.process.api.mem_release)(handle) };
            self.check(Free, "cuMemRelease", code)
        })
    }

    /// Reserves addresses, maps physical memory there, retains and releases its handle, which frees nothing, unmaps it
    /// and gives the addresses back.
    pub(in crate::workload) fn map_and_unmap(&self, handle: u64, bytes: u64) -> Result {
        let api = &self.process.api;
        let bytes = bytes as usize;
        let (mut address, mut retained) = (0, 0);
        // SAFETY: the call stores to the variable.
        let code = unsafe { (api.mem_address_reserve)(&raw mut address, bytes, 0, 0, 0) };
        self.check(Query, "cuMemAddressReserve", code)?;
        // SAFETY: the call takes no pointers that it follows.
        let code = unsafe { (api.mem_map)(address, bytes, 0, handle, 0) };
        self.check(Query, "cuMemMap", code)?;
        // SAFETY: the call stores to the variable and does not follow the address.
        let code = unsafe { (api.mem_retain_handle)(&raw mut retained, address) };
        self.check(Query, "cuMemRetainAllocationHandle", code)?;
        // SAFETY: the call takes no pointers.
        let code = unsafe { (api.mem_release)(retained) };
        self.check(Free, "cuMemRelease", code)?;
        // SAFETY: the call takes no pointers that it follows.
        let code = unsafe { (api.mem_unmap)(address, bytes) };
        self.check(Query, "cuMemUnmap", code)?;
        // SAFETY: the call takes no pointers that it follows.
        let code = unsafe { (api.mem_address_free)(address, bytes) };
        self.check(Query, "cuMemAddressFree", code)
    }

    pub(in crate::workload) fn alloc_host(&self, bytes: u64) -> Result<u64> {
        let mut address = 0;
        // SAFETY: the call stores to the variable.
        let code = unsafe { (self.process.api.mem_host_alloc)(&raw mut address, bytes as usize, 0) };
        self.check(Alloc, "cuMemHostAlloc", code)?;
        self.allocated(Name::Address(address), MemoryKind::Host, bytes);
        Ok(address)
    }

    pub(in crate::workload) fn alloc_host_v2(&self, bytes: u64) -> Result<u64> {
        let mut address = 0;
        // SAFETY: the call stores to the variable.
        let code = unsafe { (self.process.api.mem_alloc_host)(&raw mut address, bytes as usize) };
        self.check(Alloc, "cuMemAllocHost", code)?;
        self.allocated(Name::Address(address), MemoryKind::Host, bytes);
        Ok(address)
    }

    pub(in crate::workload) fn free_host(&self, address: u64) -> Result {
        self.process.log.free(Name::Address(address), || {
            // SAFETY: the memory came from the driver, and nothing else refers to it.
            let code = unsafe { (self.process.api.mem_free_host)(address) };
            self.check(Free, "cuMemFreeHost", code)
        })
    }

    /// Registers memory of the caller's own.
    pub(in crate::workload) fn register_host(&self, memory: &[u8]) -> Result {
        let address = memory.as_ptr() as u64;
        // SAFETY: registering does not change the memory.
        let code = unsafe { (self.process.api.mem_host_register)(address, memory.len(), 0) };
        self.check(Alloc, "cuMemHostRegister", code)?;
        self.allocated(Name::Registered(address), MemoryKind::Host, memory.len() as u64);
        Ok(())
    }

    pub(in crate::workload) fn unregister_host(&self, memory: &[u8]) -> Result {
        let address = memory.as_ptr() as u64;
        self.process.log.free(Name::Registered(address), || {
            // SAFETY: the call takes no pointers that it follows.
            let code = unsafe { (self.process.api.mem_host_unregister)(address) };
            self.check(Free, "cuMemHostUnregister", code)
        })
    }

    /// An array of `width` x `height` (0: one-dimensional) elements of two 32-bit floats.
    pub(in crate::workload) fn create_array(&self, width: u64, height: u64) -> Result<u64> {
        let descriptor = [width, height, FLOAT | 2 << 32];
        let mut array = 0;
        // SAFETY: the descriptor outlives the call, which stores to the variable.
        let code = unsafe { (self.process.api.array_create)(&raw mut array, &raw const descriptor) };
        self.check(Alloc, "cuArrayCreate", code)?;
        self.allocated(Name::Array(array), MemoryKind::Array, width * height.max(1) * 2 * 4);
        Ok(array)
    }

    /// An array of `width` x `height` x `depth` elements of one 8-bit number.
    pub(in crate::workload) fn create_array_3d(&self, width: u64, height: u64, depth: u64) -> Result<u64> {
        let descriptor = [width, height, depth, UNSIGNED_INT8 | 1 << 32, 0];
        let mut array = 0;
        // SAFETY: the descriptor outlives the call, which stores to the variable.
        let code = unsafe { (self.process.api.array_3d_create)(&raw mut array, &raw const descriptor) };
        self.check(Alloc, "cuArray3DCreate", code)?;
        self.allocated(Name::Array(array), MemoryKind::Array, width * height.max(1) * depth.max(1));
        Ok(array)
    }

    pub(in crate::workload) fn destroy_array(&self, array: u64) -> Result {
        self.process.log.free(Name::Array(array), || {
            // SAFETY: the call takes no pointers.
            let code = unsafe { (self.process.api.array_destroy)(array) };
            self.check(Free, "cuArrayDestroy", code)
        })
    }

    /// Makes and destroys a mipmapped array of `width` elements of one 16-bit number.
    pub(in crate::workload) fn mipmapped_array(&self, width: u64) -> Result {
        let descriptor = [width, 0, 0, UNSIGNED_INT16 | 1 << 32, 0];
        let mut array = 0;
        // SAFETY: the descriptor outlives the call, which stores to the variable.
        let code =
            unsafe { (self.process.api.mipmapped_array_create)(&raw mut array, &raw const descriptor, 1) };
        self.check(Alloc, "cuMipmappedArrayCreate", code)?;
        self.allocated(Name::Array(array), MemoryKind::Array, width * 2);
        self.process.log.free(Name::Array(array), || {
            // SAFETY: the call takes no pointers.
            let code = unsafe { (self.process.api.mipmapped_array_destroy)(array) };
            self.check(Free, "cuMipmappedArrayDestroy", code)
        })
    }

    /// Frees an allocation by the call for its kind.
    pub(in crate::workload) fn free_any(&self, name: Name, held: Held) -> Result {
        match name {
            Name::Address(address) if held.kind == MemoryKind::Host => self.free_host(address),
            Name::Address(address) => self.free(address),
            Name::Array(array) => self.destroy_array(array),
            Name::Physical(handle) => self.release_physical(handle),
            // The memory's owner unregisters it.
            Name::Registered(_) => Ok(()),
        }
    }

    fn allocated(&self, name: Name, kind: MemoryKind, bytes: u64) {
        let held = Held { kind, bytes, gpu: self.gpu, context: self.context };
        self.process.log.allocated(name, held);
    }
}

/// CUarray_format.
const UNSIGNED_INT8: u64 = 0x01;
const UNSIGNED_INT16: u64 = 0x02;
const FLOAT: u64 = 0x20;

//! Virtual memory management.

use crate::{
    abi::{
        CUdeviceptr, CUmemGenericAllocationHandle, MemAccessDesc, MemAllocationProp, Out, read, read_array,
    },
    entry::exports,
    virtual_memory,
};

exports! {
    fn cuMemCreate(
        out: *mut CUmemGenericAllocationHandle, bytes: usize, properties: *const MemAllocationProp, _flags: u64,
    ) = (|| {
        let (out, properties) = (Out::new(out)?, read(properties)?);
        out.set(virtual_memory::create(bytes, &properties)?);
        Ok(())
    })();

    fn cuMemRelease(handle: CUmemGenericAllocationHandle) = virtual_memory::release(handle);

    fn cuMemAddressReserve(
        out: *mut CUdeviceptr, bytes: usize, _alignment: usize, _address: CUdeviceptr, _flags: u64,
    ) = Out::new(out).and_then(|out| virtual_memory::reserve(bytes).map(|address| out.set(address)));

    fn cuMemAddressFree(address: CUdeviceptr, bytes: usize) = virtual_memory::free_address(address, bytes);

    fn cuMemMap(
        address: CUdeviceptr, bytes: usize, offset: usize, handle: CUmemGenericAllocationHandle, _flags: u64,
    ) = virtual_memory::map(address, bytes, offset, handle);

    fn cuMemRetainAllocationHandle(
        out: *mut CUmemGenericAllocationHandle, address: *const std::ffi::c_void,
    ) = Out::new(out).and_then(|out| virtual_memory::retain(address as u64).map(|handle| out.set(handle)));

    fn cuMemUnmap(address: CUdeviceptr, bytes: usize) = virtual_memory::unmap(address, bytes);

    fn cuMemSetAccess(address: CUdeviceptr, bytes: usize, access: *const MemAccessDesc, count: usize) =
        read_array(access, count).and_then(|_| virtual_memory::set_access(address, bytes));

    fn cuMemGetAllocationGranularity(out: *mut usize, properties: *const MemAllocationProp, _option: u32) =
        (|| {
            let out = Out::new(out)?;
            read(properties)?;
            out.set(gpu_sim::machine::memory::BLOCK_BYTES as usize);
            Ok(())
        })();
}

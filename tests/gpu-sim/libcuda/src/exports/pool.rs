//! Stream-ordered memory and pools.

use std::ffi::c_void;

use crate::{
    abi::{CUdevice, CUdeviceptr, CUmemoryPool, CUstream, LOCATION_DEVICE, MemPoolProps, Out, read},
    driver::driver,
    entry::exports,
    error::CudaError,
    pool,
};

exports! {
    fn cuMemAllocAsync | cuMemAllocAsync_ptsz[mode](out: *mut CUdeviceptr, bytes: usize, stream: CUstream) =
        Out::new(out)
            .and_then(|out| pool::allocate(bytes, None, stream, mode).map(|address| out.set(address)));

    fn cuMemAllocFromPoolAsync | cuMemAllocFromPoolAsync_ptsz[mode](
        out: *mut CUdeviceptr, bytes: usize, pool: CUmemoryPool, stream: CUstream,
    ) = Out::new(out)
        .and_then(|out| pool::allocate(bytes, Some(pool), stream, mode).map(|address| out.set(address)));

    fn cuMemFreeAsync | cuMemFreeAsync_ptsz[mode](address: CUdeviceptr, stream: CUstream) =
        pool::free(address, stream, mode);

    fn cuMemPoolCreate(out: *mut CUmemoryPool, properties: *const MemPoolProps) = (|| {
        let (out, properties) = (Out::new(out)?, read(properties)?);
        if properties.location.kind != LOCATION_DEVICE {
            return Err(CudaError::InvalidValue);
        }
        out.set(pool::create(properties.location.id)?);
        Ok(())
    })();

    fn cuMemPoolDestroy(pool: CUmemoryPool) = pool::destroy(pool);

    fn cuMemPoolTrimTo(pool: CUmemoryPool, keep_bytes: usize) = pool::trim_to(pool, keep_bytes);

    fn cuMemPoolSetAttribute(pool: CUmemoryPool, attribute: u32, value: *const c_void) =
        read(value.cast::<u64>()).and_then(|value| pool::set_attribute(pool, attribute, value));

    fn cuMemPoolGetAttribute(pool: CUmemoryPool, attribute: u32, out: *mut c_void) =
        Out::new(out.cast::<u64>())
            .and_then(|out| pool::attribute(pool, attribute).map(|value| out.set(value)));

    fn cuDeviceGetDefaultMemPool(out: *mut CUmemoryPool, device: CUdevice) =
        Out::new(out).and_then(|out| pool::default(device).map(|handle| out.set(handle)));

    fn cuDeviceGetMemPool(out: *mut CUmemoryPool, device: CUdevice) =
        Out::new(out).and_then(|out| pool::current(driver()?, device).map(|handle| out.set(handle)));

    fn cuDeviceSetMemPool(device: CUdevice, pool: CUmemoryPool) = pool::set_current(device, pool);
}

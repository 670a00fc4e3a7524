//! Plain and managed device memory.

use std::ffi::c_void;

use crate::{
    abi::{CUdevice, CUdeviceptr, CUstream, MemLocation, Out, read_array},
    entry::exports,
    managed, memory,
    stream::target,
};

exports! {
    fn cuMemAlloc_v2(out: *mut CUdeviceptr, bytes: usize) =
        Out::new(out).and_then(|out| memory::allocate(bytes).map(|address| out.set(address)));

    fn cuMemAllocPitch_v2(
        out: *mut CUdeviceptr, pitch_out: *mut usize, width_bytes: usize, height: usize, element_bytes: u32,
    ) = (|| {
        let (out, pitch_out) = (Out::new(out)?, Out::new(pitch_out)?);
        let (address, pitch) = memory::allocate_pitch(width_bytes, height, element_bytes)?;
        out.set(address);
        pitch_out.set(pitch);
        Ok(())
    })();

    fn cuMemAllocManaged(out: *mut CUdeviceptr, bytes: usize, flags: u32) =
        Out::new(out).and_then(|out| managed::allocate(bytes, flags).map(|address| out.set(address)));

    fn cuMemFree_v2(address: CUdeviceptr) = memory::free(address);

    fn cuMemGetInfo_v2(free_out: *mut usize, total_out: *mut usize) = (|| {
        let (free, total) = memory::info()?;
        for (out, value) in [(Out::optional(free_out), free), (Out::optional(total_out), total)] {
            if let Some(out) = out {
                out.set(value);
            }
        }
        Ok(())
    })();

    fn cuMemGetAddressRange_v2(start_out: *mut CUdeviceptr, size_out: *mut usize, address: CUdeviceptr) = (|| {
        let (start, size) = memory::address_range(address)?;
        if let Some(out) = Out::optional(start_out) {
            out.set(start);
        }
        if let Some(out) = Out::optional(size_out) {
            out.set(size);
        }
        Ok(())
    })();

    fn cuPointerGetAttribute(out: *mut c_void, attribute: u32, address: CUdeviceptr) = (|| {
        if attribute == memory::POINTER_ATTRIBUTE_CONTEXT {
            Out::new(out.cast::<u64>())?.set(memory::context_of(address)?);
        } else {
            Out::new(out.cast::<u32>())?.set(memory::pointer_attribute(attribute, address)?);
        }
        Ok(())
    })();

    fn cuMemPrefetchAsync | cuMemPrefetchAsync_ptsz[mode](
        address: CUdeviceptr, bytes: usize, _device: CUdevice, stream: CUstream,
    ) = target(stream, mode).and_then(|_| managed::check_range(address, bytes));

    /// CUDA 12.2: the location is passed by value.
    fn cuMemPrefetchAsync_v2 | cuMemPrefetchAsync_v2_ptsz[mode](
        address: CUdeviceptr, bytes: usize, _location: MemLocation, _flags: u32, stream: CUstream,
    ) = target(stream, mode).and_then(|_| managed::check_range(address, bytes));

    fn cuMemAdvise(address: CUdeviceptr, bytes: usize, _advice: u32, _device: CUdevice) =
        managed::check_range(address, bytes);

    /// CUDA 12.2: the location is passed by value.
    fn cuMemAdvise_v2(address: CUdeviceptr, bytes: usize, _advice: u32, _location: MemLocation) =
        managed::check_range(address, bytes);

    /// CUDA 13.0.
    fn cuMemPrefetchBatchAsync | cuMemPrefetchBatchAsync_ptsz[mode](

        addresses: *const CUdeviceptr, sizes: *const usize, count: usize,
        _locations: *const MemLocation, _location_indices: *const usize, _location_count: usize,
        _flags: u64, stream: CUstream,
    ) = (|| {
        target(stream, mode)?;
        check_ranges(&read_array(addresses, count)?, &read_array(sizes, count)?)
    })();

    /// CUDA 13.0.
    fn cuMemDiscardBatchAsync | cuMemDiscardBatchAsync_ptsz[mode](

        addresses: *const CUdeviceptr, sizes: *const usize, count: usize, _flags: u64, stream: CUstream,
    ) = (|| {
        target(stream, mode)?;
        check_ranges(&read_array(addresses, count)?, &read_array(sizes, count)?)
    })();

    /// CUDA 13.0.
    fn cuMemDiscardAndPrefetchBatchAsync | cuMemDiscardAndPrefetchBatchAsync_ptsz[mode](

        addresses: *const CUdeviceptr, sizes: *const usize, count: usize,
        _locations: *const MemLocation, _location_indices: *const usize, _location_count: usize,
        _flags: u64, stream: CUstream,
    ) = (|| {
        target(stream, mode)?;
        check_ranges(&read_array(addresses, count)?, &read_array(sizes, count)?)
    })();
}

fn check_ranges(addresses: &[CUdeviceptr], sizes: &[usize]) -> crate::error::Result {
    addresses.iter().zip(sizes).try_for_each(|(address, bytes)| managed::check_range(*address, *bytes))
}

//! Memsets.

use crate::{
    abi::{CUdeviceptr, CUstream},
    copy::{Wait, set},
    entry::exports,
};

exports! {
    fn cuMemsetD8_v2 | cuMemsetD8_v2_ptds[mode](dst: CUdeviceptr, _value: u8, count: usize) =
        set(dst, 1, count, 1, Wait::Synchronous(mode));

    fn cuMemsetD16_v2 | cuMemsetD16_v2_ptds[mode](dst: CUdeviceptr, _value: u16, count: usize) =
        set(dst, 2, count, 1, Wait::Synchronous(mode));

    fn cuMemsetD32_v2 | cuMemsetD32_v2_ptds[mode](dst: CUdeviceptr, _value: u32, count: usize) =
        set(dst, 4, count, 1, Wait::Synchronous(mode));

    fn cuMemsetD2D8_v2 | cuMemsetD2D8_v2_ptds[mode](
        dst: CUdeviceptr, _pitch: usize, _value: u8, width: usize, height: usize,
    ) = set(dst, 1, width, height, Wait::Synchronous(mode));

    fn cuMemsetD2D16_v2 | cuMemsetD2D16_v2_ptds[mode](
        dst: CUdeviceptr, _pitch: usize, _value: u16, width: usize, height: usize,
    ) = set(dst, 2, width, height, Wait::Synchronous(mode));

    fn cuMemsetD2D32_v2 | cuMemsetD2D32_v2_ptds[mode](
        dst: CUdeviceptr, _pitch: usize, _value: u32, width: usize, height: usize,
    ) = set(dst, 4, width, height, Wait::Synchronous(mode));

    fn cuMemsetD8Async | cuMemsetD8Async_ptsz[mode](
        dst: CUdeviceptr, _value: u8, count: usize, stream: CUstream,
    ) = set(dst, 1, count, 1, Wait::Queued(stream, mode));

    fn cuMemsetD16Async | cuMemsetD16Async_ptsz[mode](
        dst: CUdeviceptr, _value: u16, count: usize, stream: CUstream,
    ) = set(dst, 2, count, 1, Wait::Queued(stream, mode));

    fn cuMemsetD32Async | cuMemsetD32Async_ptsz[mode](
        dst: CUdeviceptr, _value: u32, count: usize, stream: CUstream,
    ) = set(dst, 4, count, 1, Wait::Queued(stream, mode));

    fn cuMemsetD2D8Async | cuMemsetD2D8Async_ptsz[mode](
        dst: CUdeviceptr, _pitch: usize, _value: u8, width: usize, height: usize, stream: CUstream,
    ) = set(dst, 1, width, height, Wait::Queued(stream, mode));

    fn cuMemsetD2D16Async | cuMemsetD2D16Async_ptsz[mode](
        dst: CUdeviceptr, _pitch: usize, _value: u16, width: usize, height: usize, stream: CUstream,
    ) = set(dst, 2, width, height, Wait::Queued(stream, mode));

    fn cuMemsetD2D32Async | cuMemsetD2D32Async_ptsz[mode](
        dst: CUdeviceptr, _pitch: usize, _value: u32, width: usize, height: usize, stream: CUstream,
    ) = set(dst, 4, width, height, Wait::Queued(stream, mode));
}

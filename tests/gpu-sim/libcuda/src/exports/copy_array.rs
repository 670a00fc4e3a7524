//! Copies to, from and between arrays.

use gpu_sim::machine::counters::CopyKind;

use crate::{
    abi::{CUarray, CUdeviceptr, CUstream},
    array,
    copy::{
        End::{self, Device, Host},
        Wait::{self, Queued, Synchronous},
        linear,
    },
    entry::exports,
    error::Result,
};

exports! {
    fn cuMemcpyDtoA_v2 | cuMemcpyDtoA_v2_ptds[mode](
        dst: CUarray, _dst_offset: usize, src: CUdeviceptr, bytes: usize,
    ) = copy(&[dst], End::Array, Device(src), bytes, Synchronous(mode));

    fn cuMemcpyAtoD_v2 | cuMemcpyAtoD_v2_ptds[mode](
        dst: CUdeviceptr, src: CUarray, _src_offset: usize, bytes: usize,
    ) = copy(&[src], Device(dst), End::Array, bytes, Synchronous(mode));

    fn cuMemcpyHtoA_v2 | cuMemcpyHtoA_v2_ptds[mode](
        dst: CUarray, _dst_offset: usize, src: u64, bytes: usize,
    ) = copy(&[dst], End::Array, Host(src), bytes, Synchronous(mode));

    fn cuMemcpyAtoH_v2 | cuMemcpyAtoH_v2_ptds[mode](
        dst: u64, src: CUarray, _src_offset: usize, bytes: usize,
    ) = copy(&[src], Host(dst), End::Array, bytes, Synchronous(mode));

    fn cuMemcpyAtoA_v2 | cuMemcpyAtoA_v2_ptds[mode](
        dst: CUarray, _dst_offset: usize, src: CUarray, _src_offset: usize, bytes: usize,
    ) = copy(&[dst, src], End::Array, End::Array, bytes, Synchronous(mode));

    fn cuMemcpyHtoAAsync_v2 | cuMemcpyHtoAAsync_v2_ptsz[mode](
        dst: CUarray, _dst_offset: usize, src: u64, bytes: usize, stream: CUstream,
    ) = copy(&[dst], End::Array, Host(src), bytes, Queued(stream, mode));

    fn cuMemcpyAtoHAsync_v2 | cuMemcpyAtoHAsync_v2_ptsz[mode](
        dst: u64, src: CUarray, _src_offset: usize, bytes: usize, stream: CUstream,
    ) = copy(&[src], Host(dst), End::Array, bytes, Queued(stream, mode));
}

fn copy(arrays: &[CUarray], dst: End, src: End, bytes: usize, wait: Wait) -> Result {
    arrays.iter().try_for_each(|array| array::check(*array))?;
    linear(CopyKind::Array, dst, src, bytes, wait)
}

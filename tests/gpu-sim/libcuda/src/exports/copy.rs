//! Copies between linear memory.

use std::ffi::c_void;

use gpu_sim::machine::counters::CopyKind::{DeviceToDevice, DeviceToHost, HostToDevice, Unified};

use crate::{
    abi::{CUcontext, CUdeviceptr, CUstream, Memcpy2D, Memcpy3D, Memcpy3DBatchOp, read, read_array},
    copy::{
        End::{self, Device, Host},
        Wait::{Queued, Synchronous},
        batch, cuboid, cuboid_peer, linear, peer, rectangle,
    },
    entry::exports,
};

exports! {
    fn cuMemcpy | cuMemcpy_ptds[mode](dst: CUdeviceptr, src: CUdeviceptr, bytes: usize) =
        linear(Unified, End::Unified(dst), End::Unified(src), bytes, Synchronous(mode));

    fn cuMemcpyAsync | cuMemcpyAsync_ptsz[mode](
        dst: CUdeviceptr, src: CUdeviceptr, bytes: usize, stream: CUstream,
    ) = linear(Unified, End::Unified(dst), End::Unified(src), bytes, Queued(stream, mode));

    fn cuMemcpyHtoD_v2 | cuMemcpyHtoD_v2_ptds[mode](dst: CUdeviceptr, src: u64, bytes: usize) =
        linear(HostToDevice, Device(dst), Host(src), bytes, Synchronous(mode));

    fn cuMemcpyDtoH_v2 | cuMemcpyDtoH_v2_ptds[mode](dst: u64, src: CUdeviceptr, bytes: usize) =
        linear(DeviceToHost, Host(dst), Device(src), bytes, Synchronous(mode));

    fn cuMemcpyDtoD_v2 | cuMemcpyDtoD_v2_ptds[mode](dst: CUdeviceptr, src: CUdeviceptr, bytes: usize) =
        linear(DeviceToDevice, Device(dst), Device(src), bytes, Synchronous(mode));

    fn cuMemcpyHtoDAsync_v2 | cuMemcpyHtoDAsync_v2_ptsz[mode](
        dst: CUdeviceptr, src: u64, bytes: usize, stream: CUstream,
    ) = linear(HostToDevice, Device(dst), Host(src), bytes, Queued(stream, mode));

    fn cuMemcpyDtoHAsync_v2 | cuMemcpyDtoHAsync_v2_ptsz[mode](
        dst: u64, src: CUdeviceptr, bytes: usize, stream: CUstream,
    ) = linear(DeviceToHost, Host(dst), Device(src), bytes, Queued(stream, mode));

    fn cuMemcpyDtoDAsync_v2 | cuMemcpyDtoDAsync_v2_ptsz[mode](
        dst: CUdeviceptr, src: CUdeviceptr, bytes: usize, stream: CUstream,
    ) = linear(DeviceToDevice, Device(dst), Device(src), bytes, Queued(stream, mode));

    fn cuMemcpyPeer | cuMemcpyPeer_ptds[mode](
        dst: CUdeviceptr, dst_context: CUcontext, src: CUdeviceptr, src_context: CUcontext, bytes: usize,
    ) = peer(dst, dst_context, src, src_context, bytes as u64, Synchronous(mode));

    fn cuMemcpyPeerAsync | cuMemcpyPeerAsync_ptsz[mode](

        dst: CUdeviceptr, dst_context: CUcontext, src: CUdeviceptr, src_context: CUcontext, bytes: usize,
        stream: CUstream,
    ) = peer(dst, dst_context, src, src_context, bytes as u64, Queued(stream, mode));

    fn cuMemcpy2D_v2 | cuMemcpy2D_v2_ptds[mode](copy: *const Memcpy2D) =
        read(copy).and_then(|copy| rectangle(&copy, Synchronous(mode)));

    fn cuMemcpy2DUnaligned_v2 | cuMemcpy2DUnaligned_v2_ptds[mode](copy: *const Memcpy2D) =
        read(copy).and_then(|copy| rectangle(&copy, Synchronous(mode)));

    fn cuMemcpy2DAsync_v2 | cuMemcpy2DAsync_v2_ptsz[mode](copy: *const Memcpy2D, stream: CUstream) =
        read(copy).and_then(|copy| rectangle(&copy, Queued(stream, mode)));

    fn cuMemcpy3D_v2 | cuMemcpy3D_v2_ptds[mode](copy: *const Memcpy3D) =
        read(copy).and_then(|copy| cuboid(&copy, Synchronous(mode)));

    fn cuMemcpy3DAsync_v2 | cuMemcpy3DAsync_v2_ptsz[mode](copy: *const Memcpy3D, stream: CUstream) =
        read(copy).and_then(|copy| cuboid(&copy, Queued(stream, mode)));

    fn cuMemcpy3DPeer | cuMemcpy3DPeer_ptds[mode](copy: *const Memcpy3D) =
        read(copy).and_then(|copy| cuboid_peer(&copy, Synchronous(mode)));

    fn cuMemcpy3DPeerAsync | cuMemcpy3DPeerAsync_ptsz[mode](copy: *const Memcpy3D, stream: CUstream) =
        read(copy).and_then(|copy| cuboid_peer(&copy, Queued(stream, mode)));

    /// CUDA 12.8. Nothing fails half-way here, so `fail_index` is left alone.
    fn cuMemcpyBatchAsync | cuMemcpyBatchAsync_ptsz[mode](

        _dsts: *const CUdeviceptr, _srcs: *const CUdeviceptr, sizes: *const usize, count: usize,
        _attributes: *const c_void, _attribute_indices: *const usize, _attribute_count: usize,
        _fail_index: *mut usize, stream: CUstream,
    ) = read_array(sizes, count).and_then(|sizes| batch(&sizes, stream, mode));

    /// CUDA 13.0: without `fail_index`.
    fn cuMemcpyBatchAsync_v2 | cuMemcpyBatchAsync_v2_ptsz[mode](

        _dsts: *const CUdeviceptr, _srcs: *const CUdeviceptr, sizes: *const usize, count: usize,
        _attributes: *const c_void, _attribute_indices: *const usize, _attribute_count: usize,
        stream: CUstream,
    ) = read_array(sizes, count).and_then(|sizes| batch(&sizes, stream, mode));

    /// CUDA 12.8.
    fn cuMemcpy3DBatchAsync | cuMemcpy3DBatchAsync_ptsz[mode](

        count: usize, operations: *const Memcpy3DBatchOp, _fail_index: *mut usize, _flags: u64, stream: CUstream,
    ) = read_array(operations, count).and_then(|operations| batch(&sizes(&operations), stream, mode));

    /// CUDA 13.0: without `fail_index`.
    fn cuMemcpy3DBatchAsync_v2 | cuMemcpy3DBatchAsync_v2_ptsz[mode](
        count: usize, operations: *const Memcpy3DBatchOp, _flags: u64, stream: CUstream,
    ) = read_array(operations, count).and_then(|operations| batch(&sizes(&operations), stream, mode));
}

fn sizes(operations: &[Memcpy3DBatchOp]) -> Vec<usize> {
    let bytes = |operation: &Memcpy3DBatchOp| {
        operation.width.saturating_mul(operation.height).saturating_mul(operation.depth)
    };
    operations.iter().map(bytes).collect()
}

//! Older variants that the library still exports next to their numbered successors.
//!
//! Those of CUDA 4 to 11 differ from their successors in name only, and work. Those from before CUDA 3.2 have 32-bit
//! device addresses; no program that runs on a current driver calls them, and they answer that they are not supported.

use std::ffi::{c_char, c_void};

use crate::{
    abi::{
        CUcontext, CUdevice, CUdeviceptr, CUevent, CUgraph, CUgraphExec, CUgraphNode, CUstream, IpcHandle,
        Out,
    },
    capture, context,
    entry::{DefaultStream, exports},
    error::CudaError,
    event, graph, host, ipc, stream,
};

exports! {
    fn cuCtxDestroy(context: CUcontext) = context::destroy(context);

    fn cuCtxPushCurrent(context: CUcontext) = context::push_current(context);

    fn cuCtxPopCurrent(out: *mut CUcontext) = context::pop_current().map(|handle| {
        if let Some(out) = Out::optional(out) {
            out.set(handle);
        }
    });

    fn cuDevicePrimaryCtxRelease(device: CUdevice) = context::release_primary(device);

    fn cuDevicePrimaryCtxReset(device: CUdevice) = context::reset_primary(device);

    fn cuDevicePrimaryCtxSetFlags(device: CUdevice, flags: u32) = context::set_primary_flags(device, flags);

    fn cuStreamDestroy(stream: CUstream) = stream::destroy(stream);

    /// CUDA 10.0: without the mode.
    fn cuStreamBeginCapture(stream: CUstream) = capture::begin(stream, DefaultStream::Legacy);

    fn cuEventDestroy(event: CUevent) = event::destroy(event);

    /// CUDA 10.0.
    fn cuGraphInstantiate(
        out: *mut CUgraphExec, graph: CUgraph, _error_node: *mut CUgraphNode, _log: *mut c_char, _log_bytes: usize,
    ) = Out::new(out).and_then(|out| graph::instantiate(graph).map(|exec| out.set(exec)));

    fn cuIpcOpenMemHandle(out: *mut CUdeviceptr, handle: IpcHandle, _flags: u32) =
        Out::new(out).and_then(|out| ipc::open_memory(&handle).map(|address| out.set(address)));

    fn cuMemHostRegister(address: u64, bytes: usize, _flags: u32) = host::register(address, bytes);

    fn cuDeviceTotalMem(_out: *mut u32, _device: CUdevice) = Err(CudaError::NotSupported);

    fn cuCtxCreate(_out: *mut CUcontext, _flags: u32, _device: CUdevice) = Err(CudaError::NotSupported);

    fn cuMemGetInfo(_free: *mut u32, _total: *mut u32) = Err(CudaError::NotSupported);

    fn cuMemAlloc(_out: *mut u32, _bytes: u32) = Err(CudaError::NotSupported);

    fn cuMemAllocPitch(_out: *mut u32, _pitch: *mut u32, _width: u32, _height: u32, _element_bytes: u32) =
        Err(CudaError::NotSupported);

    fn cuMemFree(_address: u32) = Err(CudaError::NotSupported);

    fn cuMemAllocHost(_out: *mut *mut c_void, _bytes: u32) = Err(CudaError::NotSupported);

    fn cuMemcpyHtoD(_dst: u32, _src: *const c_void, _bytes: u32) = Err(CudaError::NotSupported);

    fn cuMemcpyDtoH(_dst: *mut c_void, _src: u32, _bytes: u32) = Err(CudaError::NotSupported);

    fn cuMemcpyDtoD(_dst: u32, _src: u32, _bytes: u32) = Err(CudaError::NotSupported);

    fn cuMemcpyHtoDAsync(_dst: u32, _src: *const c_void, _bytes: u32, _stream: CUstream) =
        Err(CudaError::NotSupported);

    fn cuMemcpyDtoHAsync(_dst: *mut c_void, _src: u32, _bytes: u32, _stream: CUstream) =
        Err(CudaError::NotSupported);

    fn cuMemcpyDtoDAsync(_dst: u32, _src: u32, _bytes: u32, _stream: CUstream) = Err(CudaError::NotSupported);

    fn cuMemcpy2D(_copy: *const c_void) = Err(CudaError::NotSupported);

    fn cuMemcpy3D(_copy: *const c_void) = Err(CudaError::NotSupported);

    fn cuMemsetD8(_dst: u32, _value: u8, _count: u32) = Err(CudaError::NotSupported);

    fn cuMemsetD16(_dst: u32, _value: u16, _count: u32) = Err(CudaError::NotSupported);

    fn cuMemsetD32(_dst: u32, _value: u32, _count: u32) = Err(CudaError::NotSupported);

    fn cuArrayCreate(_array: *mut u64, _descriptor: *const c_void) = Err(CudaError::NotSupported);

    fn cuArray3DCreate(_array: *mut u64, _descriptor: *const c_void) = Err(CudaError::NotSupported);
}

//! Pinned host memory and host functions.

use std::ffi::c_void;

use crate::{
    abi::{CUdeviceptr, CUhostFn, CUstream, Out},
    entry::exports,
    host,
};

exports! {
    fn cuMemHostAlloc(out: *mut u64, bytes: usize, _flags: u32) =
        Out::new(out).and_then(|out| host::allocate(bytes).map(|address| out.set(address)));

    fn cuMemAllocHost_v2(out: *mut u64, bytes: usize) =
        Out::new(out).and_then(|out| host::allocate(bytes).map(|address| out.set(address)));

    fn cuMemFreeHost(address: u64) = host::free(address);

    fn cuMemHostRegister_v2(address: u64, bytes: usize, _flags: u32) = host::register(address, bytes);

    fn cuMemHostUnregister(address: u64) = host::unregister(address);

    fn cuMemHostGetDevicePointer_v2(out: *mut CUdeviceptr, address: u64, _flags: u32) =
        Out::new(out).and_then(|out| host::device_pointer(address).map(|address| out.set(address)));

    fn cuLaunchHostFunc | cuLaunchHostFunc_ptsz[mode](
        stream: CUstream, function: CUhostFn, argument: *mut c_void,
    ) = host::launch(stream, function, argument, mode);
}

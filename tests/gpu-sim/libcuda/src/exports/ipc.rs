//! Sharing memory between processes.

use std::ffi::c_void;

use crate::{
    abi::{CUdeviceptr, CUmemGenericAllocationHandle, IpcHandle, Out},
    entry::exports,
    ipc,
};

exports! {
    fn cuIpcGetMemHandle(out: *mut IpcHandle, address: CUdeviceptr) =
        Out::new(out).and_then(|out| ipc::export_memory(address).map(|handle| out.set(handle)));

    /// The handle is passed by value: 64 bytes on the stack.
    fn cuIpcOpenMemHandle_v2(out: *mut CUdeviceptr, handle: IpcHandle, _flags: u32) =
        Out::new(out).and_then(|out| ipc::open_memory(&handle).map(|address| out.set(address)));

    fn cuIpcCloseMemHandle(address: CUdeviceptr) = crate::virtual_memory::close_ipc(address);

    /// `out` leads to a file descriptor for the only handle type that is modelled, POSIX file descriptors.
    fn cuMemExportToShareableHandle(
        out: *mut c_void, handle: CUmemGenericAllocationHandle, kind: u32, _flags: u64,
    ) = Out::new(out.cast::<i32>())
        .and_then(|out| ipc::export_physical(handle, kind).map(|descriptor| out.set(descriptor)));

    /// The file descriptor is passed as a pointer.
    fn cuMemImportFromShareableHandle(
        out: *mut CUmemGenericAllocationHandle, os_handle: *mut c_void, kind: u32,
    ) = Out::new(out)
        .and_then(|out| ipc::import_physical(os_handle as usize, kind).map(|handle| out.set(handle)));
}

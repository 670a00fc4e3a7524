//! Contexts and primary contexts.

use std::ffi::c_void;

use crate::{
    abi::{CUcontext, CUdevice, Out},
    context,
    entry::exports,
    error::CudaError,
};

exports! {
    fn cuDevicePrimaryCtxRetain(out: *mut CUcontext, device: CUdevice) =
        Out::new(out).and_then(|out| context::retain_primary(device).map(|handle| out.set(handle)));

    fn cuDevicePrimaryCtxRelease_v2(device: CUdevice) = context::release_primary(device);

    fn cuDevicePrimaryCtxReset_v2(device: CUdevice) = context::reset_primary(device);

    fn cuDevicePrimaryCtxSetFlags_v2(device: CUdevice, flags: u32) = context::set_primary_flags(device, flags);

    fn cuDevicePrimaryCtxGetState(device: CUdevice, flags: *mut u32, active: *mut i32) = (|| {
        let (flags_out, active_out) = (Out::new(flags)?, Out::new(active)?);
        let (flags, active) = context::primary_state(device)?;
        flags_out.set(flags);
        active_out.set(i32::from(active));
        Ok(())
    })();

    fn cuCtxCreate_v2(out: *mut CUcontext, _flags: u32, device: CUdevice) =
        Out::new(out).and_then(|out| context::create(device).map(|handle| out.set(handle)));

    /// CUDA 11.4: with execution affinity, which has no effect here.
    fn cuCtxCreate_v3(out: *mut CUcontext, _affinity: *mut c_void, _count: i32, _flags: u32, device: CUdevice) =
        Out::new(out).and_then(|out| context::create(device).map(|handle| out.set(handle)));

    /// CUDA 12.5: with CUctxCreateParams, which have no effect here.
    fn cuCtxCreate_v4(out: *mut CUcontext, _parameters: *mut c_void, _flags: u32, device: CUdevice) =
        Out::new(out).and_then(|out| context::create(device).map(|handle| out.set(handle)));

    fn cuCtxDestroy_v2(context: CUcontext) = context::destroy(context);

    fn cuCtxSetCurrent(context: CUcontext) = context::set_current(context);

    fn cuCtxGetCurrent(out: *mut CUcontext) =
        Out::new(out).and_then(|out| context::current_handle().map(|handle| out.set(handle)));

    fn cuCtxPushCurrent_v2(context: CUcontext) = context::push_current(context);

    /// The result may be left out.
    fn cuCtxPopCurrent_v2(out: *mut CUcontext) = context::pop_current().map(|handle| {
        if let Some(out) = Out::optional(out) {
            out.set(handle);
        }
    });

    fn cuCtxGetDevice(out: *mut CUdevice) =
        Out::new(out).and_then(|out| context::current().map(|context| out.set(context.ordinal)));

    fn cuCtxSynchronize() = context::synchronize();

    fn cuCtxGetFlags(out: *mut u32) =
        Out::new(out).and_then(|out| context::current().map(|_| out.set(0)));

    /// The version of the API that contexts have had since CUDA 3.2.
    fn cuCtxGetApiVersion(_context: CUcontext, out: *mut u32) =
        Out::new(out).and_then(|out| context::current().map(|_| out.set(3020)));

    fn cuCtxGetStreamPriorityRange(least: *mut i32, greatest: *mut i32) = context::current().map(|_| {
        for out in [Out::optional(least), Out::optional(greatest)].into_iter().flatten() {
            out.set(0);
        }
    });

    fn cuCtxEnablePeerAccess(peer: CUcontext, flags: u32) =
        if flags == 0 { context::enable_peer(peer) } else { Err(CudaError::InvalidValue) };

    fn cuCtxDisablePeerAccess(peer: CUcontext) = context::disable_peer(peer);
}

//! cuGetExportTable: tables of private functions that have no exported name.
//!
//! libcudart reaches some of its internals this way. The real tables are not documented; this one is made up, and has
//! what a program needs to get a context and use it unseen by anybody who watches the exported entry points.

use std::ffi::c_void;

use crate::{
    abi::{CUcontext, CUdevice, Out, Uuid, read},
    context, driver,
    entry::exports,
    error::{CudaError, Result},
    memory,
};

/// Identifies the private table: `gpu-sim-private\0`.
pub(crate) const PRIVATE_TABLE: [u8; 16] = *b"gpu-sim-private\0";

/// The private table.
#[repr(C)]
pub(crate) struct PrivateTable {
    /// Size of the table in bytes, as in the real ones.
    size: usize,
    retain_and_set_current: unsafe extern "C" fn(*mut CUcontext, CUdevice) -> u32,
    allocate: unsafe extern "C" fn(*mut u64, usize) -> u32,
    free: extern "C" fn(u64) -> u32,
    synchronize: extern "C" fn() -> u32,
}

static TABLE_CONTENT: PrivateTable =
    PrivateTable { size: size_of::<PrivateTable>(), retain_and_set_current, allocate, free, synchronize };

exports! {
    fn cuGetExportTable(out: *mut *const c_void, id: *const Uuid) = (|| {
        let (out, id) = (Out::new(out)?, read(id)?);
        if id.bytes != PRIVATE_TABLE {
            return Err(CudaError::InvalidValue);
        }
        out.set((&raw const TABLE_CONTENT).cast());
        Ok(())
    })();
}

/// Initialises the driver where that has not happened, retains the primary context of a device and makes it current.
unsafe extern "C" fn retain_and_set_current(out: *mut CUcontext, device: CUdevice) -> u32 {
    // SAFETY: the caller passes null or a pointer to a context.
    let out = unsafe { Out::new(out) };
    code(out.and_then(|out| {
        driver::initialise(0)?;
        let handle = context::retain_primary(device)?;
        context::set_current(handle)?;
        out.set(handle);
        Ok(())
    }))
}

unsafe extern "C" fn allocate(out: *mut u64, bytes: usize) -> u32 {
    // SAFETY: the caller passes null or a pointer to an address.
    let out = unsafe { Out::new(out) };
    code(out.and_then(|out| memory::allocate(bytes).map(|address| out.set(address))))
}

extern "C" fn free(address: u64) -> u32 {
    code(memory::free(address))
}

extern "C" fn synchronize() -> u32 {
    code(context::synchronize())
}

fn code(result: Result) -> u32 {
    result.map_or_else(CudaError::code, |()| 0)
}

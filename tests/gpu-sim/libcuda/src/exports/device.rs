//! Initialisation, versions, errors and devices.

use std::ffi::{CStr, c_char};

use crate::{
    abi::{CUdevice, Out, Uuid},
    device, driver,
    driver::driver,
    entry::exports,
    error::{self, CudaError, Result},
};

exports! {
    fn cuInit(flags: u32) = driver::initialise(flags);

    fn cuDriverGetVersion(out: *mut i32) = Out::new(out).map(|out| out.set(device::driver_version()));

    fn cuGetErrorName(code: u32, out: *mut *const c_char) =
        Out::new(out).and_then(|out| error::name(code).map(|name| out.set(name.as_ptr().cast())));

    fn cuGetErrorString(code: u32, out: *mut *const c_char) =
        Out::new(out).and_then(|out| error::description(code).map(|text| out.set(text.as_ptr().cast())));

    fn cuDeviceGet(out: *mut CUdevice, ordinal: i32) =
        Out::new(out).and_then(|out| device::get(ordinal).map(|device| out.set(device)));

    fn cuDeviceGetCount(out: *mut i32) =
        Out::new(out).and_then(|out| device::count().map(|count| out.set(count)));

    fn cuDeviceGetName(out: *mut c_char, length: i32, device: CUdevice) = (|| {
        let name = &driver()?.facts(device)?.model.name;
        write_text(out, length, name)
    })();

    fn cuDeviceGetUuid(out: *mut Uuid, device: CUdevice) = (|| {
        let out = Out::new(out)?;
        out.set(Uuid { bytes: driver()?.facts(device)?.uuid_bytes() });
        Ok(())
    })();

    /// CUDA 11.4: the MIG instance's UUID where there is one; there is none here.
    fn cuDeviceGetUuid_v2(out: *mut Uuid, device: CUdevice) = (|| {
        let out = Out::new(out)?;
        out.set(Uuid { bytes: driver()?.facts(device)?.uuid_bytes() });
        Ok(())
    })();

    fn cuDeviceTotalMem_v2(out: *mut usize, device: CUdevice) = (|| {
        let out = Out::new(out)?;
        out.set(driver()?.facts(device)?.model.memory.total_bytes as usize);
        Ok(())
    })();

    fn cuDeviceGetAttribute(out: *mut i32, attribute: i32, device: CUdevice) =
        Out::new(out).and_then(|out| device::attribute(attribute, device).map(|value| out.set(value)));

    fn cuDeviceComputeCapability(major: *mut i32, minor: *mut i32, device: CUdevice) = (|| {
        let (major_out, minor_out) = (Out::new(major)?, Out::new(minor)?);
        major_out.set(device::attribute(75, device)?);
        minor_out.set(device::attribute(76, device)?);
        Ok(())
    })();

    fn cuDeviceGetPCIBusId(out: *mut c_char, length: i32, device: CUdevice) = (|| {
        let id = driver()?.facts(device)?.pci.short_bus_id();
        write_text(out, length, &id)
    })();

    fn cuDeviceGetByPCIBusId(out: *mut CUdevice, id: *const c_char) = (|| {
        let out = Out::new(out)?;
        out.set(device::by_bus_id(text(id)?)?);
        Ok(())
    })();

    fn cuDeviceCanAccessPeer(out: *mut i32, device: CUdevice, peer: CUdevice) =
        Out::new(out).and_then(|out| device::can_access_peer(device, peer).map(|can| out.set(i32::from(can))));

    fn cuDeviceGetP2PAttribute(out: *mut i32, attribute: i32, source: CUdevice, destination: CUdevice) =
        Out::new(out).and_then(|out| {
            device::p2p_attribute(attribute, source, destination).map(|value| out.set(value))
        });
}

/// Reads a C string.
///
/// # Safety
/// Unless null, the pointer leads to a terminated string that lives as long as the result is used.
pub(super) unsafe fn text<'a>(pointer: *const c_char) -> Result<&'a str> {
    if pointer.is_null() {
        return Err(CudaError::InvalidValue);
    }
    // SAFETY: not null, hence a terminated string as the caller promises.
    let text = unsafe { CStr::from_ptr(pointer) };
    text.to_str().map_err(|_| CudaError::InvalidValue)
}

/// Writes a C string, shortened to `length` bytes with its end.
///
/// # Safety
/// Unless null, the pointer is valid for writes of `length` bytes.
unsafe fn write_text(out: *mut c_char, length: i32, text: &str) -> Result {
    let room = usize::try_from(length)
        .ok()
        .and_then(|length| length.checked_sub(1))
        .ok_or(CudaError::InvalidValue)?;
    if out.is_null() {
        return Err(CudaError::InvalidValue);
    }
    let count = text.len().min(room);
    // SAFETY: `count` and the terminating byte fit in the caller's buffer, which cannot overlap `text`.
    unsafe { std::ptr::copy_nonoverlapping(text.as_ptr(), out.cast(), count) };
    // SAFETY: `count` is below `length`.
    unsafe { out.add(count).write(0) };
    Ok(())
}

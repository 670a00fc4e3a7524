//! MIG, which is off.

use std::ffi::c_uint;

use crate::abi::{Handle, Out, code, supported};

/// The most MIG devices that a card can be cut into.
const MIG_DEVICES_MAX: c_uint = 7;

export! {
    fn nvmlDeviceGetMigMode(device: Handle, current: Out<c_uint>, pending: Out<c_uint>) {
        supported(device.device()?.model().mig_capable)?;
        current.set(0)?;
        pending.set(0)
    }

    fn nvmlDeviceGetMaxMigDeviceCount(device: Handle, count: Out<c_uint>) {
        let is_capable = device.device()?.model().mig_capable;
        count.set(if is_capable { MIG_DEVICES_MAX } else { 0 })
    }

    fn nvmlDeviceIsMigDeviceHandle(device: Handle, is_mig: Out<c_uint>) {
        device.device()?;
        is_mig.set(0)
    }

    fn nvmlDeviceGetMigDeviceHandleByIndex(device: Handle, _index: c_uint, _mig_device: Out<Handle>) {
        supported(device.device()?.model().mig_capable)?;
        Err(code::NOT_FOUND)
    }
}

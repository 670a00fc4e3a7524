//! ECC errors, retired pages, remapped rows.

use std::ffi::{c_uint, c_ulonglong};

use gpu_sim::machine::Fault;
use nvml_wrapper_sys::bindings::{nvmlEccErrorCounts_t, nvmlEnableState_t};

use crate::abi::{Device, Handle, InOut, Items, Out, code, supported};

/// Architectures from Ampere on remap rows; those before retire pages.
const AMPERE: u32 = 7;

export! {
    fn nvmlDeviceGetEccMode(device: Handle, current: Out<nvmlEnableState_t>, pending: Out<nvmlEnableState_t>) {
        let ecc = u32::from(device.device()?.model().ecc);
        current.set(ecc)?;
        pending.set(ecc)
    }

    fn nvmlDeviceGetDefaultEccMode(device: Handle, mode: Out<nvmlEnableState_t>) {
        mode.set(u32::from(device.device()?.model().ecc))
    }

    fn nvmlDeviceGetTotalEccErrors(device: Handle, error: c_uint, counter: c_uint, count: Out<c_ulonglong>) {
        count.set(ecc_errors(&device.device()?, error, counter)?)
    }

    fn nvmlDeviceGetDetailedEccErrors(
        device: Handle,
        error: c_uint,
        counter: c_uint,
        counts: Out<nvmlEccErrorCounts_t>,
    ) {
        let errors = ecc_errors(&device.device()?, error, counter)?;
        counts.set(nvmlEccErrorCounts_t { l1Cache: 0, l2Cache: 0, deviceMemory: errors, registerFile: 0 })
    }

    fn nvmlDeviceGetMemoryErrorCounter(
        device: Handle,
        error: c_uint,
        counter: c_uint,
        location: c_uint,
        count: Out<c_ulonglong>,
    ) {
        let errors = ecc_errors(&device.device()?, error, counter)?;
        // NVML_MEMORY_LOCATION_DEVICE_MEMORY; the other memories have no errors here.
        count.set(if location == 2 { errors } else { 0 })
    }

    fn nvmlDeviceGetRetiredPages(device: Handle, _cause: c_uint, count: InOut<c_uint>, pages: Items<c_ulonglong>) {
        supported(!remaps(&device.device()?))?;
        pages.fill(&count, &[])
    }

    fn nvmlDeviceGetRetiredPages_v2(
        device: Handle,
        _cause: c_uint,
        count: InOut<c_uint>,
        pages: Items<c_ulonglong>,
        _timestamps: Items<c_ulonglong>,
    ) {
        supported(!remaps(&device.device()?))?;
        pages.fill(&count, &[])
    }

    fn nvmlDeviceGetRetiredPagesPendingStatus(device: Handle, pending: Out<nvmlEnableState_t>) {
        supported(!remaps(&device.device()?))?;
        pending.set(0)
    }

    fn nvmlDeviceGetRemappedRows(
        device: Handle,
        corrected: Out<c_uint>,
        uncorrected: Out<c_uint>,
        pending: Out<c_uint>,
        failed: Out<c_uint>,
    ) {
        let rows = remapped_rows(&device.device()?)?;
        corrected.set(rows.corrected)?;
        uncorrected.set(rows.uncorrected)?;
        pending.set(rows.pending)?;
        failed.set(rows.failed)
    }
}

/// What `nvmlDeviceGetRemappedRows` answers.
pub(crate) struct RemappedRows {
    pub(crate) corrected: c_uint,
    pub(crate) uncorrected: c_uint,
    pub(crate) pending: c_uint,
    pub(crate) failed: c_uint,
}

pub(crate) fn remapped_rows(device: &Device) -> Result<RemappedRows, c_uint> {
    supported(remaps(device))?;
    let word = |fault| c_uint::try_from(device.fault(fault)).map_err(|_too_large| code::UNKNOWN);
    Ok(RemappedRows {
        corrected: word(Fault::RowsCorrected)?,
        uncorrected: word(Fault::RowsUncorrected)?,
        pending: c_uint::from(device.fault(Fault::RowsPending) != 0),
        failed: c_uint::from(device.fault(Fault::RowsFailed) != 0),
    })
}

/// `error`: 0 corrected, 1 uncorrected. `counter`: 0 since the driver was loaded, 1 over the card's life, which began with
/// the machine.
pub(crate) fn ecc_errors(device: &Device, error: c_uint, counter: c_uint) -> Result<c_ulonglong, c_uint> {
    supported(device.model().ecc)?;
    match (error, counter) {
        (0, 0 | 1) => Ok(device.fault(Fault::EccCorrected)),
        (1, 0 | 1) => Ok(device.fault(Fault::EccUncorrected)),
        _ => Err(code::INVALID_ARGUMENT),
    }
}

fn remaps(device: &Device) -> bool {
    device.model().ecc && device.model().architecture >= AMPERE
}

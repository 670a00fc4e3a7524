//! Who a GPU is.

use std::ffi::{c_int, c_uint};

use gpu_sim::scenario::Pci;
use nvml_wrapper_sys::bindings::{nvmlEnableState_t, nvmlPciInfo_t};

use crate::abi::{Answer, Handle, Out, Text, code, fixed_text};

export! {
    fn nvmlDeviceGetName(device: Handle, name: Text, length: c_uint) {
        name.set(length, &device.device()?.model().name)
    }

    fn nvmlDeviceGetUUID(device: Handle, uuid: Text, length: c_uint) {
        uuid.set(length, &device.device()?.gpu().uuid)
    }

    fn nvmlDeviceGetSerial(device: Handle, serial: Text, length: c_uint) {
        serial.set(length, &device.device()?.gpu().serial)
    }

    fn nvmlDeviceGetIndex(device: Handle, index: Out<c_uint>) {
        index.set(number(device.device()?.index)?)
    }

    fn nvmlDeviceGetMinorNumber(device: Handle, minor: Out<c_uint>) {
        minor.set(device.device()?.gpu().minor)
    }

    fn nvmlDeviceGetModuleId(device: Handle, id: Out<c_uint>) {
        id.set(number(device.device()?.index)?)
    }

    fn nvmlDeviceGetBrand(device: Handle, brand: Out<c_uint>) {
        brand.set(device.device()?.model().brand)
    }

    fn nvmlDeviceGetArchitecture(device: Handle, architecture: Out<c_uint>) {
        architecture.set(device.device()?.model().architecture)
    }

    fn nvmlDeviceGetCudaComputeCapability(device: Handle, major: Out<c_int>, minor: Out<c_int>) {
        let capability = device.device()?.model().compute_capability;
        major.set(capability.0.cast_signed())?;
        minor.set(capability.1.cast_signed())
    }

    fn nvmlDeviceGetNumGpuCores(device: Handle, cores: Out<c_uint>) {
        cores.set(device.device()?.model().core_count)
    }

    fn nvmlDeviceGetVbiosVersion(device: Handle, version: Text, length: c_uint) {
        version.set(length, &device.device()?.model().vbios)
    }

    fn nvmlDeviceGetBoardPartNumber(device: Handle, part: Text, length: c_uint) {
        part.set(length, &device.device()?.model().board_part_number)
    }

    fn nvmlDeviceGetBoardId(device: Handle, id: Out<c_uint>) {
        let device = device.device()?;
        id.set(device.gpu().pci.bus << 8)
    }

    fn nvmlDeviceGetMultiGpuBoard(device: Handle, is_multi: Out<c_uint>) {
        device.device()?;
        is_multi.set(0)
    }

    fn nvmlDeviceOnSameBoard(left: Handle, right: Handle, same: Out<c_int>) {
        same.set(c_int::from(left.device()?.index == right.device()?.index))
    }

    fn nvmlDeviceGetBusType(device: Handle, bus: Out<c_uint>) {
        device.device()?;
        bus.set(nvml_wrapper_sys::bindings::NVML_BUS_TYPE_PCIE)
    }

    fn nvmlDeviceGetPciInfo(device: Handle, pci: Out<nvmlPciInfo_t>) {
        own_pci(device, pci)
    }

    fn nvmlDeviceGetPciInfo_v2(device: Handle, pci: Out<nvmlPciInfo_t>) {
        own_pci(device, pci)
    }

    fn nvmlDeviceGetPciInfo_v3(device: Handle, pci: Out<nvmlPciInfo_t>) {
        own_pci(device, pci)
    }

    fn nvmlDeviceGetPersistenceMode(device: Handle, mode: Out<nvmlEnableState_t>) {
        device.device()?;
        mode.set(1)
    }

    fn nvmlDeviceGetDisplayMode(device: Handle, mode: Out<nvmlEnableState_t>) {
        device.device()?;
        mode.set(0)
    }

    fn nvmlDeviceGetDisplayActive(device: Handle, active: Out<nvmlEnableState_t>) {
        device.device()?;
        active.set(0)
    }

    fn nvmlDeviceGetVirtualizationMode(device: Handle, mode: Out<c_uint>) {
        device.device()?;
        mode.set(0)
    }

    fn nvmlDeviceGetComputeMode(device: Handle, mode: Out<c_uint>) {
        mode.set(device.device()?.state().compute_mode.load(std::sync::atomic::Ordering::Relaxed))
    }

    fn nvmlDeviceSetComputeMode(device: Handle, mode: c_uint) {
        // NVML_COMPUTEMODE_EXCLUSIVE_PROCESS is the last one.
        if mode > 3 {
            return Err(code::INVALID_ARGUMENT);
        }
        device.device()?.state().compute_mode.store(mode, std::sync::atomic::Ordering::Relaxed);
        Ok(())
    }
}

fn number(index: usize) -> Result<c_uint, c_uint> {
    c_uint::try_from(index).map_err(|_too_many| code::UNKNOWN)
}

fn own_pci(device: Handle, pci: Out<nvmlPciInfo_t>) -> Answer {
    let device = device.device()?;
    let model = device.model();
    pci.set(pci_info(device.gpu().pci, model.pci_device_id, model.pci_subsystem_id))
}

/// NVML's structure for a PCI address.
pub(crate) fn pci_info(pci: Pci, device_id: u32, subsystem_id: u32) -> nvmlPciInfo_t {
    nvmlPciInfo_t {
        busIdLegacy: fixed_text(&pci.short_bus_id().to_uppercase()),
        domain: pci.domain,
        bus: pci.bus,
        device: pci.device,
        pciDeviceId: device_id,
        pciSubSystemId: subsystem_id,
        busId: fixed_text(&pci.bus_id()),
    }
}

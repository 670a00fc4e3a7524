//! NVLink: state, far ends, errors.

use std::ffi::{c_uint, c_ulonglong};
use std::sync::atomic::Ordering::Relaxed;

use gpu_sim::machine::Fault;
use gpu_sim::scenario::{NvlinkPeer, Pci};
use nvml_wrapper_sys::bindings::{nvmlEnableState_t, nvmlPciInfo_t};

use crate::abi::{Answer, Device, Handle, Out, code, supported};
use crate::identity::pci_info;

/// NVSwitches are found from this PCI bus on, above every GPU of the presets.
const FIRST_SWITCH_BUS: u32 = 0xe0;
/// An NVSwitch of the Hopper generation: device and vendor.
const SWITCH_DEVICE_ID: u32 = 0x22a3_10de;

export! {
    fn nvmlDeviceGetNvLinkState(device: Handle, link: c_uint, active: Out<nvmlEnableState_t>) {
        let link = Link::of(device, link)?;
        active.set(c_uint::from(link.is_active()))
    }

    fn nvmlDeviceGetNvLinkVersion(device: Handle, link: c_uint, version: Out<c_uint>) {
        version.set(Link::of(device, link)?.device.model().nvlink_version)
    }

    fn nvmlDeviceGetNvLinkCapability(device: Handle, link: c_uint, capability: c_uint, result: Out<c_uint>) {
        Link::of(device, link)?;
        // P2P, access to system memory, both with atomics, no SLI bridge, a valid link.
        match capability {
            0..=3 | 5 => result.set(1),
            4 => result.set(0),
            _ => Err(code::INVALID_ARGUMENT),
        }
    }

    fn nvmlDeviceGetNvLinkRemotePciInfo(device: Handle, link: c_uint, pci: Out<nvmlPciInfo_t>) {
        remote_pci(device, link, pci)
    }

    fn nvmlDeviceGetNvLinkRemotePciInfo_v2(device: Handle, link: c_uint, pci: Out<nvmlPciInfo_t>) {
        remote_pci(device, link, pci)
    }

    fn nvmlDeviceGetNvLinkRemoteDeviceType(device: Handle, link: c_uint, kind: Out<c_uint>) {
        let link = Link::of(device, link)?;
        kind.set(match link.peer {
            NvlinkPeer::Gpu(_) => 0,
            NvlinkPeer::Switch(_) => 2,
        })
    }

    fn nvmlDeviceGetNvLinkErrorCounter(device: Handle, link: c_uint, counter: c_uint, count: Out<c_ulonglong>) {
        let link = Link::of(device, link)?;
        match counter {
            0 => count.set(link.device.fault(Fault::NvlinkReplays)),
            1 | 3 => count.set(0),
            2 => count.set(link.device.fault(Fault::NvlinkCrcErrors)),
            _ => Err(code::INVALID_ARGUMENT),
        }
    }

    fn nvmlSystemGetNvlinkBwMode(mode: Out<c_uint>) {
        crate::library::machine()?;
        mode.set(0)
    }
}

/// One link of one GPU.
pub(crate) struct Link {
    pub(crate) device: Device,
    number: usize,
    peer: NvlinkPeer,
}

impl Link {
    fn of(device: Handle, link: c_uint) -> Result<Self, c_uint> {
        Self::on(device.device()?, link)
    }

    /// A card without NVLink does not support the question; one with fewer links does not know the number.
    pub(crate) fn on(device: Device, link: c_uint) -> Result<Self, c_uint> {
        supported(!device.gpu().nvlink_peers.is_empty())?;
        let number = link as usize;
        let peer = *device.gpu().nvlink_peers.get(number).ok_or(code::INVALID_ARGUMENT)?;
        Ok(Self { device, number, peer })
    }

    pub(crate) fn is_active(&self) -> bool {
        self.device.fault(Fault::NvlinkDown) & (1 << self.number) == 0
    }

    pub(crate) fn transmitted_bytes(&self) -> u64 {
        self.device.state().nvlink_tx_bytes[self.number].load(Relaxed)
    }

    pub(crate) fn received_bytes(&self) -> u64 {
        self.device.state().nvlink_rx_bytes[self.number].load(Relaxed)
    }
}

fn remote_pci(device: Handle, link: c_uint, pci: Out<nvmlPciInfo_t>) -> Answer {
    let link = Link::of(device, link)?;
    supported(link.is_active())?;
    pci.set(match link.peer {
        NvlinkPeer::Gpu(index) => {
            let gpu = link.device.machine.scenario().gpus.get(index as usize).ok_or(code::UNKNOWN)?;
            // NVML leaves the subsystem of the far end out.
            pci_info(gpu.pci, gpu.model.pci_device_id, 0)
        }
        NvlinkPeer::Switch(number) => {
            let place = Pci { domain: 0, bus: FIRST_SWITCH_BUS + number, device: 0 };
            pci_info(place, SWITCH_DEVICE_ID, 0)
        }
    })
}

//! How GPUs reach each other, and which CPUs and memory are near.

use std::ffi::{c_uint, c_ulong};

use gpu_sim::scenario::PciePath;

use crate::abi::{Answer, Device, Handle, InOut, Items, Out, code};

/// CPUs of one NUMA node of the simulated machine.
pub(crate) const CPUS_PER_NODE: u32 = 32;

/// `nvmlGpuTopologyLevel_t`.
const INTERNAL: c_uint = 0;
const SINGLE: c_uint = 10;
const NODE: c_uint = 40;
const SYSTEM: c_uint = 50;

/// `nvmlGpuP2PStatus_t`.
const P2P_OK: c_uint = 0;
const P2P_CHIPSET_NOT_SUPPORTED: c_uint = 1;
const P2P_NOT_SUPPORTED: c_uint = 5;

export! {
    fn nvmlDeviceGetTopologyCommonAncestor(left: Handle, right: Handle, level: Out<c_uint>) {
        level.set(ancestor(&left.device()?, right.device()?.index)?)
    }

    fn nvmlDeviceGetTopologyNearestGpus(
        device: Handle,
        level: c_uint,
        count: InOut<c_uint>,
        devices: Items<Handle>,
    ) {
        let device = device.device()?;
        if !matches!(level, 0 | 10 | 20 | 30 | 40 | 50) {
            return Err(code::INVALID_ARGUMENT);
        }
        let mut near = Vec::new();
        for index in (0..device.machine.scenario().gpus.len()).filter(|index| *index != device.index) {
            if ancestor(&device, index)? == level {
                near.push(Handle::of(index));
            }
        }
        if devices.is_null() {
            return count.set(c_uint::try_from(near.len()).map_err(|_too_many| code::UNKNOWN)?);
        }
        devices.fill(&count, &near)
    }

    fn nvmlDeviceGetP2PStatus(left: Handle, right: Handle, capability: c_uint, status: Out<c_uint>) {
        let (left, right) = (left.device()?, right.device()?);
        let scenario = left.machine.scenario();
        let has_nvlink = scenario.nvlinks_between(left.index, right.index) > 0;
        let is_near = !matches!(scenario.pcie_path(left.index, right.index), None | Some(PciePath::System));
        status.set(match capability {
            // NVML_P2P_CAPS_INDEX_NVLINK, _ATOMICS
            2 | 3 if has_nvlink => P2P_OK,
            2 | 3 => P2P_NOT_SUPPORTED,
            // _READ, _WRITE, _PROP
            0 | 1 | 4 if has_nvlink || is_near => P2P_OK,
            0 | 1 | 4 => P2P_CHIPSET_NOT_SUPPORTED,
            _ => return Err(code::INVALID_ARGUMENT),
        })
    }

    fn nvmlDeviceGetCpuAffinity(device: Handle, size: c_uint, cpus: Items<c_ulong>) {
        near_cpus(&device.device()?, size, cpus)
    }

    fn nvmlDeviceGetCpuAffinityWithinScope(device: Handle, size: c_uint, cpus: Items<c_ulong>, _scope: c_uint) {
        near_cpus(&device.device()?, size, cpus)
    }

    fn nvmlDeviceGetMemoryAffinity(device: Handle, size: c_uint, nodes: Items<c_ulong>, _scope: c_uint) {
        let node = device.device()?.gpu().numa_node;
        mask(size, nodes, node..node + 1)
    }
}

fn ancestor(device: &Device, other: usize) -> Result<c_uint, c_uint> {
    if device.index == other {
        return Ok(INTERNAL);
    }
    match device.machine.scenario().pcie_path(device.index, other) {
        Some(PciePath::Switch) => Ok(SINGLE),
        Some(PciePath::Node) => Ok(NODE),
        Some(PciePath::System) => Ok(SYSTEM),
        None => Err(code::INVALID_ARGUMENT),
    }
}

fn near_cpus(device: &Device, size: c_uint, cpus: Items<c_ulong>) -> Answer {
    let first = device.gpu().numa_node * CPUS_PER_NODE;
    mask(size, cpus, first..first + CPUS_PER_NODE)
}

/// Stores a mask of `size` words in which `bits` are set.
fn mask(size: c_uint, words: Items<c_ulong>, bits: std::ops::Range<u32>) -> Answer {
    if size == 0 {
        return Err(code::INVALID_ARGUMENT);
    }
    let mut values = vec![0; size as usize];
    for bit in bits {
        let word = values.get_mut((bit / c_ulong::BITS) as usize).ok_or(code::INSUFFICIENT_SIZE)?;
        *word |= 1 << (bit % c_ulong::BITS);
    }
    words.store(&values)
}

//! Versions, and the identity of a GPU.

use nvml_wrapper::enum_wrappers::device::Clock;
use nvml_wrapper::{Device, Nvml, cuda_driver_version_major, cuda_driver_version_minor};

use super::classify::failed;
use super::gather::Gather;
use crate::device::error::{DeviceError, ErrorClass};
use crate::device::model::{Gpu, Platform};
use crate::device::sentinel::{known_u32, known_u64};
use crate::device::uuid::GpuUuid;

/// Words of 64 bits in a CPU mask: 4096 CPUs.
const CPU_MASK_WORDS: usize = 64;
/// Words of 64 bits in a NUMA node mask: 1024 nodes, Linux's largest number.
const NODE_MASK_WORDS: usize = 16;
/// `NVML_AFFINITY_SCOPE_NODE`.
const AFFINITY_SCOPE_NODE: u32 = 0;

pub(super) fn platform(nvml: &Nvml) -> Result<Platform, DeviceError> {
    let gpu_count = nvml.device_count().map_err(failed("nvmlDeviceGetCount_v2"))?;
    let cuda_version = nvml.sys_cuda_driver_version().ok().and_then(|version| {
        let major = u32::try_from(cuda_driver_version_major(version)).ok()?;
        let minor = u32::try_from(cuda_driver_version_minor(version)).ok()?;
        Some((major, minor))
    });
    Ok(Platform {
        driver_version: nvml.sys_driver_version().ok(),
        library_version: nvml.sys_nvml_version().ok(),
        cuda_version,
        gpu_count,
    })
}

/// PCI domain, bus and device.
pub(super) type Place = (u32, u32, u32);

/// The GPU, and where it is.
pub(super) fn gpu(device: &Device<'_>, slot: u32) -> Result<(Gpu, Option<Place>), DeviceError> {
    let text = device.uuid().map_err(failed("nvmlDeviceGetUUID"))?;
    let uuid = GpuUuid::parse(&text)
        .map_err(|error| DeviceError::new("nvmlDeviceGetUUID", ErrorClass::Malformed, error))?;
    let mut gather = Gather::default();
    let pci = gather.get("nvmlDeviceGetPciInfo_v3", || device.pci_info());
    let compute_capability =
        gather.get("nvmlDeviceGetCudaComputeCapability", || device.cuda_compute_capability());
    let gpu = Gpu {
        index: gather.get("nvmlDeviceGetIndex", || device.index()).unwrap_or(slot),
        minor_number: gather.get("nvmlDeviceGetMinorNumber", || device.minor_number()).and_then(known_u32),
        name: gather.get("nvmlDeviceGetName", || device.name()).and_then(known_text),
        pci_bus_id: pci.as_ref().map(|pci| pci.bus_id.clone()).and_then(known_text),
        memory_total_bytes: gather
            .get("nvmlDeviceGetMemoryInfo_v2", || device.memory_info())
            .and_then(|memory| known_u64(memory.total)),
        compute_capability: compute_capability.and_then(|version| {
            Some((u32::try_from(version.major).ok()?, u32::try_from(version.minor).ok()?))
        }),
        architecture: gather
            .get("nvmlDeviceGetArchitecture", || device.architecture())
            .map(|architecture| architecture.to_string())
            .filter(|name| name != "Unknown"),
        numa_node: gather
            .get("nvmlDeviceGetMemoryAffinity", || {
                device.memory_affinity(NODE_MASK_WORDS, AFFINITY_SCOPE_NODE)
            })
            .and_then(|mask| set_bits(&mask).first().copied()),
        cpu_affinity: gather
            .get("nvmlDeviceGetCpuAffinity", || device.cpu_affinity(CPU_MASK_WORDS))
            .map(|mask| set_bits(&mask))
            .filter(|cpus| !cpus.is_empty()),
        serial: gather.get("nvmlDeviceGetSerial", || device.serial()).and_then(known_text),
        vbios_version: gather
            .get("nvmlDeviceGetVbiosVersion", || device.vbios_version())
            .and_then(known_text),
        pcie_generation_max: gather
            .get("nvmlDeviceGetMaxPcieLinkGeneration", || device.max_pcie_link_gen())
            .and_then(known_u32),
        pcie_width_max: gather
            .get("nvmlDeviceGetMaxPcieLinkWidth", || device.max_pcie_link_width())
            .and_then(known_u32),
        sm_clock_max_hertz: gather
            .get("nvmlDeviceGetMaxClockInfo", || device.max_clock_info(Clock::SM))
            .and_then(crate::device::sentinel::hertz_from_megahertz),
        mig_enabled: gather.get("nvmlDeviceGetMigMode", || device.mig_mode()).map(|mode| mode.current == 1),
        parent: None,
        uuid,
    };
    gather.finish("nvmlDeviceGetIndex")?;
    Ok((gpu, pci.map(|pci| (pci.domain, pci.bus, pci.device))))
}

/// A text that says something: drivers also write `[N/A]`, `N/A` or nothing.
fn known_text(text: String) -> Option<String> {
    let trimmed = text.trim();
    (!trimmed.is_empty() && !trimmed.trim_matches(['[', ']']).eq_ignore_ascii_case("n/a")).then_some(text)
}

fn set_bits(mask: &[std::ffi::c_ulong]) -> Vec<u32> {
    let bits = std::ffi::c_ulong::BITS;
    (0u32..)
        .zip(mask)
        .flat_map(|(word, value)| {
            (0..bits).filter(move |bit| value & (1 << bit) != 0).map(move |bit| word * bits + bit)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_say_nothing_are_absent() {
        for text in ["", " ", "N/A", "[N/A]", "[n/a]"] {
            assert_eq!(known_text(text.to_owned()), None, "{text:?}");
        }
        assert_eq!(known_text("Tesla T4".to_owned()).as_deref(), Some("Tesla T4"));
    }

    #[test]
    fn masks_become_ascending_numbers() {
        assert_eq!(set_bits(&[0b101, 0, 1 << 63]), [0, 2, 191]);
        assert_eq!(set_bits(&[0; 4]), Vec::<u32>::new());
    }
}

//! Who a GPU is.

use gpu_api::metric::attribute::{
    GPU_ARCHITECTURE, GPU_COMPUTE_CAPABILITY, GPU_CUDA_VERSION, GPU_INDEX, GPU_MIG_MODE, GPU_NUMA_NODE,
    GPU_PCI_ADDRESS, HW_DRIVER_VERSION, HW_FIRMWARE_VERSION, HW_MODEL, HW_SERIAL_NUMBER, HW_VENDOR,
};
use gpu_api::metric::value::MigMode;
use gpu_api::metric::{Attribute, device};

use super::points::{Extra, Points};
use crate::device::{Gpu, Platform};
use crate::export::snapshot::Text;

/// The only vendor whose library gives identities of the form that [`crate::device::GpuUuid`] accepts.
const VENDOR: &str = "NVIDIA";

pub(super) fn add(points: &mut Points<'_>, gpu: &Gpu, platform: Option<&Platform>) {
    let driver = platform.and_then(|platform| platform.driver_version.as_deref());
    let cuda = platform.and_then(|platform| platform.cuda_version);
    let mut extra: Vec<Extra> = vec![(&HW_VENDOR, VENDOR.into())];
    let mut add = |attribute: &'static Attribute, text: Option<Text>| {
        extra.extend(text.map(|text| (attribute, text)));
    };
    add(&HW_MODEL, gpu.name.as_deref().map(copy));
    add(&HW_SERIAL_NUMBER, gpu.serial.as_deref().map(copy));
    add(&HW_DRIVER_VERSION, driver.map(copy));
    add(&HW_FIRMWARE_VERSION, gpu.vbios_version.as_deref().map(copy));
    add(&GPU_PCI_ADDRESS, gpu.pci_bus_id.as_deref().and_then(kernel_pci_address).map(Text::from));
    add(&GPU_INDEX, Some(gpu.index.to_string().into()));
    add(&GPU_ARCHITECTURE, gpu.architecture.as_deref().map(copy));
    add(&GPU_COMPUTE_CAPABILITY, gpu.compute_capability.map(version));
    add(&GPU_CUDA_VERSION, cuda.map(version));
    add(&GPU_NUMA_NODE, gpu.numa_node.map(|node| node.to_string().into()));
    add(&GPU_MIG_MODE, gpu.mig_enabled.map(mig_mode));
    points.info(&device::INFO, extra);
}

fn copy(text: &str) -> Text {
    Text::Shared(text.into())
}

fn version((major, minor): (u32, u32)) -> Text {
    format!("{major}.{minor}").into()
}

fn mig_mode(enabled: bool) -> Text {
    let mode = if enabled { MigMode::Enabled } else { MigMode::Disabled };
    mode.as_str().into()
}

/// A PCI address in the form of the kernel (`0000:3b:00.0`), from NVML's, whose domain has eight digits and whose letters
/// are large (`00000000:3B:00.0`). `None` if it is no PCI address.
fn kernel_pci_address(text: &str) -> Option<String> {
    let (domain, rest) = text.split_once(':')?;
    let (bus, rest) = rest.split_once(':')?;
    let (slot, function) = rest.split_once('.')?;
    let domain = u32::from_str_radix(domain, 16).ok()?;
    let [bus, slot, function] = [bus, slot, function].map(|part| u8::from_str_radix(part, 16).ok());
    Some(format!("{domain:04x}:{:02x}:{:02x}.{:x}", bus?, slot?, function?))
}

#[cfg(test)]
mod tests {
    use super::kernel_pci_address;

    #[test]
    fn addresses_are_those_of_the_kernel() {
        for (nvml, expected) in [
            ("00000000:3B:00.0", Some("0000:3b:00.0")),
            ("0000:3B:1F.7", Some("0000:3b:1f.7")),
            // A domain of a virtual root, as on Azure, has more digits than four.
            ("00010001:00:00.0", Some("10001:00:00.0")),
            ("", None),
            ("3B:00.0", None),
            ("00000000:3B:00", None),
            ("00000000:3B:00.x", None),
        ] {
            assert_eq!(kernel_pci_address(nvml).as_deref(), expected, "{nvml}");
        }
    }
}

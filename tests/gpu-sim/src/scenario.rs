//! What a simulated machine consists of: the static facts that the CUDA driver and NVML report.
//!
//! A scenario is a TOML file with one `[machine]` table, one `[model]` table of facts that all its GPUs share, and one
//! `[[gpu]]` table for each GPU. [`Scenario`] is the expanded form, in which each GPU carries everything.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

mod file;
mod identity;
mod preset;

pub use identity::format_uuid;
pub use preset::{PRESETS, Preset};

/// The most GPUs one machine can have.
pub const MAX_GPUS: usize = 16;

/// The most NVLink links one GPU can have (NVML_NVLINK_MAX_LINKS).
pub const MAX_NVLINKS: usize = 18;

/// All static facts of one simulated machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Name of the preset or the `name` key of the file; part of every derived UUID and serial number.
    pub name: String,
    /// Kernel driver version as NVML prints it, for example `580.95.05`.
    pub driver_version: String,
    /// CUDA driver API version as cuDriverGetVersion reports it: 1000 * major + 10 * minor.
    pub cuda_version: i32,
    /// The GPUs in the order in which NVML enumerates them (by PCI bus id).
    pub gpus: Vec<Gpu>,
}

/// All static facts of one GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gpu {
    /// UUID as NVML prints it: `GPU-` and 8-4-4-4-12 lower-case hexadecimal digits.
    pub uuid: String,
    /// Board serial number.
    pub serial: String,
    /// Minor number of the device node `/dev/nvidiaN`.
    pub minor: u32,
    pub pci: Pci,
    /// NUMA node that the GPU's PCIe root port belongs to.
    pub numa_node: u32,
    /// GPUs with the same number hang on one PCIe switch.
    pub pcie_switch: u32,
    /// One element for each NVLink link, in link order.
    pub nvlink_peers: Vec<NvlinkPeer>,
    pub model: Model,
}

/// PCI address of a GPU. The function is always 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pci {
    pub domain: u32,
    pub bus: u32,
    pub device: u32,
}

/// What the far end of an NVLink link is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NvlinkPeer {
    /// The GPU with this index.
    Gpu(u32),
    /// The NVSwitch with this number.
    Switch(u32),
}

/// Facts that depend on the GPU model alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// Product name as NVML prints it, for example `NVIDIA A10`.
    pub name: String,
    /// NVML's brand number (nvmlBrandType_t).
    pub brand: u32,
    /// NVML's architecture number (nvmlDeviceArchitecture_t): 5 Volta, 6 Turing, 7 Ampere, 9 Hopper.
    pub architecture: u32,
    /// CUDA compute capability, major and minor.
    pub compute_capability: (u32, u32),
    /// Streaming multiprocessors.
    pub sm_count: u32,
    /// CUDA cores.
    pub core_count: u32,
    pub vbios: String,
    pub board_part_number: String,
    /// `device id << 16 | vendor id`, as in nvmlPciInfo_t.
    pub pci_device_id: u32,
    /// Subsystem id in the same form.
    pub pci_subsystem_id: u32,
    pub memory: Memory,
    pub clocks: Clocks,
    pub power: Power,
    pub temperature: Temperature,
    pub pcie: Pcie,
    /// NVLink version (2 Volta, 3 Ampere, 4 Hopper); 0 where the model has no NVLink.
    pub nvlink_version: u32,
    /// Bandwidth of one NVLink link in each direction, in MB/s.
    pub nvlink_link_mb_per_s: u32,
    /// Number of fans; 0 for passively cooled boards, whose fan calls are not supported.
    pub fan_count: u32,
    /// Whether GPM (nvmlGpm*) works: Hopper and later.
    pub gpm: bool,
    /// Whether MIG can be switched on.
    pub mig_capable: bool,
    /// Whether ECC is on; without it ECC counters are not supported.
    pub ecc: bool,
    pub encoder_count: u32,
    pub decoder_count: u32,
}

/// Device memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    /// Total as NVML reports it.
    pub total_bytes: u64,
    /// What the driver and firmware keep for themselves; never available to CUDA.
    pub reserved_bytes: u64,
    pub bar1_bytes: u64,
    pub bus_width_bits: u32,
    /// Device memory bandwidth, in MB/s.
    pub bandwidth_mb_per_s: u32,
    /// What one CUDA context takes before its first allocation.
    pub context_bytes: u64,
}

/// Clock domains, in MHz.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Clocks {
    pub idle_sm_mhz: u32,
    pub idle_memory_mhz: u32,
    /// SM (and graphics) clock that a busy GPU runs at, and its maximum.
    pub max_sm_mhz: u32,
    pub max_memory_mhz: u32,
    pub max_video_mhz: u32,
}

/// Power limits and draw, in milliwatts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Power {
    pub limit_mw: u32,
    pub min_limit_mw: u32,
    pub max_limit_mw: u32,
    pub idle_mw: u32,
    /// Draw with all SMs busy; below the limit.
    pub busy_mw: u32,
}

/// Temperatures, in degrees Celsius.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Temperature {
    pub idle_celsius: u32,
    /// Steady temperature at `Power::busy_mw`.
    pub busy_celsius: u32,
    pub max_operating_celsius: u32,
    pub slowdown_celsius: u32,
    pub shutdown_celsius: u32,
}

/// The PCIe link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pcie {
    pub generation: u32,
    pub width: u32,
    /// Copy bandwidth that the link really reaches in each direction, in MB/s.
    pub copy_mb_per_s: u32,
}

/// How two GPUs reach each other without NVLink, from near to far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PciePath {
    /// Through one PCIe switch.
    Switch,
    /// Through the host bridge of one NUMA node.
    Node,
    /// Across the interconnect between NUMA nodes.
    System,
}

/// Why a scenario could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    #[error("cannot read scenario `{}`", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot parse scenario `{origin}`")]
    Parse {
        origin: String,
        #[source]
        source: Box<toml::de::Error>,
    },
    #[error("scenario `{origin}`: `{key}` is `{value}`, expected {expected}")]
    Invalid { origin: String, key: String, value: String, expected: &'static str },
    #[error("no preset is called `{name}`, expected one of {known}")]
    UnknownPreset { name: String, known: String },
}

impl Scenario {
    /// Reads and expands a scenario file.
    pub fn read(path: &Path) -> Result<Self, ScenarioError> {
        let text = fs::read_to_string(path)
            .map_err(|source| ScenarioError::Read { path: path.to_owned(), source })?;
        Self::parse(&path.display().to_string(), &text)
    }

    /// Expands one of the built-in presets.
    pub fn preset(name: &str) -> Result<Self, ScenarioError> {
        let preset = PRESETS.iter().find(|preset| preset.name == name).ok_or_else(|| {
            let known = PRESETS.iter().map(|preset| preset.name).collect::<Vec<_>>().join(", ");
            ScenarioError::UnknownPreset { name: name.to_owned(), known }
        })?;
        Self::parse(name, preset.text)
    }

    /// Expands the text of a scenario file; `origin` names it in errors.
    pub fn parse(origin: &str, text: &str) -> Result<Self, ScenarioError> {
        let file: file::ScenarioFile = toml::from_str(text)
            .map_err(|source| ScenarioError::Parse { origin: origin.to_owned(), source: Box::new(source) })?;
        file.expand(origin)
    }

    /// Index of the GPU with this UUID.
    pub fn gpu_index(&self, uuid: &str) -> Option<usize> {
        self.gpus.iter().position(|gpu| gpu.uuid == uuid)
    }

    /// Number of NVLink links between two GPUs, through a switch or directly.
    pub fn nvlinks_between(&self, left: usize, right: usize) -> usize {
        let (Some(from), Some(to)) = (self.gpus.get(left), self.gpus.get(right)) else { return 0 };
        if left == right {
            return 0;
        }
        let direct = from.nvlink_peers.iter().filter(|peer| **peer == NvlinkPeer::Gpu(right as u32)).count();
        let switched =
            |gpu: &Gpu| gpu.nvlink_peers.iter().filter(|peer| matches!(peer, NvlinkPeer::Switch(_))).count();
        direct + switched(from).min(switched(to))
    }

    /// The links of GPU `from` that lead to GPU `to`, through a switch or directly.
    pub fn nvlinks_towards(&self, from: usize, to: usize) -> Vec<usize> {
        let Some(gpu) = self.gpus.get(from) else { return Vec::new() };
        let links = gpu.nvlink_peers.iter().enumerate();
        links
            .filter(|(_, peer)| match peer {
                NvlinkPeer::Gpu(index) => *index as usize == to,
                NvlinkPeer::Switch(_) => self.nvlinks_between(from, to) > 0,
            })
            .map(|(link, _)| link)
            .collect()
    }

    /// How two GPUs reach each other over PCIe.
    pub fn pcie_path(&self, left: usize, right: usize) -> Option<PciePath> {
        let (from, to) = (self.gpus.get(left)?, self.gpus.get(right)?);
        Some(if from.pcie_switch == to.pcie_switch {
            PciePath::Switch
        } else if from.numa_node == to.numa_node {
            PciePath::Node
        } else {
            PciePath::System
        })
    }
}

impl Gpu {
    /// The 16 raw bytes of the UUID, as cuDeviceGetUuid reports them.
    pub fn uuid_bytes(&self) -> [u8; 16] {
        identity::uuid_bytes(&self.uuid)
    }
}

impl Pci {
    /// NVML's long form, for example `00000000:17:00.0`.
    pub fn bus_id(self) -> String {
        format!("{:08X}:{:02X}:{:02X}.0", self.domain, self.bus, self.device)
    }

    /// CUDA's and sysfs' short form, for example `0000:17:00.0`.
    pub fn short_bus_id(self) -> String {
        format!("{:04x}:{:02x}:{:02x}.0", self.domain, self.bus, self.device)
    }
}

#[cfg(test)]
mod tests;

//! What does not change while a GPU works: identity, capacity, place in the machine; and who uses it.

use std::fmt;

use super::uuid::GpuUuid;

/// The driver and library that a backend speaks to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Platform {
    /// The kernel driver's version, for example `570.86.15`.
    pub driver_version: Option<String>,
    /// The management library's version.
    pub library_version: Option<String>,
    /// The newest CUDA version that the driver supports, as (major, minor).
    pub cuda_version: Option<(u32, u32)>,
    /// How many GPUs the library lists, lost ones included.
    pub gpu_count: u32,
}

/// One GPU, or one MIG device of a GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gpu {
    /// Identity; survives a reboot and a change of order.
    pub uuid: GpuUuid,
    /// Position in the library's order (PCI order for NVML). CUDA's order can differ.
    pub index: u32,
    /// The number in `/dev/nvidia<N>`.
    pub minor_number: Option<u32>,
    /// The product's name.
    pub name: Option<String>,
    /// `domain:bus:device.function` as the library writes it.
    pub pci_bus_id: Option<String>,
    /// Device memory, the part that the driver keeps for itself included.
    pub memory_total_bytes: Option<u64>,
    /// CUDA compute capability as (major, minor).
    pub compute_capability: Option<(u32, u32)>,
    /// The architecture's name, for example `Hopper`.
    pub architecture: Option<String>,
    /// The NUMA node whose memory is nearest.
    pub numa_node: Option<u32>,
    /// CPUs that are nearest, ascending.
    pub cpu_affinity: Option<Vec<u32>>,
    /// The board's serial number.
    pub serial: Option<String>,
    /// The firmware's version.
    pub vbios_version: Option<String>,
    /// The fastest PCIe generation that card and slot agree on.
    pub pcie_generation_max: Option<u32>,
    /// The widest PCIe link that card and slot agree on, in lanes.
    pub pcie_width_max: Option<u32>,
    /// The SM clock's ceiling.
    pub sm_clock_max_hertz: Option<u64>,
    /// Whether the GPU is partitioned; `None` where it cannot be.
    pub mig_enabled: Option<bool>,
    /// The GPU that a MIG device is a part of.
    pub parent: Option<GpuUuid>,
}

impl Gpu {
    /// A GPU of which only identity and position are known.
    pub fn new(uuid: GpuUuid, index: u32) -> Self {
        Self {
            uuid,
            index,
            minor_number: None,
            name: None,
            pci_bus_id: None,
            memory_total_bytes: None,
            compute_capability: None,
            architecture: None,
            numa_node: None,
            cpu_affinity: None,
            serial: None,
            vbios_version: None,
            pcie_generation_max: None,
            pcie_width_max: None,
            sm_clock_max_hertz: None,
            mig_enabled: None,
            parent: None,
        }
    }
}

/// What two GPUs have in common on the way to each other, from near to far.
///
/// The names in [`PcieAncestor::as_str`] are those of `nvidia-smi topo -m`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PcieAncestor {
    /// Both are on one board.
    Internal,
    /// One PCIe switch.
    SingleSwitch,
    /// Several PCIe switches, no host bridge.
    MultipleSwitches,
    /// One PCIe host bridge.
    HostBridge,
    /// One NUMA node, several host bridges.
    NumaNode,
    /// The link between NUMA nodes.
    System,
}

impl PcieAncestor {
    /// The short name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Internal => "INT",
            Self::SingleSwitch => "PIX",
            Self::MultipleSwitches => "PXB",
            Self::HostBridge => "PHB",
            Self::NumaNode => "NODE",
            Self::System => "SYS",
        }
    }
}

/// The way from one GPU to another, seen from the first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerLink {
    /// The GPU that was asked.
    pub from: GpuUuid,
    /// Its peer.
    pub to: GpuUuid,
    /// The way over PCIe.
    pub pcie: Option<PcieAncestor>,
    /// Active NVLinks between the two, directly or through switches; `Some(0)` is known to be none.
    pub nvlinks: Option<u32>,
    /// Whether those links go through an NVSwitch, where all peers share them.
    pub through_switch: bool,
    /// Bandwidth of those links together, in each direction.
    pub nvlink_bytes_per_second: Option<u64>,
    /// Whether the driver allows direct reads between the two.
    pub peer_read: Option<bool>,
}

/// In which list of the library a process appears.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProcessKind {
    /// Has a compute context.
    Compute,
    /// Has a graphics context.
    Graphics,
    /// A client of the CUDA Multi-Process Service.
    Mps,
}

impl ProcessKind {
    /// The value of an attribute.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Compute => "compute",
            Self::Graphics => "graphics",
            Self::Mps => "mps",
        }
    }
}

impl fmt::Display for ProcessKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A process that has a context on a GPU, as the driver lists it.
///
/// The pid is that of the PID namespace in which the agent runs; a driver lists no pid that this namespace cannot see.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProcessOnGpu {
    /// The GPU, or MIG device.
    pub gpu: GpuUuid,
    /// Process id, the thread group's.
    pub pid: u32,
    /// The list that it is from.
    pub kind: ProcessKind,
    /// Device memory that it holds; unknown for graphics on some drivers, for MPS clients, and within a container that may not see it.
    pub used_memory_bytes: Option<u64>,
}

//! The form in which a scenario is written: what GPUs share once, and what differs for each.

use serde::Deserialize;

use super::{Gpu, MAX_GPUS, MAX_NVLINKS, Model, NvlinkPeer, Pci, Scenario, ScenarioError, identity};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ScenarioFile {
    machine: MachineTable,
    model: Model,
    gpu: Vec<GpuTable>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct MachineTable {
    name: String,
    driver_version: String,
    cuda_version: i32,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct GpuTable {
    /// Derived from the machine's name and the index when absent.
    uuid: Option<String>,
    /// Derived like the UUID.
    serial: Option<String>,
    pci: Pci,
    #[serde(default)]
    numa_node: u32,
    pcie_switch: u32,
    /// Indices of the GPUs at the far ends of direct links, one for each link.
    #[serde(default)]
    nvlink_gpus: Vec<u32>,
    /// Numbers of the NVSwitches at the far ends of switched links, one for each link.
    #[serde(default)]
    nvlink_switches: Vec<u32>,
    /// Replaces the `[model]` table for this GPU.
    model: Option<Model>,
}

impl ScenarioFile {
    pub(super) fn expand(self, origin: &str) -> Result<Scenario, ScenarioError> {
        let invalid = |key: String, value: String, expected| ScenarioError::Invalid {
            origin: origin.to_owned(),
            key,
            value,
            expected,
        };
        let count = self.gpu.len();
        if count == 0 || count > MAX_GPUS {
            return Err(invalid("gpu".to_owned(), format!("{count} tables"), "1 to 16 tables"));
        }
        let mut gpus = Vec::with_capacity(count);
        for (index, table) in self.gpu.into_iter().enumerate() {
            let key = |name: &str| format!("gpu[{index}].{name}");
            let mut nvlink_peers: Vec<NvlinkPeer> =
                table.nvlink_gpus.iter().copied().map(NvlinkPeer::Gpu).collect();
            nvlink_peers.extend(table.nvlink_switches.iter().copied().map(NvlinkPeer::Switch));
            if nvlink_peers.len() > MAX_NVLINKS {
                let value = format!("{} links", nvlink_peers.len());
                return Err(invalid(key("nvlink_gpus"), value, "at most 18 links for each GPU"));
            }
            if let Some(peer) =
                table.nvlink_gpus.iter().find(|peer| **peer as usize >= count || **peer as usize == index)
            {
                return Err(invalid(key("nvlink_gpus"), peer.to_string(), "the index of another GPU"));
            }
            let uuid = table.uuid.unwrap_or_else(|| identity::uuid(&self.machine.name, index));
            if !identity::is_uuid(&uuid) {
                return Err(invalid(
                    key("uuid"),
                    uuid,
                    "`GPU-` and 8-4-4-4-12 lower-case hexadecimal digits",
                ));
            }
            let model = table.model.unwrap_or_else(|| self.model.clone());
            if model.memory.reserved_bytes >= model.memory.total_bytes {
                let value = model.memory.reserved_bytes.to_string();
                return Err(invalid(key("model.memory.reserved_bytes"), value, "less than total_bytes"));
            }
            if model.pcie.copy_mb_per_s == 0 || model.memory.bandwidth_mb_per_s == 0 {
                return Err(invalid(key("model.pcie.copy_mb_per_s"), "0".to_owned(), "a positive bandwidth"));
            }
            let serial = table.serial.unwrap_or_else(|| identity::serial(&self.machine.name, index));
            let minor = u32::try_from(index).unwrap_or(u32::MAX);
            let GpuTable { pci, numa_node, pcie_switch, .. } = table;
            gpus.push(Gpu { uuid, serial, minor, pci, numa_node, pcie_switch, nvlink_peers, model });
        }
        if gpus.windows(2).any(|pair| pair[0].pci >= pair[1].pci) {
            return Err(invalid(
                "gpu".to_owned(),
                "unsorted".to_owned(),
                "distinct PCI addresses in rising order",
            ));
        }
        let MachineTable { name, driver_version, cuda_version } = self.machine;
        Ok(Scenario { name, driver_version, cuda_version, gpus })
    }
}

//! Metrics of a device, whoever uses it.

use super::Descriptor;
use super::Number::{Double, Int};
use super::Status::Convention;
use super::attribute::{
    AttributeUse, ERROR_TYPE, GPU_CLOCK_DOMAIN, GPU_LINK_ID, GPU_LINK_TYPE, GPU_PCI_ADDRESS, GPU_PEER_ID,
    GPU_PIPE, GPU_XID, HW_DRIVER_VERSION, HW_FIRMWARE_VERSION, HW_GPU_TASK, HW_ID, HW_LIMIT_TYPE, HW_MODEL,
    HW_NAME, HW_PARENT, HW_SENSOR_LOCATION, HW_SERIAL_NUMBER, HW_STATE, HW_TYPE, HW_VENDOR,
    NETWORK_IO_DIRECTION, known, required,
};

/// The device that a point is about.
const DEVICE: &[AttributeUse] = &[required(&HW_ID), known(&HW_NAME), known(&HW_PARENT)];
const TYPE: &[AttributeUse] = &[required(&HW_TYPE)];
const DIRECTION: &[AttributeUse] = &[required(&NETWORK_IO_DIRECTION)];

pub static INFO: Descriptor = Descriptor::gauge(
    "gpu.device.info",
    "",
    Int,
    &[
        DEVICE,
        &[
            known(&HW_MODEL),
            known(&HW_VENDOR),
            known(&HW_SERIAL_NUMBER),
            known(&HW_DRIVER_VERSION),
            known(&HW_FIRMWARE_VERSION),
            known(&GPU_PCI_ADDRESS),
        ],
    ],
    "Always 1; its attributes describe the device and join to the others by hw.id.",
);
pub static STATUS: Descriptor = Descriptor::up_down_counter(
    "hw.status",
    "1",
    &[DEVICE, TYPE, &[required(&HW_STATE)]],
    "1 for the state that the device is in, 0 for the others.",
)
.status(Convention);
pub static ERRORS: Descriptor = Descriptor::counter(
    "hw.errors",
    "{error}",
    Int,
    &[DEVICE, TYPE, &[required(&ERROR_TYPE)]],
    "ECC errors that the driver counts, corrected or uncorrected.",
)
.status(Convention);
pub static XID_ERRORS: Descriptor = Descriptor::counter(
    "gpu.xid.errors",
    "{error}",
    Int,
    &[DEVICE, &[required(&GPU_XID)]],
    "XID errors that the driver reported since the agent started.",
);
pub static UTILIZATION: Descriptor = Descriptor::gauge(
    "hw.gpu.utilization",
    "1",
    Double,
    &[DEVICE, &[required(&HW_GPU_TASK)]],
    "Fraction of the driver's last sample during which the engine was busy; says nothing of how many SMs were.",
)
.status(Convention);
pub static SM_UTILIZATION: Descriptor = Descriptor::gauge(
    "gpu.sm.utilization",
    "1",
    Double,
    &[DEVICE],
    "Fraction of time and SMs with at least one warp assigned (GPM).",
);
pub static SM_OCCUPANCY: Descriptor = Descriptor::gauge(
    "gpu.sm.occupancy",
    "1",
    Double,
    &[DEVICE],
    "Warps resident on the SMs relative to the most that they can hold (GPM).",
);
pub static PIPE_UTILIZATION: Descriptor = Descriptor::gauge(
    "gpu.pipe.utilization",
    "1",
    Double,
    &[DEVICE, &[required(&GPU_PIPE)]],
    "Fraction of cycles in which the pipe was active (GPM).",
);
pub static MEMORY_LIMIT: Descriptor = Descriptor::up_down_counter(
    "hw.gpu.memory.limit",
    "By",
    &[DEVICE],
    "Memory of the device, the driver's own part included.",
)
.status(Convention);
pub static MEMORY_USAGE: Descriptor = Descriptor::up_down_counter(
    "hw.gpu.memory.usage",
    "By",
    &[DEVICE],
    "Memory in use by all processes and the driver.",
)
.status(Convention);
pub static MEMORY_UTILIZATION: Descriptor = Descriptor::gauge(
    "hw.gpu.memory.utilization",
    "1",
    Double,
    &[DEVICE],
    "Memory in use relative to the device's memory.",
)
.status(Convention);
pub static MEMORY_BANDWIDTH_UTILIZATION: Descriptor = Descriptor::gauge(
    "gpu.memory.bandwidth.utilization",
    "1",
    Double,
    &[DEVICE],
    "Fraction of the memory bandwidth in use (GPM); the share of time in which memory was accessed elsewhere.",
);
pub static POWER: Descriptor =
    Descriptor::gauge("hw.power", "W", Double, &[DEVICE, TYPE], "Power draw as the driver averages it.")
        .status(Convention);
pub static POWER_LIMIT: Descriptor =
    Descriptor::gauge("gpu.power.limit", "W", Double, &[DEVICE], "Power limit that the driver enforces.");
pub static ENERGY: Descriptor = Descriptor::counter(
    "hw.energy",
    "J",
    Double,
    &[DEVICE, TYPE],
    "Energy used since the driver was loaded.",
)
.status(Convention);
pub static TEMPERATURE: Descriptor = Descriptor::gauge(
    "hw.temperature",
    "Cel",
    Double,
    &[DEVICE, TYPE, &[required(&HW_SENSOR_LOCATION)]],
    "Temperature of the sensor.",
)
.status(Convention);
pub static TEMPERATURE_LIMIT: Descriptor = Descriptor::gauge(
    "hw.temperature.limit",
    "Cel",
    Double,
    &[DEVICE, TYPE, &[required(&HW_LIMIT_TYPE)]],
    "Temperature at which the driver acts.",
)
.status(Convention);
pub static FAN_SPEED_RATIO: Descriptor = Descriptor::gauge(
    "hw.fan.speed_ratio",
    "1",
    Double,
    &[DEVICE],
    "Intended fan speed relative to its maximum; absent on passively cooled boards.",
)
.status(Convention);
pub static CLOCK_FREQUENCY: Descriptor = Descriptor::gauge(
    "gpu.clock.frequency",
    "Hz",
    Int,
    &[DEVICE, &[required(&GPU_CLOCK_DOMAIN)]],
    "Current frequency of the clock domain.",
);
pub static CLOCK_FREQUENCY_LIMIT: Descriptor = Descriptor::gauge(
    "gpu.clock.frequency.limit",
    "Hz",
    Int,
    &[DEVICE, &[required(&GPU_CLOCK_DOMAIN)]],
    "Highest frequency that the clock domain can have.",
);
pub static IO: Descriptor = Descriptor::counter(
    "hw.gpu.io",
    "By",
    Int,
    &[DEVICE, DIRECTION],
    "Bytes over PCIe, where the driver counts them.",
)
.status(Convention);
pub static PCIE_THROUGHPUT: Descriptor = Descriptor::gauge(
    "gpu.pcie.throughput",
    "By/s",
    Double,
    &[DEVICE, DIRECTION],
    "PCIe traffic over the driver's last sample (20 ms, or the GPM interval).",
);
pub static PCIE_LINK_GENERATION: Descriptor = Descriptor::gauge(
    "gpu.pcie.link.generation",
    "",
    Int,
    &[DEVICE],
    "Current PCIe generation of the link; it falls while the device is idle.",
);
pub static PCIE_LINK_WIDTH: Descriptor =
    Descriptor::gauge("gpu.pcie.link.width", "{lane}", Int, &[DEVICE], "Current number of PCIe lanes.");
pub static PCIE_REPLAYS: Descriptor = Descriptor::counter(
    "gpu.pcie.replays",
    "{replay}",
    Int,
    &[DEVICE],
    "PCIe packets that had to be sent again.",
);
pub static LINK_IO: Descriptor = Descriptor::counter(
    "gpu.link.io",
    "By",
    Int,
    &[DEVICE, &[required(&GPU_LINK_ID)], DIRECTION],
    "Bytes over an NVLink.",
);
pub static TOPOLOGY_BANDWIDTH: Descriptor = Descriptor::gauge(
    "gpu.topology.bandwidth",
    "By/s",
    Double,
    &[DEVICE, &[required(&GPU_PEER_ID), required(&GPU_LINK_TYPE)]],
    "Nominal bandwidth in one direction of the best path to another GPU of the node.",
);

/// In the order of the reference table.
pub static ALL: &[&Descriptor] = &[
    &INFO,
    &STATUS,
    &ERRORS,
    &XID_ERRORS,
    &UTILIZATION,
    &SM_UTILIZATION,
    &SM_OCCUPANCY,
    &PIPE_UTILIZATION,
    &MEMORY_LIMIT,
    &MEMORY_USAGE,
    &MEMORY_UTILIZATION,
    &MEMORY_BANDWIDTH_UTILIZATION,
    &POWER,
    &POWER_LIMIT,
    &ENERGY,
    &TEMPERATURE,
    &TEMPERATURE_LIMIT,
    &FAN_SPEED_RATIO,
    &CLOCK_FREQUENCY,
    &CLOCK_FREQUENCY_LIMIT,
    &IO,
    &PCIE_THROUGHPUT,
    &PCIE_LINK_GENERATION,
    &PCIE_LINK_WIDTH,
    &PCIE_REPLAYS,
    &LINK_IO,
    &TOPOLOGY_BANDWIDTH,
];

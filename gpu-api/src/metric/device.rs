//! Metrics of a device, whoever uses it.

use super::Descriptor;
use super::Number::{Double, Int};
use super::Status::Convention;
use super::attribute::{
    AttributeUse, ERROR_TYPE, GPU_ARCHITECTURE, GPU_CLOCK_DOMAIN, GPU_CLOCK_THROTTLE_POLICY,
    GPU_CLOCK_THROTTLE_REASON, GPU_COMPUTE_CAPABILITY, GPU_CONDITION, GPU_CUDA_VERSION, GPU_FAN_ID,
    GPU_INDEX, GPU_LINK_ID, GPU_LINK_TYPE, GPU_MIG_MODE, GPU_NUMA_NODE, GPU_PCI_ADDRESS, GPU_PEER_ID,
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
            known(&GPU_INDEX),
            known(&GPU_ARCHITECTURE),
            known(&GPU_COMPUTE_CAPABILITY),
            known(&GPU_CUDA_VERSION),
            known(&GPU_NUMA_NODE),
            known(&GPU_MIG_MODE),
        ],
    ],
    "Always 1; its attributes describe the device and join to the others by hw.id.",
);
pub static STATUS: Descriptor = Descriptor::up_down_counter(
    "hw.status",
    "1",
    &[DEVICE, TYPE, &[required(&HW_STATE)]],
    "1 for the state that the device is in, 0 for the others; absent while nothing is known about it.",
)
.status(Convention);
pub static CONDITION: Descriptor = Descriptor::up_down_counter(
    "gpu.device.condition",
    "1",
    &[DEVICE, &[required(&GPU_CONDITION)]],
    "1 for whether and how the device answers its driver, 0 for the other conditions.",
);
pub static UNIDENTIFIED: Descriptor = Descriptor::up_down_counter(
    "gpu.device.unidentified",
    "{device}",
    &[DEVICE, &[required(&ERROR_TYPE)]],
    "Devices that the driver lists and that do not say who they are, by class of error; hw.id is `unknown`.",
);
pub static ERRORS: Descriptor = Descriptor::counter(
    "hw.errors",
    "{error}",
    Int,
    &[DEVICE, TYPE, &[required(&ERROR_TYPE)]],
    "ECC errors since the driver was loaded, corrected or uncorrected.",
)
.status(Convention);
pub static ECC_LIFETIME_ERRORS: Descriptor = Descriptor::counter(
    "gpu.ecc.lifetime.errors",
    "{error}",
    Int,
    &[DEVICE, &[required(&ERROR_TYPE)]],
    "ECC errors over the life of the board, corrected or uncorrected.",
);
pub static ROW_REMAPS: Descriptor = Descriptor::counter(
    "gpu.memory.row.remaps",
    "{row}",
    Int,
    &[DEVICE, &[required(&ERROR_TYPE)]],
    "Memory rows that were taken out of use over the life of the board, after corrected or uncorrected errors.",
);
pub static ROW_REMAP_PENDING: Descriptor = Descriptor::gauge(
    "gpu.memory.row.remap.pending",
    "",
    Int,
    &[DEVICE],
    "1 if a row will be taken out of use at the next reset of the device, otherwise 0.",
);
pub static ROW_REMAP_FAILED: Descriptor = Descriptor::gauge(
    "gpu.memory.row.remap.failed",
    "",
    Int,
    &[DEVICE],
    "1 if no spare row was left and the board should be replaced, otherwise 0.",
);
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
pub static ENGINE_UTILIZATION: Descriptor = Descriptor::gauge(
    "gpu.engine.utilization",
    "1",
    Double,
    &[DEVICE],
    "Fraction of time in which the graphics or compute engine was busy (GPM).",
);
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
    "Memory that processes and their contexts hold; what the driver keeps is in gpu.memory.reserved.",
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
pub static MEMORY_RESERVED: Descriptor = Descriptor::up_down_counter(
    "gpu.memory.reserved",
    "By",
    &[DEVICE],
    "Memory that driver and firmware keep, neither used nor free.",
);
pub static MEMORY_BANDWIDTH_UTILIZATION: Descriptor = Descriptor::gauge(
    "gpu.memory.bandwidth.utilization",
    "1",
    Double,
    &[DEVICE],
    "Fraction of the memory bandwidth in use, reads and writes together (GPM).",
);
pub static MEMORY_ACCESS_UTILIZATION: Descriptor = Descriptor::gauge(
    "gpu.memory.access.utilization",
    "1",
    Double,
    &[DEVICE],
    "Fraction of the driver's last sample during which memory was accessed; says nothing of how much.",
);
pub static BAR1_LIMIT: Descriptor = Descriptor::up_down_counter(
    "gpu.bar1.limit",
    "By",
    &[DEVICE],
    "Size of the window through which CPU and other devices reach the memory.",
);
pub static BAR1_USAGE: Descriptor = Descriptor::up_down_counter(
    "gpu.bar1.usage",
    "By",
    &[DEVICE],
    "Mapped part of the window through which CPU and other devices reach the memory.",
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
    &[DEVICE, &[required(&GPU_FAN_ID)]],
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
pub static CLOCK_THROTTLED: Descriptor = Descriptor::gauge(
    "gpu.clock.throttled",
    "",
    Int,
    &[DEVICE, &[required(&GPU_CLOCK_THROTTLE_REASON)]],
    "1 for each reason for which clocks are lower than they could be, 0 for the others.",
);
pub static CLOCK_THROTTLED_DURATION: Descriptor = Descriptor::counter(
    "gpu.clock.throttled.duration",
    "s",
    Double,
    &[DEVICE, &[required(&GPU_CLOCK_THROTTLE_POLICY)]],
    "Time for which the clocks were held back, since the driver was loaded.",
);
pub static PERFORMANCE_STATE: Descriptor = Descriptor::gauge(
    "gpu.performance.state",
    "",
    Int,
    &[DEVICE],
    "Performance state, from 0 (fastest) to 15.",
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
pub static PCIE_LINK_GENERATION_LIMIT: Descriptor = Descriptor::gauge(
    "gpu.pcie.link.generation.limit",
    "",
    Int,
    &[DEVICE],
    "Highest PCIe generation that device and slot agree on.",
);
pub static PCIE_LINK_WIDTH: Descriptor =
    Descriptor::gauge("gpu.pcie.link.width", "{lane}", Int, &[DEVICE], "Current number of PCIe lanes.");
pub static PCIE_LINK_WIDTH_LIMIT: Descriptor = Descriptor::gauge(
    "gpu.pcie.link.width.limit",
    "{lane}",
    Int,
    &[DEVICE],
    "Most PCIe lanes that device and slot agree on.",
);
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
pub static LINK_THROUGHPUT: Descriptor = Descriptor::gauge(
    "gpu.link.throughput",
    "By/s",
    Double,
    &[DEVICE, &[required(&GPU_LINK_ID)], DIRECTION],
    "Traffic over an NVLink between the driver's last two samples (GPM).",
);
pub static LINK_ERRORS: Descriptor = Descriptor::counter(
    "gpu.link.errors",
    "{error}",
    Int,
    &[DEVICE, &[required(&GPU_LINK_ID), required(&ERROR_TYPE)]],
    "Errors on an NVLink since the driver was loaded; read less often than the rest.",
);
pub static TOPOLOGY_LINKS: Descriptor = Descriptor::gauge(
    "gpu.topology.links",
    "{link}",
    Int,
    &[DEVICE, &[required(&GPU_PEER_ID), required(&GPU_LINK_TYPE)]],
    "Ways to another GPU of the node: the number of active NVLinks, 0 if there is none, and 1 for the way over PCIe.",
);
pub static TOPOLOGY_BANDWIDTH: Descriptor = Descriptor::gauge(
    "gpu.topology.bandwidth",
    "By/s",
    Double,
    &[DEVICE, &[required(&GPU_PEER_ID), required(&GPU_LINK_TYPE)]],
    "Nominal bandwidth in one direction to another GPU of the node, where it is known: over NVLink.",
);
pub static TOPOLOGY_PEER_ACCESS: Descriptor = Descriptor::gauge(
    "gpu.topology.peer.access",
    "",
    Int,
    &[DEVICE, &[required(&GPU_PEER_ID)]],
    "1 if the driver allows direct reads of the other GPU's memory, otherwise 0.",
);

/// In the order of the reference table.
pub static ALL: &[&Descriptor] = &[
    &INFO,
    &STATUS,
    &CONDITION,
    &UNIDENTIFIED,
    &ERRORS,
    &ECC_LIFETIME_ERRORS,
    &ROW_REMAPS,
    &ROW_REMAP_PENDING,
    &ROW_REMAP_FAILED,
    &XID_ERRORS,
    &UTILIZATION,
    &ENGINE_UTILIZATION,
    &SM_UTILIZATION,
    &SM_OCCUPANCY,
    &PIPE_UTILIZATION,
    &MEMORY_LIMIT,
    &MEMORY_USAGE,
    &MEMORY_UTILIZATION,
    &MEMORY_RESERVED,
    &MEMORY_BANDWIDTH_UTILIZATION,
    &MEMORY_ACCESS_UTILIZATION,
    &BAR1_LIMIT,
    &BAR1_USAGE,
    &POWER,
    &POWER_LIMIT,
    &ENERGY,
    &TEMPERATURE,
    &TEMPERATURE_LIMIT,
    &FAN_SPEED_RATIO,
    &CLOCK_FREQUENCY,
    &CLOCK_FREQUENCY_LIMIT,
    &CLOCK_THROTTLED,
    &CLOCK_THROTTLED_DURATION,
    &PERFORMANCE_STATE,
    &IO,
    &PCIE_THROUGHPUT,
    &PCIE_LINK_GENERATION,
    &PCIE_LINK_GENERATION_LIMIT,
    &PCIE_LINK_WIDTH,
    &PCIE_LINK_WIDTH_LIMIT,
    &PCIE_REPLAYS,
    &LINK_IO,
    &LINK_THROUGHPUT,
    &LINK_ERRORS,
    &TOPOLOGY_LINKS,
    &TOPOLOGY_BANDWIDTH,
    &TOPOLOGY_PEER_ACCESS,
];

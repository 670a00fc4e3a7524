//! Attribute keys: what identifies a series.

use super::value;

/// An attribute key with its meaning and, where the set is closed, its values.
#[derive(Debug)]
pub struct Attribute {
    /// OpenTelemetry name, with dots.
    pub key: &'static str,
    pub description: &'static str,
    /// Every value that occurs; empty where the set is open.
    pub values: &'static [&'static str],
}

impl Attribute {
    const fn open(key: &'static str, description: &'static str) -> Self {
        Self { key, description, values: &[] }
    }

    const fn closed(key: &'static str, values: &'static [&'static str], description: &'static str) -> Self {
        Self { key, description, values }
    }
}

/// Keys identify attributes: two statics with one key would be one attribute.
impl PartialEq for Attribute {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl Eq for Attribute {}

impl std::hash::Hash for Attribute {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.key.hash(state);
    }
}

/// When a metric's points carry an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requirement {
    /// On every point.
    Required,
    /// On a point for which it is known.
    Known,
    /// Only where the configuration asks for it, because it multiplies series.
    OptIn,
}

/// An attribute as a metric uses it.
#[derive(Clone, Copy, Debug)]
pub struct AttributeUse {
    pub attribute: &'static Attribute,
    pub requirement: Requirement,
}

pub(super) const fn required(attribute: &'static Attribute) -> AttributeUse {
    AttributeUse { attribute, requirement: Requirement::Required }
}

pub(super) const fn known(attribute: &'static Attribute) -> AttributeUse {
    AttributeUse { attribute, requirement: Requirement::Known }
}

pub(super) const fn opt_in(attribute: &'static Attribute) -> AttributeUse {
    AttributeUse { attribute, requirement: Requirement::OptIn }
}

/// The value of [`HW_ID`] where the GPU could not be established, so that such use stays visible in sums.
pub const UNKNOWN: &str = "unknown";

// Hardware, by the OpenTelemetry semantic conventions.
pub static HW_ID: Attribute = Attribute::open(
    "hw.id",
    "NVML UUID of the GPU or MIG device; `unknown` where it could not be established.",
);
pub static HW_NAME: Attribute =
    Attribute::open("hw.name", "Name of the device on this node, such as `nvidia0`.");
pub static HW_MODEL: Attribute = Attribute::open("hw.model", "Product name of the GPU.");
pub static HW_VENDOR: Attribute = Attribute::open("hw.vendor", "Maker of the GPU.");
pub static HW_PARENT: Attribute = Attribute::open("hw.parent", "For a MIG device, `hw.id` of its GPU.");
pub static HW_SERIAL_NUMBER: Attribute = Attribute::open("hw.serial_number", "Serial number of the board.");
pub static HW_DRIVER_VERSION: Attribute =
    Attribute::open("hw.driver_version", "Version of the kernel driver.");
pub static HW_FIRMWARE_VERSION: Attribute = Attribute::open("hw.firmware_version", "Version of the VBIOS.");
pub static HW_TYPE: Attribute = Attribute::closed("hw.type", &["gpu"], "Kind of component.");
pub static HW_STATE: Attribute =
    Attribute::closed("hw.state", value::HwState::VALUES, "State of the device.");
pub static HW_GPU_TASK: Attribute =
    Attribute::closed("hw.gpu.task", value::GpuTask::VALUES, "What the device is busy with.");
pub static HW_SENSOR_LOCATION: Attribute =
    Attribute::closed("hw.sensor_location", value::SensorLocation::VALUES, "Where the sensor sits.");
pub static HW_LIMIT_TYPE: Attribute =
    Attribute::closed("hw.limit_type", value::TemperatureLimit::VALUES, "What happens at the limit.");
pub static NETWORK_IO_DIRECTION: Attribute =
    Attribute::closed("network.io.direction", value::IoDirection::VALUES, "Direction, as the GPU sees it.");
pub static ERROR_TYPE: Attribute = Attribute::open(
    "error.type",
    "Kind of error: a CUDA error name, an NVML error class, an ECC kind, or what went wrong on a link.",
);

// Parts of a GPU.
pub static GPU_PIPE: Attribute = Attribute::closed("gpu.pipe", value::Pipe::VALUES, "Execution pipe.");
pub static GPU_CLOCK_DOMAIN: Attribute =
    Attribute::closed("gpu.clock.domain", value::ClockDomain::VALUES, "Clock domain.");
pub static GPU_LINK_ID: Attribute = Attribute::open("gpu.link.id", "Index of the NVLink on its GPU.");
pub static GPU_LINK_TYPE: Attribute =
    Attribute::closed("gpu.link.type", value::LinkType::VALUES, "The way between two GPUs.");
pub static GPU_PEER_ID: Attribute = Attribute::open("gpu.peer.id", "`hw.id` of the GPU at the other end.");
pub static GPU_PCI_ADDRESS: Attribute =
    Attribute::open("gpu.pci.address", "PCI address as the kernel writes it, such as `0000:3b:00.0`.");
pub static GPU_INDEX: Attribute =
    Attribute::open("gpu.index", "Position in the order of NVML and nvidia-smi.");
pub static GPU_ARCHITECTURE: Attribute =
    Attribute::open("gpu.architecture", "Name of the architecture, such as `Hopper`.");
pub static GPU_COMPUTE_CAPABILITY: Attribute =
    Attribute::open("gpu.compute_capability", "CUDA compute capability, such as `9.0`.");
pub static GPU_CUDA_VERSION: Attribute =
    Attribute::open("gpu.cuda.version", "Newest CUDA version that the driver supports, such as `12.8`.");
pub static GPU_NUMA_NODE: Attribute =
    Attribute::open("gpu.numa.node", "NUMA node whose memory is nearest to the GPU.");
pub static GPU_MIG_MODE: Attribute = Attribute::closed(
    "gpu.mig.mode",
    value::MigMode::VALUES,
    "Whether the GPU is partitioned; absent where it cannot be.",
);
pub static GPU_CONDITION: Attribute =
    Attribute::closed("gpu.condition", value::DeviceCondition::VALUES, "Whether the device answers.");
pub static GPU_CLOCK_THROTTLE_REASON: Attribute = Attribute::closed(
    "gpu.clock.throttle.reason",
    value::ThrottleReason::VALUES,
    "Why clocks are lower than they could be; `idle` is one.",
);
pub static GPU_CLOCK_THROTTLE_POLICY: Attribute = Attribute::closed(
    "gpu.clock.throttle.policy",
    value::ThrottlePolicy::VALUES,
    "What held the clocks back.",
);
pub static GPU_FAN_ID: Attribute = Attribute::open("gpu.fan.id", "Index of the fan on its GPU.");
pub static GPU_XID: Attribute = Attribute::open("gpu.xid", "Number of the XID error, in decimal.");

// Who.
pub static GPU_TENANT_NAME: Attribute = Attribute::open(
    "gpu.tenant.name",
    "Configured tenant, `namespace/pod`, systemd unit, or cgroup path: the first of these that is known.",
);
pub static GPU_TENANT_KIND: Attribute =
    Attribute::closed("gpu.tenant.kind", value::TenantKind::VALUES, "Where the tenant's name comes from.");
pub static K8S_NAMESPACE_NAME: Attribute = Attribute::open("k8s.namespace.name", "Namespace of the pod.");
pub static K8S_POD_NAME: Attribute = Attribute::open("k8s.pod.name", "Name of the pod.");
pub static K8S_POD_UID: Attribute = Attribute::open("k8s.pod.uid", "UID of the pod.");
pub static K8S_CONTAINER_NAME: Attribute =
    Attribute::open("k8s.container.name", "Name of the container in its pod.");
pub static CONTAINER_ID: Attribute = Attribute::open("container.id", "Full id of the container.");
pub static SYSTEMD_UNIT: Attribute = Attribute::open("systemd.unit", "Name of the systemd unit.");
pub static CGROUP_PATH: Attribute =
    Attribute::open("cgroup.path", "Path of the cgroup, from the root of the hierarchy.");

pub static PROCESS_PID: Attribute =
    Attribute::open("process.pid", "Process id in the agent's pid namespace.");

// What a tenant did.
pub static GPU_MEMORY_KIND: Attribute =
    Attribute::closed("gpu.memory.kind", value::MemoryKind::VALUES, "How the memory was allocated.");
pub static GPU_MEMCPY_DIRECTION: Attribute = Attribute::closed(
    "gpu.memcpy.direction",
    value::CopyDirection::VALUES,
    "Direction that the call names; `unified` where the driver infers it from the addresses.",
);
pub static GPU_CALL: Attribute =
    Attribute::closed("gpu.call", value::Call::VALUES, "Family of the driver call, whatever its variant.");

// The agent itself.
pub static GPU_AGENT_VERSION: Attribute = Attribute::open("gpu.agent.version", "Version of the agent.");
pub static GPU_AGENT_REVISION: Attribute =
    Attribute::open("gpu.agent.revision", "Source revision of the agent.");
pub static GPU_AGENT_PROBE_STATE: Attribute =
    Attribute::closed("gpu.agent.probe.state", value::ProbeState::VALUES, "What became of the probe.");
pub static GPU_AGENT_MISS_REASON: Attribute =
    Attribute::closed("gpu.agent.miss.reason", value::MissReason::VALUES, "Why a probe did not run.");
pub static GPU_AGENT_DROP_REASON: Attribute =
    Attribute::closed("gpu.agent.drop.reason", value::DropReason::VALUES, "Why an event was lost.");
pub static GPU_AGENT_CGROUP_MISS_REASON: Attribute = Attribute::closed(
    "gpu.agent.cgroup.miss.reason",
    value::CgroupMissReason::VALUES,
    "Why a cgroup has no name.",
);
pub static GPU_AGENT_SAMPLE_DROP_REASON: Attribute = Attribute::closed(
    "gpu.agent.sample.drop.reason",
    value::SampleDropReason::VALUES,
    "Why a sample was not used.",
);
pub static GPU_AGENT_MAP_NAME: Attribute = Attribute::open("gpu.agent.map.name", "Name of the BPF map.");
pub static GPU_AGENT_EXPORT_OUTCOME: Attribute =
    Attribute::closed("gpu.agent.export.outcome", value::ExportOutcome::VALUES, "How the push ended.");
pub static GPU_AGENT_EXPORT_DROP_REASON: Attribute = Attribute::closed(
    "gpu.agent.export.drop.reason",
    value::ExportDropReason::VALUES,
    "Why points did not reach the receiver.",
);
pub static GPU_AGENT_METRIC_NAME: Attribute =
    Attribute::open("gpu.agent.metric.name", "Name of the metric whose series were folded.");

/// `true` on the one series that holds what was beyond the limit of a metric's series; never combined with others.
pub static OTEL_METRIC_OVERFLOW: Attribute =
    Attribute::closed("otel.metric.overflow", &["true"], "This series holds all that was beyond the limit.");

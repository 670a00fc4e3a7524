//! Metrics of a tenant on a device: what it holds and what it did.

use super::Descriptor;
use super::Number::{Double, Int};
use super::Status::Estimate;
use super::attribute::{
    AttributeUse, CGROUP_PATH, CONTAINER_ID, ERROR_TYPE, GPU_CALL, GPU_MEMCPY_DIRECTION, GPU_MEMORY_KIND,
    GPU_TENANT_KIND, GPU_TENANT_NAME, HW_ID, K8S_CONTAINER_NAME, K8S_NAMESPACE_NAME, K8S_POD_NAME,
    K8S_POD_UID, PROCESS_PID, SYSTEMD_UNIT, known, opt_in, required,
};

/// The tenant that a point is about; its series end with it.
pub(super) const TENANT: &[AttributeUse] = &[
    required(&GPU_TENANT_NAME),
    required(&GPU_TENANT_KIND),
    known(&K8S_NAMESPACE_NAME),
    known(&K8S_POD_NAME),
    known(&K8S_POD_UID),
    known(&K8S_CONTAINER_NAME),
    known(&CONTAINER_ID),
    known(&SYSTEMD_UNIT),
    opt_in(&CGROUP_PATH),
    opt_in(&PROCESS_PID),
];
/// The device on which the tenant did it.
pub(super) const ON_DEVICE: &[AttributeUse] = &[required(&HW_ID)];
const MEMORY_KIND: &[AttributeUse] = &[required(&GPU_MEMORY_KIND)];
const COPY_DIRECTION: &[AttributeUse] = &[required(&GPU_MEMCPY_DIRECTION)];

pub static PROCESSES: Descriptor = Descriptor::up_down_counter(
    "gpu.tenant.processes",
    "{process}",
    &[ON_DEVICE, TENANT],
    "Processes of the tenant that use the device.",
);
pub static LAUNCHES: Descriptor = Descriptor::counter(
    "gpu.tenant.launches",
    "{launch}",
    Int,
    &[ON_DEVICE, TENANT],
    "Kernel launches that the driver accepted; kernels inside graphs are not in it.",
);
pub static GRAPH_LAUNCHES: Descriptor = Descriptor::counter(
    "gpu.tenant.graph.launches",
    "{launch}",
    Int,
    &[ON_DEVICE, TENANT],
    "Graph launches that the driver accepted; each runs all the kernels of its graph.",
);
pub static LAUNCH_BLOCKED_DURATION: Descriptor = Descriptor::histogram(
    "gpu.tenant.launch.blocked.duration",
    "s",
    &[ON_DEVICE, TENANT],
    "Time spent inside the launch call, which waits when the stream's queue is full. Of launches that do not wait, one \
     in each tick of the kernel is timed and stands for the others.",
)
.status(Estimate);
pub static SYNC_DURATION: Descriptor = Descriptor::histogram(
    "gpu.tenant.sync.duration",
    "s",
    &[ON_DEVICE, TENANT],
    "Time that threads waited in a synchronise call for a stream, an event or a context.",
);
pub static UTILIZATION: Descriptor = Descriptor::gauge(
    "gpu.tenant.utilization",
    "1",
    Double,
    &[ON_DEVICE, TENANT],
    "The tenant's part of the device's busy time, from the driver's coarse samples per process.",
)
.status(Estimate);
pub static MEMORY_USAGE: Descriptor = Descriptor::up_down_counter(
    "gpu.tenant.memory.usage",
    "By",
    &[ON_DEVICE, TENANT, MEMORY_KIND],
    "Memory that the tenant's processes allocated and still hold, as they asked for it.",
);
pub static MEMORY_ALLOCATED: Descriptor = Descriptor::counter(
    "gpu.tenant.memory.allocated",
    "By",
    Int,
    &[ON_DEVICE, TENANT, MEMORY_KIND],
    "Bytes allocated, as the tenant asked for them.",
);
pub static MEMORY_FREED: Descriptor = Descriptor::counter(
    "gpu.tenant.memory.freed",
    "By",
    Int,
    &[ON_DEVICE, TENANT, MEMORY_KIND],
    "Bytes freed by a call or with their context.",
);
pub static MEMORY_RECLAIMED: Descriptor = Descriptor::counter(
    "gpu.tenant.memory.reclaimed",
    "By",
    Int,
    &[ON_DEVICE, TENANT, MEMORY_KIND],
    "Bytes that processes still held when they ended, which the driver took back.",
);
pub static MEMORY_ALLOCATIONS: Descriptor = Descriptor::counter(
    "gpu.tenant.memory.allocations",
    "{allocation}",
    Int,
    &[ON_DEVICE, TENANT, MEMORY_KIND],
    "Allocations that the driver granted.",
);
pub static MEMORY_FOOTPRINT: Descriptor = Descriptor::up_down_counter(
    "gpu.tenant.memory.footprint",
    "By",
    &[ON_DEVICE, TENANT],
    "Memory that the driver charges to the tenant's processes, their contexts and rounding included.",
);
pub static MEMCPY_IO: Descriptor = Descriptor::counter(
    "gpu.tenant.memcpy.io",
    "By",
    Int,
    &[ON_DEVICE, TENANT, COPY_DIRECTION],
    "Bytes that copy calls asked for.",
);
pub static MEMCPY_CALLS: Descriptor = Descriptor::counter(
    "gpu.tenant.memcpy.calls",
    "{call}",
    Int,
    &[ON_DEVICE, TENANT, COPY_DIRECTION],
    "Copy calls that the driver accepted.",
);
pub static MEMSET_IO: Descriptor = Descriptor::counter(
    "gpu.tenant.memset.io",
    "By",
    Int,
    &[ON_DEVICE, TENANT],
    "Bytes that memset calls asked for.",
);
pub static ERRORS: Descriptor = Descriptor::counter(
    "gpu.tenant.errors",
    "{error}",
    Int,
    &[ON_DEVICE, TENANT, &[required(&GPU_CALL), required(&ERROR_TYPE)]],
    "Driver calls that failed, by CUDA error name; CUDA_ERROR_NOT_READY is an answer and not in it.",
);
pub static UNSEEN_DURATION: Descriptor = Descriptor::counter(
    "gpu.tenant.unseen.duration",
    "s",
    Double,
    &[TENANT],
    "Time that the tenant's processes ran with libcuda loaded before it was probed: their calls are in no metric.",
);

/// In the order of the reference table.
pub static ALL: &[&Descriptor] = &[
    &PROCESSES,
    &LAUNCHES,
    &GRAPH_LAUNCHES,
    &LAUNCH_BLOCKED_DURATION,
    &SYNC_DURATION,
    &UTILIZATION,
    &MEMORY_USAGE,
    &MEMORY_ALLOCATED,
    &MEMORY_FREED,
    &MEMORY_RECLAIMED,
    &MEMORY_ALLOCATIONS,
    &MEMORY_FOOTPRINT,
    &MEMCPY_IO,
    &MEMCPY_CALLS,
    &MEMSET_IO,
    &ERRORS,
    &UNSEEN_DURATION,
];

//! Tenants' series as exported points.

use std::{sync::Arc, time::SystemTime};

use gpu_api::{
    cuda,
    metric::{attribute, tenant as metrics, value},
};
use gpu_ebpf::{
    abi::Timed,
    call::{Class, CopyDirection, MemoryKind},
    histogram,
};

use crate::{
    collect::view::{Footprint, View},
    export::snapshot::{Attributes, Builder, Histogram, Text, Value},
    ledger::{Current, GpuLabel, series::SeriesKey, totals::Totals},
    tenant::{Tenant, TenantKind},
};

/// What of a tenant becomes attributes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Labels {
    /// Adds the cgroup's path.
    pub cgroup_path: bool,
}

/// Adds every point about tenants; sums that no series carries began at `start`.
pub fn add_to(builder: &mut Builder, view: &View, labels: Labels, start: SystemTime) {
    for (key, current) in &view.series {
        add_series(builder, key, current, labels);
    }
    for footprint in &view.footprints {
        add_footprint(builder, footprint, labels);
    }
    for (tenant, duration) in &view.unseen {
        let seconds = Value::F64(duration.as_secs_f64());
        builder.since(&metrics::UNSEEN_DURATION, tenant_attributes(tenant, labels), start, seconds);
    }
}

fn add_series(builder: &mut Builder, key: &SeriesKey, current: &Current, labels: Labels) {
    let Current { start, totals, processes } = current;
    let who = || device_attributes(&key.tenant, &key.gpu, labels);
    let mut sum =
        |descriptor, attributes, value| builder.since(descriptor, attributes, *start, Value::U64(value));
    sum(&metrics::LAUNCHES, who(), totals.counters.launch.calls);
    sum(&metrics::GRAPH_LAUNCHES, who(), totals.counters.graph_launch.calls);
    sum(&metrics::MEMSET_IO, who(), totals.counters.memset.bytes);
    for (direction, transfer) in CopyDirection::ALL.into_iter().zip(totals.counters.copies) {
        if transfer.calls == 0 {
            continue;
        }
        let direction = Text::Static(direction_label(direction).as_str());
        let with = || with(who(), &attribute::GPU_MEMCPY_DIRECTION, direction.clone());
        sum(&metrics::MEMCPY_CALLS, with(), transfer.calls);
        sum(&metrics::MEMCPY_IO, with(), transfer.bytes);
    }
    for ((class, code), count) in &totals.errors {
        let attributes = with(who(), &attribute::GPU_CALL, Text::Static(call_label(*class).as_str()));
        let name = Text::Shared(Arc::from(cuda::error_name(code.cast_unsigned()).as_ref()));
        sum(&metrics::ERRORS, with(attributes, &attribute::ERROR_TYPE, name), *count);
    }
    add_memory(builder, who, totals, *start);
    let mut distribution = |descriptor, timed: &Timed| {
        if timed.calls > 0 {
            builder.since(descriptor, who(), *start, Value::Histogram(seconds(timed)));
        }
    };
    distribution(&metrics::LAUNCH_BLOCKED_DURATION, &totals.counters.launch);
    distribution(&metrics::SYNC_DURATION, &totals.counters.synchronize);
    let processes = i64::try_from(processes.len()).unwrap_or(i64::MAX);
    builder.since(&metrics::PROCESSES, who(), *start, Value::I64(processes));
}

fn add_memory(builder: &mut Builder, who: impl Fn() -> Attributes, totals: &Totals, start: SystemTime) {
    for kind in MemoryKind::ALL {
        let flow = totals.flow(kind);
        if flow.allocations == 0 {
            continue;
        }
        let with = || with(who(), &attribute::GPU_MEMORY_KIND, Text::Static(memory_label(kind).as_str()));
        let mut sum = |descriptor, value| builder.since(descriptor, with(), start, Value::U64(value));
        sum(&metrics::MEMORY_ALLOCATED, flow.allocated_bytes);
        sum(&metrics::MEMORY_FREED, totals.freed_bytes(kind));
        sum(&metrics::MEMORY_RECLAIMED, totals.reclaimed[kind as usize].bytes);
        sum(&metrics::MEMORY_ALLOCATIONS, flow.allocations);
        let held = i64::try_from(totals.held(kind).bytes).unwrap_or(i64::MAX);
        builder.since(&metrics::MEMORY_USAGE, with(), start, Value::I64(held));
    }
}

fn add_footprint(builder: &mut Builder, footprint: &Footprint, labels: Labels) {
    let who = || device_attributes(&footprint.tenant, &Some(Arc::clone(&footprint.gpu)), labels);
    if let Some(bytes) = footprint.bytes {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        builder.point(&metrics::MEMORY_FOOTPRINT, who(), Value::I64(bytes));
    }
    if let Some(ratio) = footprint.utilization_ratio {
        builder.point(&metrics::UTILIZATION, who(), Value::F64(ratio));
    }
}

/// The attributes of a tenant on a GPU.
pub(super) fn device_attributes(tenant: &Tenant, gpu: &GpuLabel, labels: Labels) -> Attributes {
    let gpu = gpu.as_ref().map_or(Text::Static(attribute::UNKNOWN), |gpu| Text::Shared(Arc::clone(gpu)));
    let mut attributes = vec![(&attribute::HW_ID, gpu)];
    attributes.extend(tenant_attributes(tenant, labels));
    attributes
}

fn tenant_attributes(tenant: &Tenant, labels: Labels) -> Attributes {
    let Tenant { name, kind, cgroup_path, container_id, pod_uid, unit } = tenant;
    let shared = |text: &String| Text::Shared(Arc::from(text.as_str()));
    let mut attributes = vec![
        (&attribute::GPU_TENANT_NAME, shared(name)),
        (&attribute::GPU_TENANT_KIND, Text::Static(kind_label(*kind).as_str())),
    ];
    let cgroup_path = cgroup_path.as_ref().filter(|_| labels.cgroup_path);
    let known = [
        (&attribute::K8S_POD_UID, pod_uid.as_ref()),
        (&attribute::CONTAINER_ID, container_id.as_ref()),
        (&attribute::SYSTEMD_UNIT, unit.as_ref()),
        (&attribute::CGROUP_PATH, cgroup_path),
    ];
    attributes.extend(known.into_iter().filter_map(|(key, text)| Some((key, shared(text?)))));
    attributes
}

fn with(mut attributes: Attributes, key: &'static attribute::Attribute, text: Text) -> Attributes {
    attributes.push((key, text));
    attributes
}

/// A log2 histogram in seconds.
#[expect(
    clippy::cast_precision_loss,
    reason = "a sum of nanoseconds keeps 53 bits, a microsecond in 285 years"
)]
fn seconds(timed: &Timed) -> Histogram {
    Histogram {
        bounds: &BOUNDS_SECONDS,
        bucket_counts: timed.buckets.to_vec(),
        sum: timed.total_ns as f64 / 1e9,
        // The buckets and the count are added one after the other, so a reading in between differs by a call.
        count: timed.buckets.iter().sum(),
    }
}

/// The upper bounds of [`histogram::bucket`], in seconds.
static BOUNDS_SECONDS: [f64; histogram::BUCKETS - 1] = {
    let nanoseconds = histogram::upper_bounds_ns();
    let mut bounds = [0.0; histogram::BUCKETS - 1];
    let mut index = 0;
    while index < bounds.len() {
        #[expect(clippy::cast_precision_loss, reason = "the bounds are powers of two")]
        let bound = nanoseconds[index] as f64;
        bounds[index] = bound / 1e9;
        index += 1;
    }
    bounds
};

pub(super) fn kind_label(kind: TenantKind) -> value::TenantKind {
    match kind {
        TenantKind::Configured => value::TenantKind::Configured,
        TenantKind::Systemd => value::TenantKind::SystemdUnit,
        TenantKind::Container => value::TenantKind::Container,
        TenantKind::Pod => value::TenantKind::Pod,
        TenantKind::Cgroup => value::TenantKind::Cgroup,
        TenantKind::Root => value::TenantKind::Root,
        TenantKind::Unknown => value::TenantKind::Unknown,
    }
}

pub(super) fn direction_label(direction: CopyDirection) -> value::CopyDirection {
    match direction {
        CopyDirection::HostToDevice => value::CopyDirection::HostToDevice,
        CopyDirection::DeviceToHost => value::CopyDirection::DeviceToHost,
        CopyDirection::DeviceToDevice => value::CopyDirection::DeviceToDevice,
        CopyDirection::HostToHost => value::CopyDirection::HostToHost,
        CopyDirection::Peer => value::CopyDirection::Peer,
        CopyDirection::Unified => value::CopyDirection::Unified,
        CopyDirection::Array => value::CopyDirection::Array,
    }
}

pub(super) fn memory_label(kind: MemoryKind) -> value::MemoryKind {
    match kind {
        MemoryKind::Device => value::MemoryKind::Device,
        MemoryKind::Pool => value::MemoryKind::Pool,
        MemoryKind::Virtual => value::MemoryKind::Physical,
        MemoryKind::Managed => value::MemoryKind::Managed,
        MemoryKind::Array => value::MemoryKind::Array,
        MemoryKind::Host => value::MemoryKind::Host,
    }
}

/// The label of a class as it came over the wire; one that nobody knows can only come from another ABI version,
/// which is not adopted.
fn call_label(class: u32) -> value::Call {
    match Class::from_wire(class) {
        Some(Class::Launch) => value::Call::Launch,
        Some(Class::GraphLaunch) => value::Call::GraphLaunch,
        Some(Class::Synchronize) => value::Call::Sync,
        Some(Class::Copy) => value::Call::Memcpy,
        Some(Class::Memset) => value::Call::Memset,
        Some(Class::Allocate) => value::Call::Alloc,
        Some(Class::Free) => value::Call::Free,
        Some(Class::Context) | None => value::Call::Context,
    }
}

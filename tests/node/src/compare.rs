//! What workloads logged against what the agent reported, number by number.

use std::collections::BTreeMap;

use gpu_sim::truth::{CallClass, CopyKind, GpuTruth, MemoryKind, Truth};
use serde::Serialize;

use crate::metrics::Metrics;

/// One number that both sides have.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    pub tenant: String,
    pub gpu: String,
    /// Metric and distinguishing label, for people.
    pub what: String,
    pub logged: u64,
    /// Absent where the agent has no such series.
    pub reported: Option<f64>,
}

impl Row {
    /// Whether both sides say the same. A series that the agent does not have counts as nothing reported.
    #[expect(clippy::float_cmp, clippy::cast_precision_loss, reason = "counts below 2^53 are exact")]
    pub fn agrees(&self) -> bool {
        self.reported.unwrap_or_default() == self.logged as f64
    }
}

/// Whether the processes have ended: the driver has then taken back what they held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lives {
    Running,
    Ended,
}

/// Compares everything that the truth logs of one tenant say with the agent's metrics, and finds what the agent
/// reports beyond it.
pub fn tenant(metrics: &Metrics, tenant: &str, truths: &[&Truth], lives: Lives) -> Vec<Row> {
    let truths: Vec<_> = truths.iter().map(|truth| (*truth, lives)).collect();
    tenant_with_lives(metrics, tenant, &truths)
}

/// The same for a tenant of whose processes some run and some have ended.
pub fn tenant_with_lives(metrics: &Metrics, tenant: &str, truths: &[(&Truth, Lives)]) -> Vec<Row> {
    let mut by_gpu: BTreeMap<String, Logged> = BTreeMap::new();
    for (truth, lives) in truths {
        for (gpu, part) in &truth.gpus {
            let logged = by_gpu.entry(gpu.clone()).or_default();
            add(&mut logged.all, part);
            if *lives == Lives::Running {
                add(&mut logged.running, part);
            }
        }
    }
    // GPUs that only the agent has would be use that nobody made.
    for (labels, _) in metrics.series("gpu_tenant_launches_total") {
        if labels.get("gpu_tenant_name").map(String::as_str) == Some(tenant)
            && let Some(gpu) = labels.get("hw_id")
        {
            by_gpu.entry(gpu.clone()).or_default();
        }
    }
    by_gpu.iter().flat_map(|(gpu, logged)| rows(metrics, tenant, gpu, logged)).collect()
}

/// What was logged for one tenant and GPU.
#[derive(Default)]
struct Logged {
    all: GpuTruth,
    /// The part of the processes that still run.
    running: GpuTruth,
}

impl std::fmt::Display for Row {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { tenant, gpu, what, logged, reported } = self;
        let reported = reported.map_or("nothing".to_owned(), |value| value.to_string());
        write!(formatter, "{tenant} on {gpu}: {what}: logged {logged}, reported {reported}")
    }
}

/// Rows on which the two sides differ.
pub fn mismatches(rows: &[Row]) -> Vec<&Row> {
    rows.iter().filter(|row| !row.agrees()).collect()
}

/// What the agent lost or saw in part, by metric and reason; empty when nothing was.
pub fn losses(metrics: &Metrics) -> BTreeMap<String, f64> {
    ["gpu_agent_events_dropped_total", "gpu_agent_probes_missed_total", "gpu_agent_map_full_total"]
        .into_iter()
        .flat_map(|name| metrics.series(name).iter().map(move |(labels, value)| (name, labels, *value)))
        .filter(|(_, _, value)| *value != 0.0)
        .map(|(name, labels, value)| (format!("{name}{labels:?}"), value))
        .collect()
}

fn rows(metrics: &Metrics, tenant: &str, gpu: &str, logged: &Logged) -> Vec<Row> {
    let truth = &logged.all;
    let mut rows = Vec::new();
    let mut row = |name: &str, further: &[(&str, &str)], logged: u64| {
        let mut labels = vec![("gpu_tenant_name", tenant), ("hw_id", gpu)];
        labels.extend(further);
        let reported = metrics.sum(name, &labels);
        let distinguishing: Vec<&str> = further.iter().map(|(_, value)| *value).collect();
        let what = std::iter::once(name).chain(distinguishing).collect::<Vec<_>>().join(" ");
        rows.push(Row { tenant: tenant.to_owned(), gpu: gpu.to_owned(), what, logged, reported });
    };
    row("gpu_tenant_launches_total", &[], truth.launches);
    row("gpu_tenant_graph_launches_total", &[], truth.graph_launches);
    row("gpu_tenant_memset_io_bytes_total", &[], truth.memset.bytes);
    row("gpu_tenant_sync_duration_seconds_count", &[], truth.synchronize.calls);
    for kind in MEMORY {
        let part = truth.memory.get(&kind).copied().unwrap_or_default();
        let label = [("gpu_memory_kind", memory_label(kind))];
        let held = logged.running.memory.get(&kind).map_or(0, |memory| memory.held_bytes);
        let reclaimed = part.held_bytes - held;
        row("gpu_tenant_memory_allocations_total", &label, part.allocations);
        row("gpu_tenant_memory_allocated_bytes_total", &label, part.allocated_bytes);
        row("gpu_tenant_memory_freed_bytes_total", &label, part.freed_bytes);
        row("gpu_tenant_memory_usage_bytes", &label, held);
        row("gpu_tenant_memory_reclaimed_bytes_total", &label, reclaimed);
    }
    for kind in COPIES {
        let part = truth.copies.get(&kind).copied().unwrap_or_default();
        let label = [("gpu_memcpy_direction", copy_label(kind))];
        row("gpu_tenant_memcpy_calls_total", &label, part.calls);
        row("gpu_tenant_memcpy_io_bytes_total", &label, part.bytes);
    }
    let mut errors: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for (class, names) in &truth.errors {
        let Some(call) = call_label(*class) else { continue };
        for (name, count) in names {
            *errors.entry((call, name)).or_default() += count;
        }
    }
    // Errors that only the agent has would be failures that nobody saw.
    for (labels, _) in metrics.series("gpu_tenant_errors_total") {
        let text = |key: &str| labels.get(key).map(String::as_str);
        if text("gpu_tenant_name") == Some(tenant)
            && text("hw_id") == Some(gpu)
            && let (Some(call), Some(name)) = (text("gpu_call"), text("error_type"))
        {
            errors.entry((call, name)).or_default();
        }
    }
    for ((call, name), count) in errors {
        row("gpu_tenant_errors_total", &[("gpu_call", call), ("error_type", name)], count);
    }
    rows
}

const MEMORY: [MemoryKind; 6] = [
    MemoryKind::Device,
    MemoryKind::Pool,
    MemoryKind::Virtual,
    MemoryKind::Managed,
    MemoryKind::Array,
    MemoryKind::Host,
];

const COPIES: [CopyKind; 7] = [
    CopyKind::HostToDevice,
    CopyKind::DeviceToHost,
    CopyKind::DeviceToDevice,
    CopyKind::Peer,
    CopyKind::HostToHost,
    CopyKind::Unified,
    CopyKind::Array,
];

fn memory_label(kind: MemoryKind) -> &'static str {
    match kind {
        MemoryKind::Device => "device",
        MemoryKind::Pool => "pool",
        MemoryKind::Virtual => "physical",
        MemoryKind::Managed => "managed",
        MemoryKind::Array => "array",
        MemoryKind::Host => "host",
    }
}

fn copy_label(kind: CopyKind) -> &'static str {
    match kind {
        CopyKind::HostToDevice => "host_to_device",
        CopyKind::DeviceToHost => "device_to_host",
        CopyKind::DeviceToDevice => "device_to_device",
        CopyKind::Peer => "peer",
        CopyKind::HostToHost => "host_to_host",
        CopyKind::Unified => "unified",
        CopyKind::Array => "array",
    }
}

/// Modules and queries are not probed: polling them is how programs wait, and they change nothing.
fn call_label(class: CallClass) -> Option<&'static str> {
    match class {
        CallClass::Launch => Some("launch"),
        CallClass::GraphLaunch => Some("graph_launch"),
        CallClass::Alloc => Some("alloc"),
        CallClass::Free => Some("free"),
        CallClass::Copy => Some("memcpy"),
        CallClass::Memset => Some("memset"),
        CallClass::Synchronize => Some("sync"),
        CallClass::Context => Some("context"),
        CallClass::Module | CallClass::Query => None,
    }
}

fn add(sum: &mut GpuTruth, part: &GpuTruth) {
    sum.launches += part.launches;
    sum.graph_launches += part.graph_launches;
    sum.memset.calls += part.memset.calls;
    sum.memset.bytes += part.memset.bytes;
    sum.synchronize.calls += part.synchronize.calls;
    for (kind, more) in &part.memory {
        let memory = sum.memory.entry(*kind).or_default();
        memory.allocations += more.allocations;
        memory.allocated_bytes += more.allocated_bytes;
        memory.frees += more.frees;
        memory.freed_bytes += more.freed_bytes;
        memory.held_bytes += more.held_bytes;
    }
    for (kind, more) in &part.copies {
        let copies = sum.copies.entry(*kind).or_default();
        copies.calls += more.calls;
        copies.bytes += more.bytes;
    }
    for (class, names) in &part.errors {
        for (name, count) in names {
            *sum.errors.entry(*class).or_default().entry(name.clone()).or_default() += count;
        }
    }
}

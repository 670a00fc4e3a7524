//! Metrics of the agent itself: above all, what it did not see.

use super::Descriptor;
use super::Number::{Double, Int};
use super::attribute::{
    ERROR_TYPE, GPU_AGENT_CGROUP_MISS_REASON, GPU_AGENT_DROP_REASON, GPU_AGENT_EXPORT_DROP_REASON,
    GPU_AGENT_EXPORT_OUTCOME, GPU_AGENT_MAP_NAME, GPU_AGENT_METRIC_NAME, GPU_AGENT_MISS_REASON,
    GPU_AGENT_PROBE_STATE, GPU_AGENT_REVISION, GPU_AGENT_SAMPLE_DROP_REASON, GPU_AGENT_VERSION, known,
    required,
};
use super::tenant::{ON_DEVICE, TENANT};

pub static BUILD_INFO: Descriptor = Descriptor::gauge(
    "gpu.agent.build.info",
    "",
    Int,
    &[&[required(&GPU_AGENT_VERSION), known(&GPU_AGENT_REVISION)]],
    "Always 1; its attributes describe the running agent.",
);
pub static PROBES: Descriptor = Descriptor::up_down_counter(
    "gpu.agent.probes",
    "{probe}",
    &[&[required(&GPU_AGENT_PROBE_STATE)]],
    "Probes by what became of them, over all libraries.",
);
pub static PROBES_MISSED: Descriptor = Descriptor::counter(
    "gpu.agent.probes.missed",
    "{event}",
    Int,
    &[&[required(&GPU_AGENT_MISS_REASON)]],
    "Calls that were seen in part or not at all although a probe was attached.",
);
pub static EVENTS_DROPPED: Descriptor = Descriptor::counter(
    "gpu.agent.events.dropped",
    "{event}",
    Int,
    &[&[required(&GPU_AGENT_DROP_REASON)]],
    "Events that a probe saw and that did not reach the ledger.",
);
pub static MAP_FULL: Descriptor = Descriptor::counter(
    "gpu.agent.map.full",
    "{insertion}",
    Int,
    &[&[required(&GPU_AGENT_MAP_NAME)]],
    "Insertions that failed because the BPF map was full.",
);
pub static MAP_ENTRIES: Descriptor = Descriptor::up_down_counter(
    "gpu.agent.map.entries",
    "{entry}",
    &[&[required(&GPU_AGENT_MAP_NAME)]],
    "Entries in the BPF map.",
);
pub static BLIND_DURATION: Descriptor = Descriptor::counter(
    "gpu.agent.blind.duration",
    "s",
    Double,
    &[],
    "Time since the first agent of this boot during which no probe was attached.",
);
pub static LEDGER_DISCREPANCY: Descriptor = Descriptor::gauge(
    "gpu.agent.ledger.discrepancy",
    "By",
    Int,
    &[ON_DEVICE, TENANT],
    "What the driver charges to the tenant's processes less what the ledger says that they hold.",
);
pub static CGROUPS_UNNAMED: Descriptor = Descriptor::counter(
    "gpu.agent.cgroups.unnamed",
    "{lookup}",
    Int,
    &[&[required(&GPU_AGENT_CGROUP_MISS_REASON)]],
    "Cgroups of calls whose path could not be had, or had to be forgotten.",
);
pub static NVML_ERRORS: Descriptor = Descriptor::counter(
    "gpu.agent.nvml.errors",
    "{error}",
    Int,
    &[&[required(&ERROR_TYPE)]],
    "NVML calls that failed or passed their deadline, by class of error.",
);
pub static NVML_REOPENINGS: Descriptor = Descriptor::counter(
    "gpu.agent.nvml.reopenings",
    "{opening}",
    Int,
    &[],
    "Times that NVML was opened again, after the driver was restarted or a GPU was lost.",
);
pub static NVML_SAMPLES_DROPPED: Descriptor = Descriptor::counter(
    "gpu.agent.nvml.samples.dropped",
    "{sample}",
    Int,
    &[&[required(&GPU_AGENT_SAMPLE_DROP_REASON)]],
    "Utilisation samples of processes that the driver gave and that cannot be right.",
);
pub static OTLP_EXPORTS: Descriptor = Descriptor::counter(
    "gpu.agent.otlp.exports",
    "{export}",
    Int,
    &[&[required(&GPU_AGENT_EXPORT_OUTCOME)]],
    "Pushes by outcome; retries of one push are not counted apart.",
);
pub static OTLP_POINTS_DROPPED: Descriptor = Descriptor::counter(
    "gpu.agent.otlp.points.dropped",
    "{point}",
    Int,
    &[&[required(&GPU_AGENT_EXPORT_DROP_REASON)]],
    "Points that did not reach the receiver.",
);
pub static SERIES_FOLDED: Descriptor = Descriptor::up_down_counter(
    "gpu.agent.series.folded",
    "{series}",
    &[&[required(&GPU_AGENT_METRIC_NAME)]],
    "Series beyond the limit of their metric: sums are in its overflow series, gauges are left out.",
);

/// In the order of the reference table.
pub static ALL: &[&Descriptor] = &[
    &BUILD_INFO,
    &PROBES,
    &PROBES_MISSED,
    &EVENTS_DROPPED,
    &MAP_FULL,
    &MAP_ENTRIES,
    &BLIND_DURATION,
    &LEDGER_DISCREPANCY,
    &CGROUPS_UNNAMED,
    &NVML_ERRORS,
    &NVML_REOPENINGS,
    &NVML_SAMPLES_DROPPED,
    &OTLP_EXPORTS,
    &OTLP_POINTS_DROPPED,
    &SERIES_FOLDED,
];

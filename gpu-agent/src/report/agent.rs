//! The agent's own state as exported points: above all, what it did not see.

use std::{sync::Arc, time::SystemTime};

use gpu_api::metric::{agent as metrics, attribute, value};
use gpu_ebpf::abi::maps;

use super::tenants::{Labels, device_attributes};
use crate::{
    collect::view::{KernelState, View},
    export::snapshot::{Builder, Text, Value},
    ledger::series::SeriesKey,
    tenant::cgroup_id::IndexStats,
};

/// Adds every point about the agent's probes and ledger; sums began at `start` at the latest.
pub fn add_to(builder: &mut Builder, view: &View, labels: Labels, start: SystemTime) {
    let version = Text::Static(env!("CARGO_PKG_VERSION"));
    builder.point(&metrics::BUILD_INFO, vec![(&attribute::GPU_AGENT_VERSION, version)], Value::U64(1));
    builder.since(&metrics::BLIND_DURATION, Vec::new(), start, Value::F64(view.blind.as_secs_f64()));
    if let Some(kernel) = &view.kernel {
        add_probes(builder, kernel, start);
        add_losses(builder, kernel, start);
    }
    let IndexStats { truncated_walks, unknown_ids, evicted, .. } = view.cgroups;
    for (reason, count) in [
        (value::CgroupMissReason::Gone, unknown_ids),
        (value::CgroupMissReason::Truncated, truncated_walks),
        (value::CgroupMissReason::Evicted, evicted),
    ] {
        let attributes = vec![(&attribute::GPU_AGENT_CGROUP_MISS_REASON, Text::Static(reason.as_str()))];
        builder.since(&metrics::CGROUPS_UNNAMED, attributes, start, Value::U64(count));
    }
    add_discrepancies(builder, view, labels);
}

fn add_probes(builder: &mut Builder, kernel: &KernelState, start: SystemTime) {
    let sum = |count: fn(&crate::collect::view::LibraryState) -> usize| -> i64 {
        i64::try_from(kernel.libraries.iter().map(count).sum::<usize>()).unwrap_or(i64::MAX)
    };
    let states = [
        (value::ProbeState::Attached, sum(|library| library.functions)),
        (value::ProbeState::Missing, sum(|library| library.missing.len())),
        (value::ProbeState::Failed, i64::try_from(kernel.refused.len()).unwrap_or(i64::MAX)),
    ];
    for (state, count) in states {
        let attributes = vec![(&attribute::GPU_AGENT_PROBE_STATE, Text::Static(state.as_str()))];
        builder.since(&metrics::PROBES, attributes, start, Value::I64(count));
    }
    for (map, entries) in &kernel.entries {
        let attributes = vec![(&attribute::GPU_AGENT_MAP_NAME, Text::Static(map))];
        let entries = i64::try_from(*entries).unwrap_or(i64::MAX);
        builder.since(&metrics::MAP_ENTRIES, attributes, start, Value::I64(entries));
    }
}

fn add_losses(builder: &mut Builder, kernel: &KernelState, start: SystemTime) {
    let lost = |label: &str| kernel.stats.get(label).copied().unwrap_or_default();
    let missed = [
        (value::MissReason::Recursion, kernel.recursion_misses),
        (value::MissReason::ReturnUnmatched, lost("unmatched")),
        (value::MissReason::Abandoned, lost("abandoned")),
        (value::MissReason::UserFault, lost("user_fault")),
        (value::MissReason::UnknownFree, lost("unknown_free")),
        (value::MissReason::Truncated, lost("truncated")),
        (value::MissReason::UnknownFormat, lost("unknown_format")),
    ];
    for (reason, count) in missed {
        let attributes = vec![(&attribute::GPU_AGENT_MISS_REASON, Text::Static(reason.as_str()))];
        builder.since(&metrics::PROBES_MISSED, attributes, start, Value::U64(count));
    }
    let full = [
        (maps::THREADS, lost("threads_full")),
        (maps::PROCESSES, lost("processes_full")),
        (maps::CONTEXTS, lost("contexts_full")),
        (maps::ALLOCATIONS, lost("allocations_full")),
        (maps::COUNTERS, lost("counters_full")),
        (maps::ERRORS, lost("errors_full")),
    ];
    for (map, count) in full {
        let attributes = vec![(&attribute::GPU_AGENT_MAP_NAME, Text::Static(map))];
        builder.since(&metrics::MAP_FULL, attributes, start, Value::U64(count));
    }
    let dropped = [
        (value::DropReason::RingFull, lost("events_dropped")),
        (value::DropReason::ExitRingFull, lost("exits_dropped")),
        (value::DropReason::MapFull, full.iter().map(|(_, count)| count).sum()),
        (value::DropReason::Undecodable, kernel.undecodable),
    ];
    for (reason, count) in dropped {
        let attributes = vec![(&attribute::GPU_AGENT_DROP_REASON, Text::Static(reason.as_str()))];
        builder.since(&metrics::EVENTS_DROPPED, attributes, start, Value::U64(count));
    }
}

/// What the driver charges to a tenant on a GPU less what the ledger says that it holds there.
fn add_discrepancies(builder: &mut Builder, view: &View, labels: Labels) {
    for footprint in &view.footprints {
        let gpu = Some(Arc::clone(&footprint.gpu));
        let key = SeriesKey { tenant: Arc::clone(&footprint.tenant), gpu: gpu.clone() };
        let (Some(charged), Some(current)) = (footprint.bytes, view.series.get(&key)) else { continue };
        let held = current.totals.held_on_device_bytes();
        let difference = i128::from(charged) - i128::from(held);
        let difference =
            i64::try_from(difference).unwrap_or(if difference < 0 { i64::MIN } else { i64::MAX });
        let attributes = device_attributes(&footprint.tenant, &gpu, labels);
        builder.point(&metrics::LEDGER_DISCREPANCY, attributes, Value::I64(difference));
    }
}

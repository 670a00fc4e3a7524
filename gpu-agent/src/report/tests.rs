use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, SystemTime},
};

use gpu_api::metric::{Descriptor, agent as agent_metrics, tenant as tenant_metrics};
use gpu_ebpf::{
    abi::{Counters, MemoryFlow, Transfer},
    call::{CopyDirection, MemoryKind},
};

use super::{agent, tenants, tenants::Labels};
use crate::{
    collect::view::{Footprint, KernelState, LibraryState, View},
    export::{
        prometheus::{Format, render},
        snapshot::Snapshot,
    },
    kernel::loader::Mechanism,
    ledger::{
        Current, ProcessKey,
        series::SeriesKey,
        totals::{Returned, Totals},
    },
    tenant::{Tenant, TenantKind, cgroup_id::IndexStats},
};

fn tenant() -> Arc<Tenant> {
    Arc::new(Tenant {
        name: "train.service".to_owned(),
        kind: TenantKind::Systemd,
        cgroup_path: Some("/system.slice/train.service".to_owned()),
        container_id: None,
        pod_uid: None,
        unit: Some("train.service".to_owned()),
    })
}

fn totals() -> Totals {
    let mut counters = Counters::ZERO;
    counters.launch.calls = 3;
    counters.launch.total_ns = 9_000;
    counters.launch.buckets[2] = 3;
    counters.synchronize = counters.launch;
    counters.graph_launch.calls = 2;
    counters.memset.bytes = 64;
    counters.copies[CopyDirection::HostToDevice as usize] = Transfer { calls: 1, bytes: 4096 };
    counters.memory[MemoryKind::Device as usize] =
        MemoryFlow { allocations: 4, allocated_bytes: 1000, frees: 1, freed_bytes: 100 };
    let mut totals = Totals { counters, ..Totals::default() };
    totals.with_context[MemoryKind::Device as usize] = Returned { allocations: 1, bytes: 50 };
    totals.reclaimed[MemoryKind::Device as usize] = Returned { allocations: 1, bytes: 250 };
    totals.errors.insert((5, 2), 7);
    totals
}

fn everything() -> View {
    let gpu: Arc<str> = Arc::from("GPU-a");
    let current = Current {
        start: SystemTime::UNIX_EPOCH,
        totals: totals(),
        processes: BTreeSet::from([ProcessKey { tgid: 1, epoch_ns: 2 }]),
    };
    let mut footprint = Footprint::none(tenant(), Arc::clone(&gpu));
    footprint.add(1, Some(2048), Some(0.25));
    View {
        time: SystemTime::UNIX_EPOCH + Duration::from_secs(60),
        series: BTreeMap::from([(SeriesKey { tenant: tenant(), gpu: Some(gpu) }, current)]),
        undecided: 0,
        unseen: vec![(tenant(), Duration::from_millis(1500))],
        footprints: vec![footprint],
        kernel: Some(KernelState {
            mechanism: Mechanism::UprobeMulti,
            mechanism_reason: None,
            pinned: true,
            adopted: false,
            libraries: vec![LibraryState {
                id: "1:2 inode 3".to_owned(),
                path: "/usr/lib/libcuda.so.1".to_owned(),
                functions: 120,
                missing: vec!["cuMemcpyBatchAsync_v2".to_owned()],
                conflicting: Vec::new(),
            }],
            refused: Vec::new(),
            stats: BTreeMap::from([("events_dropped", 1), ("unmatched", 2), ("counters_full", 3)]),
            recursion_misses: 4,
            undecodable: 5,
            entries: BTreeMap::from([("COUNTERS", 6)]),
        }),
        blind: Duration::from_secs(3),
        cgroups: IndexStats { unknown_ids: 8, ..IndexStats::default() },
    }
}

fn report(view: &View) -> Snapshot {
    let mut builder = Snapshot::builder(view.time);
    tenants::add_to(&mut builder, view, Labels { cgroup_path: true }, SystemTime::UNIX_EPOCH);
    agent::add_to(&mut builder, view, Labels { cgroup_path: true }, SystemTime::UNIX_EPOCH);
    builder.build()
}

#[test]
fn what_is_known_of_tenants_and_the_agent_is_exported() {
    insta::assert_snapshot!(render(report(&everything()), Format::Text).unwrap());
}

/// The exporter's, the limit's and the devices' own metrics are emitted where they are counted.
#[test]
fn no_metric_of_the_catalogue_is_a_dead_letter() {
    let report = report(&everything());
    let elsewhere = ["gpu.agent.otlp.", "gpu.agent.nvml.", "gpu.agent.series."];
    let missing = |descriptor: &&&Descriptor| {
        report.family(descriptor).is_none()
            && !elsewhere.iter().any(|prefix| descriptor.name.starts_with(prefix))
    };
    let all = tenant_metrics::ALL.iter().chain(agent_metrics::ALL);
    let missing: Vec<&str> = all.filter(missing).map(|descriptor| descriptor.name).collect();
    assert_eq!(missing, [""; 0]);
}

#[test]
fn without_probes_nothing_is_claimed_about_calls() {
    let view = View { series: BTreeMap::new(), kernel: None, footprints: Vec::new(), ..everything() };
    let report = report(&view);
    assert!(report.family(&tenant_metrics::LAUNCHES).is_none());
    assert!(report.family(&agent_metrics::PROBES).is_none());
    assert!(report.family(&agent_metrics::EVENTS_DROPPED).is_none());
}

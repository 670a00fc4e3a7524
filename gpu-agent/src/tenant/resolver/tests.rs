//! Naming over made-up machines of each kind.

use super::*;
use crate::tenant::{
    TenantKind,
    host::fake::FakeHost,
    rule::{Claims, TenantMatch},
};

const UID: &str = "0b7d6c1e-91aa-4c3f-8f52-d2c9e8a7b614";
const OTHER_UID: &str = "1c7d6c1e-91aa-4c3f-8f52-d2c9e8a7b614";
const ID: &str = "aa10bb20cc30dd40ee50ff60aa10bb20cc30dd40ee50ff60aa10bb20cc30dd40";

const PROCESS: ProcessRef = ProcessRef { pid: 42, start_time_ns: 5_000_000_123 };
const START_TICKS: u64 = 500;

fn resolver(host: FakeHost) -> Resolver<FakeHost> {
    Resolver::new(host, Vec::new(), Limits::default())
}

fn name(resolver: &mut Resolver<FakeHost>, cgroup_id: u64) -> Result<String, Unresolved> {
    resolver.resolve(cgroup_id, Some(PROCESS), Instant::now()).map(|tenant| tenant.name.clone())
}

fn hierarchy() -> FakeHost {
    FakeHost::new()
        .with_handles()
        .cgroup(1, "/")
        .cgroup(7, "/system.slice/train.service")
        .cgroup(8, "/jobs/a")
}

#[test]
fn a_v2_host_needs_the_id_alone() {
    let mut resolver = resolver(hierarchy());
    let now = Instant::now();
    let named = |id, resolver: &mut Resolver<FakeHost>| {
        resolver.resolve(id, None, now).map(|tenant| (tenant.kind, tenant.name.clone()))
    };
    assert_eq!(named(7, &mut resolver), Ok((TenantKind::Systemd, "train.service".to_owned())));
    assert_eq!(named(8, &mut resolver), Ok((TenantKind::Cgroup, "/jobs/a".to_owned())));
    assert_eq!(named(1, &mut resolver), Ok((TenantKind::Root, "host".to_owned())));
    assert_eq!(named(9, &mut resolver), Err(Unresolved::UnknownCgroup { cgroup_id: 9 }));
}

#[test]
fn a_process_that_ended_with_its_cgroup_is_still_named_once_seen() {
    let mut resolver = resolver(hierarchy().process(42, START_TICKS, "0::/jobs/a\n"));
    assert_eq!(name(&mut resolver, 8).as_deref(), Ok("/jobs/a"));
    resolver.host.remove_cgroup(8);
    resolver.host.remove_process(42);
    assert_eq!(name(&mut resolver, 8).as_deref(), Ok("/jobs/a"));
}

#[test]
fn on_a_hybrid_host_a_container_of_v1_is_found_by_its_process() {
    let cgroup = format!("4:memory:/docker/{ID}\n1:name=systemd:/docker/{ID}\n0::/\n");
    let mut resolver = resolver(hierarchy().process(42, START_TICKS, &cgroup));
    assert_eq!(name(&mut resolver, 1).as_deref(), Ok("aa10bb20cc30"));
}

#[test]
fn a_v1_controller_alone_does_not_make_a_root_process_a_tenant() {
    let mut resolver = resolver(hierarchy().process(42, START_TICKS, "4:memory:/jobs/m\n0::/\n"));
    assert_eq!(name(&mut resolver, 1).as_deref(), Ok("host"));
}

#[test]
fn on_a_v1_host_the_process_is_all_there_is() {
    let host =
        FakeHost::new().process(42, START_TICKS, "4:memory:/m\n1:name=systemd:/system.slice/a.service\n");
    assert_eq!(name(&mut resolver(host), 1).as_deref(), Ok("a.service"));
}

#[test]
fn a_reused_process_id_names_nothing() {
    let host = FakeHost::new().process(42, START_TICKS + 1, "1:name=systemd:/system.slice/a.service\n");
    assert_eq!(name(&mut resolver(host), 1), Err(Unresolved::UnknownCgroup { cgroup_id: 1 }));
}

#[test]
fn a_process_id_that_is_reused_between_two_reads_names_nothing() {
    let host = FakeHost::new().process(42, START_TICKS, "1:name=systemd:/system.slice/a.service\n");
    let host = host.with_pids_reused_midway();
    assert_eq!(name(&mut resolver(host), 1), Err(Unresolved::UnknownCgroup { cgroup_id: 1 }));
}

#[test]
fn a_process_that_moved_since_does_not_lend_its_new_path() {
    let host = hierarchy().process(42, START_TICKS, "0::/jobs/a\n");
    assert_eq!(name(&mut resolver(host), 9), Err(Unresolved::UnknownCgroup { cgroup_id: 9 }));
}

#[test]
fn a_path_from_the_process_counts_when_it_is_the_cgroups() {
    let mut host = FakeHost::new().process(42, START_TICKS, "0::/jobs/a\n");
    host = host.cgroup(8, "/jobs/a");
    let mut resolver = resolver(host);
    assert_eq!(name(&mut resolver, 8).as_deref(), Ok("/jobs/a"));
    resolver.host.remove_process(42);
    assert_eq!(name(&mut resolver, 8).as_deref(), Ok("/jobs/a"), "the path was learned");
}

#[test]
fn two_pods_at_once_are_nobody() {
    let cgroup = format!("4:memory:/kubepods/pod{UID}/{ID}\n0::/kubepods/pod{OTHER_UID}/{ID}\n");
    let mut resolver = resolver(hierarchy().process(42, START_TICKS, &cgroup));
    let source = ConflictingPods { first: UID.to_owned(), second: OTHER_UID.to_owned() };
    assert_eq!(name(&mut resolver, 9), Err(Unresolved::Conflict { pid: 42, source }));
}

#[test]
fn claims_are_remembered_after_the_process_ended() {
    let claims = Claims { uid: Some(1000), ..Claims::default() };
    let rule =
        TenantRule { name: "alice".to_owned(), matches: TenantMatch { claims, ..TenantMatch::default() } };
    let host = hierarchy().process(42, START_TICKS, "0::/\n").claims(42, 1000, "/bin/x");
    let mut resolver = Resolver::new(host, vec![rule], Limits::default());
    let now = Instant::now();
    resolver.note_process(PROCESS, now);
    resolver.host.remove_process(42);
    assert_eq!(name(&mut resolver, 1).as_deref(), Ok("alice"));
    assert_eq!(name(&mut resolver, 8).as_deref(), Ok("alice"));
}

#[test]
fn facts_of_processes_are_dropped_after_the_retention() {
    let host = hierarchy().process(42, START_TICKS, "0::/\n");
    let limits = Limits { retention: Duration::from_secs(60), ..Limits::default() };
    let mut resolver = Resolver::new(host, Vec::new(), limits);
    let start = Instant::now();
    resolver.note_process(PROCESS, start);
    resolver.refresh(start + Duration::from_secs(60));
    assert_eq!(resolver.processes.len(), 1);
    resolver.refresh(start + Duration::from_secs(61));
    assert_eq!(resolver.processes.len(), 0);
}

//! The index over a made-up hierarchy, and over the machine's own.

use super::*;
use crate::tenant::host::{Host, fake::FakeHost};

fn second(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn index() -> CgroupIndex {
    CgroupIndex::new(Limits {
        max_entries: 32,
        max_directories: 16,
        min_walk_interval: second(1),
        retention: second(60),
    })
}

#[test]
fn an_id_is_found_by_handle_without_a_walk() {
    let host = FakeHost::new().with_handles().cgroup(7, "/jobs/a");
    let mut index = index();
    assert_eq!(index.lookup(&host, 7, Instant::now()).as_deref(), Some("/jobs/a"));
    assert_eq!(index.stats(), IndexStats::default());
}

#[test]
fn an_id_is_found_by_a_walk_where_handles_are_not_permitted() {
    let host = FakeHost::new().cgroup(1, "/").cgroup(7, "/jobs").cgroup(8, "/jobs/a");
    let mut index = index();
    let now = Instant::now();
    assert_eq!(index.lookup(&host, 8, now).as_deref(), Some("/jobs/a"));
    assert_eq!(index.lookup(&host, 1, now).as_deref(), Some("/"));
    assert_eq!(index.stats(), IndexStats { walks: 1, ..IndexStats::default() });
}

#[test]
fn a_removed_cgroup_keeps_its_name_for_the_retention() {
    let mut host = FakeHost::new().cgroup(1, "/").cgroup(7, "/job");
    let mut index = index();
    let start = Instant::now();
    index.refresh(&host, start);
    host.remove_cgroup(7);
    index.refresh(&host, start + second(60));
    assert_eq!(index.lookup(&host, 7, start + second(60)).as_deref(), Some("/job"));
    index.refresh(&host, start + second(121));
    assert_eq!(index.lookup(&host, 7, start + second(121)), None);
    assert_eq!(index.lookup(&host, 1, start + second(121)).as_deref(), Some("/"));
}

#[test]
fn a_removed_cgroup_that_was_never_seen_is_unknown_and_counted() {
    let host = FakeHost::new().with_handles().cgroup(1, "/");
    let mut index = index();
    assert_eq!(index.lookup(&host, 99, Instant::now()), None);
    assert_eq!(index.stats(), IndexStats { unknown_ids: 1, ..IndexStats::default() });
}

#[test]
fn unknown_ids_do_not_cause_walk_after_walk() {
    let host = FakeHost::new().cgroup(1, "/");
    let mut index = index();
    let start = Instant::now();
    for id in 100..200 {
        assert_eq!(index.lookup(&host, id, start), None);
    }
    assert_eq!(index.stats().walks, 1);
    assert_eq!(index.lookup(&host, 100, start + second(1)), None);
    assert_eq!(index.stats().walks, 2);
}

#[test]
fn a_walk_stops_at_its_bound_and_says_so() {
    let mut host = FakeHost::new().cgroup(1, "/").cgroup(2, "/shallow");
    let mut path = "/deep".to_owned();
    for id in 10..40 {
        host = host.cgroup(id, &path);
        path.push_str("/x");
    }
    let mut index = index();
    let now = Instant::now();
    index.refresh(&host, now);
    assert_eq!(index.stats().truncated_walks, 1);
    assert_eq!(index.lookup(&host, 2, now).as_deref(), Some("/shallow"));
}

#[test]
fn a_flood_of_cgroups_pushes_out_the_oldest_and_is_counted() {
    let host = FakeHost::new().with_handles();
    let mut index = index();
    let start = Instant::now();
    for id in 0..40 {
        index.learn(id, "/flood", start + second(id));
    }
    assert!(index.len() <= 32);
    assert_eq!(index.stats().evicted, 8);
    assert_eq!(index.lookup(&host, 0, start), None);
    assert_eq!(index.lookup(&host, 39, start).as_deref(), Some("/flood"));
}

/// The machine's hierarchy, or why it cannot be used.
fn machine() -> Option<Host> {
    match Host::open(None, Path::new("/proc")) {
        Ok(host) if host.cgroup_root().is_some() => Some(host),
        other => {
            println!("SKIPPED: no cgroup2 mount: {other:?}");
            None
        }
    }
}

#[test]
fn the_machines_own_cgroups_are_found_both_ways() {
    let Some(host) = machine() else { return };
    let mut walked = CgroupIndex::new(Limits::default());
    walked.walk(&host, Instant::now());
    assert!(!walked.is_empty());
    for (id, entry) in &walked.entries {
        match host.cgroup_by_id(*id) {
            Ok(path) => assert_eq!(display_path(&path), &*entry.path),
            // The cgroup may have gone since the walk, and handles need a capability.
            Err(error) => println!("not opened by handle: {error}"),
        }
    }
}

#[test]
fn a_cgroup_of_the_machine_is_found_by_handle_and_named_after_its_end() {
    let Some(host) = machine() else { return };
    let root = host.cgroup_root().expect("checked above").to_path_buf();
    let name = format!("gpu-agent-test-{}", std::process::id());
    let directory = root.join(&name);
    if let Err(error) = std::fs::create_dir(&directory) {
        println!("SKIPPED: cannot create a cgroup in {}: {error}", root.display());
        return;
    }
    let path = format!("/{name}");
    let id = host.cgroup_id(Path::new(&path));
    let by_id = id.as_ref().ok().map(|id| host.cgroup_by_id(*id));
    let mut index = index();
    let now = Instant::now();
    let found = id.as_ref().ok().and_then(|id| index.lookup(&host, *id, now));
    std::fs::remove_dir(&directory).expect("the cgroup is empty");

    let id = id.expect("the directory has an inode");
    assert_eq!(found.as_deref(), Some(path.as_str()));
    match by_id.expect("the id is known") {
        Ok(by_id) => {
            assert_eq!(by_id, Path::new(&path));
            let gone = host.cgroup_by_id(id).expect_err("the cgroup is gone");
            assert_eq!(gone.kind(), io::ErrorKind::NotFound);
        }
        Err(error) => println!("SKIPPED: lookup by handle: {error}"),
    }
    assert_eq!(index.lookup(&host, id, now).as_deref(), Some(path.as_str()));
}

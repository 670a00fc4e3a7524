use std::collections::BTreeMap;

use gpu_ebpf::{
    abi::{MemoryFlow, PROCESS_SEEN_FROM_START},
    call::MemoryKind,
};

use super::*;
use crate::tenant::TenantKind;

const GPU_A: &str = "GPU-a";
const GPU_B: &str = "GPU-b";

/// A ledger with a clock, kernel rows and NVML lists that a test sets.
struct Node {
    ledger: Ledger,
    start: Instant,
    elapsed: Duration,
    counters: BTreeMap<RowKey, Counters>,
    errors: Vec<(ErrorKey, u64)>,
    listed: Option<BTreeMap<u32, BTreeSet<String>>>,
    cgroup_exists: bool,
}

fn tenant(cgroup_id: u64) -> Arc<Tenant> {
    Arc::new(Tenant {
        name: format!("tenant-{cgroup_id}"),
        kind: TenantKind::Cgroup,
        cgroup_path: Some(format!("/tenant-{cgroup_id}")),
        container_id: None,
        pod_uid: None,
        unit: None,
    })
}

fn launches(calls: u64) -> Counters {
    let mut counters = Counters::ZERO;
    counters.launch.calls = calls;
    counters
}

fn holding(allocated_bytes: u64, freed_bytes: u64) -> Counters {
    let mut counters = Counters::ZERO;
    counters.memory[MemoryKind::Device as usize] =
        MemoryFlow { allocations: 2, allocated_bytes, frees: 1, freed_bytes };
    counters
}

fn process(tgid: u32) -> ProcessKey {
    ProcessKey { tgid, epoch_ns: u64::from(tgid) * 10 }
}

fn row(cgroup: u64, process: ProcessKey, device: i32) -> RowKey {
    (cgroup, process.tgid, process.epoch_ns, device)
}

impl Node {
    fn new(saved: Saved) -> Self {
        Self {
            ledger: Ledger::new(Patience::default(), saved),
            start: Instant::now(),
            elapsed: Duration::ZERO,
            counters: BTreeMap::new(),
            errors: Vec::new(),
            listed: Some(BTreeMap::new()),
            cgroup_exists: false,
        }
    }

    fn sees(&mut self, process: ProcessKey, visible: &[&str]) {
        let visible = Some(visible.iter().map(|gpu| (*gpu).to_owned()).collect());
        let process_facts = Process { start_boottime_ns: None, flags: PROCESS_SEEN_FROM_START, visible };
        self.ledger.process_seen(process, process_facts);
    }

    fn nvml_lists(&mut self, tgid: u32, gpus: &[&str]) {
        let gpus = gpus.iter().map(|gpu| (*gpu).to_owned()).collect();
        self.listed.get_or_insert_default().insert(tgid, gpus);
    }

    fn observe(&mut self) -> Vec<RowKey> {
        self.settle().rows
    }

    fn settle(&mut self) -> Settled {
        let now = self.start + self.elapsed;
        let listed = self.listed.clone().map(|gpus| ListedProcesses { gpus, sampled_at: now });
        let cgroup_exists = self.cgroup_exists;
        self.ledger.observe(Observation {
            now,
            now_ns: u64::try_from(self.elapsed.as_nanos()).unwrap(),
            wall_clock: SystemTime::UNIX_EPOCH + self.elapsed,
            counters: self.counters.iter().map(|(key, value)| (counter_key(key), *value)).collect(),
            errors: self.errors.clone(),
            returned: Vec::new(),
            listed: listed.as_ref(),
            tenant_of: &mut |cgroup, _| tenant(cgroup),
            exists: &|_| cgroup_exists,
        })
    }

    fn passes(&mut self, duration: Duration) {
        self.elapsed += duration;
    }

    /// What one series says, if it is there.
    fn series(&self, cgroup: u64, gpu: Option<&str>) -> Option<Current> {
        let key = SeriesKey { tenant: tenant(cgroup), gpu: gpu.map(Arc::from) };
        self.ledger.totals().get(&key).cloned()
    }

    fn launches(&self, cgroup: u64, gpu: Option<&str>) -> Option<u64> {
        self.series(cgroup, gpu).map(|current| current.totals.counters.launch.calls)
    }
}

#[test]
fn calls_count_for_the_gpu_that_rules_and_nvml_agree_on() {
    let mut node = Node::new(Saved::default());
    node.sees(process(1), &[GPU_B, GPU_A]);
    node.nvml_lists(1, &[GPU_A, GPU_B]);
    node.counters.insert(row(9, process(1), 0), launches(3));
    node.counters.insert(row(9, process(1), 1), launches(5));
    node.observe();
    assert_eq!(node.launches(9, Some(GPU_B)), Some(3), "ordinal 0 is the second GPU");
    assert_eq!(node.launches(9, Some(GPU_A)), Some(5));
    assert_eq!(node.ledger.undecided(), 0);
}

#[test]
fn nothing_is_said_before_the_gpu_is_known_and_nothing_is_lost_then() {
    let mut node = Node::new(Saved::default());
    node.sees(process(1), &[GPU_A]);
    node.counters.insert(row(9, process(1), 0), launches(3));
    node.observe();
    assert_eq!(node.launches(9, Some(GPU_A)), None);
    node.counters.insert(row(9, process(1), 0), launches(8));
    node.nvml_lists(1, &[GPU_A]);
    node.observe();
    assert_eq!(node.launches(9, Some(GPU_A)), Some(8));
}

#[test]
fn without_nvml_the_environment_has_the_last_word() {
    let mut node = Node::new(Saved::default());
    node.listed = None;
    node.sees(process(1), &[GPU_A]);
    node.counters.insert(row(9, process(1), 0), launches(3));
    node.observe();
    assert_eq!(node.launches(9, Some(GPU_A)), None);
    node.passes(Duration::from_secs(2));
    node.observe();
    assert_eq!(node.launches(9, Some(GPU_A)), Some(3));
}

#[test]
fn a_context_that_nobody_saw_is_unknown_and_not_guessed() {
    let mut node = Node::new(Saved::default());
    node.sees(process(1), &[GPU_A]);
    node.nvml_lists(1, &[GPU_A]);
    node.counters.insert(row(9, process(1), DEVICE_UNKNOWN), launches(3));
    node.observe();
    assert_eq!(node.launches(9, None), Some(3));
}

#[test]
fn a_process_from_before_the_agent_is_on_the_one_gpu_that_nvml_lists() {
    let mut node = Node::new(Saved::default());
    node.ledger.process_seen(process(1), Process::default());
    node.nvml_lists(1, &[GPU_B]);
    node.counters.insert(row(9, process(1), DEVICE_UNKNOWN), launches(3));
    node.observe();
    node.passes(Duration::from_secs(1));
    node.observe();
    assert_eq!(node.launches(9, Some(GPU_B)), Some(3));
}

#[test]
fn an_ended_process_leaves_its_totals_and_holds_nothing() {
    let mut node = Node::new(Saved::default());
    node.sees(process(1), &[GPU_A]);
    node.nvml_lists(1, &[GPU_A]);
    node.counters.insert(row(9, process(1), 0), holding(100, 30));
    assert_eq!(node.observe(), []);
    let held = |node: &Node| node.series(9, Some(GPU_A)).unwrap().totals.held(MemoryKind::Device).bytes;
    assert_eq!(held(&node), 70);

    node.ledger.process_ended(process(1));
    node.counters.insert(row(9, process(1), 0), holding(120, 30));
    assert_eq!(node.observe(), [row(9, process(1), 0)]);
    node.counters.clear();
    node.ledger.forget(&[row(9, process(1), 0)]);
    let totals = node.series(9, Some(GPU_A)).unwrap().totals;
    assert_eq!(totals.held(MemoryKind::Device).bytes, 0);
    assert_eq!(totals.flow(MemoryKind::Device).allocated_bytes, 120);
    assert_eq!(totals.freed_bytes(MemoryKind::Device), 30);
    assert_eq!(totals.reclaimed[MemoryKind::Device as usize].bytes, 90);
    assert_eq!(node.ledger.processes().count(), 0);
}

#[test]
fn errors_are_counted_by_class_and_code() {
    let mut node = Node::new(Saved::default());
    node.sees(process(1), &[GPU_A]);
    node.nvml_lists(1, &[GPU_A]);
    let who = counter_key(&row(9, process(1), 0));
    node.errors = vec![(ErrorKey { who, class: 5, code: 2 }, 4)];
    node.observe();
    node.errors = vec![(ErrorKey { who, class: 5, code: 2 }, 6)];
    node.observe();
    let totals = node.series(9, Some(GPU_A)).unwrap().totals;
    assert_eq!(totals.errors, BTreeMap::from([((5, 2), 6)]));
}

/// Every point at which an agent can be killed while it settles a row leaves exact totals.
#[test]
fn a_kill_between_settling_storing_and_deleting_loses_and_doubles_nothing() {
    let settle = || {
        let mut node = Node::new(Saved::default());
        node.sees(process(1), &[GPU_A]);
        node.nvml_lists(1, &[GPU_A]);
        node.counters.insert(row(9, process(1), 0), launches(7));
        node.observe();
        let before = node.ledger.saved();
        node.ledger.process_ended(process(1));
        node.observe();
        (before, node.ledger.saved())
    };
    let next_agent = |saved: Saved, row_still_there: bool| {
        let mut node = Node::new(saved);
        if row_still_there {
            node.counters.insert(row(9, process(1), 0), launches(7));
            node.sees(process(1), &[GPU_A]);
            node.ledger.process_ended(process(1));
        }
        node.observe();
        node.launches(9, Some(GPU_A))
    };
    let (before, after) = settle();
    assert_eq!(next_agent(before, true), Some(7), "killed before the base was stored");
    assert_eq!(next_agent(after.clone(), true), Some(7), "killed before the row was deleted");
    assert_eq!(next_agent(after, false), Some(7), "killed after everything");
}

#[test]
fn a_restart_while_the_process_lives_changes_nothing() {
    let mut first = Node::new(Saved::default());
    first.sees(process(1), &[GPU_A]);
    first.nvml_lists(1, &[GPU_A]);
    first.counters.insert(row(9, process(1), 0), holding(100, 30));
    first.observe();
    let start = first.series(9, Some(GPU_A)).unwrap().start;

    let saved = serde_json::to_string(&first.ledger.saved()).unwrap();
    let mut second = Node::new(serde_json::from_str(&saved).unwrap());
    second.passes(Duration::from_secs(30));
    second.sees(process(1), &[GPU_A]);
    second.nvml_lists(1, &[GPU_A]);
    second.counters.insert(row(9, process(1), 0), holding(150, 30));
    second.observe();
    let current = second.series(9, Some(GPU_A)).unwrap();
    assert_eq!(current.totals.held(MemoryKind::Device).bytes, 120);
    assert_eq!(current.start, start, "the counters did not begin anew");
}

#[test]
fn the_series_of_an_ended_tenant_end() {
    let mut node = Node::new(Saved::default());
    node.sees(process(1), &[GPU_A]);
    node.nvml_lists(1, &[GPU_A]);
    node.counters.insert(row(9, process(1), 0), launches(1));
    node.observe();
    node.ledger.process_ended(process(1));
    node.observe();
    node.counters.clear();

    node.cgroup_exists = true;
    node.passes(Duration::from_secs(3600));
    node.observe();
    assert_eq!(node.launches(9, Some(GPU_A)), Some(1), "an idle tenant stays");

    node.cgroup_exists = false;
    node.observe();
    assert_eq!(node.launches(9, Some(GPU_A)), None);
}

#[test]
fn a_reused_pid_is_another_process() {
    let mut node = Node::new(Saved::default());
    let (first, second) = (ProcessKey { tgid: 1, epoch_ns: 10 }, ProcessKey { tgid: 1, epoch_ns: 20 });
    node.nvml_lists(1, &[GPU_A]);
    node.sees(first, &[GPU_A]);
    node.sees(second, &[GPU_A]);
    node.counters.insert(row(9, first, 0), holding(100, 0));
    node.counters.insert(row(9, second, 0), holding(40, 0));
    node.ledger.process_ended(first);
    node.observe();
    let totals = node.series(9, Some(GPU_A)).unwrap().totals;
    assert_eq!(totals.held(MemoryKind::Device).bytes, 40);
    assert_eq!(totals.flow(MemoryKind::Device).allocated_bytes, 140);
}

#[test]
fn a_process_without_any_row_ends_as_well() {
    let mut node = Node::new(Saved::default());
    node.sees(process(1), &[GPU_A]);
    node.observe();
    node.ledger.process_ended(process(1));
    assert_eq!(node.settle(), Settled { rows: Vec::new(), processes: BTreeSet::from([process(1)]) });
}

#[test]
fn a_new_series_is_to_be_stored_and_an_old_one_is_not_stored_again() {
    let mut node = Node::new(Saved::default());
    node.observe();
    node.ledger.take_changed();
    node.observe();
    assert!(!node.ledger.take_changed());
    node.sees(process(1), &[GPU_A]);
    node.nvml_lists(1, &[GPU_A]);
    node.counters.insert(row(9, process(1), 0), launches(1));
    node.observe();
    assert!(node.ledger.take_changed());
}

#[test]
fn what_was_settled_and_deleted_is_not_carried_for_ever() {
    let mut first = Node::new(Saved::default());
    first.sees(process(1), &[GPU_A]);
    first.nvml_lists(1, &[GPU_A]);
    first.counters.insert(row(9, process(1), 0), launches(7));
    first.observe();
    first.ledger.process_ended(process(1));
    first.observe();
    let saved = first.ledger.saved();
    assert_eq!(saved.settled.len(), 1);
    let mut second = Node::new(saved);
    second.observe();
    assert_eq!(second.ledger.saved().settled, []);
    assert_eq!(second.launches(9, Some(GPU_A)), Some(7));
}

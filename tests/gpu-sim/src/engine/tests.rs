use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

#[derive(Default)]
struct TestWorld {
    events: BTreeMap<u32, u64>,
    elsewhere: u64,
    host_functions: u64,
    copied_bytes: u64,
}

impl World for TestWorld {
    fn completed_elsewhere(&self, _channel: u32) -> u64 {
        self.elsewhere
    }
    fn host_functions_done(&self, _channel: usize) -> u64 {
        self.host_functions
    }
    fn event_completed(&mut self, event: u32, at_ns: u64) {
        self.events.insert(event, at_ns);
    }
    fn copied(&mut self, work: &Work) {
        self.copied_bytes += work.bytes;
    }
}

const MS: u64 = 1_000_000;

fn key(slot: usize) -> ContextKey {
    ContextKey { slot, context: 0 }
}

fn work(kind: WorkKind, duration_ns: u64) -> Work {
    Work { kind, duration_ns, bytes: 0, argument: 0, count: 0, submitted_ns: 0 }
}

fn kernel(duration_ns: u64) -> Work {
    work(WorkKind::Kernel, duration_ns)
}

fn event(number: u32) -> Work {
    Work { argument: number, ..work(WorkKind::RecordEvent, 0) }
}

fn push(engine: &mut Engine, channel: usize, works: impl IntoIterator<Item = Work>) {
    let lane = engine.lane_mut(channel).expect("lane");
    works.into_iter().for_each(|work| lane.push(work));
}

fn completed(engine: &mut Engine, channel: usize) -> u64 {
    engine.lane_mut(channel).expect("lane").completed()
}

#[test]
fn one_context_runs_without_gaps() {
    let mut engine = Engine::new(0);
    engine.add_lane(key(0), 0, 0);
    push(&mut engine, 0, [kernel(3 * MS), event(1), kernel(4 * MS), event(2)]);
    let mut world = TestWorld::default();
    engine.advance(6 * MS, &mut world);
    assert_eq!((completed(&mut engine, 0), engine.busy_ns()), (2, 6 * MS));
    engine.advance(20 * MS, &mut world);
    assert_eq!((completed(&mut engine, 0), engine.busy_ns()), (4, 7 * MS));
    assert_eq!(world.events, BTreeMap::from([(1, 3 * MS), (2, 7 * MS)]));
}

#[test]
fn two_saturating_contexts_get_half_each_minus_the_switches() {
    let mut engine = Engine::new(0);
    for slot in 0..2 {
        engine.add_lane(key(slot), slot, 0);
        push(&mut engine, slot, (0..1000).map(|_| kernel(5 * MS)));
    }
    engine.advance(2050 * MS, &mut TestWorld::default());
    let busy: Vec<u64> = engine.take_busy().map(|(_, busy_ns)| busy_ns).collect();
    // 1000 slices of 2 ms, and 1000 switches of 50 us: the first slice needs none, the last switch is to slice 1001.
    assert_eq!(busy, [1000 * MS, 1000 * MS]);
}

#[test]
fn kernel_length_does_not_change_the_share() {
    let mut engine = Engine::new(0);
    engine.add_lane(key(0), 0, 0);
    engine.add_lane(key(1), 1, 0);
    push(&mut engine, 0, (0..1_000_000).map(|_| kernel(5_000)));
    push(&mut engine, 1, (0..1000).map(|_| kernel(1_190_000)));
    engine.advance(410 * MS, &mut TestWorld::default());
    let busy: Vec<u64> = engine.take_busy().map(|(_, busy_ns)| busy_ns).collect();
    assert_eq!(busy, [200 * MS, 200 * MS]);
}

#[test]
fn a_context_that_runs_dry_yields_at_once() {
    let mut engine = Engine::new(0);
    engine.add_lane(key(0), 0, 0);
    engine.add_lane(key(1), 1, 0);
    push(&mut engine, 0, [kernel(100_000)]);
    push(&mut engine, 1, [kernel(100_000), event(1)]);
    let mut world = TestWorld::default();
    engine.advance(10 * MS, &mut world);
    assert_eq!(world.events[&1], 250_000);
}

#[test]
fn a_late_newcomer_waits_for_the_slice_only() {
    let mut engine = Engine::new(0);
    engine.add_lane(key(0), 0, 0);
    engine.add_lane(key(1), 1, 0);
    push(&mut engine, 0, (0..100).map(|_| kernel(10 * MS)));
    push(&mut engine, 1, [Work { submitted_ns: 2 * MS + 500_000, ..kernel(10_000) }, event(1)]);
    let mut world = TestWorld::default();
    engine.advance(10 * MS, &mut world);
    assert_eq!(world.events[&1], 4 * MS + SWITCH_NS + 10_000);
}

#[test]
fn work_that_is_submitted_later_starts_then() {
    let mut engine = Engine::new(0);
    engine.add_lane(key(0), 0, 0);
    push(&mut engine, 0, [Work { submitted_ns: 5 * MS, ..kernel(MS) }, event(1)]);
    let mut world = TestWorld::default();
    engine.advance(4 * MS, &mut world);
    assert_eq!(completed(&mut engine, 0), 0);
    engine.advance(10 * MS, &mut world);
    assert_eq!(world.events[&1], 6 * MS);
}

#[test]
fn copies_overlap_kernels_and_opposite_copies_but_not_each_other() {
    let mut engine = Engine::new(0);
    for channel in 0..4 {
        engine.add_lane(key(0), channel, 0);
    }
    let copy = |kind| Work { bytes: 10, ..work(kind, 3 * MS) };
    push(&mut engine, 0, [kernel(3 * MS), event(0)]);
    push(&mut engine, 1, [copy(WorkKind::HostToDevice), event(1)]);
    push(&mut engine, 2, [copy(WorkKind::DeviceToHost), event(2)]);
    push(&mut engine, 3, [copy(WorkKind::HostToDevice), event(3)]);
    let mut world = TestWorld::default();
    engine.advance(20 * MS, &mut world);
    let times: Vec<u64> = world.events.values().copied().collect();
    assert_eq!(times, [3 * MS, 3 * MS, 3 * MS, 6 * MS]);
    assert_eq!((world.copied_bytes, engine.copy_busy_ns(), engine.busy_ns()), (30, 9 * MS, 3 * MS));
}

#[test]
fn a_lane_waits_for_another_lane_and_for_other_gpus() {
    let mut engine = Engine::new(0);
    engine.add_lane(key(0), 0, 0);
    engine.add_lane(key(0), 1, 0);
    let wait = |channel, count| Work { argument: channel, count, ..work(WorkKind::WaitChannel, 0) };
    push(&mut engine, 0, [kernel(4 * MS)]);
    push(&mut engine, 1, [wait(0, 1), event(1), wait(99, 3), event(2)]);
    let mut world = TestWorld { elsewhere: 2, ..TestWorld::default() };
    engine.advance(10 * MS, &mut world);
    assert_eq!(world.events, BTreeMap::from([(1, 4 * MS)]));
    world.elsewhere = 3;
    engine.advance(11 * MS, &mut world);
    assert_eq!(world.events, BTreeMap::from([(1, 4 * MS), (2, 10 * MS)]));
}

#[test]
fn a_host_function_holds_its_lane() {
    let mut engine = Engine::new(0);
    engine.add_lane(key(0), 0, 0);
    push(&mut engine, 0, [Work { count: 1, ..work(WorkKind::HostFunction, 0) }, kernel(MS)]);
    let mut world = TestWorld::default();
    engine.advance(MS, &mut world);
    assert_eq!(completed(&mut engine, 0), 0);
    world.host_functions = 1;
    engine.advance(3 * MS, &mut world);
    assert_eq!(completed(&mut engine, 0), 2);
}

#[test]
fn a_removed_lane_takes_its_work_along() {
    let mut engine = Engine::new(0);
    engine.add_lane(key(0), 0, 0);
    engine.add_lane(key(1), 1, 0);
    push(&mut engine, 0, [work(WorkKind::HostToDevice, 100 * MS)]);
    push(&mut engine, 1, [work(WorkKind::HostToDevice, MS), event(1)]);
    let mut world = TestWorld::default();
    engine.advance(MS, &mut world);
    engine.remove_lane(0);
    engine.advance(5 * MS, &mut world);
    assert_eq!(world.events[&1], 2 * MS);
    engine.remove_lane(1);
    assert!(!engine.has_work());
}

#[test]
fn the_earliest_completion_is_exact_for_a_lone_context() {
    let mut engine = Engine::new(0);
    engine.add_lane(key(0), 0, 7);
    push(&mut engine, 0, [kernel(MS), kernel(2 * MS), kernel(4 * MS)]);
    engine.advance(500_000, &mut TestWorld::default());
    assert_eq!(engine.earliest_ns(0, 9), Some(3 * MS));
    assert_eq!(engine.earliest_ns(0, 10), Some(7 * MS));
}

#[derive(Clone, Debug)]
struct Plan {
    lanes: Vec<Vec<(u64, u64)>>,
    steps: Vec<u64>,
}

fn plan() -> impl Strategy<Value = Plan> {
    let lane = prop::collection::vec((1..4_000_000_u64, 0..3_000_000_u64), 1..30);
    (prop::collection::vec(lane, 1..5), prop::collection::vec(1..3_000_000_u64, 1..40))
        .prop_map(|(lanes, steps)| Plan { lanes, steps })
}

/// Runs a plan and returns each context's SM time and each lane's completion count when all work is done.
fn execute(plan: &Plan, steps: &[u64]) -> (Vec<u64>, Vec<u64>, u64) {
    let mut engine = Engine::new(0);
    for (slot, works) in plan.lanes.iter().enumerate() {
        engine.add_lane(key(slot), slot, 0);
        let mut at_ns = 0;
        for (duration_ns, gap_ns) in works {
            at_ns += gap_ns;
            push(&mut engine, slot, [Work { submitted_ns: at_ns, ..kernel(*duration_ns) }]);
        }
        push(&mut engine, slot, [event(slot as u32)]);
    }
    let mut world = TestWorld::default();
    let mut to_ns = 0;
    for step in steps {
        to_ns += step;
        engine.advance(to_ns, &mut world);
    }
    engine.advance(to_ns.max(2_000 * MS), &mut world);
    let busy = engine.take_busy().map(|(_, busy_ns)| busy_ns).collect();
    let ends = world.events.values().copied().collect();
    (busy, ends, engine.busy_ns())
}

proptest! {
    #[test]
    fn no_time_is_lost_or_invented(plan in plan()) {
        let (busy, ends, total) = execute(&plan, &plan.steps);
        let expected: Vec<u64> =
            plan.lanes.iter().map(|works| works.iter().map(|(duration_ns, _)| duration_ns).sum()).collect();
        prop_assert_eq!(&busy, &expected);
        prop_assert_eq!(total, expected.iter().sum::<u64>());
        prop_assert_eq!(ends.len(), plan.lanes.len());
    }

    #[test]
    fn how_often_the_daemon_looks_changes_nothing(plan in plan()) {
        prop_assert_eq!(execute(&plan, &plan.steps), execute(&plan, &[]));
    }
}

//! The supervisor alone: jobs and answers by hand, a clock that only moves when told to.

use super::*;
use crate::device::snapshot::GpuCondition;
use crate::device::uuid::GpuUuid;

const CALL: &str = "fake";

/// A supervisor whose two GPUs were identified and linked.
fn open(now: Instant) -> Supervisor {
    let mut supervisor = Supervisor::new(DeviceConfig::default(), now);
    open_again(&mut supervisor, now);
    supervisor
}

fn open_again(supervisor: &mut Supervisor, now: Instant) {
    assert_eq!(supervisor.next(now), Step::Run(Job::Open));
    supervisor.answered(now, Answer::Opened(Ok(Platform { gpu_count: 2, ..Platform::default() })));
    for slot in [0, 1] {
        assert_eq!(supervisor.next(now), Step::Run(Job::Identify(slot)));
        let gpu = Gpu::new(GpuUuid::from_bytes([u8::try_from(slot).unwrap(); 16]), slot);
        supervisor.answered(now, Answer::Identified(slot, Ok(Box::new(gpu))));
    }
    for slot in [0, 1] {
        assert_eq!(supervisor.next(now), Step::Run(Job::Links(slot)));
        supervisor.answered(now, Answer::Links(slot, Ok(Vec::new())));
    }
}

/// Answers everything that is due until there is nothing to do, and returns what came next and the jobs.
fn run(supervisor: &mut Supervisor, now: Instant) -> (Step, Vec<Job>) {
    let mut jobs = Vec::new();
    loop {
        let job = match supervisor.next(now) {
            Step::Run(Job::Open) => return (Step::Run(Job::Open), jobs),
            Step::Run(job) => job,
            step => return (step, jobs),
        };
        supervisor.answered(
            now,
            match job {
                Job::Read(slot) => Answer::Read(slot, Ok(Box::default())),
                Job::Activity { slot, .. } => Answer::Activity(slot, Ok(Activity::default())),
                Job::Events => Answer::Events(Ok(Vec::new())),
                Job::Open | Job::Identify(_) | Job::Links(_) => panic!("{job:?} is not due"),
            },
        );
        jobs.push(job);
    }
}

fn condition(supervisor: &Supervisor, now: Instant, index: usize) -> GpuCondition {
    supervisor.snapshot(now).gpus[index].condition
}

#[test]
fn process_lists_come_before_readings_and_events_come_last() {
    let now = Instant::now();
    let mut supervisor = open(now);
    let (step, jobs) = run(&mut supervisor, now);
    let activity = |slot| Job::Activity { slot, since_us: 0 };
    assert_eq!(jobs, [activity(0), Job::Read(0), activity(1), Job::Read(1), Job::Events]);
    assert_eq!(step, Step::WaitUntil(now + Duration::from_millis(200)));
    let later = now + Duration::from_millis(200);
    assert_eq!(
        run(&mut supervisor, later),
        (Step::WaitUntil(now + Duration::from_millis(400)), vec![activity(0), activity(1)])
    );
}

#[test]
fn times_that_were_missed_are_not_made_up_for() {
    let now = Instant::now();
    let mut supervisor = open(now);
    run(&mut supervisor, now);
    let late = now + Duration::from_secs(30);
    let (step, jobs) = run(&mut supervisor, late);
    assert_eq!(jobs.len(), 5, "one of each");
    assert_eq!(step, Step::WaitUntil(late + Duration::from_millis(200)));
}

#[test]
fn causes_of_missing_values_are_counted() {
    let now = Instant::now();
    let mut supervisor = open(now);
    let errors = BTreeMap::from([(ErrorClass::Unknown, 2)]);
    supervisor
        .answered(now, Answer::Activity(0, Ok(Activity { errors: errors.clone(), ..Activity::default() })));
    supervisor.answered(now, Answer::Read(0, Ok(Box::new(Reading { errors, ..Reading::default() }))));
    assert_eq!(supervisor.snapshot(now).counters.errors, BTreeMap::from([(ErrorClass::Unknown, 4)]));
}

#[test]
fn an_opening_that_is_no_longer_needed_does_not_happen() {
    let now = Instant::now();
    let mut supervisor = open(now);
    run(&mut supervisor, now);
    supervisor.answered(now, Answer::Read(1, Err(DeviceError::bare(CALL, ErrorClass::Unknown))));
    assert_eq!(condition(&supervisor, now, 1), GpuCondition::Unavailable(ErrorClass::Unknown));
    supervisor.answered(now, Answer::Read(1, Ok(Box::default())));
    assert_eq!(condition(&supervisor, now, 1), GpuCondition::Ok);
    let later = now + Duration::from_secs(3600);
    assert!(matches!(run(&mut supervisor, later).0, Step::WaitUntil(_)));
}

#[test]
fn access_that_is_in_doubt_takes_more_than_an_identity_to_be_believed() {
    let now = Instant::now();
    let mut supervisor = open(now);
    run(&mut supervisor, now);
    supervisor.answered(now, Answer::Read(1, Err(DeviceError::bare(CALL, ErrorClass::Denied))));
    let later = now + Duration::from_secs(1);
    open_again(&mut supervisor, later);
    assert_eq!(condition(&supervisor, later, 1), GpuCondition::Unavailable(ErrorClass::Denied));
    assert_eq!(condition(&supervisor, later, 0), GpuCondition::Ok);
    run(&mut supervisor, later);
    assert_eq!(condition(&supervisor, later, 1), GpuCondition::Ok);
}

#[test]
fn a_lost_gpu_stays_lost_while_the_library_is_away() {
    let now = Instant::now();
    let mut supervisor = open(now);
    supervisor.answered(now, Answer::Read(1, Err(DeviceError::bare(CALL, ErrorClass::DeviceLost))));
    supervisor.answered(now, Answer::Read(0, Err(DeviceError::bare(CALL, ErrorClass::Uninitialized))));
    assert_eq!(condition(&supervisor, now, 0), GpuCondition::Unavailable(ErrorClass::Uninitialized));
    assert_eq!(condition(&supervisor, now, 1), GpuCondition::Lost);
}

#[test]
fn a_library_without_events_is_not_asked_for_them_again() {
    let now = Instant::now();
    let mut supervisor = open(now);
    supervisor.answered(now, Answer::Events(Err(DeviceError::bare(CALL, ErrorClass::NotSupported))));
    let (_, jobs) = run(&mut supervisor, now + Duration::from_secs(10));
    assert!(!jobs.contains(&Job::Events));
    assert_eq!(supervisor.snapshot(now).counters.errors, BTreeMap::new());
}

#[test]
fn a_list_that_could_not_be_had_leaves_the_last_one_with_its_age() {
    let now = Instant::now();
    let mut supervisor = open(now);
    let listed = Activity { processes: Some(Vec::new()), ..Activity::default() };
    supervisor.answered(now, Answer::Activity(0, Ok(listed)));
    let later = now + Duration::from_secs(5);
    supervisor.answered(later, Answer::Activity(0, Ok(Activity::default())));
    let snapshot = supervisor.snapshot(later);
    assert_eq!(snapshot.gpus[0].fresh_processes(later, Duration::from_secs(5)), Some(&[][..]));
    assert_eq!(snapshot.gpus[0].fresh_processes(later, Duration::from_secs(4)), None);
}

#[test]
fn a_thread_that_died_is_replaced_after_a_pause() {
    let now = Instant::now();
    let mut supervisor = open(now);
    supervisor.died(now);
    assert_eq!(supervisor.next(now), Step::WaitUntil(now + Duration::from_secs(1)));
    open_again(&mut supervisor, now + Duration::from_secs(1));
}

#[test]
fn once_all_is_well_the_pauses_start_short_again() {
    let now = Instant::now();
    let mut supervisor = Supervisor::new(DeviceConfig::default(), now);
    let mut at = now;
    for pause_s in [1, 2, 4] {
        assert_eq!(supervisor.next(at), Step::Run(Job::Open));
        supervisor.answered(at, Answer::Opened(Err(DeviceError::bare(CALL, ErrorClass::LibraryAbsent))));
        assert_eq!(supervisor.next(at), Step::WaitUntil(at + Duration::from_secs(pause_s)));
        at += Duration::from_secs(pause_s);
    }
    open_again(&mut supervisor, at);
    run(&mut supervisor, at);
    supervisor.answered(at, Answer::Read(0, Err(DeviceError::bare(CALL, ErrorClass::Uninitialized))));
    assert_eq!(supervisor.next(at), Step::WaitUntil(at + Duration::from_secs(1)));
}

#[test]
fn a_gpu_that_could_not_be_identified_is_looked_for_again_whatever_the_cause() {
    let now = Instant::now();
    let mut supervisor = Supervisor::new(DeviceConfig::default(), now);
    assert_eq!(supervisor.next(now), Step::Run(Job::Open));
    supervisor.answered(now, Answer::Opened(Ok(Platform { gpu_count: 1, ..Platform::default() })));
    assert_eq!(supervisor.next(now), Step::Run(Job::Identify(0)));
    let passing = DeviceError::bare(CALL, ErrorClass::Transient);
    supervisor.answered(now, Answer::Identified(0, Err(passing.clone())));
    assert_eq!(supervisor.snapshot(now).unidentified, [(0, passing.clone())]);
    assert_eq!(supervisor.next(now), Step::Run(Job::Links(0)));
    supervisor.answered(now, Answer::Links(0, Err(passing)));
    assert_eq!(run(&mut supervisor, now + Duration::from_secs(1)).0, Step::Run(Job::Open));
}

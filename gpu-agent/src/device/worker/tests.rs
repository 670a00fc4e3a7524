//! The worker against a machine that fails in every way that the reference lists, on a paused clock.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::thread::execute;
use super::*;
use crate::device::backend::DeviceEvent;
use crate::device::error::ErrorClass;
use crate::device::fake::{FakeMachine, NOW_US, uuid};
use crate::device::snapshot::{GpuCondition, GpuState};
use crate::device::utilization::{DroppedSamples, RawUtilization};

const SECOND: Duration = Duration::from_secs(1);

/// Runs a "thread" as a task, so that a paused clock only moves when nothing is left to do.
struct TaskHost {
    machine: FakeMachine,
}

impl Host for TaskHost {
    fn start(
        &mut self,
        id: ThreadId,
        mut jobs: mpsc::UnboundedReceiver<Job>,
        reports: Reports,
    ) -> std::io::Result<()> {
        let machine = self.machine.clone();
        tokio::spawn(async move {
            let mut session = None;
            while let Some(job) = jobs.recv().await {
                machine.answers(job.slot()).await;
                let answer = match (&job, &mut session) {
                    (Job::Open, session) => Answer::Opened(machine.open().and_then(|opened| {
                        crate::device::backend::Session::platform(session.insert(opened))
                    })),
                    (job, Some(session)) => execute(session, job).expect("not an opening"),
                    (job, None) => panic!("{job:?} without a session"),
                };
                reports.send((id, Report::Answer(answer))).ok();
            }
            reports.send((id, Report::Ended)).ok();
        });
        Ok(())
    }
}

struct Setup {
    machine: FakeMachine,
    handle: Handle,
    cancel: CancellationToken,
    started: Instant,
}

impl Setup {
    fn new(machine: FakeMachine) -> Self {
        let cancel = CancellationToken::new();
        let host = TaskHost { machine: machine.clone() };
        let (handle, worker) = start("fake", host, DeviceConfig::default(), cancel.clone());
        tokio::spawn(worker);
        Self { machine, handle, cancel, started: Instant::now() }
    }

    async fn until(&mut self, what: &str, holds: impl Fn(&DeviceSnapshot) -> bool) -> Arc<DeviceSnapshot> {
        let wait = async {
            loop {
                let snapshot = self.handle.changed().await.expect("the worker runs");
                if holds(&snapshot) {
                    return snapshot;
                }
            }
        };
        timeout(Duration::from_secs(600), wait).await.unwrap_or_else(|_| panic!("never: {what}"))
    }

    async fn until_all_ok(&mut self) -> Arc<DeviceSnapshot> {
        self.until("all GPUs answer", |snapshot| {
            !snapshot.gpus.is_empty()
                && snapshot.gpus.iter().all(|gpu| gpu.condition == GpuCondition::Ok && gpu.reading.is_some())
        })
        .await
    }
}

fn gpu(snapshot: &DeviceSnapshot, slot: u8) -> &GpuState {
    snapshot.gpu(&uuid(slot)).expect("was identified")
}

fn is(slot: u8, condition: GpuCondition) -> impl Fn(&DeviceSnapshot) -> bool {
    move |snapshot| snapshot.gpu(&uuid(slot)).is_some_and(|gpu| gpu.condition == condition)
}

fn reading_age(snapshot: &DeviceSnapshot, slot: u8) -> Duration {
    gpu(snapshot, slot).reading.as_ref().expect("was read").0.elapsed()
}

#[tokio::test(start_paused = true)]
async fn everything_is_asked_at_its_own_interval() {
    let mut setup = Setup::new(FakeMachine::new(2));
    let snapshot = setup.until_all_ok().await;
    assert_eq!(snapshot.source, SourceState::Ok);
    assert_eq!(snapshot.platform.as_ref().unwrap().gpu_count, 2);
    assert_eq!(snapshot.topology.len(), 2);
    assert_eq!(gpu(&snapshot, 1).reading.as_ref().unwrap().1.memory.used_bytes, Some(1));
    let pids: Vec<u32> =
        snapshot.fresh_processes(Instant::now(), SECOND).map(|process| process.pid).collect();
    assert_eq!(pids, [100, 101]);

    sleep(Duration::from_millis(3_100)).await;
    for slot in [0, 1] {
        assert_eq!(setup.machine.calls("read", Some(slot)), 4, "at 0, 1, 2 and 3 s");
        assert_eq!(setup.machine.calls("activity", Some(slot)), 16, "at 0, 0.2, … 3.0 s");
    }
    assert_eq!(setup.machine.calls("open", None), 1);
}

#[tokio::test(start_paused = true)]
async fn a_library_that_is_too_slow_for_the_intervals_is_still_reported_on() {
    let mut setup = Setup::new(FakeMachine::new(8).slowed(Duration::from_millis(100)));
    setup.until_all_ok().await;
    let seen = setup.handle.snapshot().taken_at;
    let snapshot = setup.until("the next snapshot", |_| true).await;
    assert!(snapshot.taken_at - seen <= Duration::from_millis(300));
}

#[tokio::test(start_paused = true)]
async fn a_library_that_appears_later_is_found_with_growing_pauses() {
    let machine = FakeMachine::new(1);
    machine.break_library(ErrorClass::LibraryAbsent);
    let mut setup = Setup::new(machine);
    let snapshot = setup.until("given up once", |snapshot| snapshot.source != SourceState::Starting).await;
    let SourceState::Unavailable { error, failures: 1, retry_at } = &snapshot.source else {
        panic!("{:?}", snapshot.source)
    };
    assert_eq!(error.class, ErrorClass::LibraryAbsent);
    assert_eq!(*retry_at, setup.started + SECOND);
    assert!(snapshot.gpus.is_empty());

    sleep(10 * SECOND).await;
    assert_eq!(setup.machine.calls("open", None), 4, "at 0, 1, 3 and 7 s");
    setup.machine.mend_library();
    let snapshot = setup.until_all_ok().await;
    assert_eq!(setup.started.elapsed(), 15 * SECOND);
    assert_eq!(snapshot.counters.errors[&ErrorClass::LibraryAbsent], 4);
    assert_eq!(snapshot.counters.reinitialisations, 0, "it had never been open");
}

#[tokio::test(start_paused = true)]
async fn after_a_driver_upgrade_the_library_is_opened_again() {
    let mut setup = Setup::new(FakeMachine::new(2));
    setup.until_all_ok().await;
    setup.machine.break_library(ErrorClass::VersionMismatch);
    let snapshot =
        setup.until("unavailable", is(1, GpuCondition::Unavailable(ErrorClass::VersionMismatch))).await;
    assert_eq!(snapshot.source.as_str(), "unavailable");
    assert_eq!(gpu(&snapshot, 0).condition, GpuCondition::Unavailable(ErrorClass::VersionMismatch));
    assert!(gpu(&snapshot, 0).reading.is_some(), "the last reading is kept with its age");
    assert_eq!(
        gpu(&snapshot, 0).fresh_reading(Instant::now(), Duration::MAX),
        None,
        "but is not given out as present"
    );
    assert_eq!(snapshot.fresh_processes(Instant::now(), Duration::MAX).count(), 0);

    sleep(5 * SECOND).await;
    setup.machine.mend_library();
    let snapshot = setup.until_all_ok().await;
    assert_eq!(snapshot.counters.reinitialisations, 1);
    assert!(reading_age(&snapshot, 0) < SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_lost_gpu_does_not_disturb_the_others() {
    let mut setup = Setup::new(FakeMachine::new(8));
    setup.until_all_ok().await;
    setup.machine.break_gpu(3, ErrorClass::DeviceLost);
    let lost = setup.until("lost", is(3, GpuCondition::Lost)).await;
    let last_seen = gpu(&lost, 3).last_seen;

    sleep(30 * SECOND).await;
    let snapshot = setup.handle.snapshot();
    assert_eq!(snapshot.gpus.len(), 8, "it is still listed");
    assert_eq!(gpu(&snapshot, 3).condition, GpuCondition::Lost);
    assert_eq!(gpu(&snapshot, 3).last_seen, last_seen);
    assert_eq!(snapshot.unidentified.len(), 1);
    for slot in [0, 1, 2, 4, 5, 6, 7] {
        assert!(gpu(&snapshot, slot).fresh_reading(Instant::now(), SECOND).is_some(), "GPU {slot}");
    }

    setup.machine.mend_gpu(3);
    let snapshot = setup.until_all_ok().await;
    assert!(snapshot.unidentified.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_gpu_that_is_no_longer_listed_is_lost() {
    let mut setup = Setup::new(FakeMachine::new(2));
    setup.until_all_ok().await;
    setup.machine.remove_last_gpu();
    setup.machine.break_library(ErrorClass::Uninitialized);
    setup.until("closed", |snapshot| snapshot.source.as_str() == "unavailable").await;
    setup.machine.mend_library();
    let snapshot = setup.until("lost", is(1, GpuCondition::Lost)).await;
    assert_eq!(gpu(&snapshot, 0).condition, GpuCondition::Ok);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_hangs_costs_one_deadline_and_one_gpu() {
    let mut setup = Setup::new(FakeMachine::new(2));
    setup.until_all_ok().await;
    setup.machine.hang(Some(1));
    let hung = setup.until("hung", is(1, GpuCondition::Hung)).await;
    assert_eq!((hung.counters.timeouts, hung.counters.hung_threads), (1, 1));
    let last_seen = gpu(&hung, 1).last_seen;
    assert!(last_seen.elapsed() >= 2 * SECOND);

    sleep(30 * SECOND).await;
    let snapshot = setup.handle.snapshot();
    assert_eq!(gpu(&snapshot, 1).condition, GpuCondition::Hung);
    assert_eq!(gpu(&snapshot, 1).last_seen, last_seen);
    assert_eq!(gpu(&snapshot, 1).fresh_reading(Instant::now(), Duration::MAX), None);
    assert!(gpu(&snapshot, 0).fresh_reading(Instant::now(), SECOND).is_some(), "the other one goes on");
    assert_eq!(snapshot.counters.timeouts, 1, "the hung one is not asked again");

    setup.machine.release(Some(1));
    let snapshot = setup.until_all_ok().await;
    assert_eq!((snapshot.counters.late_returns, snapshot.counters.hung_threads), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn an_opening_that_hangs_is_waited_for_and_not_repeated() {
    let machine = FakeMachine::new(1);
    machine.hang(None);
    let mut setup = Setup::new(machine);
    let snapshot = setup.until("hung", |snapshot| snapshot.source.as_str() == "hung").await;
    assert_eq!(snapshot.taken_at, setup.started + 2 * SECOND);
    sleep(60 * SECOND).await;
    assert_eq!(setup.handle.snapshot().counters.timeouts, 1);
    setup.machine.release(None);
    setup.until_all_ok().await;
}

#[tokio::test(start_paused = true)]
async fn threads_that_hang_are_bounded() {
    let mut setup = Setup::new(FakeMachine::new(5));
    setup.until_all_ok().await;
    for slot in 0..4 {
        setup.machine.hang(Some(slot));
    }
    let snapshot = setup.until("stuck", |snapshot| snapshot.source.as_str() == "hung").await;
    assert_eq!(snapshot.counters.hung_threads, 3);
    assert!(snapshot.gpus.iter().all(|gpu| gpu.condition == GpuCondition::Hung), "nobody is asked any more");
    sleep(60 * SECOND).await;
    assert_eq!(setup.handle.snapshot().counters.hung_threads, 3);
    for slot in 0..4 {
        setup.machine.release(Some(slot));
    }
    setup.until_all_ok().await;
}

#[tokio::test(start_paused = true)]
async fn access_that_was_taken_away_is_looked_for_again() {
    let mut setup = Setup::new(FakeMachine::new(2));
    setup.until_all_ok().await;
    setup.machine.break_gpu(0, ErrorClass::Unknown);
    setup.until("unavailable", is(0, GpuCondition::Unavailable(ErrorClass::Unknown))).await;
    sleep(20 * SECOND).await;
    let reopened = setup.machine.calls("open", None) - 1;
    assert!((3..=5).contains(&reopened), "with growing pauses: {reopened}");
    assert!(gpu(&setup.handle.snapshot(), 1).fresh_reading(Instant::now(), SECOND).is_some());
    setup.machine.mend_gpu(0);
    setup.until_all_ok().await;
    let opened = setup.machine.calls("open", None);
    sleep(120 * SECOND).await;
    assert_eq!(setup.machine.calls("open", None), opened, "what has mended is left alone");
}

#[tokio::test(start_paused = true)]
async fn a_passing_failure_is_counted_and_changes_nothing() {
    let mut setup = Setup::new(FakeMachine::new(1));
    setup.until_all_ok().await;
    setup.machine.break_gpu(0, ErrorClass::Transient);
    let snapshot = setup
        .until("counted", |snapshot| snapshot.counters.errors.contains_key(&ErrorClass::Transient))
        .await;
    assert_eq!(gpu(&snapshot, 0).condition, GpuCondition::Ok);
    assert_eq!(setup.machine.calls("open", None), 1);
}

#[tokio::test(start_paused = true)]
async fn a_machine_without_gpus_is_asked_again() {
    let mut setup = Setup::new(FakeMachine::new(0));
    let snapshot = setup.until("open", |snapshot| snapshot.source == SourceState::Ok).await;
    assert!(snapshot.gpus.is_empty());
    sleep(10 * SECOND).await;
    assert_eq!(setup.machine.calls("open", None), 4, "at 0, 1, 3 and 7 s");
}

#[tokio::test(start_paused = true)]
async fn samples_are_filtered_counted_and_kept_for_the_window() {
    let machine = FakeMachine::new(1);
    let sample = |timestamp_us, sm_percent| RawUtilization {
        pid: 100,
        timestamp_us,
        sm_percent,
        ..RawUtilization::default()
    };
    machine.sample(0, vec![sample(NOW_US - 6_000_000, 10), sample(NOW_US - 1, 20), sample(NOW_US, 101)]);
    let mut setup = Setup::new(machine);
    setup.until_all_ok().await;
    setup.machine.sample(0, vec![sample(NOW_US, 30)]);
    let snapshot = setup.until("both samples", |snapshot| gpu(snapshot, 0).utilization.len() == 2).await;
    let ratios: Vec<f64> = gpu(&snapshot, 0).utilization.iter().map(|sample| sample.sm_ratio).collect();
    assert_eq!(ratios, [0.2, 0.3], "the one from before the window is gone");
    let dropped = snapshot.counters.dropped_samples;
    assert!(dropped.out_of_range >= 1);
    assert_eq!(dropped, DroppedSamples { out_of_range: dropped.out_of_range, ..DroppedSamples::default() });
}

#[tokio::test(start_paused = true)]
async fn xids_are_counted_by_code() {
    let mut setup = Setup::new(FakeMachine::new(2));
    setup.until_all_ok().await;
    for xid in [Some(79), Some(79), None] {
        setup.machine.report(DeviceEvent { gpu: Some(uuid(1)), xid });
    }
    let snapshot = setup.until("reported", |snapshot| !gpu(snapshot, 1).xids.is_empty()).await;
    let counts: Vec<(u64, u64)> =
        gpu(&snapshot, 1).xids.iter().map(|(xid, count)| (*xid, count.count)).collect();
    assert_eq!(counts, [(79, 2), (999, 1)]);
    assert!(gpu(&snapshot, 0).xids.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_worker_ends_even_while_a_call_hangs() {
    let mut setup = Setup::new(FakeMachine::new(1));
    setup.until_all_ok().await;
    setup.machine.hang(Some(0));
    setup.cancel.cancel();
    while setup.handle.changed().await.is_some() {}
    assert!(setup.started.elapsed() < 2 * SECOND);
}

/// On real threads and the real clock; nothing here depends on how long anything takes.
#[tokio::test]
async fn a_panic_in_the_binding_ends_one_session() {
    let machine = FakeMachine::new(1);
    let cancel = CancellationToken::new();
    let config = DeviceConfig { retry_initial: Duration::from_millis(1), ..DeviceConfig::default() };
    let (handle, worker) = spawn(Arc::new(machine.clone()), config, cancel.clone());
    let worker = tokio::spawn(worker);
    let mut setup = Setup { machine, handle, cancel, started: Instant::now() };
    let snapshot = setup.until_all_ok().await;
    assert_eq!(setup.handle.backend(), "fake");
    assert_eq!(snapshot.counters.errors.len(), 0);

    setup.machine.panic_on(0);
    setup
        .until("the panic is reported", |snapshot| {
            snapshot.counters.errors.contains_key(&ErrorClass::Malformed)
        })
        .await;
    setup.until("it was opened again", |snapshot| snapshot.counters.reinitialisations > 0).await;
    setup.cancel.cancel();
    worker.await.expect("the worker does not panic");
}

//! What is asked of the library next, and what an answer or a silence means: a pure state machine over a clock.
//!
//! One job is under way at a time. A job that misses its deadline is given up together with its thread, its GPU is left
//! alone until the call returns, and the others go on in a session of their own.

mod gpus;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use self::gpus::Gpus;
use super::backend::{Activity, DeviceEvent};
use super::backoff;
use super::error::{DeviceError, ErrorClass, Reaction};
use super::model::{Gpu, PeerLink, Platform};
use super::reading::Reading;
use super::snapshot::{DeviceCounters, DeviceSnapshot, SourceState};

/// How often things are asked, and when patience ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceConfig {
    /// Between two readings of one GPU.
    pub reading_interval: Duration,
    /// Between two lists of processes of one GPU. Attribution of calls to GPUs waits for these.
    pub process_interval: Duration,
    /// A job that takes longer is given up.
    pub call_deadline: Duration,
    /// The pause after the first failed attempt to open the library; doubled with each further one.
    pub retry_initial: Duration,
    /// The longest pause between two attempts.
    pub retry_max: Duration,
    /// Threads that may wait in calls that do not return; when so many do, nothing is asked until one returns.
    pub hung_threads_max: usize,
    /// For how long a utilisation sample stays in the snapshot, by the samples' own clock.
    pub utilization_window: Duration,
}

impl Default for DeviceConfig {
    fn default() -> Self {
        Self {
            reading_interval: Duration::from_secs(1),
            process_interval: Duration::from_millis(200),
            call_deadline: Duration::from_secs(2),
            retry_initial: Duration::from_secs(1),
            retry_max: Duration::from_secs(60),
            hung_threads_max: 3,
            utilization_window: Duration::from_secs(5),
        }
    }
}

/// Something to do on the library's thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Job {
    /// Close the session if there is one, and open another.
    Open,
    /// Who is in this slot.
    Identify(u32),
    /// The ways from this slot to the others.
    Links(u32),
    /// A reading.
    Read(u32),
    /// Processes and utilisation samples.
    Activity {
        /// The slot.
        slot: u32,
        /// The newest timestamp that is known.
        since_us: u64,
    },
    /// Critical errors of all GPUs.
    Events,
}

impl Job {
    pub(super) fn slot(&self) -> Option<u32> {
        match self {
            Self::Open | Self::Events => None,
            Self::Identify(slot) | Self::Links(slot) | Self::Read(slot) | Self::Activity { slot, .. } => {
                Some(*slot)
            }
        }
    }
}

/// What came of a job. Each variant belongs to the job of the same name.
#[derive(Debug, Clone)]
pub enum Answer {
    /// To [`Job::Open`].
    Opened(Result<Platform, DeviceError>),
    /// To [`Job::Identify`].
    Identified(u32, Result<Box<Gpu>, DeviceError>),
    /// To [`Job::Links`].
    Links(u32, Result<Vec<PeerLink>, DeviceError>),
    /// To [`Job::Read`].
    Read(u32, Result<Box<Reading>, DeviceError>),
    /// To [`Job::Activity`].
    Activity(u32, Result<Activity, DeviceError>),
    /// To [`Job::Events`].
    Events(Result<Vec<DeviceEvent>, DeviceError>),
}

/// What to do now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Give this job to the current thread, started if there is none.
    Run(Job),
    /// Nothing until then.
    WaitUntil(Instant),
    /// Nothing until a thread that was given up returns.
    WaitForReturn,
}

/// Names a thread; the worker counts them up.
pub type ThreadId = u64;

/// The state machine.
#[derive(Debug)]
pub struct Supervisor {
    config: DeviceConfig,
    source: Source,
    platform: Option<Arc<Platform>>,
    gpus: Gpus,
    /// Threads that were given up, with the slot that their call is about.
    hung: BTreeMap<ThreadId, Option<u32>>,
    opened_before: bool,
    /// Failed openings, and openings whose GPUs failed, in a row.
    failures: u32,
    counters: DeviceCounters,
    changed: bool,
}

#[derive(Debug)]
enum Source {
    /// To be opened at that time; the error is `None` before the first attempt.
    Closed { at: Instant, error: Option<DeviceError> },
    /// Slots that are still to be identified and linked, in order, then sampling.
    Open { identify: Vec<u32>, links: Vec<u32>, reopen_at: Option<Instant>, events_at: Option<Instant> },
    /// A call that concerns no single GPU hangs.
    Hung { since: Instant },
}

impl Supervisor {
    /// A supervisor that has asked nothing yet.
    pub fn new(config: DeviceConfig, now: Instant) -> Self {
        Self {
            gpus: Gpus::new(config.clone()),
            config,
            source: Source::Closed { at: now, error: None },
            platform: None,
            hung: BTreeMap::new(),
            opened_before: false,
            failures: 0,
            counters: DeviceCounters::default(),
            changed: true,
        }
    }

    /// What to do at `now`.
    pub fn next(&mut self, now: Instant) -> Step {
        match &mut self.source {
            Source::Hung { .. } => Step::WaitForReturn,
            Source::Closed { at, .. } if *at > now => Step::WaitUntil(*at),
            Source::Closed { .. } => Step::Run(Job::Open),
            Source::Open { identify, links, reopen_at, events_at } => {
                if let Some(slot) = identify.pop() {
                    return Step::Run(Job::Identify(slot));
                }
                if let Some(slot) = links.pop() {
                    return Step::Run(Job::Links(slot));
                }
                if reopen_at.is_some_and(|at| at <= now) {
                    return Step::Run(Job::Open);
                }
                if let Some(job) = self.gpus.due(now) {
                    return Step::Run(job);
                }
                if let Some(at) = events_at.as_mut().filter(|at| **at <= now) {
                    *at = now + self.config.reading_interval;
                    return Step::Run(Job::Events);
                }
                let times = [*reopen_at, *events_at, self.gpus.next_due()];
                times.into_iter().flatten().min().map_or(Step::WaitForReturn, Step::WaitUntil)
            }
        }
    }

    /// The current thread answered.
    pub fn answered(&mut self, now: Instant, answer: Answer) {
        self.changed = true;
        match answer {
            Answer::Opened(Ok(platform)) => self.opened(now, platform),
            Answer::Opened(Err(error)) => self.close(now, error),
            Answer::Identified(slot, Ok(gpu)) => {
                self.gpus.identified(now, slot, *gpu);
                self.check_identified(now);
            }
            Answer::Identified(slot, Err(error)) => {
                self.gpus.unidentified(slot, error.clone());
                self.failed(now, None, error);
                self.reopen_later(now);
                self.check_identified(now);
            }
            Answer::Links(slot, Ok(links)) => self.gpus.linked(slot, links),
            Answer::Links(slot, Err(error))
            | Answer::Activity(slot, Err(error))
            | Answer::Read(slot, Err(error)) => {
                self.failed(now, Some(slot), error);
            }
            Answer::Read(slot, Ok(reading)) => {
                self.count_all(&reading.errors);
                self.gpus.read(now, slot, *reading);
                self.forgive();
            }
            Answer::Activity(slot, Ok(activity)) => {
                self.count_all(&activity.errors);
                self.counters.dropped_samples.add(self.gpus.active(now, slot, activity));
            }
            Answer::Events(Ok(events)) => self.gpus.report(now, &events),
            Answer::Events(Err(error)) => {
                // GPUs without events answer "not supported" for ever: they are not asked again in this session.
                if error.class.reaction() == Reaction::OmitValue
                    && let Source::Open { events_at, .. } = &mut self.source
                {
                    *events_at = None;
                } else {
                    self.failed(now, None, error);
                }
            }
        }
    }

    /// The current thread did not answer `job` within the deadline: it is given up, and its id is not used again.
    pub fn timed_out(&mut self, now: Instant, thread: ThreadId, job: &Job) {
        self.changed = true;
        self.counters.timeouts += 1;
        self.hung.insert(thread, job.slot());
        if let Some(slot) = job.slot() {
            self.gpus.hang(slot);
        }
        self.source = if self.is_stuck() {
            self.gpus.hang_all();
            Source::Hung { since: now }
        } else {
            Source::Closed { at: now, error: None }
        };
    }

    /// The current thread ended, or could not be started: a defect of the library's binding, or the process's limits.
    pub fn died(&mut self, now: Instant) {
        self.changed = true;
        self.close(now, DeviceError::bare("thread", ErrorClass::Malformed));
    }

    /// A call that had been given up returned after all; its answer is out of date, and its thread has ended.
    pub fn returned(&mut self, now: Instant, thread: ThreadId) {
        let Some(slot) = self.hung.remove(&thread) else { return };
        self.changed = true;
        self.counters.late_returns += 1;
        match self.source {
            Source::Hung { .. } if !self.is_stuck() => self.source = Source::Closed { at: now, error: None },
            Source::Open { .. } if slot.is_some() => self.set_reopen_at(now),
            Source::Hung { .. } | Source::Open { .. } | Source::Closed { .. } => {}
        }
    }

    /// Nothing can be asked: a call that concerns no single GPU hangs, or too many threads do.
    fn is_stuck(&self) -> bool {
        self.hung.len() >= self.config.hung_threads_max || self.hung.values().any(Option::is_none)
    }

    /// Whether anything that a reader sees has changed since the last call of this function.
    pub fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// Everything that is known.
    pub fn snapshot(&self, now: Instant) -> DeviceSnapshot {
        DeviceSnapshot {
            taken_at: now,
            source: self.source_state(),
            platform: self.platform.clone(),
            gpus: self.gpus.states(),
            unidentified: self.gpus.unidentified_slots(),
            topology: self.gpus.topology(),
            counters: DeviceCounters { hung_threads: self.hung.len() as u64, ..self.counters.clone() },
        }
    }

    fn source_state(&self) -> SourceState {
        match &self.source {
            Source::Closed { error: None, .. } if !self.opened_before => SourceState::Starting,
            // Between two sessions of a library that answers there is nothing to report.
            Source::Closed { error: None, .. } | Source::Open { .. } => SourceState::Ok,
            Source::Closed { at, error: Some(error) } => {
                SourceState::Unavailable { error: error.clone(), failures: self.failures, retry_at: *at }
            }
            Source::Hung { since } => SourceState::Hung { since: *since },
        }
    }

    fn opened(&mut self, now: Instant, platform: Platform) {
        if self.opened_before {
            self.counters.reinitialisations += 1;
        }
        self.opened_before = true;
        let quarantined: Vec<u32> = self.hung.values().flatten().copied().collect();
        let slots: Vec<u32> =
            (0..platform.gpu_count).rev().filter(|slot| !quarantined.contains(slot)).collect();
        self.gpus.begin_session(&quarantined);
        // A driver that lists no GPU is asked again later, like a library that cannot be opened.
        let is_empty = platform.gpu_count == 0;
        self.platform = Some(Arc::new(platform));
        self.source = Source::Open {
            identify: slots.clone(),
            links: slots,
            reopen_at: None,
            events_at: (!is_empty).then_some(now),
        };
        if is_empty {
            self.gpus.forget_unlisted();
            self.reopen_later(now);
        }
    }

    /// After the last slot was asked, a GPU that is in none is gone, and looked for again later.
    fn check_identified(&mut self, now: Instant) {
        if matches!(&self.source, Source::Open { identify, .. } if identify.is_empty())
            && self.gpus.forget_unlisted()
        {
            self.reopen_later(now);
        }
    }

    fn failed(&mut self, now: Instant, slot: Option<u32>, error: DeviceError) {
        match error.class.reaction() {
            Reaction::Reinitialise => self.close(now, error),
            reaction => {
                self.count(error.class);
                if let Some(slot) = slot {
                    self.gpus.fail(slot, error.class);
                }
                if matches!(reaction, Reaction::LoseDevice | Reaction::SuspectAccess) {
                    self.reopen_later(now);
                }
            }
        }
    }

    fn close(&mut self, now: Instant, error: DeviceError) {
        self.count(error.class);
        self.gpus.suspend(error.class);
        let at = self.back_off(now);
        self.source = Source::Closed { at, error: Some(error) };
    }

    fn reopen_later(&mut self, now: Instant) {
        if matches!(self.source, Source::Open { reopen_at: None, .. }) {
            let at = self.back_off(now);
            self.set_reopen_at(at);
        }
    }

    fn set_reopen_at(&mut self, at: Instant) {
        if let Source::Open { reopen_at, .. } = &mut self.source {
            *reopen_at = Some(at);
        }
    }

    fn back_off(&mut self, now: Instant) -> Instant {
        self.failures = self.failures.saturating_add(1);
        now + backoff::delay(self.config.retry_initial, self.config.retry_max, self.failures)
    }

    /// Starts the back-off afresh once every GPU answers again. A library that opens well and then fails at once keeps
    /// its long pauses.
    fn forgive(&mut self) {
        if self.gpus.all_ok() {
            self.failures = 0;
            // What the opening was for has mended itself.
            if let Source::Open { reopen_at, .. } = &mut self.source {
                *reopen_at = None;
            }
        }
    }

    fn count_all(&mut self, errors: &BTreeMap<ErrorClass, u32>) {
        for (class, count) in errors {
            *self.counters.errors.entry(*class).or_default() += u64::from(*count);
        }
    }

    fn count(&mut self, class: ErrorClass) {
        if class != ErrorClass::NotSupported {
            *self.counters.errors.entry(class).or_default() += 1;
        }
    }
}

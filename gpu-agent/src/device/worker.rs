//! The task that drives a supervisor, the threads on which the library runs, and the handle for readers.

#[cfg(test)]
mod tests;
mod thread;

use std::sync::Arc;

use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use self::thread::ThreadHost;
use super::backend::GpuBackend;
use super::snapshot::{DeviceSnapshot, SourceState};
pub use super::supervisor::DeviceConfig;
use super::supervisor::{Answer, Job, Step, Supervisor, ThreadId};

/// A reader's access to the GPUs of one backend; cheap to clone.
#[derive(Debug, Clone)]
pub struct Handle {
    backend: &'static str,
    snapshots: watch::Receiver<Arc<DeviceSnapshot>>,
}

impl Handle {
    /// The backend's name.
    pub fn backend(&self) -> &'static str {
        self.backend
    }

    /// What is known now. Never waits.
    pub fn snapshot(&self) -> Arc<DeviceSnapshot> {
        Arc::clone(&self.snapshots.borrow())
    }

    /// Waits for a snapshot that this handle has not returned from here before. `None` when the worker has stopped.
    ///
    /// Cancel-safe: a snapshot is only marked as seen when it is returned.
    pub async fn changed(&mut self) -> Option<Arc<DeviceSnapshot>> {
        self.snapshots.changed().await.ok()?;
        Some(Arc::clone(&self.snapshots.borrow_and_update()))
    }
}

/// Starts to watch the GPUs of `backend`. The future runs until `cancel`; spawn it on the caller's tracker.
///
/// A call that hangs when the worker is cancelled keeps its thread, which ends with the process.
pub fn spawn(
    backend: Arc<dyn GpuBackend>,
    config: DeviceConfig,
    cancel: CancellationToken,
) -> (Handle, impl Future<Output = ()> + Send + use<>) {
    start(backend.name(), ThreadHost::new(backend), config, cancel)
}

fn start<H: Host>(
    backend: &'static str,
    host: H,
    config: DeviceConfig,
    cancel: CancellationToken,
) -> (Handle, impl Future<Output = ()> + Send + use<H>) {
    let (publish, snapshots) = watch::channel(Arc::new(DeviceSnapshot::empty(Instant::now())));
    (Handle { backend, snapshots }, drive(backend, host, config, publish, cancel))
}

/// Starts what executes jobs.
trait Host: Send + 'static {
    /// Starts a thread that takes jobs from `jobs`, and ends when the channel is closed.
    fn start(
        &mut self,
        id: ThreadId,
        jobs: mpsc::UnboundedReceiver<Job>,
        reports: Reports,
    ) -> std::io::Result<()>;
}

/// Where the threads' reports go.
type Reports = mpsc::UnboundedSender<(ThreadId, Report)>;

/// What a thread says.
#[derive(Debug)]
enum Report {
    /// Its job is done.
    Answer(Answer),
    /// It has ended, by a panic too.
    Ended,
}

struct Lane {
    id: ThreadId,
    jobs: mpsc::UnboundedSender<Job>,
}

async fn drive(
    backend: &'static str,
    mut host: impl Host,
    config: DeviceConfig,
    publish: watch::Sender<Arc<DeviceSnapshot>>,
    cancel: CancellationToken,
) {
    let deadline = config.call_deadline;
    let publish_interval = config.process_interval;
    let mut supervisor = Supervisor::new(config, Instant::now());
    let mut publisher = Publisher { backend, publish, published_at: Instant::now() };
    let (reports_in, mut reports) = mpsc::unbounded_channel();
    let mut lane: Option<Lane> = None;
    let mut next_id: ThreadId = 0;
    loop {
        let step = supervisor.next(Instant::now());
        let Step::Run(job) = step else {
            publisher.publish_if_changed(&mut supervisor);
            let wake_at = match step {
                Step::WaitUntil(at) => Some(at),
                Step::WaitForReturn | Step::Run(_) => None,
            };
            tokio::select! {
                biased;
                () = cancel.cancelled() => return,
                Some((id, _)) = reports.recv() => {
                    if lane.as_ref().is_some_and(|lane| lane.id == id) {
                        lane = None;
                        supervisor.died(Instant::now());
                    } else {
                        supervisor.returned(Instant::now(), id);
                    }
                }
                () = sleep_until(wake_at.unwrap_or_else(Instant::now)), if wake_at.is_some() => {}
            }
            continue;
        };
        // A library that is slower than the intervals, or hangs, leaves no pause in which to publish.
        if publisher.published_at.elapsed() >= publish_interval {
            publisher.publish_if_changed(&mut supervisor);
        }
        let current = if let Some(lane) = lane.take() {
            lane
        } else {
            let (jobs, jobs_out) = mpsc::unbounded_channel();
            let id = next_id;
            next_id += 1;
            if let Err(error) = host.start(id, jobs_out, reports_in.clone()) {
                warn!(backend, %error, "Cannot start a thread for the GPU library.");
                supervisor.died(Instant::now());
                continue;
            }
            Lane { id, jobs }
        };
        if current.jobs.send(job.clone()).is_err() {
            supervisor.died(Instant::now());
            continue;
        }
        let due = Instant::now() + deadline;
        loop {
            tokio::select! {
                biased;
                () = cancel.cancelled() => return,
                Some((id, report)) = reports.recv() => match report {
                    Report::Answer(answer) if id == current.id => {
                        supervisor.answered(Instant::now(), answer);
                        lane = Some(current);
                        break;
                    }
                    Report::Ended if id == current.id => {
                        supervisor.died(Instant::now());
                        break;
                    }
                    Report::Answer(_) | Report::Ended => supervisor.returned(Instant::now(), id),
                },
                () = sleep_until(due) => {
                    warn!(backend, ?job, ?deadline, "A call to the GPU library does not return; its thread is given up.");
                    supervisor.timed_out(Instant::now(), current.id, &job);
                    break;
                }
            }
        }
    }
}

struct Publisher {
    backend: &'static str,
    publish: watch::Sender<Arc<DeviceSnapshot>>,
    published_at: Instant,
}

impl Publisher {
    fn publish_if_changed(&mut self, supervisor: &mut Supervisor) {
        if !supervisor.take_changed() {
            return;
        }
        self.published_at = Instant::now();
        let snapshot = Arc::new(supervisor.snapshot(self.published_at));
        let before = self.publish.send_replace(Arc::clone(&snapshot));
        log_changes(self.backend, &before, &snapshot);
    }
}

fn log_changes(backend: &'static str, before: &DeviceSnapshot, after: &DeviceSnapshot) {
    if before.source.as_str() != after.source.as_str() {
        match &after.source {
            SourceState::Unavailable { error, .. } => {
                let cause = std::error::Error::source(error).map(ToString::to_string);
                warn!(backend, %error, cause, "The GPU library is not available; it is tried again with back-off.");
            }
            SourceState::Hung { .. } => warn!(backend, "The GPU library hangs."),
            SourceState::Ok => {
                let driver = after.platform.as_ref().and_then(|platform| platform.driver_version.as_deref());
                info!(backend, driver, "The GPU library is open.");
            }
            SourceState::Starting => {}
        }
    }
    for state in &after.gpus {
        let old = before.gpu(&state.gpu.uuid).map(|state| state.condition);
        if old != Some(state.condition) {
            let condition = state.condition.as_str();
            info!(backend, gpu = %state.gpu.uuid, index = state.gpu.index, condition, "A GPU's condition changed.");
        }
    }
}

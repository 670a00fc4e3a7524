//! The thread on which the library runs: jobs in, answers out.

use std::sync::Arc;

use tokio::sync::mpsc;

use super::{Host, Report, Reports};
use crate::device::backend::{GpuBackend, Session};
use crate::device::supervisor::{Answer, Job, ThreadId};

pub(super) struct ThreadHost {
    backend: Arc<dyn GpuBackend>,
}

impl ThreadHost {
    pub(super) fn new(backend: Arc<dyn GpuBackend>) -> Self {
        Self { backend }
    }
}

impl Host for ThreadHost {
    fn start(
        &mut self,
        id: ThreadId,
        jobs: mpsc::UnboundedReceiver<Job>,
        reports: Reports,
    ) -> std::io::Result<()> {
        let backend = Arc::clone(&self.backend);
        // Dropping the join handle detaches the thread on purpose: one that hangs cannot be joined.
        std::thread::Builder::new()
            .name(format!("{}-{id}", backend.name()))
            .spawn(move || {
                let end = EndReport { id, reports };
                serve(backend.as_ref(), jobs, |answer| {
                    end.reports.send((id, Report::Answer(answer))).is_ok()
                });
            })
            .map(drop)
    }
}

/// Reports the thread's end when it is dropped, by unwinding too.
struct EndReport {
    id: ThreadId,
    reports: Reports,
}

impl Drop for EndReport {
    fn drop(&mut self) {
        // An error means that the worker has stopped and nobody wants to know.
        drop(self.reports.send((self.id, Report::Ended)));
    }
}

/// Executes jobs until the channel is closed or `send` returns false.
///
/// A job that needs a session while there is none cannot come: the supervisor opens first.
fn serve(
    backend: &dyn GpuBackend,
    mut jobs: mpsc::UnboundedReceiver<Job>,
    mut send: impl FnMut(Answer) -> bool,
) {
    let mut open = matches!(jobs.blocking_recv(), Some(Job::Open));
    while open {
        open = false;
        let outcome = backend.with_session(&mut |session| {
            if !send(Answer::Opened(session.platform())) {
                return;
            }
            while let Some(job) = jobs.blocking_recv() {
                let Some(answer) = execute(session, &job) else {
                    open = true;
                    return;
                };
                if !send(answer) {
                    return;
                }
            }
        });
        if let Err(error) = outcome {
            open = send(Answer::Opened(Err(error))) && matches!(jobs.blocking_recv(), Some(Job::Open));
        }
    }
}

/// Executes one job; `None` for an opening, which ends the session.
pub(super) fn execute(session: &mut dyn Session, job: &Job) -> Option<Answer> {
    Some(match *job {
        Job::Open => return None,
        Job::Identify(slot) => Answer::Identified(slot, session.identify(slot).map(Box::new)),
        Job::Links(slot) => Answer::Links(slot, session.links(slot)),
        Job::Read(slot) => Answer::Read(slot, session.read(slot).map(Box::new)),
        Job::Activity { slot, since_us } => Answer::Activity(slot, session.activity(slot, since_us)),
        Job::Events => Answer::Events(session.events()),
    })
}

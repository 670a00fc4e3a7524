//! How long it takes to attach to a library and to detach from it.

use std::{fs::File, time::Instant};

use anyhow::Result;
use gpu_agent::{
    kernel::loader::{Kernel, Mechanism},
    probe::library::{AttachPoint, LibraryId},
};

use super::{session::Session, subject::load_kernel};
use crate::report::Report;

/// Repetitions, of which the best counts.
const REPETITIONS: u32 = 5;
/// Functions that perf events are tried on; each takes a tenth of a second to detach.
const PERF_EVENT_FUNCTIONS: usize = 2;

/// Milliseconds.
#[derive(Clone, Copy, Debug)]
struct Times {
    attach_ms: f64,
    detach_ms: f64,
}

pub(super) struct AttachTime {
    functions: u64,
    /// All functions, by one link for each program.
    multi: Option<Times>,
    /// One probe by a perf event.
    perf_event: Times,
}

/// Attaches and detaches while the process has the library mapped.
pub(super) fn measure(session: &mut Session) -> Result<AttachTime> {
    let points = session.points.clone();
    let multi = match session.mechanism().0 {
        Mechanism::UprobeMulti => {
            let subject = &mut session.subject;
            let attach_detach = || {
                let begun = Instant::now();
                subject.attach_unspoilt(&points)?;
                let attached = Instant::now();
                subject.detach();
                Ok((begun, attached))
            };
            Some(best(attach_detach)?)
        }
        Mechanism::PerfEvent => None,
    };

    let mut kernel: Kernel = load_kernel(false)?;
    let some: Vec<AttachPoint> = points.iter().take(PERF_EVENT_FUNCTIONS).copied().collect();
    // An identity of its own: the kernel side looks at it only to attach once.
    let library = LibraryId { device: 0, inode: 0 };
    let file = File::open(session.subject.file())?;
    let times = best(|| {
        let begun = Instant::now();
        kernel.attach(library, &file, &some)?;
        let attached = Instant::now();
        kernel.detach(library);
        Ok((begun, attached))
    })?;
    // One at the entry and one at the return.
    let probes = 2.0 * some.len() as f64;
    let perf_event = Times { attach_ms: times.attach_ms / probes, detach_ms: times.detach_ms / probes };
    Ok(AttachTime { functions: points.len() as u64, multi, perf_event })
}

/// Repeats what says when it began and when it had attached, and ends when it has detached.
fn best(mut attach_detach: impl FnMut() -> Result<(Instant, Instant)>) -> Result<Times> {
    let mut best = Times { attach_ms: f64::INFINITY, detach_ms: f64::INFINITY };
    for _ in 0..REPETITIONS {
        let (begun, attached) = attach_detach()?;
        let detach_ms = attached.elapsed().as_secs_f64() * 1000.0;
        let attach_ms = (attached - begun).as_secs_f64() * 1000.0;
        best.attach_ms = best.attach_ms.min(attach_ms);
        best.detach_ms = best.detach_ms.min(detach_ms);
    }
    Ok(best)
}

impl AttachTime {
    pub(super) fn report(&self, report: &mut Report) {
        let Self { functions, multi, perf_event } = self;
        report.figure("functions", *functions);
        match multi {
            Some(Times { attach_ms, detach_ms }) => {
                report.figure("attach_ms", *attach_ms);
                report.figure("detach_ms", *detach_ms);
            }
            None => report.skip("attach_ms, detach_ms", "all functions take too long by perf events"),
        }
        report.figure("perf_event_attach_ms_per_probe", perf_event.attach_ms);
        report.figure("perf_event_detach_ms_per_probe", perf_event.detach_ms);
    }
}

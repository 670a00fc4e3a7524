//! How long the programs run, by the kernel's own count.

use anyhow::{Context as _, Result};
use aya::sys::{Stats, enable_stats};
use gpu_agent::kernel::syscall::ProgramRuns;

use super::{
    baseline::{ENTER_EMPTY, LEAVE_EMPTY},
    rounds::Variant,
    session::Session,
};
use crate::report::Report;

/// Repetitions, of which the best counts.
const REPETITIONS: u32 = 5;

/// Nanoseconds per launch, entry and return together; `None` when a program did not run.
pub(super) struct ProgramTime {
    ours_ns: Option<f64>,
    empty_ns: Option<f64>,
}

/// Measures with statistics switched on, which cost time themselves and are off otherwise.
pub(super) fn measure(session: &mut Session, launches: u64) -> Result<ProgramTime> {
    let _statistics = enable_stats(Stats::RunTime).context("BPF statistics cannot be switched on")?;
    let mut best = ProgramTime { ours_ns: None, empty_ns: None };
    for _ in 0..REPETITIONS {
        let before = session.subject.launch_runs(&session.baseline)?;
        session.visit(Variant::Ours, launches)?;
        let after = session.subject.launch_runs(&session.baseline)?;
        best.ours_ns = better(best.ours_ns, per_launch_ns(&before, &after));

        let before = empty_runs(session)?;
        session.visit(Variant::Empty, launches)?;
        let after = empty_runs(session)?;
        best.empty_ns = better(best.empty_ns, per_launch_ns(&before, &after));
    }
    Ok(best)
}

impl ProgramTime {
    /// What our programs take beyond what the kernel counts for empty ones.
    pub(super) fn ours_over_empty_ns(&self) -> Option<f64> {
        Some(self.ours_ns? - self.empty_ns?)
    }

    pub(super) fn report(&self, report: &mut Report) {
        for (name, value) in [("programs_ns", self.ours_ns), ("empty_programs_ns", self.empty_ns)] {
            if let Some(value) = value {
                report.figure(name, value);
            }
        }
    }
}

fn empty_runs(session: &Session) -> Result<Vec<ProgramRuns>> {
    [ENTER_EMPTY, LEAVE_EMPTY].iter().map(|name| session.baseline.runs(name)).collect()
}

/// The mean time of one run, added up over programs; `None` when one of them did not run.
fn per_launch_ns(before: &[ProgramRuns], after: &[ProgramRuns]) -> Option<f64> {
    before
        .iter()
        .zip(after)
        .map(|(before, after)| {
            let runs = after.run_count - before.run_count;
            let time_ns = after.run_time_ns - before.run_time_ns;
            (runs > 0).then(|| time_ns as f64 / runs as f64)
        })
        .sum()
}

fn better(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn runs(run_time_ns: u64, run_count: u64) -> ProgramRuns {
        ProgramRuns { run_time_ns, run_count, recursion_misses: 0 }
    }

    #[test]
    fn means_of_all_programs_are_added() {
        let (before, after) = ([runs(100, 1), runs(0, 0)], [runs(500, 5), runs(30, 2)]);
        assert_eq!(per_launch_ns(&before, &after), Some(115.0));
    }

    #[test]
    fn a_program_that_did_not_run_has_no_time() {
        let (before, after) = ([runs(100, 1), runs(7, 7)], [runs(500, 5), runs(7, 7)]);
        assert_eq!(per_launch_ns(&before, &after), None);
        assert_eq!(better(None, None), None);
        assert_eq!(better(Some(2.0), None), Some(2.0));
        assert_eq!(better(Some(2.0), Some(1.0)), Some(1.0));
    }
}

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
/// Parts of a repetition, of which the median counts: an interrupt falls into few of them.
const PARTS: u64 = 16;

/// Nanoseconds per run of each program; `None` for one that did not run.
type Times = Vec<Option<f64>>;

/// The best times of the programs at a launch.
pub(super) struct ProgramTime {
    /// Entry, return, and what a sabotage adds.
    ours: Times,
    /// Entry and return.
    empty: Times,
}

/// Measures with statistics switched on, which cost time themselves and are off otherwise.
pub(super) fn measure(session: &mut Session, launches: u64) -> Result<ProgramTime> {
    let _statistics = enable_stats(Stats::RunTime).context("BPF statistics cannot be switched on")?;
    let (mut ours, mut empty) = (Vec::new(), Vec::new());
    for _ in 0..REPETITIONS {
        ours.push(parts(session, Variant::Ours, launches, |session| {
            session.subject.launch_runs(&session.baseline)
        })?);
        empty.push(parts(session, Variant::Empty, launches, |session| {
            [ENTER_EMPTY, LEAVE_EMPTY].iter().map(|name| session.baseline.runs(name)).collect()
        })?);
    }
    let best = |times: &[Times]| per_program(times, |times| times.first().copied());
    Ok(ProgramTime { ours: best(&ours), empty: best(&empty) })
}

/// One repetition: the median over its parts.
fn parts(
    session: &mut Session,
    variant: Variant,
    launches: u64,
    runs: impl Fn(&Session) -> Result<Vec<ProgramRuns>>,
) -> Result<Times> {
    session.with(variant, |session| {
        let mut times = Vec::new();
        let mut before = runs(session)?;
        for _ in 0..PARTS {
            session.launches(launches.div_ceil(PARTS))?;
            let after = runs(session)?;
            times.push(before.iter().zip(&after).map(|(before, after)| mean_ns(*before, *after)).collect());
            before = after;
        }
        Ok(per_program(&times, |times| times.get(times.len() / 2).copied()))
    })
}

/// The mean time of a run between two readings; `None` when there was no run.
fn mean_ns(before: ProgramRuns, after: ProgramRuns) -> Option<f64> {
    let runs = after.run_count - before.run_count;
    let time_ns = after.run_time_ns - before.run_time_ns;
    (runs > 0).then(|| time_ns as f64 / runs as f64)
}

/// Picks one of the known times of each program, which are passed in ascending order.
fn per_program(times: &[Times], pick: impl Fn(&[f64]) -> Option<f64>) -> Times {
    let programs = times.iter().map(Vec::len).max().unwrap_or(0);
    let of = |program: usize| {
        let mut known: Vec<f64> = times.iter().filter_map(|times| *times.get(program)?).collect();
        known.sort_by(f64::total_cmp);
        pick(&known)
    };
    (0..programs).map(of).collect()
}

impl ProgramTime {
    /// What our programs take per launch beyond what the kernel counts for empty ones.
    pub(super) fn ours_over_empty_ns(&self) -> Option<f64> {
        let sum = |times: &Times| times.iter().copied().sum::<Option<f64>>();
        Some(sum(&self.ours)? - sum(&self.empty)?)
    }

    pub(super) fn report(&self, report: &mut Report) {
        let programs =
            [("enter_program_ns", "enter_empty_program_ns"), ("leave_program_ns", "leave_empty_program_ns")];
        for ((ours, empty), (ours_name, empty_name)) in self.ours.iter().zip(&self.empty).zip(programs) {
            for (name, value) in [(ours_name, ours), (empty_name, empty)] {
                if let Some(value) = *value {
                    report.figure(name, value);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn runs(run_time_ns: u64, run_count: u64) -> ProgramRuns {
        ProgramRuns { run_time_ns, run_count, recursion_misses: 0 }
    }

    #[test]
    fn a_program_that_did_not_run_has_no_time() {
        assert_eq!(mean_ns(runs(100, 1), runs(500, 5)), Some(100.0));
        assert_eq!(mean_ns(runs(100, 1), runs(100, 1)), None);
    }

    #[test]
    fn each_program_is_looked_at_for_itself() {
        let times = [
            vec![Some(3.0), Some(10.0), None],
            vec![Some(1.0), None, None],
            vec![Some(2.0), Some(30.0), None],
        ];
        assert_eq!(per_program(&times, |times| times.first().copied()), [Some(1.0), Some(10.0), None]);
        assert_eq!(
            per_program(&times, |times| times.get(times.len() / 2).copied()),
            [Some(2.0), Some(30.0), None]
        );
    }

    #[test]
    fn what_the_empty_programs_take_is_taken_off() {
        let empty = vec![Some(50.0), Some(55.0)];
        let ours = vec![Some(90.0), Some(160.0)];
        assert_eq!(ProgramTime { ours, empty: empty.clone() }.ours_over_empty_ns(), Some(145.0));
        let ours = vec![Some(90.0), None];
        assert_eq!(ProgramTime { ours, empty }.ours_over_empty_ns(), None, "unknown, not cheap");
    }
}

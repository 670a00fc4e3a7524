//! `test`: every level of tests that this machine can run.

pub(crate) mod level;
pub(crate) mod node;
mod runner;
mod tally;
mod unit;

use std::process::ExitCode;

use anyhow::Result;
use clap::ValueEnum as _;

use self::level::{Level, Outcome};
use self::tally::Tally;
use crate::setup::{self, Group};
use crate::summary::{Output, Summary};
use crate::terminal::Paint;
use crate::workspace::Workspace;

/// Runs every level of tests that this machine can run.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Only these levels.
    #[arg(long, value_delimiter = ',', value_name = "LEVEL")]
    only: Vec<Level>,
    /// Levels that must run: skipping one of them is a failure.
    #[arg(long, value_delimiter = ',', value_name = "LEVEL")]
    require: Vec<Level>,
    /// Print one JSON object to standard output, and everything else to standard error.
    #[arg(long)]
    json: bool,
    /// Only tests whose name contains this.
    filter: Option<String>,
}

pub(crate) fn run(options: &Options, workspace: &Workspace) -> Result<ExitCode> {
    let Options { only, require, json, filter } = options;
    let output = Output::begin(*json)?;
    let levels = if only.is_empty() { Level::value_variants() } else { only };
    output.finish(&run_levels(workspace, levels, require, filter.as_deref())?)
}

/// Runs these levels and prints their table and totals.
pub(crate) fn run_levels(
    workspace: &Workspace,
    levels: &[Level],
    required: &[Level],
    filter: Option<&str>,
) -> Result<Summary> {
    if levels.contains(&Level::Node) {
        setup::ensure(workspace, &[Group::Bpf, Group::Peers])?;
    }
    let paint = Paint::for_stdout();
    let mut outcomes = Vec::new();
    for &level in levels {
        println!("{}", paint.bold(&format!("== {level}")));
        let required = required.contains(&level);
        let outcome = match level {
            Level::Unit => unit::run(workspace, filter).map(Outcome::Ran),
            Level::Node => node::run(workspace, required, filter),
        };
        let outcome = outcome.unwrap_or_else(|error| Outcome::Broken(format!("{error:#}")));
        let outcome = if required { outcome.required() } else { outcome };
        outcomes.push((level, outcome));
    }
    let (summary, total) = summarise(&outcomes);
    print_table(&outcomes, paint);
    println!("{total}");
    Ok(summary)
}

fn print_table(outcomes: &[(Level, Outcome)], paint: Paint) {
    println!();
    for (level, outcome) in outcomes {
        let text = match outcome {
            Outcome::Ran(tally) if tally.failed > 0 => paint.bad(&tally.to_string()),
            Outcome::Ran(tally) => paint.good(&tally.to_string()),
            Outcome::Skipped(why) => paint.doubtful(&format!("skipped: {why}")),
            Outcome::Broken(why) => paint.bad(&format!("failed: {why}")),
        };
        println!("{level:8}{text}");
    }
}

fn summarise(outcomes: &[(Level, Outcome)]) -> (Summary, Tally) {
    let mut summary = Summary::new();
    let mut total = Tally::default();
    for (level, outcome) in outcomes {
        total += outcome.tally();
        match outcome {
            Outcome::Ran(_) => {}
            Outcome::Skipped(why) => summary.skip(level.to_string(), why),
            Outcome::Broken(why) => summary.note(format!("{level}: {why}")),
        }
    }
    summary.ok = total.failed == 0;
    summary.count("passed", total.passed);
    summary.count("failed", total.failed);
    summary.count("skipped", total.skipped);
    (summary, total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skipped_level_is_told_and_a_broken_one_fails_the_run() {
        let ran = Outcome::Ran(Tally { passed: 5, failed: 0, skipped: 1 });
        let skipped = Outcome::Skipped("it needs root".to_owned());
        let (summary, total) = summarise(&[(Level::Unit, ran), (Level::Node, skipped)]);
        assert_eq!(total.to_string(), "5 passed, 0 failed, 2 skipped");
        assert_eq!(
            serde_json::to_string(&summary).unwrap(),
            r#"{"ok":true,"figures":{"failed":0,"passed":5,"skipped":2},"skipped":[{"what":"node","why":"it needs root"}],"notes":[]}"#
        );

        let (summary, total) = summarise(&[(Level::Unit, Outcome::Broken("no".to_owned()))]);
        assert_eq!(total.to_string(), "0 passed, 1 failed, 0 skipped");
        assert!(!summary.ok);
        assert_eq!(summary.notes, ["unit: no"]);
    }
}

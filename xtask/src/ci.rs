//! `ci`: all that has to hold before a change is taken.

use std::process::ExitCode;

use anyhow::Result;
use clap::ValueEnum as _;

use crate::setup::{self, Group};
use crate::summary::{Output, Summary};
use crate::test::level::Level;
use crate::workspace::Workspace;
use crate::{docs, lint, test};

/// Runs lint, the check of the docs and every level of tests, all required.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Print one JSON object to standard output, and everything else to standard error.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(options: &Options, workspace: &Workspace) -> Result<ExitCode> {
    let output = Output::begin(options.json)?;
    setup::ensure(workspace, Group::value_variants())?;

    // Each part runs also where an earlier one failed, so that one run tells all that is wrong. The tests come last,
    // because the run is known by its last line.
    let lint = lint::check(workspace);
    let docs = docs::check(workspace)?;
    let levels = Level::value_variants();
    let tests = test::run_levels(workspace, levels, levels, None)?;
    let parts = [("lint", lint), ("docs", docs), ("test", tests)];
    for (name, _) in parts.iter().filter(|(_, part)| !part.ok) {
        eprintln!("error: {name} failed, see above");
    }
    output.finish(&merge(parts))
}

/// One summary of the parts, whose figures and notes carry the parts' names.
fn merge<const PARTS: usize>(parts: [(&str, Summary); PARTS]) -> Summary {
    let mut all = Summary::new();
    for (name, part) in parts {
        all.ok &= part.ok;
        all.figures
            .extend(part.figures.into_iter().map(|(figure, value)| (format!("{name}_{figure}"), value)));
        all.skipped.extend(part.skipped);
        all.notes.extend(part.notes.into_iter().map(|note| format!("{name}: {note}")));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_failed_part_fails_the_whole() {
        let mut lint = Summary::new();
        lint.count("failed", 0);
        let mut tests = Summary::new();
        tests.ok = false;
        tests.count("failed", 2);
        tests.note("node: no");
        tests.skip("vm", "no qemu");
        assert_eq!(
            serde_json::to_string(&merge([("lint", lint), ("test", tests)])).unwrap(),
            r#"{"ok":false,"figures":{"lint_failed":0,"test_failed":2},"skipped":[{"what":"vm","why":"no qemu"}],"notes":["test: node: no"]}"#
        );
    }
}

//! `setup`: finds or installs what the other commands need.

pub(crate) mod bpf;
pub(crate) mod cargo_tool;
mod machine;
mod need;
pub(crate) mod peers;
mod sid;
mod step;

use std::process::ExitCode;

use anyhow::Result;
use clap::ValueEnum;

use self::bpf::{BpfCompiler, BpfLinker};
use self::cargo_tool::CARGO_DENY;
use self::machine::Machine;
use self::need::{Installer, Need, Outcome, State};
use self::peers::{OtlpRelay, PROMETHEUS, PROMTOOL, Rotel};
use crate::summary::{Output, Summary};
use crate::terminal::Paint;
use crate::workspace::Workspace;

/// Finds or installs what the other commands need, or prints how to.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Only report what is there and what is missing.
    #[arg(long)]
    check: bool,
    /// Only these groups.
    #[arg(long, value_delimiter = ',', value_name = "GROUP")]
    only: Vec<Group>,
    /// Print one JSON object to standard output, and everything else to standard error.
    #[arg(long)]
    json: bool,
}

/// Needs that go together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Group {
    /// What the BPF programs are built with.
    Bpf,
    /// Programs that the tests let the agent talk to.
    Peers,
    /// What `lint` uses beyond the Rust toolchain.
    Lint,
}

impl Group {
    fn needs(self) -> Vec<&'static dyn Need> {
        match self {
            Self::Bpf => vec![&BpfCompiler, &BpfLinker],
            Self::Peers => vec![&PROMETHEUS, &PROMTOOL, &OtlpRelay, &Rotel],
            Self::Lint => vec![&CARGO_DENY],
        }
    }
}

pub(crate) fn run(options: &Options, workspace: &Workspace) -> Result<ExitCode> {
    let Options { check, only, json } = options;
    let output = Output::begin(*json)?;
    let groups = if only.is_empty() { Group::value_variants() } else { only };
    let outcomes = meet(workspace, groups, !check)?;
    print_table(&outcomes, Paint::for_stdout());
    output.finish(&summarise(&outcomes))
}

/// Finds or installs what these groups need; prints only what it installs and what stays missing.
///
/// Whether something that stays missing matters is for the caller to say.
pub(crate) fn ensure(workspace: &Workspace, groups: &[Group]) -> Result<Vec<Outcome>> {
    let outcomes = meet(workspace, groups, true)?;
    let missing: Vec<_> = outcomes.iter().filter(|outcome| !outcome.is_met()).cloned().collect();
    print_table(&missing, Paint::for_stdout());
    Ok(outcomes)
}

fn meet(workspace: &Workspace, groups: &[Group], may_install: bool) -> Result<Vec<Outcome>> {
    let machine = Machine::look()?;
    let mut installer = Installer::new(&machine, &workspace.shell, may_install);
    Ok(groups.iter().flat_map(|group| group.needs()).map(|need| installer.meet(need)).collect())
}

fn print_table(outcomes: &[Outcome], paint: Paint) {
    let width = outcomes.iter().map(|outcome| outcome.name.len()).max().unwrap_or(0);
    for Outcome { name, purpose, state } in outcomes {
        let (status, detail) = match state {
            State::Present(what) => (paint.good("present  "), what),
            State::Installed(what) => (paint.good("installed"), what),
            State::Missing { why, .. } => (paint.bad("missing  "), why),
        };
        println!("{name:width$}  {status}  {detail}");
        if let State::Missing { remedies, .. } = state {
            println!("{:width$}  {purpose}; to get it:", "");
            for remedy in remedies {
                println!("{:width$}    {remedy}", "");
            }
        }
    }
}

fn summarise(outcomes: &[Outcome]) -> Summary {
    let mut summary = Summary::new();
    let (mut present, mut installed, mut missing) = (0, 0, 0);
    for Outcome { name, state, .. } in outcomes {
        match state {
            State::Present(_) => present += 1,
            State::Installed(_) => installed += 1,
            State::Missing { why, remedies } => {
                missing += 1;
                summary.skip(*name, why);
                summary.notes.extend(remedies.iter().cloned());
            }
        }
    }
    summary.ok = missing == 0;
    summary.count("present", present);
    summary.count("installed", installed);
    summary.count("missing", missing);
    summary
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_counts_and_names_the_remedies() {
        let state = |state| Outcome { name: "tool", purpose: "does things", state };
        let missing = State::Missing { why: "found no `tool`".into(), remedies: vec!["install tool".into()] };
        let summary = summarise(&[state(State::Present("here".into())), state(missing)]);
        assert_eq!(
            serde_json::to_string(&summary).unwrap(),
            r#"{"ok":false,"figures":{"installed":0,"missing":1,"present":1},"skipped":[{"what":"tool","why":"found no `tool`"}],"notes":["install tool"]}"#
        );
    }
}

//! `bench probe`: what the probes cost a launch.

use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context as _, Result};

use crate::binaries::release_binaries;
use crate::build_ebpf;
use crate::setup::{self, Group};
use crate::summary::{Output, Summary};
use crate::test::node;
use crate::workspace::Workspace;

/// Measures what the probes cost a launch, against empty programs at the same points.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Print one JSON object to standard output, and everything else to standard error.
    #[arg(long)]
    json: bool,
    /// Spoil the instrumentation, to show that the figures notice: `no-program`, `slow-program`, `event-per-launch`.
    #[arg(long, value_name = "NAME")]
    sabotage: Option<String>,
    /// Do without a feature of the kernel: `uprobe-multi`.
    #[arg(long, value_name = "FEATURE")]
    disable: Option<String>,
    /// How often all variants are visited, there and back.
    #[arg(long)]
    rounds: Option<u32>,
    /// Launches in each visit.
    #[arg(long)]
    launches: Option<u64>,
}

pub(crate) fn run(options: &Options, workspace: &Workspace) -> Result<ExitCode> {
    let output = Output::begin(options.json)?;
    if let Some(why) = node::lacks() {
        let mut summary = Summary::new();
        // Whoever asks for figures and gets none must not take that for kept budgets.
        summary.ok = false;
        println!("skipped: {why}");
        summary.skip("bench probe", why);
        return output.finish(&summary);
    }
    setup::ensure(workspace, &[Group::Bpf])?;
    let objects = build_ebpf::build(workspace)?;
    let binaries = release_binaries(workspace, Some(&objects))?;

    let mut command = Command::new(&binaries.bench);
    command.arg("probe").args(options.arguments()).envs(binaries.environment(&objects));
    if !options.json {
        let status = command.status().context("failed to start the benchmark")?;
        return Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    let result = command
        .arg("--json")
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("failed to start the benchmark")?;
    let summary: Summary = serde_json::from_slice(&result.stdout)
        .with_context(|| format!("the benchmark ended with {} and printed no figures", result.status))?;
    output.finish(&summary)
}

impl Options {
    /// What is passed on; the benchmark itself knows the values and their defaults.
    fn arguments(&self) -> Vec<String> {
        let Self { json: _, sabotage, disable, rounds, launches } = self;
        [
            ("sabotage", sabotage.clone()),
            ("disable", disable.clone()),
            ("rounds", rounds.map(|rounds| rounds.to_string())),
            ("launches", launches.map(|launches| launches.to_string())),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some(format!("--{name}={}", value?)))
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_given_is_passed_on() {
        let options = Options {
            json: true,
            sabotage: Some("no-program".into()),
            disable: None,
            rounds: Some(2),
            launches: None,
        };
        assert_eq!(options.arguments(), ["--sabotage=no-program", "--rounds=2"]);
    }
}

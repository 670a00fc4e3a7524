//! `bench`: measures what the design has budgets for.

mod probe;

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

use crate::workspace::Workspace;

/// Measures against the budgets.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    #[command(subcommand)]
    benchmark: Benchmark,
}

#[derive(Debug, Subcommand)]
enum Benchmark {
    Probe(probe::Options),
}

pub(crate) fn run(options: &Options, workspace: &Workspace) -> Result<ExitCode> {
    match &options.benchmark {
        Benchmark::Probe(options) => probe::run(options, workspace),
    }
}

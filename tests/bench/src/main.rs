//! Benchmarks that need the agent's own code. Each prints its figures against their budgets.
#![expect(clippy::cast_precision_loss, reason = "counts of a benchmark are far below 2^52")]

mod load;
mod probe;
mod report;

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use clap::{Parser, Subcommand};

/// Benchmarks; `cargo xtask bench` builds what they need and starts them.
#[derive(Debug, Parser)]
#[command(name = "gpu-bench", max_term_width = 110)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// What the probes cost a launch.
    Probe(probe::Options),
    /// The process that makes the calls: one command a line on standard input, one answer a line.
    #[command(hide = true)]
    Load(load::Options),
}

fn main() -> ExitCode {
    match Arguments::parse().command {
        Command::Probe(options) => probe::run(&options).and_then(|report| report.print(options.json)),
        Command::Load(options) => load::run(&options).map(|()| ExitCode::SUCCESS),
    }
    .unwrap_or_else(|error| {
        // Nobody is left to tell when standard error is closed.
        drop(writeln!(io::stderr(), "error: {error:#}"));
        ExitCode::FAILURE
    })
}

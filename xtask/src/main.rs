//! Every development command of this repository.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "the program's purpose is to talk to the person who started it"
)]

mod bench;
mod binaries;
mod build_ebpf;
mod ci;
mod demo;
mod docs;
mod lint;
mod setup;
mod summary;
mod terminal;
mod test;
mod workspace;

use std::process::ExitCode;

use anyhow::Result;
use clap::{CommandFactory as _, Parser, Subcommand};

use workspace::Workspace;

/// Development commands of this repository.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    Setup(setup::Options),
    BuildEbpf(build_ebpf::Options),
    Demo(demo::Options),
    Test(test::Options),
    Bench(bench::Options),
    Lint(lint::Options),
    Docs(docs::Options),
    Ci(ci::Options),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    try_main(cli).unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

fn try_main(cli: Cli) -> Result<ExitCode> {
    let Some(command) = cli.command else {
        Cli::command().print_help()?;
        return Ok(ExitCode::SUCCESS);
    };
    let workspace = Workspace::locate()?;
    match command {
        Command::Setup(options) => setup::run(&options, &workspace),
        Command::BuildEbpf(options) => build_ebpf::run(&options, &workspace),
        Command::Demo(options) => demo::run(&options, &workspace),
        Command::Test(options) => test::run(&options, &workspace),
        Command::Bench(options) => bench::run(&options, &workspace),
        Command::Lint(options) => lint::run(&options, &workspace),
        Command::Docs(options) => docs::run(&options, &workspace),
        Command::Ci(options) => ci::run(&options, &workspace),
    }
}

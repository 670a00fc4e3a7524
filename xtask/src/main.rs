//! Every development command of this repository.
#![expect(clippy::print_stdout, reason = "this program's purpose is to talk to the person who started it")]

mod build_ebpf;
mod setup;
mod workspace;

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
    BuildEbpf(build_ebpf::Options),
}

fn main() -> Result<()> {
    let Some(command) = Cli::parse().command else {
        return Ok(Cli::command().print_help()?);
    };
    let workspace = Workspace::locate()?;
    match command {
        Command::BuildEbpf(options) => build_ebpf::run(&options, &workspace),
    }
}

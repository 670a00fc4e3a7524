//! The subcommands that manage a machine.

use std::{
    io::{self, Write as _},
    path::PathBuf,
};

use clap::Args;
use gpu_sim::machine::{DEFAULT_DIRECTORY, DIRECTORY_VARIABLE};

pub(crate) mod create;
pub(crate) mod install;
pub(crate) mod serve;
pub(crate) mod show;

/// Which machine.
#[derive(Debug, Args)]
pub(crate) struct Directory {
    /// Directory of the machine.
    #[arg(long = "dir", env = DIRECTORY_VARIABLE, default_value = DEFAULT_DIRECTORY)]
    pub(crate) path: PathBuf,
}

/// Prints an error with all its causes.
pub(crate) fn complain(error: &anyhow::Error) {
    // With standard error closed there is nobody left to tell.
    drop(writeln!(io::stderr(), "gpu-sim: {error:#}"));
}

/// Prints a line of a command's result.
pub(crate) fn say(line: &str) -> io::Result<()> {
    let mut output = io::stdout().lock();
    writeln!(output, "{line}")?;
    output.flush()
}

//! The demo: a simulated node, its tenants and the agent, live.

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use anyhow::{Context as _, Result};
use clap::Parser;
use node_tests::demo::{self, Options};

/// Shows a simulated node with the agent, then compares what the workloads logged with what the agent reported.
#[derive(Debug, Parser)]
#[command(name = "node-demo", version)]
struct Arguments {
    #[command(flatten)]
    options: Options,
}

fn main() -> ExitCode {
    let Arguments { options } = Arguments::parse();
    match demonstrate(&options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            // Nothing is left to be done where even this fails.
            drop(writeln!(io::stderr(), "error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn demonstrate(options: &Options) -> Result<bool> {
    let summary = demo::run(options)?;
    if options.json {
        let text = serde_json::to_string(&summary).context("cannot write the summary as JSON")?;
        writeln!(io::stdout(), "{text}").context("cannot print the summary")?;
    }
    Ok(summary.ok)
}

//! `demo`: builds what the demo needs and becomes it.

use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result};

use crate::binaries::{Binaries, release_binaries};
use crate::build_ebpf;
use crate::setup::{self, Group};
use crate::summary::Output;
use crate::workspace::Workspace;

/// Shows a simulated 2-GPU node with tenants at work and the agent, then compares their logs with what it reported.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Print one JSON object to standard output, and everything else to standard error.
    #[arg(long)]
    json: bool,
    /// Go on until Ctrl-C.
    #[arg(long, conflicts_with = "seconds")]
    serve: bool,
    /// Time for which the tenants work, in seconds; 30 unless given.
    #[arg(long)]
    seconds: Option<u64>,
}

pub(crate) fn run(options: &Options, workspace: &Workspace) -> Result<ExitCode> {
    let output = Output::begin(options.json)?;
    println!("Looking for the BPF toolchain");
    setup::ensure(workspace, &[Group::Bpf])?;
    let (objects, missing) = match build_ebpf::require_toolchain() {
        Ok(_) => {
            println!("Building the BPF programs");
            (Some(build_ebpf::build(workspace)?), None)
        }
        Err(error) => (None, Some(format!("{error:#}"))),
    };
    println!("Building the agent and the simulated GPUs in release mode; the first time this takes minutes");
    let Binaries { agent, sim, sim_libraries, demo: program, .. } =
        release_binaries(workspace, objects.as_ref())?;
    let mut demo = Command::new(&program);
    demo.env("GPUSTACK_TEST_AGENT", agent)
        .env("GPUSTACK_TEST_SIM", sim)
        .env("GPUSTACK_TEST_SIM_LIBRARIES", sim_libraries)
        .stdout(output.into_stdio())
        .args(options.json.then_some("--json"))
        .args(options.serve.then_some("--serve"));
    if let Some(seconds) = options.seconds {
        demo.arg("--seconds").arg(seconds.to_string());
    }
    if let Some(why) = missing {
        demo.arg("--skipped").arg(format!("bpf-toolchain={}", first_line(&why)));
    }
    // The demo takes this process's place, so that Ctrl-C and the exit code are its own.
    Err(demo.exec()).with_context(|| format!("failed to start `{}`", program.display()))
}

/// The rest of the text says how to get what is missing, and `setup` has printed that.
fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

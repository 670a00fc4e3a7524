//! The unit level: every crate's own tests, and a build of the agent without the BPF programs.

use std::fs;

use anyhow::{Context as _, Result};
use xshell::cmd;

use super::runner::{self, Closes};
use super::tally::Tally;
use crate::binaries::debug_test_double;
use crate::setup::peers;
use crate::workspace::{Workspace, cache_folder, cargo, find_in_path};

/// Runs the tests of all crates but the node level's; `filter` is a part of their names.
pub(crate) fn run(workspace: &Workspace, filter: Option<&str>) -> Result<Tally> {
    builds_without_programs(workspace)?;
    debug_test_double(workspace)?;

    let (cargo, filter) = (cargo(), filter.as_slice());
    let selection = ["--workspace", "--exclude", "node-tests", "--no-fail-fast"];
    let peers = peers::environment(&cache_folder()?);
    if find_in_path("cargo-nextest").is_none() {
        let command = cmd!(workspace.shell, "{cargo} test {selection...} {filter...}").quiet().envs(peers);
        return runner::run(command, Closes::OnStdout);
    }
    // A workspace without tests of one kind is no error of that runner's.
    let command = cmd!(workspace.shell, "{cargo} nextest run --no-tests pass {selection...} {filter...}")
        .quiet()
        .envs(peers);
    let mut tally = runner::run(command, Closes::OnStderr)?;
    // Nextest runs no examples from documentation.
    let command = cmd!(workspace.shell, "{cargo} test --doc {selection...} {filter...}").quiet();
    tally += runner::run(command, Closes::OnStdout)?;
    Ok(tally)
}

/// The agent has to build on machines without any BPF toolchain, which this one need not be.
fn builds_without_programs(workspace: &Workspace) -> Result<()> {
    let (cargo, target_dir) = (cargo(), workspace.target.join("no-bpf"));
    fs::create_dir_all(&target_dir)
        .with_context(|| format!("failed to create `{}`", target_dir.display()))?;
    // A target folder of its own, because the other one's builds have the object and would be made again.
    cmd!(workspace.shell, "{cargo} check --package gpu-agent --target-dir {target_dir}")
        .quiet()
        .env("GPU_AGENT_BPF_OBJECT", target_dir.join("absent"))
        .run()
        .context("the agent does not build without the BPF object")
}

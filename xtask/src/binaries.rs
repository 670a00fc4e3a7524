//! The release binaries that the demo, the benchmarks and the node-level tests start.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use xshell::cmd;

use crate::build_ebpf::Objects;
use crate::workspace::{Workspace, cargo};

/// The test double's command and the two libraries that stand in for the driver's.
const TEST_DOUBLE: [&str; 3] = ["gpu-sim", "gpu-sim-libcuda", "gpu-sim-libnvidia-ml"];

/// What was built.
#[derive(Debug, Clone)]
pub(crate) struct Binaries {
    /// The node agent.
    pub(crate) agent: PathBuf,
    /// The command of the test double.
    pub(crate) sim: PathBuf,
    /// The benchmarks that need the agent's own code.
    pub(crate) bench: PathBuf,
    /// The folder with the test double's libraries, as `gpu-sim install --lib-dir` takes it.
    pub(crate) sim_libraries: PathBuf,
    /// The demo.
    pub(crate) demo: PathBuf,
}

/// Builds the agent, the benchmarks, the test double and what starts them in release; an agent without the given object
/// would be an error.
///
/// With `None` the agent is built with whatever object an earlier build has left, or with none.
pub(crate) fn release_binaries(workspace: &Workspace, object: Option<&Objects>) -> Result<Binaries> {
    let cargo = cargo();
    let packages: Vec<_> = ["gpu-agent", "gpu-bench", "node-tests"]
        .iter()
        .chain(&TEST_DOUBLE)
        .flat_map(|name| ["--package", name])
        .collect();
    let mut command = cmd!(workspace.shell, "{cargo} build --release {packages...}").quiet();
    if object.is_some() {
        command = command.env("GPU_AGENT_REQUIRE_BPF", "1");
    }
    command.run().context("failed to build the release binaries")?;

    let folder = workspace.target.join("release");
    Ok(Binaries {
        agent: folder.join("gpu-agent"),
        sim: folder.join("gpu-sim"),
        bench: folder.join("gpu-bench"),
        demo: folder.join("node-demo"),
        sim_libraries: folder,
    })
}

impl Binaries {
    /// The variables by which the node-level tests and the benchmarks find what was built.
    pub(crate) fn environment(&self, objects: &Objects) -> [(&'static str, PathBuf); 5] {
        let Self { agent, sim, bench, sim_libraries, demo: _ } = self.clone();
        [
            ("GPUSTACK_TEST_AGENT", agent),
            ("GPUSTACK_TEST_SIM", sim),
            ("GPUSTACK_TEST_BENCH", bench),
            ("GPUSTACK_TEST_SIM_LIBRARIES", sim_libraries),
            ("GPUSTACK_TEST_BASELINE", objects.baseline.clone()),
        ]
    }
}

/// Builds the test double in debug, whose libraries other crates' unit tests load.
pub(crate) fn debug_test_double(workspace: &Workspace) -> Result<()> {
    let cargo = cargo();
    let packages: Vec<_> = TEST_DOUBLE.iter().flat_map(|name| ["--package", name]).collect();
    cmd!(workspace.shell, "{cargo} build {packages...}")
        .quiet()
        .run()
        .context("failed to build the test double")
}

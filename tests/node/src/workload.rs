//! Workloads: real processes in real cgroups that log what they did.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
};

use anyhow::{Context as _, Result, ensure};
use gpu_sim::truth::Truth;
use tempfile::TempDir;

use crate::{binaries::Binaries, cgroup::Cgroup, machine::Machine, process::Process, wait};

/// How a workload is started.
#[derive(Debug)]
pub struct Plan<'a> {
    /// `gpu-sim run <kind>`.
    pub kind: &'a str,
    /// Further arguments.
    pub arguments: &'a [&'a str],
    /// `CUDA_VISIBLE_DEVICES`.
    pub visible_devices: Option<&'a str>,
    /// The library to load, where it is not the machine's.
    pub libcuda: Option<PathBuf>,
    /// Phases before which it waits for [`Workload::allow`]: `load`, `init`, `work`, `exit`.
    pub gates: &'a [&'a str],
}

impl<'a> Plan<'a> {
    /// A plan with nothing special.
    pub fn new(kind: &'a str, arguments: &'a [&'a str]) -> Self {
        Self { kind, arguments, visible_devices: None, libcuda: None, gates: &[] }
    }
}

/// A running workload.
#[derive(Debug)]
pub struct Workload {
    process: Process,
    files: TempDir,
}

impl Workload {
    /// Starts a workload in a cgroup.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(
        binaries: &Binaries,
        machine: &Machine,
        cgroup: Option<&Cgroup>,
        plan: &Plan<'_>,
    ) -> Result<Self> {
        let files = tempfile::Builder::new().prefix("workload-").tempdir()?;
        let mut command = Command::new(&binaries.sim);
        command
            .args(["run", plan.kind, "--libcuda"])
            .arg(plan.libcuda.clone().unwrap_or_else(|| machine.libcuda()))
            .arg("--log")
            .arg(files.path().join("truth.json"))
            .arg("--phase-file")
            .arg(files.path().join("phases"))
            .args(plan.arguments)
            .env("GPU_SIM_MACHINE", machine.directory())
            .env_remove("CUDA_VISIBLE_DEVICES")
            .stdout(Stdio::null());
        for gate in plan.gates {
            command.arg(format!("--wait-before-{gate}")).arg(files.path().join(gate));
        }
        if let Some(visible) = plan.visible_devices {
            command.env("CUDA_VISIBLE_DEVICES", visible);
        }
        let process = Process::start(plan.kind, command, cgroup.map(Cgroup::path))?;
        Ok(Self { process, files })
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Lets it pass a gate.
    ///
    /// # Errors
    /// When the file cannot be made.
    pub fn allow(&self, gate: &str) -> Result<()> {
        fs::write(self.files.path().join(gate), "").context("cannot open a gate")
    }

    /// Waits until it has reached a phase: `started`, `loaded`, `initialised`, `ready`, `worked`, `ended`.
    ///
    /// # Errors
    /// When it does not, or ends before.
    pub fn reaches(&mut self, phase: &str) -> Result<()> {
        let file = self.files.path().join("phases");
        wait::until(&format!("phase `{phase}`"), || {
            let reached = fs::read_to_string(&file).unwrap_or_default().lines().any(|line| line == phase);
            ensure!(reached || !self.process.has_ended()?, "the workload ended before phase `{phase}`");
            Ok(reached.then_some(()))
        })
    }

    /// Whether it has ended.
    ///
    /// # Errors
    /// When the kernel does not say.
    pub fn has_ended(&mut self) -> Result<bool> {
        self.process.has_ended()
    }

    /// What it has logged so far.
    ///
    /// # Errors
    /// When there is no log.
    pub fn truth(&self) -> Result<Truth> {
        let path: &Path = &self.files.path().join("truth.json");
        Truth::read(path).with_context(|| format!("no truth log at `{}`", path.display()))
    }

    /// Waits for its end; returns how it ended and what it logged.
    ///
    /// # Errors
    /// When it does not end, or left no log.
    pub fn finish(mut self) -> Result<(ExitStatus, Truth)> {
        let status = self.process.wait()?;
        Ok((status, self.truth()?))
    }

    /// Waits for its end; returns how it ended, what it logged, and what a child that it forked logged.
    ///
    /// # Errors
    /// When it does not end, or left no log.
    pub fn finish_family(mut self) -> Result<(ExitStatus, Vec<Truth>)> {
        let status = self.process.wait()?;
        let mut family = vec![self.truth()?];
        let child = self.files.path().join("truth.json.child");
        if child.exists() {
            family.push(Truth::read(&child).context("the child's log cannot be read")?);
        }
        Ok((status, family))
    }

    /// Sends a signal.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn signal(&self, signal: rustix::process::Signal) -> Result<()> {
        self.process.signal(signal)
    }
}

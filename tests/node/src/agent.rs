//! The agent under test, started as its users start it.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result};
use rustix::process::Signal;
use tempfile::TempDir;

use crate::{
    binaries::Binaries, http, machine::Machine, metrics::Metrics, mounts::Mount, process::Process, wait,
};

/// What stays when an agent is restarted: its state directory and its BPF file system.
#[derive(Debug)]
pub struct Site {
    // Before the directory, which cannot be removed with a mount in it.
    bpffs: Option<Mount>,
    directory: TempDir,
}

impl Site {
    /// A node on which no agent has run.
    ///
    /// # Errors
    /// When the BPF file system cannot be mounted.
    pub fn new() -> Result<Self> {
        let directory = tempfile::Builder::new().prefix("gpu-agent-").tempdir()?;
        let bpffs = Mount::bpffs(&directory.path().join("bpffs"))?;
        Ok(Self { directory, bpffs: Some(bpffs) })
    }

    /// A node without a BPF file system: nothing can be pinned.
    ///
    /// # Errors
    /// When the directory cannot be made.
    pub fn without_bpffs() -> Result<Self> {
        let directory = tempfile::Builder::new().prefix("gpu-agent-").tempdir()?;
        Ok(Self { directory, bpffs: None })
    }

    /// The agent's state directory.
    pub fn state(&self) -> PathBuf {
        self.directory.path().join("state")
    }

    /// The BPF file system, where there is one.
    pub fn bpffs(&self) -> Option<&Path> {
        self.bpffs.as_ref().map(Mount::point)
    }
}

/// A running agent.
#[derive(Debug)]
pub struct Agent {
    process: Process,
    address: SocketAddr,
}

impl Agent {
    /// Starts an agent on a simulated machine and waits until it is ready; `arguments` come last.
    ///
    /// # Errors
    /// When it does not come up.
    pub fn start(binaries: &Binaries, site: &Site, machine: &Machine, arguments: &[&str]) -> Result<Self> {
        Self::start_with_log(binaries, site, machine, arguments, Stdio::inherit())
    }

    /// The same, with a place for what it logs.
    ///
    /// # Errors
    /// When it does not come up.
    pub fn start_with_log(
        binaries: &Binaries,
        site: &Site,
        machine: &Machine,
        arguments: &[&str],
        log: Stdio,
    ) -> Result<Self> {
        let mut command = Command::new(&binaries.agent);
        command.arg("run").arg("--state-dir").arg(site.state());
        match site.bpffs() {
            Some(bpffs) => command.arg("--bpffs").arg(bpffs),
            None => command.args(["--disable", "pinning"]),
        };
        command
            .arg("--nvml-library")
            .arg(machine.nvml())
            .args(["--listen", "127.0.0.1:0", "--interval", "200ms", "--probe-rescan-interval", "200ms"])
            .args(arguments)
            // The NVML double finds its machine by it; the agent does not look at it.
            .env("GPU_SIM_MACHINE", machine.directory())
            .stderr(log);
        let address_file = site.state().join("address");
        match std::fs::remove_file(&address_file) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
        let mut process = Process::start("gpu-agent", command, None)?;
        let address = wait::until("address of the agent", || {
            anyhow::ensure!(!process.has_ended()?, "the agent has ended before it was ready");
            Ok(std::fs::read_to_string(&address_file).ok().and_then(|text| text.trim().parse().ok()))
        })?;
        let agent = Self { process, address };
        wait::until("ready agent", || Ok(http::get(agent.address, "/readyz").ok()))?;
        Ok(agent)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Its text metrics.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn scrape(&self) -> Result<String> {
        http::get(self.address, "/metrics")
    }

    /// Its metrics.
    ///
    /// # Errors
    /// When it does not answer, or not in the text format.
    pub fn metrics(&self) -> Result<Metrics> {
        Metrics::parse(&self.scrape()?)
    }

    /// Its `/v1/status`.
    ///
    /// # Errors
    /// When it does not answer, or not in JSON.
    pub fn status(&self) -> Result<serde_json::Value> {
        serde_json::from_str(&http::get(self.address, "/v1/status")?).context("the status is not JSON")
    }

    /// Stops it as service managers do.
    ///
    /// # Errors
    /// When it does not stop.
    pub fn stop(mut self) -> Result<()> {
        self.process.signal(Signal::TERM)?;
        let status = self.process.wait()?;
        anyhow::ensure!(status.success(), "the agent ends with {status}");
        Ok(())
    }

    /// Kills it without warning.
    ///
    /// # Errors
    /// When it does not end.
    pub fn kill(mut self) -> Result<()> {
        self.process.signal(Signal::KILL)?;
        self.process.wait().map(drop)
    }
}

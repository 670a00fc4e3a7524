//! The node that the demo plays on, and what it lacks.

use std::{
    collections::BTreeSet,
    fs::File,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result};
use serde::Deserialize;
use tempfile::TempDir;

use super::{Sabotage, crew::Crew};
use crate::{
    agent::{Agent, Site},
    binaries::Binaries,
    machine::Machine,
    summary::Skipped,
};

/// What runs. Parts go in this order when it is dropped: first who works, last the ground they stand on.
#[derive(Debug)]
pub(super) struct Stage {
    pub(super) crew: Crew,
    pub(super) agent: Agent,
    pub(super) machine: Machine,
    /// Whether the agent says that it sees calls.
    pub(super) has_probes: bool,
    pub(super) missing: Vec<Skipped>,
    /// Copies of libcuda that the agent has probed and that are not the simulated machine's.
    pub(super) strangers: BTreeSet<String>,
    _site: Site,
    files: TempDir,
}

impl Stage {
    /// Starts the machine and the agent, and makes places for the tenants.
    pub(super) fn set(binaries: &Binaries, preset: &str, sabotage: Option<Sabotage>) -> Result<Self> {
        let files = tempfile::Builder::new().prefix("gpustack-demo-").tempdir()?;
        let machine = Machine::start(binaries, preset)?;
        let (crew, why_no_cgroups) = Crew::gather(binaries, files.path())?;
        let (site, why_no_bpffs) = match Site::new() {
            Ok(site) => (site, None),
            Err(error) => (Site::without_bpffs()?, Some(format!("{error:#}"))),
        };
        let configuration = files.path().join("agent.toml");
        std::fs::write(&configuration, crew.configuration())?;
        let agent = start_agent(binaries, &site, &machine, files.path(), sabotage)?;

        let has_probes = !agent.status()?["probes"].is_null();
        let mut missing = Vec::new();
        let mut skip = |what: &str, why: Option<String>| {
            missing.extend(why.map(|why| Skipped { what: what.to_owned(), why }));
        };
        if !has_probes {
            skip("kernel-probes", Some(why_no_probes(binaries, files.path())?));
        }
        skip("cgroups", why_no_cgroups);
        skip("pinning", why_no_bpffs.filter(|_| has_probes));
        Ok(Self { crew, agent, machine, has_probes, missing, strangers: BTreeSet::new(), _site: site, files })
    }

    /// Adds to [`Self::strangers`] what the agent probes now.
    pub(super) fn look_for_strangers(&mut self) -> Result<()> {
        let status = self.agent.status()?;
        let libraries = status["probes"]["libraries"].as_array().map(Vec::as_slice).unwrap_or_default();
        let paths = libraries.iter().filter_map(|library| library["path"].as_str());
        let own = self.machine.libcuda();
        self.strangers.extend(paths.filter(|path| Path::new(path) != own).map(str::to_owned));
        Ok(())
    }

    /// The end of what the agent has logged, for an error that it may explain.
    pub(super) fn agent_log(&self) -> String {
        log_tail(self.files.path())
    }
}

fn start_agent(
    binaries: &Binaries,
    site: &Site,
    machine: &Machine,
    files: &Path,
    sabotage: Option<Sabotage>,
) -> Result<Agent> {
    let (configuration, libcuda) = (files.join("agent.toml"), machine.libcuda());
    let (configuration, libcuda) = (configuration.to_string_lossy(), libcuda.to_string_lossy());
    let mut arguments = vec!["--config", &*configuration, "--probe-library-paths", &*libcuda];
    if sabotage == Some(Sabotage::AgentBlind) {
        arguments.extend(["--disable", "bpf"]);
    }
    let log = File::create(files.join(AGENT_LOG)).context("cannot make the agent's log")?;
    Agent::start_with_log(binaries, site, machine, &arguments, Stdio::from(log))
        .with_context(|| format!("the agent does not start; it logged:\n{}", log_tail(files)))
}

const AGENT_LOG: &str = "agent.log";

fn log_tail(files: &Path) -> String {
    let log = std::fs::read_to_string(files.join(AGENT_LOG)).unwrap_or_default();
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(10)..].join("\n")
}

/// A part of what `gpu-agent check --json` prints.
#[derive(Debug, Deserialize)]
struct Report {
    findings: Vec<Finding>,
}

#[derive(Debug, Deserialize)]
struct Finding {
    what: String,
    available: bool,
    detail: String,
}

/// The agent's own word on why it sees no calls.
fn why_no_probes(binaries: &Binaries, files: &Path) -> Result<String> {
    let output = Command::new(&binaries.agent)
        .args(["check", "--json", "--state-dir"])
        .arg(files)
        .output()
        .context("cannot start `gpu-agent check`")?;
    let report: Report = serde_json::from_slice(&output.stdout)
        .context("`gpu-agent check --json` does not print its report")?;
    let needed = ["bpf-object", "uprobes"];
    let lacking =
        report.findings.into_iter().find(|finding| !finding.available && needed.contains(&&*finding.what));
    Ok(lacking.map_or_else(|| "switched off by configuration".to_owned(), |finding| finding.detail))
}

//! A node with a running agent: what most tests begin with.

use anyhow::Result;

use crate::{
    agent::{Agent, Site},
    binaries::Binaries,
    cgroup::Cgroup,
    machine::Machine,
    workload::{Plan, Workload},
};

/// Two simulated A10 and an agent that knows where their libcuda is.
#[derive(Debug)]
pub struct Node {
    // Dropped in this order: the agent before what it stands on.
    pub agent: Agent,
    pub site: Site,
    pub machine: Machine,
    pub binaries: Binaries,
}

impl Node {
    /// Starts machine and agent; `arguments` are further ones for the agent.
    ///
    /// # Errors
    /// When one of them does not come up.
    pub fn start(arguments: &[&str]) -> Result<Self> {
        let binaries = Binaries::find()?;
        let machine = Machine::start(&binaries, "2xA10")?;
        let site = Site::new()?;
        let libcuda = machine.libcuda();
        let libcuda = libcuda.to_string_lossy();
        let mut all = vec!["--probe-library-paths", &*libcuda];
        all.extend(arguments);
        let agent = Agent::start(&binaries, &site, &machine, &all)?;
        Ok(Self { agent, site, machine, binaries })
    }

    /// Starts a workload in a cgroup.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn run(&self, cgroup: &Cgroup, plan: &Plan<'_>) -> Result<Workload> {
        Workload::start(&self.binaries, &self.machine, Some(cgroup), plan)
    }

    /// Stops the agent as service managers do.
    ///
    /// # Errors
    /// When it does not stop.
    pub fn stop(self) -> Result<()> {
        self.agent.stop()
    }
}

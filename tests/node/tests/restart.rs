//! Restarting the agent while tenants run neither loses nor doubles anything.

use std::{collections::BTreeSet, fs, path::PathBuf};

use anyhow::{Context as _, Result};
use node_tests::{
    agent::{Agent, Site},
    agree::agree,
    binaries::Binaries,
    cgroup::Cgroup,
    compare::Lives,
    machine::Machine,
    workload::{Plan, Workload},
};

/// Runs four processes; while two of them work and one holds memory, `interrupt` ends the agent and another one
/// starts. One process comes and goes before, and its counts are in the stored ledger only.
fn restarted(arguments: &[&str], interrupt: impl Fn(Agent) -> Result<()>) -> Result<()> {
    let binaries = Binaries::find()?;
    let machine = Machine::start(&binaries, "2xA10")?;
    let site = Site::new()?;
    let libcuda = machine.libcuda();
    let libcuda = libcuda.to_string_lossy();
    let mut all = vec!["--probe-library-paths", &*libcuda];
    all.extend(arguments);
    let (early, busy, holding) = (Cgroup::make("early")?, Cgroup::make("busy")?, Cgroup::make("holding")?);
    let start = |cgroup, plan: Plan<'_>| Workload::start(&binaries, &machine, Some(cgroup), &plan);

    let agent = Agent::start(&binaries, &site, &machine, &all)?;
    let gone = start(&early, Plan::new("mixed", &["--iterations", "100"]))?.finish()?.1;
    agree(&agent, &[(&early, vec![&gone])], Lives::Ended)?;
    let mut holder = start(
        &holding,
        Plan { gates: &["exit"], ..Plan::new("leak", &["--limit-bytes", "50000000", "--device", "1"]) },
    )?;
    holder.reaches("worked")?;
    let mut workers = Vec::new();
    for seed in ["1", "2"] {
        let arguments = ["--duration-ms", "4000", "--rate", "300", "--seed", seed, "--device", "0"];
        let mut worker = start(&busy, Plan::new("mixed", &arguments))?;
        worker.reaches("ready")?;
        workers.push(worker);
    }
    let pids: Vec<u32> = workers.iter().map(Workload::id).collect();
    interrupt(agent)?;
    let agent = Agent::start(&binaries, &site, &machine, &all)?;
    assert!(
        pids.iter().all(|pid| std::path::Path::new(&format!("/proc/{pid}")).exists()),
        "workers still work"
    );

    let held = holder.truth()?;
    agree(&agent, &[(&holding, vec![&held])], Lives::Running)?;
    agree(&agent, &[(&early, vec![&gone])], Lives::Ended)?;
    let truths: Vec<_> =
        workers.into_iter().map(|worker| Ok(worker.finish()?.1)).collect::<Result<Vec<_>>>()?;
    agree(&agent, &[(&busy, truths.iter().collect())], Lives::Ended)?;
    holder.allow("exit")?;
    let held = holder.finish()?.1;
    let metrics = agree(&agent, &[(&holding, vec![&held]), (&early, vec![&gone])], Lives::Ended)?;
    assert_eq!(metrics.sum("gpu_agent_blind_duration_seconds_total", &[]), Some(0.0), "nothing was missed");
    agent.stop()
}

#[test]
fn a_stopped_and_started_agent_goes_on_exactly() -> Result<()> {
    restarted(&[], Agent::stop)
}

#[test]
fn a_killed_and_started_agent_goes_on_exactly() -> Result<()> {
    restarted(&[], Agent::kill)
}

#[test]
fn perf_event_uprobes_survive_a_restart_as_well() -> Result<()> {
    restarted(&["--disable", "uprobe-multi"], Agent::stop)
}

/// An agent that is killed while it attaches leaves some of a library's links, with either mechanism.
fn half_attached(arguments: &[&str]) -> Result<()> {
    let binaries = Binaries::find()?;
    let machine = Machine::start(&binaries, "2xA10")?;
    let site = Site::new()?;
    let libcuda = machine.libcuda();
    let libcuda = libcuda.to_string_lossy();
    let mut all = vec!["--probe-library-paths", &*libcuda];
    all.extend(arguments);
    Agent::start(&binaries, &site, &machine, &all)?.stop()?;
    let complete = pinned_probes(&site)?;
    let removed = complete.iter().rfind(|link| link.to_string_lossy().contains("-enter_launch-"));
    fs::remove_file(removed.context("launches are probed")?)?;

    let agent = Agent::start(&binaries, &site, &machine, &all)?;
    assert_eq!(pinned_probes(&site)?, complete, "what was missing is there again, and nothing else");
    let cgroup = Cgroup::make("half")?;
    let plan = Plan::new("mixed", &["--iterations", "100"]);
    let (_, truth) = Workload::start(&binaries, &machine, Some(&cgroup), &plan)?.finish()?;
    agree(&agent, &[(&cgroup, vec![&truth])], Lives::Ended)?;
    agent.stop()
}

/// The pinned links on libraries, in order.
fn pinned_probes(site: &Site) -> Result<BTreeSet<PathBuf>> {
    let bpffs = site.bpffs().context("a node-level test has a BPF file system")?;
    let mut links = BTreeSet::new();
    for version in fs::read_dir(bpffs.join("gpu-agent"))? {
        for link in fs::read_dir(version?.path().join("links"))? {
            links.insert(link?.path());
        }
    }
    links.retain(|link| !link.to_string_lossy().contains("-tracepoint-"));
    Ok(links)
}

#[test]
fn a_library_that_was_half_attached_is_attached_anew() -> Result<()> {
    half_attached(&[])?;
    half_attached(&["--disable", "uprobe-multi"])
}

#[test]
fn without_pinning_what_is_held_stays_exact_and_the_gap_is_told() -> Result<()> {
    let binaries = Binaries::find()?;
    let machine = Machine::start(&binaries, "2xA10")?;
    let site = Site::new()?;
    let libcuda = machine.libcuda();
    let libcuda = libcuda.to_string_lossy();
    let arguments = ["--disable", "pinning", "--probe-library-paths", &*libcuda];
    let cgroup = Cgroup::make("holding")?;
    let agent = Agent::start(&binaries, &site, &machine, &arguments)?;
    let plan = Plan {
        gates: &["exit"],
        ..Plan::new("alloc-loop", &["--iterations", "50", "--threads", "2", "--device", "1"])
    };
    let mut holder = Workload::start(&binaries, &machine, Some(&cgroup), &plan)?;
    holder.reaches("worked")?;
    let leak = Plan { gates: &["exit"], ..Plan::new("leak", &["--limit-bytes", "50000000"]) };
    let mut leaking = Workload::start(&binaries, &machine, Some(&cgroup), &leak)?;
    leaking.reaches("worked")?;
    let (truth, leaked) = (holder.truth()?, leaking.truth()?);
    agree(&agent, &[(&cgroup, vec![&truth, &leaked])], Lives::Running)?;
    agent.stop()?;
    let bpffs = site.bpffs().context("a node-level test has a BPF file system")?;
    assert!(!bpffs.join("gpu-agent").exists(), "nothing is pinned");

    let agent = Agent::start(&binaries, &site, &machine, &arguments)?;
    let metrics = agree(&agent, &[(&cgroup, vec![&truth, &leaked])], Lives::Running)?;
    let blind = metrics.sum("gpu_agent_blind_duration_seconds_total", &[]);
    assert!(blind.is_some_and(|seconds| seconds > 0.0), "the time without probes is {blind:?}");
    // What was allocated before the gap is known when it is freed after it.
    holder.allow("exit")?;
    leaking.allow("exit")?;
    let (truth, leaked) = (holder.finish()?.1, leaking.finish()?.1);
    agree(&agent, &[(&cgroup, vec![&truth, &leaked])], Lives::Ended)?;
    agent.stop()
}

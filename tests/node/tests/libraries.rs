//! libcuda is found wherever it is, whenever it is loaded, and counted once.

use std::{fs, path::Path};

use anyhow::Result;
use node_tests::{
    agent::{Agent, Site},
    agree::{agree, agree_with_losses},
    binaries::Binaries,
    cgroup::Cgroup,
    compare::Lives,
    machine::Machine,
    mounts::Mount,
    wait,
    workload::{Plan, Workload},
};

/// Number of libraries below a folder that the agent probes; other programs of the machine may have others.
fn probed(agent: &Agent, folder: &Path) -> Result<usize> {
    let status = agent.status()?;
    let libraries = status["probes"]["libraries"].as_array().cloned().unwrap_or_default();
    let paths = libraries.iter().filter_map(|library| library["path"].as_str());
    Ok(paths.filter(|path| Path::new(path).starts_with(folder)).count())
}

#[test]
fn a_library_that_is_loaded_late_is_counted_from_its_first_call() -> Result<()> {
    let binaries = Binaries::find()?;
    let machine = Machine::start(&binaries, "2xA10")?;
    let site = Site::new()?;
    let cgroup = Cgroup::make("late")?;
    // The agent does not know the path; it must find the library in the process, which waits for that.
    let agent = Agent::start(&binaries, &site, &machine, &[])?;
    let plan = Plan {
        gates: &["load", "init"],
        ..Plan::new("mixed", &["--iterations", "100", "--start-delay-ms", "10000"])
    };
    let mut workload = Workload::start(&binaries, &machine, Some(&cgroup), &plan)?;
    workload.reaches("started")?;
    assert_eq!(probed(&agent, machine.directory())?, 0);
    workload.allow("load")?;
    workload.reaches("loaded")?;
    wait::until("probes on the library", || Ok((probed(&agent, machine.directory())? == 1).then_some(())))?;
    workload.allow("init")?;
    let (_, truth) = workload.finish()?;
    agree(&agent, &[(&cgroup, vec![&truth])], Lives::Ended)?;
    agent.stop()
}

#[test]
fn what_a_new_copy_did_before_it_was_found_is_told_as_time() -> Result<()> {
    let binaries = Binaries::find()?;
    let machine = Machine::start(&binaries, "2xA10")?;
    let site = Site::new()?;
    let libcuda = machine.libcuda();
    let cgroup = Cgroup::make("copy")?;
    let copy = machine.directory().join("libcuda.so.550.54.14");
    fs::copy(&libcuda, &copy)?;
    // It works before there is an agent, so it has a past that nobody saw.
    let plan = Plan {
        libcuda: Some(copy.clone()),
        gates: &["exit"],
        ..Plan::new("mixed", &["--duration-ms", "3000", "--rate", "200"])
    };
    let mut workload = Workload::start(&binaries, &machine, Some(&cgroup), &plan)?;
    workload.reaches("ready")?;
    let agent =
        Agent::start(&binaries, &site, &machine, &["--probe-library-paths", &libcuda.to_string_lossy()])?;
    let tenant = [("gpu_tenant_name", cgroup.name())];
    let unseen = wait::until("unseen time", || {
        Ok(agent.metrics()?.sum("gpu_tenant_unseen_duration_seconds_total", &tenant))
    })?;
    assert!(unseen > 0.0, "{unseen}");
    assert_eq!(probed(&agent, machine.directory())?, 2, "the copy is another library");
    workload.reaches("worked")?;
    let truth = workload.truth()?;
    let logged: u64 = truth.gpus.values().map(|gpu| gpu.launches).sum();
    #[expect(clippy::cast_precision_loss, reason = "counts below 2^53 are exact")]
    let logged = logged as f64;
    let seen = wait::until("launches", || {
        Ok(agent.metrics()?.sum("gpu_tenant_launches_total", &tenant).filter(|launches| *launches > 0.0))
    })?;
    assert!(seen < logged, "saw {seen} of {logged} launches, although it came late");
    workload.allow("exit")?;
    workload.finish()?;
    agent.stop()
}

#[test]
fn overlay_mounts_over_one_library_are_one_library() -> Result<()> {
    let binaries = Binaries::find()?;
    let machine = Machine::start(&binaries, "2xA10")?;
    let site = Site::new()?;
    let scratch = tempfile::tempdir()?;
    // Overlays on overlays have limits of their own; the lower layer is on a plain file system.
    let lower = scratch.path().join("lower");
    fs::create_dir_all(&lower)?;
    fs::copy(machine.libcuda(), lower.join("libcuda.so.1"))?;
    let mut mounts = Vec::new();
    for name in ["one", "two"] {
        let folder = scratch.path().join(name);
        fs::create_dir_all(&folder)?;
        mounts.push(Mount::overlay(&folder.join("merged"), &lower, &folder)?);
    }
    let cgroups = [Cgroup::make("container-one")?, Cgroup::make("container-two")?];
    let agent = Agent::start(&binaries, &site, &machine, &[])?;
    let mut workloads = Vec::new();
    for (mount, cgroup) in mounts.iter().zip(&cgroups) {
        let plan = Plan {
            libcuda: Some(mount.point().join("libcuda.so.1")),
            gates: &["init"],
            ..Plan::new("mixed", &["--iterations", "100"])
        };
        let mut workload = Workload::start(&binaries, &machine, Some(cgroup), &plan)?;
        workload.reaches("loaded")?;
        workloads.push(workload);
    }
    wait::until("probes on the library", || Ok((probed(&agent, scratch.path())? > 0).then_some(())))?;
    for workload in &workloads {
        workload.allow("init")?;
    }
    let truths =
        workloads.into_iter().map(|workload| Ok(workload.finish()?.1)).collect::<Result<Vec<_>>>()?;
    let tenants: Vec<_> = cgroups.iter().zip(&truths).map(|(cgroup, truth)| (cgroup, vec![truth])).collect();
    agree(&agent, &tenants, Lives::Ended)?;
    assert_eq!(probed(&agent, scratch.path())?, 1, "both containers have one library");
    agent.stop()
}

/// A tenant owns the name of its library, but what counts is the file that it has mapped.
#[test]
fn a_library_whose_name_leads_elsewhere_is_probed_where_it_is_mapped() -> Result<()> {
    let binaries = Binaries::find()?;
    let machine = Machine::start(&binaries, "2xA10")?;
    let site = Site::new()?;
    let cgroup = Cgroup::make("renamed")?;
    let copy = machine.directory().join("libcuda.so.fifo");
    fs::copy(machine.libcuda(), &copy)?;
    let plan = Plan {
        libcuda: Some(copy.clone()),
        gates: &["init"],
        ..Plan::new("mixed", &["--iterations", "100"])
    };
    let mut workload = Workload::start(&binaries, &machine, Some(&cgroup), &plan)?;
    workload.reaches("loaded")?;
    // An agent that opened the name would wait for a writer for ever.
    fs::remove_file(&copy)?;
    rustix::fs::mkfifoat(rustix::fs::CWD, &copy, rustix::fs::Mode::RUSR)?;
    let agent = Agent::start(&binaries, &site, &machine, &[])?;
    wait::until("probes on the library", || {
        let status = agent.status()?;
        let libraries = status["probes"]["libraries"].as_array().cloned().unwrap_or_default();
        let mut paths = libraries.iter().filter_map(|library| library["path"].as_str());
        Ok(paths.any(|path| path.ends_with(&*copy.to_string_lossy())).then_some(()))
    })?;
    workload.allow("init")?;
    let (_, truth) = workload.finish()?;
    agree(&agent, &[(&cgroup, vec![&truth])], Lives::Ended)?;
    agent.stop()
}

/// Two registrations at one instruction, as with an overlay whose layers cannot be found, count once.
#[test]
fn a_library_that_is_probed_twice_is_counted_once() -> Result<()> {
    let binaries = Binaries::find()?;
    let machine = Machine::start(&binaries, "2xA10")?;
    let libcuda = machine.libcuda();
    let libcuda = libcuda.to_string_lossy();
    let (site, other) = (Site::new()?, Site::new()?);
    let cgroup = Cgroup::make("twice")?;
    // Two agents share nothing, so each must count everything once.
    let agents = [
        Agent::start(&binaries, &site, &machine, &["--probe-library-paths", &libcuda])?,
        Agent::start(&binaries, &other, &machine, &["--probe-library-paths", &libcuda])?,
    ];
    let plan = Plan::new("mixed", &["--iterations", "100"]);
    let (_, truth) = Workload::start(&binaries, &machine, Some(&cgroup), &plan)?.finish()?;
    for agent in agents {
        agree_with_losses(&agent, &[(&cgroup, vec![&truth])], Lives::Ended)?;
        agent.stop()?;
    }
    Ok(())
}

//! The tenants at work.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, ensure};
use gpu_sim::truth::Truth;
use rustix::process::Signal;

use super::cast::{Ending, Job, TENANTS, Tenant};
use crate::{binaries::Binaries, cgroup::Cgroup, compare::Lives, machine::Machine, workload::Workload};

/// Every tenant with its processes; all of it goes when it is dropped.
#[derive(Debug)]
pub(super) struct Crew {
    members: Vec<Member>,
}

#[derive(Debug)]
struct Member {
    tenant: Tenant,
    binaries: Binaries,
    // Before the cgroup, which cannot be removed while it has processes.
    slots: Vec<Slot>,
    home: Home,
    ended: Vec<Truth>,
}

#[derive(Debug)]
struct Slot {
    job: Job,
    running: Option<Workload>,
}

/// What the agent knows a tenant by.
#[derive(Debug)]
enum Home {
    Cgroup(Cgroup),
    /// Its own copy of the program, where cgroups cannot be made.
    Program(PathBuf),
}

/// What one tenant's processes logged.
pub(super) type Logs = Vec<(&'static str, Vec<(Truth, Lives)>)>;

impl Crew {
    /// Makes a place for every tenant: a cgroup, or a program of its own below `files`, and why that.
    pub(super) fn gather(binaries: &Binaries, files: &Path) -> Result<(Self, Option<String>)> {
        let mut why_no_cgroups = None;
        let mut members = Vec::new();
        for tenant in TENANTS {
            let mut binaries = binaries.clone();
            let home =
                match Cgroup::make(tenant.name).and_then(|cgroup| cgroup.check_writable().map(|()| cgroup)) {
                    Ok(cgroup) => Home::Cgroup(cgroup),
                    Err(error) => {
                        why_no_cgroups = Some(format!("{error:#}"));
                        let program = files.join(tenant.name).join("gpu-sim");
                        fs::create_dir_all(files.join(tenant.name))?;
                        fs::copy(&binaries.sim, &program).context("cannot copy the workloads' program")?;
                        binaries.sim.clone_from(&program);
                        Home::Program(program)
                    }
                };
            let slots = tenant.jobs.iter().map(|job| Slot { job: *job, running: None }).collect();
            members.push(Member { tenant, binaries, slots, home, ended: Vec::new() });
        }
        Ok((Self { members }, why_no_cgroups))
    }

    /// The agent's configuration, which names them.
    pub(super) fn configuration(&self) -> String {
        let mut text = String::new();
        for Member { tenant, home, .. } in &self.members {
            let condition = match home {
                Home::Cgroup(cgroup) => format!("cgroup = \"{}\"", cgroup.name()),
                Home::Program(program) => format!("claims = {{ exe = \"{}\" }}", program.display()),
            };
            // Writing to a string cannot fail.
            _ = writeln!(text, "[[tenant]]\nname = \"{}\"\nmatch = {{ {condition} }}\n", tenant.name);
        }
        text
    }

    /// Starts whatever does not run.
    pub(super) fn work(&mut self, machine: &Machine) -> Result<()> {
        for Member { binaries, slots, home, .. } in &mut self.members {
            let cgroup = match home {
                Home::Cgroup(cgroup) => Some(&*cgroup),
                Home::Program(_) => None,
            };
            for slot in slots.iter_mut().filter(|slot| slot.running.is_none()) {
                slot.running = Some(Workload::start(binaries, machine, cgroup, &slot.job.plan())?);
            }
        }
        Ok(())
    }

    /// Waits until every process has its contexts.
    pub(super) fn wait_until_ready(&mut self) -> Result<()> {
        self.running().try_for_each(|(_, workload)| workload.reaches("ready"))
    }

    /// Takes the logs of processes that have crashed, as they are meant to; any other end is an error.
    pub(super) fn tend(&mut self) -> Result<()> {
        for Member { tenant, slots, ended, .. } in &mut self.members {
            for Slot { job, running } in slots {
                let Some(workload) = running else { continue };
                if !workload.has_ended()? {
                    continue;
                }
                ensure!(job.ending == Ending::Crashes, "a process of `{}` has ended by itself", tenant.name);
                ended.extend(running.take().map(finish).transpose()?);
            }
        }
        Ok(())
    }

    /// Ends all work; what is told to end keeps its memory until [`Self::dismiss`].
    pub(super) fn rest(&mut self) -> Result<()> {
        self.tend()?;
        for (_, workload) in self.running() {
            workload.signal(Signal::TERM)?;
        }
        for Member { slots, ended, .. } in &mut self.members {
            for Slot { job, running } in slots {
                match job.ending {
                    Ending::Told => running.iter_mut().try_for_each(|workload| workload.reaches("worked"))?,
                    Ending::Crashes => ended.extend(running.take().map(finish).transpose()?),
                }
            }
        }
        Ok(())
    }

    /// Lets every process go, and waits for it.
    pub(super) fn dismiss(&mut self) -> Result<()> {
        for (_, workload) in self.running() {
            workload.allow("exit")?;
        }
        for Member { tenant, slots, ended, .. } in &mut self.members {
            for slot in slots {
                let Some(workload) = slot.running.take() else { continue };
                let (status, truth) = workload.finish()?;
                ensure!(status.success(), "a process of `{}` ends with {status}", tenant.name);
                ended.push(truth);
            }
        }
        Ok(())
    }

    /// What everybody has logged up to the last phase of each process.
    pub(super) fn logs(&self) -> Result<Logs> {
        let of_member = |member: &Member| {
            let ended = member.ended.iter().map(|truth| Ok((truth.clone(), Lives::Ended)));
            let running = member.slots.iter().filter_map(|slot| slot.running.as_ref());
            let logs = ended.chain(running.map(|workload| Ok((workload.truth()?, Lives::Running))));
            Ok((member.tenant.name, logs.collect::<Result<_>>()?))
        };
        self.members.iter().map(of_member).collect()
    }

    fn running(&mut self) -> impl Iterator<Item = (&'static str, &mut Workload)> {
        self.members.iter_mut().flat_map(|Member { tenant, slots, .. }| {
            slots.iter_mut().filter_map(|slot| Some((tenant.name, slot.running.as_mut()?)))
        })
    }
}

/// The log of a process that ends by a crash, complete all the same.
fn finish(workload: Workload) -> Result<Truth> {
    let (status, truth) = workload.finish()?;
    ensure!(truth.complete, "a process that was to crash ended too early, with {status}");
    Ok(truth)
}

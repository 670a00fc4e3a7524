//! Child processes that end with their owner.

use std::{
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Child, Command, ExitStatus},
};

use anyhow::{Context as _, Result};
use rustix::process::{Pid, Signal, kill_process};

use crate::wait;

/// A child that is killed when it is dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
    name: String,
}

impl Process {
    /// Starts a program; with `cgroup`, in that cgroup from its first instruction on.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(name: &str, mut command: Command, cgroup: Option<&Path>) -> Result<Self> {
        let procs = cgroup.map(|cgroup| cgroup.join("cgroup.procs"));
        // Ctrl-C reaches every process of the foreground group: children are to be ended by their owner, in its order.
        command.process_group(0);
        // SAFETY: between fork and exec the closure only calls `prctl`, and opens and writes one file, whose path
        // was allocated before.
        unsafe {
            command.pre_exec(move || {
                // The kernel ends the child should the parent die without doing so itself.
                rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
                if let Some(procs) = &procs {
                    std::fs::write(procs, "0")?;
                }
                Ok(())
            });
        }
        let child = command.spawn().with_context(|| format!("cannot start {name}: {command:?}"))?;
        Ok(Self { child, name: name.to_owned() })
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The child itself, for its pipes.
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Sends a signal.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).context("no such pid")?;
        kill_process(pid, signal).with_context(|| format!("cannot signal {}", self.name))
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// When it does not end in time.
    pub fn wait(&mut self) -> Result<ExitStatus> {
        let Self { child, name } = self;
        wait::until(&format!("end of {name}"), || Ok(child.try_wait()?))
    }

    /// Whether it has ended.
    ///
    /// # Errors
    /// When the kernel does not say.
    pub fn has_ended(&mut self) -> Result<bool> {
        Ok(self.child.try_wait()?.is_some())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only for a child that has ended and been waited for.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

//! The node level: the release agent with its BPF programs on this kernel, against real processes and cgroups.

use std::fs;
use std::path::Path;

use anyhow::Result;
use xshell::cmd;

use super::level::Outcome;
use super::runner::{self, Closes};
use crate::binaries::release_binaries;
use crate::build_ebpf;
use crate::setup::peers;
use crate::workspace::{Workspace, cache_folder, cargo};

/// Runs the tests of the crate `node-tests`, one after the other because they share the kernel.
///
/// Tests that need a peer may skip themselves only where setup could not get it and the level is not `required`.
pub(crate) fn run(workspace: &Workspace, required: bool, filter: Option<&str>) -> Result<Outcome> {
    if let Some(why) = lacks() {
        return Ok(Outcome::Skipped(why));
    }
    if let Err(error) = build_ebpf::require_toolchain() {
        return Ok(Outcome::Skipped(format!("{error:#}")));
    }
    let objects = build_ebpf::build(workspace)?;
    let binaries = release_binaries(workspace, Some(&objects))?;

    let peers = peers::environment(&cache_folder()?);
    let require_peers = (required || peers.len() == peers::COUNT).then_some((peers::REQUIRE, "1"));
    let (cargo, filter) = (cargo(), filter.as_slice());
    let command = cmd!(
        workspace.shell,
        "{cargo} test --package node-tests --no-fail-fast {filter...} -- --test-threads=1"
    )
    .quiet()
    .envs(binaries.environment(&objects))
    .envs(peers)
    .envs(require_peers);
    Ok(Outcome::Ran(runner::run(command, Closes::OnStdout)?))
}

/// The first thing that keeps BPF programs and tenants' cgroups from being used here.
pub(crate) fn lacks() -> Option<String> {
    Machine::look().lacks()
}

/// What decides whether BPF programs can be loaded and processes put into cgroups.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Machine {
    root: bool,
    /// The effective capabilities, a bit each.
    capabilities: u64,
    btf: bool,
    cgroup2: bool,
}

const CAP_SYS_ADMIN: u32 = 21;
const CAP_BPF: u32 = 39;

impl Machine {
    fn look() -> Self {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
        Self {
            root: rustix::process::geteuid().is_root(),
            capabilities: effective_capabilities(&status).unwrap_or(0),
            btf: Path::new("/sys/kernel/btf/vmlinux").exists(),
            cgroup2: has_cgroup2(&mounts),
        }
    }

    /// The first thing that keeps the level from running here.
    fn lacks(&self) -> Option<String> {
        let has = |capability: u32| self.capabilities & (1 << capability) != 0;
        let why = if !self.root {
            "it needs root: it loads BPF programs and makes cgroups"
        } else if !has(CAP_BPF) && !has(CAP_SYS_ADMIN) {
            "BPF is not allowed here: the process has neither CAP_BPF nor CAP_SYS_ADMIN"
        } else if !self.btf {
            "the kernel has no BTF (/sys/kernel/btf/vmlinux)"
        } else if !self.cgroup2 {
            "no cgroup2 is mounted"
        } else {
            return None;
        };
        Some(why.to_owned())
    }
}

fn effective_capabilities(status: &str) -> Option<u64> {
    let value = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(value.trim(), 16).ok()
}

fn has_cgroup2(mounts: &str) -> bool {
    mounts.lines().any(|line| line.split_whitespace().nth(2) == Some("cgroup2"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ABLE: Machine = Machine { root: true, capabilities: 1 << CAP_BPF, btf: true, cgroup2: true };

    #[test]
    fn each_thing_that_is_missing_is_named() {
        assert_eq!(ABLE.lacks(), None);
        assert_eq!(Machine { capabilities: 1 << CAP_SYS_ADMIN, ..ABLE }.lacks(), None);
        let says =
            |machine: Machine, text: &str| assert!(machine.lacks().unwrap().contains(text), "{machine:?}");
        says(Machine { root: false, ..ABLE }, "root");
        says(Machine { capabilities: 1 << 1, ..ABLE }, "CAP_BPF");
        says(Machine { btf: false, ..ABLE }, "BTF");
        says(Machine { cgroup2: false, ..ABLE }, "cgroup2");
    }

    #[test]
    fn proc_files_are_read() {
        assert_eq!(effective_capabilities("CapPrm:\t0\nCapEff:\t000001fffeffffff\n"), Some(0x1ff_feff_ffff));
        assert_eq!(effective_capabilities("Name:\tsh\n"), None);
        assert!(has_cgroup2("cgroup2 /sys/fs/cgroup/unified cgroup2 rw,relatime 0 0\n"));
        assert!(!has_cgroup2("cgroup /sys/fs/cgroup/cgroup2 cgroup rw 0 0\n"));
    }
}

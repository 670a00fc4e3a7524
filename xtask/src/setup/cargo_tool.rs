//! Tools that cargo builds from their published sources.

use std::path::{Path, PathBuf};

use super::machine::Machine;
use super::need::{Need, Plan};
use super::step::Step;
use crate::workspace::{find_in_path, is_executable};

/// Checks licences, sources and duplicate versions of everything that the workspace depends on.
pub(crate) const CARGO_DENY: CargoTool = CargoTool {
    name: "cargo-deny",
    version: "0.20.2",
    purpose: "checks the dependencies' licences, sources and duplicates in `lint`",
};

/// A cargo subcommand that is a program of its own.
pub(crate) struct CargoTool {
    name: &'static str,
    version: &'static str,
    purpose: &'static str,
}

impl CargoTool {
    /// The program, in the cache or on `PATH`.
    pub(crate) fn locate(&self, cache: &Path) -> Option<PathBuf> {
        let cached = cache.join(self.name).join("bin").join(self.name);
        Some(cached).filter(|path| is_executable(path)).or_else(|| find_in_path(self.name))
    }
}

impl Need for CargoTool {
    fn name(&self) -> &'static str {
        self.name
    }

    fn purpose(&self) -> &'static str {
        self.purpose
    }

    fn find(&self, machine: &Machine) -> Result<String, String> {
        let path = self.locate(&machine.cache).ok_or_else(|| format!("found no `{}`", self.name))?;
        Ok(path.display().to_string())
    }

    fn plan(&self, machine: &Machine) -> Plan {
        let root = machine.cache.join(self.name);
        let install = ["install", self.name, "--version", self.version, "--locked", "--root"];
        Plan::Steps(vec![Step::new("cargo", install).and([root.to_string_lossy()])])
    }
}

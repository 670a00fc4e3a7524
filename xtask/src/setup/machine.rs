//! What setup may do on this machine.

use std::path::PathBuf;

use anyhow::Result;

use super::step::Step;
use crate::workspace::{cache_folder, find_in_path};

/// The facts that decide how something is installed.
#[derive(Debug, Clone)]
pub(crate) struct Machine {
    /// Where tools are installed that need no place in the system.
    pub(crate) cache: PathBuf,
    /// Whether the system's packages may be installed.
    pub(crate) root: bool,
    /// Whether apt-get is there to install them.
    pub(crate) apt: bool,
}

impl Machine {
    pub(crate) fn look() -> Result<Self> {
        Ok(Self {
            cache: cache_folder()?,
            root: rustix::process::geteuid().is_root(),
            apt: find_in_path("apt-get").is_some(),
        })
    }
}

/// The commands that install Debian packages.
pub(crate) fn apt_install(packages: &[String]) -> Vec<Step> {
    let apt = |arguments: &[&str]| {
        Step::new("apt-get", arguments.iter().copied()).for_root().with("DEBIAN_FRONTEND", "noninteractive")
    };
    let mut install = vec!["install", "--yes", "--quiet", "--no-install-recommends"];
    install.extend(packages.iter().map(String::as_str));
    vec![apt(&["update", "--quiet"]), apt(&install)]
}

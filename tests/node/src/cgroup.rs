//! Real cgroups for tenants.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};

use crate::wait;

/// A cgroup that is removed when it is dropped.
#[derive(Debug)]
pub struct Cgroup {
    path: PathBuf,
    below_root: String,
}

impl Cgroup {
    /// Makes a cgroup of this name, unique to this process, in the cgroup2 mount.
    ///
    /// # Errors
    /// When there is no cgroup2 mount, or the kernel refuses.
    pub fn make(name: &str) -> Result<Self> {
        let below_root = format!("/node-test-{}-{name}", std::process::id());
        let path = Self::mount()?.join(below_root.trim_start_matches('/'));
        fs::create_dir_all(&path).with_context(|| format!("cannot make cgroup `{}`", path.display()))?;
        Ok(Self { path, below_root })
    }

    /// Where cgroup2 is mounted.
    ///
    /// # Errors
    /// When it is not.
    pub fn mount() -> Result<PathBuf> {
        let mounts = fs::read_to_string("/proc/self/mounts").context("cannot read the mounts")?;
        mounts
            .lines()
            .find_map(|line| {
                let mut fields = line.split(' ');
                let (point, kind) = (fields.nth(1)?, fields.next()?);
                (kind == "cgroup2").then(|| PathBuf::from(point))
            })
            .context("no cgroup2 mount")
    }

    /// Its directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its path below the mount, which is what the agent calls the tenant.
    pub fn name(&self) -> &str {
        &self.below_root
    }

    /// Whether this process may put others into it.
    ///
    /// # Errors
    /// When it may not.
    pub fn check_writable(&self) -> Result<()> {
        let procs = self.path.join("cgroup.procs");
        let opened = fs::OpenOptions::new().write(true).open(&procs);
        opened.map(drop).with_context(|| format!("cannot write `{}`", procs.display()))
    }

    /// Makes a cgroup inside it.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn child(&self, name: &str) -> Result<Self> {
        let path = self.path.join(name);
        fs::create_dir_all(&path).with_context(|| format!("cannot make cgroup `{}`", path.display()))?;
        Ok(Self { path, below_root: format!("{}/{name}", self.below_root) })
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // A process that was just killed leaves its cgroup a moment later.
        let removed = wait::until("empty cgroup", || match fs::remove_dir(&self.path) {
            Ok(()) => Ok(Some(())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Some(())),
            Err(_) => Ok(None),
        });
        drop(removed);
    }
}

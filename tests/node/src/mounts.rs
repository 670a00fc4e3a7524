//! Mounts that go when they are dropped.

use std::{
    ffi::CString,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

/// A mounted file system.
#[derive(Debug)]
pub struct Mount {
    point: PathBuf,
}

impl Mount {
    /// Mounts a BPF file system of its own, so that tests do not see each other's pins.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn bpffs(point: &Path) -> Result<Self> {
        Self::new("bpf", point, "mode=0700")
    }

    /// Mounts an overlay as container runtimes do.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn overlay(point: &Path, lower: &Path, scratch: &Path) -> Result<Self> {
        let (upper, work) = (scratch.join("upper"), scratch.join("work"));
        for folder in [&upper, &work] {
            std::fs::create_dir_all(folder)?;
        }
        let options =
            format!("lowerdir={},upperdir={},workdir={}", lower.display(), upper.display(), work.display());
        Self::new("overlay", point, &options)
    }

    fn new(kind: &str, point: &Path, options: &str) -> Result<Self> {
        std::fs::create_dir_all(point)?;
        let data = CString::new(options)?;
        mount(kind, point, kind, MountFlags::empty(), Some(data.as_c_str()))
            .with_context(|| format!("cannot mount {kind} at `{}` with `{options}`", point.display()))?;
        Ok(Self { point: point.to_owned() })
    }

    /// Where it is mounted.
    pub fn point(&self) -> &Path {
        &self.point
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // Detached: a process that is about to end may still have a file open in it.
        _ = unmount(&self.point, UnmountFlags::DETACH);
    }
}

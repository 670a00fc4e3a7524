//! A made-up machine for tests.

use std::{cell::Cell, collections::BTreeMap};

use super::{HostFiles, OsString, Path, PathBuf, io};

/// Cgroups and processes in memory.
#[derive(Clone, Debug, Default)]
pub(in crate::tenant) struct FakeHost {
    cgroups: BTreeMap<PathBuf, u64>,
    handles: bool,
    files: BTreeMap<(u32, &'static str), Vec<u8>>,
    executables: BTreeMap<u32, PathBuf>,
    /// Process ids pass to other processes when their `cgroup` file has been read.
    reuses_pids: bool,
    reused: Cell<bool>,
}

impl FakeHost {
    pub(in crate::tenant) fn new() -> Self {
        Self::default()
    }

    /// Permits lookups by handle.
    pub(in crate::tenant) fn with_handles(mut self) -> Self {
        self.handles = true;
        self
    }

    pub(in crate::tenant) fn cgroup(mut self, id: u64, path: &str) -> Self {
        self.cgroups.insert(PathBuf::from(path), id);
        self
    }

    pub(in crate::tenant) fn remove_cgroup(&mut self, id: u64) {
        self.cgroups.retain(|_, existing| *existing != id);
    }

    /// A process with its start time in clock ticks and the text of its `cgroup` file.
    pub(in crate::tenant) fn process(mut self, pid: u32, start_ticks: u64, cgroup: &str) -> Self {
        let zeros = "0 ".repeat(18);
        let stat = format!("{pid} (a) b) S {zeros}{start_ticks} 0");
        self.files.insert((pid, "stat"), stat.into_bytes());
        self.files.insert((pid, "cgroup"), cgroup.as_bytes().to_vec());
        self
    }

    /// Gives every process id to another process once its `cgroup` file has been read.
    pub(in crate::tenant) fn with_pids_reused_midway(mut self) -> Self {
        self.reuses_pids = true;
        self
    }

    pub(in crate::tenant) fn claims(mut self, pid: u32, uid: u32, exe: &str) -> Self {
        self.files.insert((pid, "status"), format!("Name:\tx\nUid:\t{uid}\t0\t0\t0\n").into_bytes());
        self.executables.insert(pid, PathBuf::from(exe));
        self
    }

    pub(in crate::tenant) fn remove_process(&mut self, pid: u32) {
        self.files.retain(|(owner, _), _| *owner != pid);
        self.executables.remove(&pid);
    }

    fn file(&self, pid: u32, name: &'static str) -> io::Result<Vec<u8>> {
        self.files.get(&(pid, name)).cloned().ok_or_else(not_found)
    }
}

fn not_found() -> io::Error {
    io::ErrorKind::NotFound.into()
}

impl HostFiles for FakeHost {
    fn cgroup_id(&self, path: &Path) -> io::Result<u64> {
        self.cgroups.get(path).copied().ok_or_else(not_found)
    }

    fn cgroup_children(&self, path: &Path) -> io::Result<Vec<(OsString, u64)>> {
        let children = self.cgroups.iter().filter(|(child, _)| child.parent() == Some(path));
        Ok(children.filter_map(|(child, id)| Some((child.file_name()?.to_owned(), *id))).collect())
    }

    fn cgroup_by_id(&self, id: u64) -> io::Result<PathBuf> {
        if !self.handles {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        self.cgroups
            .iter()
            .find(|(_, known)| **known == id)
            .map(|(path, _)| path.clone())
            .ok_or_else(not_found)
    }

    fn proc_cgroup(&self, pid: u32) -> io::Result<Vec<u8>> {
        self.reused.set(self.reuses_pids);
        self.file(pid, "cgroup")
    }

    fn proc_stat(&self, pid: u32) -> io::Result<Vec<u8>> {
        let mut stat = self.file(pid, "stat")?;
        if self.reused.get() {
            let start_time = stat.len() - " 0".len();
            stat.insert(start_time, b'9');
        }
        Ok(stat)
    }

    fn proc_status(&self, pid: u32) -> io::Result<Vec<u8>> {
        self.file(pid, "status")
    }

    fn proc_exe(&self, pid: u32) -> io::Result<PathBuf> {
        self.executables.get(&pid).cloned().ok_or_else(not_found)
    }
}

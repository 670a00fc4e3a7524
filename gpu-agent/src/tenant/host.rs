//! What the tenant code reads from the machine.

use std::{
    ffi::OsString,
    fs, io,
    os::{
        fd::{AsFd as _, AsRawFd as _, OwnedFd},
        unix::fs::{DirEntryExt as _, MetadataExt as _},
    },
    path::{Path, PathBuf},
};

use rustix::fs::{Mode, OFlags};
use thiserror::Error;

use super::{cgroup_id::kernfs, mountinfo::cgroup2_mount};

/// The machine's cgroup v2 hierarchy and process file system; tests give a made-up one.
///
/// Cgroup paths are relative to the hierarchy's root and begin with `/`.
pub trait HostFiles {
    /// Id of the cgroup, which is its directory's inode.
    fn cgroup_id(&self, path: &Path) -> io::Result<u64>;
    /// Names and ids of the cgroups directly below.
    fn cgroup_children(&self, path: &Path) -> io::Result<Vec<(OsString, u64)>>;
    /// Path of the cgroup with this id, asked of the kernel directly; `Unsupported` or `PermissionDenied` where
    /// that is not possible, `NotFound` where there is no such cgroup.
    fn cgroup_by_id(&self, id: u64) -> io::Result<PathBuf>;
    /// `/proc/<pid>/cgroup`.
    fn proc_cgroup(&self, pid: u32) -> io::Result<Vec<u8>>;
    /// `/proc/<pid>/stat`.
    fn proc_stat(&self, pid: u32) -> io::Result<Vec<u8>>;
    /// `/proc/<pid>/status`.
    fn proc_status(&self, pid: u32) -> io::Result<Vec<u8>>;
    /// Where `/proc/<pid>/exe` points.
    fn proc_exe(&self, pid: u32) -> io::Result<PathBuf>;
}

/// The machine itself.
#[derive(Debug)]
pub struct Host {
    /// The cgroup2 mount and its directory; absent on hosts with cgroup v1 alone.
    cgroup: Option<(PathBuf, OwnedFd)>,
    proc_root: PathBuf,
}

/// The host's file systems cannot be used.
#[derive(Debug, Error)]
pub enum HostError {
    /// `proc_root` is not a procfs.
    #[error("cannot read `{}`: set `proc_root` to where the host's procfs is mounted", path.display())]
    Proc {
        /// File that was read.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The cgroup root cannot be opened.
    #[error("cannot open cgroup root `{}`: set `cgroup_root` to where the host's cgroup2 is mounted", path.display())]
    Cgroup {
        /// Directory that was opened.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The cgroup root is another kind of file system.
    #[error("`cgroup_root` is `{}`, which is not a cgroup2 mount: set it to one, or remove it to search", path.display())]
    NotCgroup2 {
        /// The directory.
        path: PathBuf,
    },
}

impl Host {
    /// Opens the host's file systems. Without `cgroup_root` the mount is searched in `<proc_root>/self/mountinfo`;
    /// a host that has none can still name processes, by `/proc/<pid>/cgroup`.
    pub fn open(cgroup_root: Option<&Path>, proc_root: &Path) -> Result<Self, HostError> {
        let path = proc_root.join("self/mountinfo");
        let mountinfo = fs::read(&path).map_err(|source| HostError::Proc { path, source })?;
        let mount = cgroup_root.map(Path::to_path_buf).or_else(|| cgroup2_mount(&mountinfo));
        let cgroup = mount.as_deref().map(open_cgroup2).transpose()?;
        Ok(Self { cgroup, proc_root: proc_root.to_path_buf() })
    }

    /// The cgroup2 mount; `None` on hosts with cgroup v1 alone.
    pub fn cgroup_root(&self) -> Option<&Path> {
        self.cgroup.as_ref().map(|(path, _)| path.as_path())
    }

    fn cgroup(&self) -> io::Result<(&Path, &OwnedFd)> {
        let none = || io::Error::new(io::ErrorKind::Unsupported, "no cgroup2 mount on this host");
        self.cgroup.as_ref().map(|(path, directory)| (path.as_path(), directory)).ok_or_else(none)
    }

    fn cgroup_directory(&self, path: &Path) -> io::Result<PathBuf> {
        let (root, _) = self.cgroup()?;
        Ok(root.join(path.strip_prefix("/").unwrap_or(path)))
    }

    fn proc_file(&self, pid: u32, name: &str) -> PathBuf {
        self.proc_root.join(pid.to_string()).join(name)
    }
}

fn open_cgroup2(path: &Path) -> Result<(PathBuf, OwnedFd), HostError> {
    // The kernel answers lookups with real paths, which have to begin with this one.
    let path =
        path.canonicalize().map_err(|source| HostError::Cgroup { path: path.to_path_buf(), source })?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = rustix::fs::open(&path, flags, Mode::empty())
        .and_then(|directory| rustix::fs::fstatfs(&directory).map(|found| (directory, found.f_type)));
    match opened {
        Ok((directory, CGROUP2_SUPER_MAGIC)) => Ok((path, directory)),
        Ok(_) => Err(HostError::NotCgroup2 { path }),
        Err(source) => Err(HostError::Cgroup { path, source: source.into() }),
    }
}

/// `statfs(2)`'s type of cgroup2 (`linux/magic.h`).
const CGROUP2_SUPER_MAGIC: rustix::fs::FsWord = 0x6367_7270;

impl HostFiles for Host {
    fn cgroup_id(&self, path: &Path) -> io::Result<u64> {
        Ok(fs::metadata(self.cgroup_directory(path)?)?.ino())
    }

    fn cgroup_children(&self, path: &Path) -> io::Result<Vec<(OsString, u64)>> {
        let mut children = Vec::new();
        for entry in fs::read_dir(self.cgroup_directory(path)?)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                children.push((entry.file_name(), entry.ino()));
            }
        }
        Ok(children)
    }

    fn cgroup_by_id(&self, id: u64) -> io::Result<PathBuf> {
        let (root, mount) = self.cgroup()?;
        let found = kernfs::open_by_id(mount.as_fd(), id)?;
        let link = format!("self/fd/{}", found.as_raw_fd());
        let path = fs::read_link(self.proc_root.join(link))?;
        let relative = path.strip_prefix(root).map_err(|_outside| {
            io::Error::new(io::ErrorKind::Unsupported, "the cgroup is not reachable below the cgroup root")
        })?;
        Ok(Path::new("/").join(relative))
    }

    fn proc_cgroup(&self, pid: u32) -> io::Result<Vec<u8>> {
        fs::read(self.proc_file(pid, "cgroup"))
    }

    fn proc_stat(&self, pid: u32) -> io::Result<Vec<u8>> {
        fs::read(self.proc_file(pid, "stat"))
    }

    fn proc_status(&self, pid: u32) -> io::Result<Vec<u8>> {
        fs::read(self.proc_file(pid, "status"))
    }

    fn proc_exe(&self, pid: u32) -> io::Result<PathBuf> {
        fs::read_link(self.proc_file(pid, "exe"))
    }
}

#[cfg(test)]
pub(super) mod fake;

//! Keeps the probes where libcuda is: scans, resolves, attaches, detaches.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use super::{
    elf::{self, ElfError, Functions},
    library::LibraryId,
    overlay,
    scan::{Mapping, Scanner},
};
use crate::{
    chain::Chain,
    kernel::loader::{Kernel, KernelError},
};

/// Where drivers and container runtimes commonly put libcuda, so that the probes are there before the first
/// process is.
const COMMON_PATHS: [&str; 6] = [
    "/usr/lib/x86_64-linux-gnu/libcuda.so.1",
    "/usr/lib/aarch64-linux-gnu/libcuda.so.1",
    "/usr/lib64/libcuda.so.1",
    "/usr/lib/wsl/lib/libcuda.so.1",
    "/run/nvidia/driver/usr/lib/x86_64-linux-gnu/libcuda.so.1",
    "/home/kubernetes/bin/nvidia/lib64/libcuda.so.1",
];

/// A probed library, for people and metrics.
#[derive(Clone, Debug)]
pub struct Library {
    /// A path to it: on the host if it has one there, else through a process.
    pub path: PathBuf,
    /// Functions that are probed.
    pub functions: usize,
    pub missing: Vec<String>,
    pub conflicting: Vec<String>,
    /// Boot-time clock when the probes were in place, in nanoseconds; `None` when they were adopted.
    pub attached_boottime_ns: Option<u64>,
}

/// A library that could not be probed, with the reason; it is not tried again until it changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    pub path: PathBuf,
    pub reason: String,
}

/// A process that had its library mapped before the probes were there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Late {
    pub pid: u32,
    pub start_ticks: u64,
    /// Boot-time clock at which its calls began to be seen, in nanoseconds.
    pub seen_since_boottime_ns: u64,
}

/// Scans and attaches.
#[derive(Debug)]
pub struct Manager {
    scanner: Scanner,
    proc: PathBuf,
    host_root: PathBuf,
    extra_paths: Vec<PathBuf>,
    libraries: BTreeMap<LibraryId, Library>,
    refused: BTreeMap<LibraryId, Refused>,
    resolved: BTreeMap<(u32, u64, PathBuf), LibraryId>,
}

impl Manager {
    /// `proc` is the host's `/proc`; `extra_paths` are probed besides the common places.
    pub fn new(proc: PathBuf, extra_paths: Vec<PathBuf>) -> Self {
        let init_root = proc.join("1/root");
        let host_root = if fs::read_dir(&init_root).is_ok() { init_root } else { PathBuf::from("/") };
        Self {
            scanner: Scanner::new(proc.clone()),
            proc,
            host_root,
            extra_paths,
            libraries: BTreeMap::new(),
            refused: BTreeMap::new(),
            resolved: BTreeMap::new(),
        }
    }

    /// Libraries that carry probes.
    pub fn libraries(&self) -> &BTreeMap<LibraryId, Library> {
        &self.libraries
    }

    /// Libraries that could not be probed.
    pub fn refused(&self) -> impl Iterator<Item = &Refused> {
        self.refused.values()
    }

    /// Probes the libraries in known places.
    pub fn attach_known_paths(&mut self, kernel: &mut Kernel) {
        let common = COMMON_PATHS.iter().map(|path| {
            let inside = path.trim_start_matches('/');
            self.host_root.join(inside)
        });
        for path in common.chain(self.extra_paths.clone()).collect::<Vec<_>>() {
            if let Ok(file) = File::open(&path)
                && let Some(library) = file.metadata().ok().map(|metadata| id_of(&metadata))
            {
                self.attach(kernel, library, &path, &file);
            }
        }
    }

    /// Looks at all processes; returns those whose library was found only now.
    pub fn rescan(&mut self, kernel: &mut Kernel) -> Vec<Late> {
        let mappings = self.scanner.scan();
        let mut late = Vec::new();
        let mut in_use = BTreeSet::new();
        let mut resolved = BTreeMap::new();
        for mapping in mappings {
            let key = (mapping.pid, mapping.start_ticks, mapping.path.clone());
            let library = match self.resolved.remove(&key) {
                Some(library) => library,
                None => match self.resolve(&mapping) {
                    Some((library, file, path)) => {
                        self.attach(kernel, library, &path, &file);
                        let attached =
                            self.libraries.get(&library).and_then(|found| found.attached_boottime_ns);
                        if let Some(seen_since_boottime_ns) = attached {
                            late.push(Late {
                                pid: mapping.pid,
                                start_ticks: mapping.start_ticks,
                                seen_since_boottime_ns,
                            });
                        }
                        library
                    }
                    None => continue,
                },
            };
            in_use.insert(library);
            resolved.insert(key, library);
        }
        self.resolved = resolved;
        self.detach_removed(kernel, &in_use);
        late
    }

    /// Opens the library of a mapping and finds its real identity.
    fn resolve(&self, mapping: &Mapping) -> Option<(LibraryId, File, PathBuf)> {
        let process = self.proc.join(mapping.pid.to_string());
        let inside = mapping.path.strip_prefix("/").ok()?;
        let path = process.join("root").join(inside);
        let file = File::open(&path).ok()?;
        let opened = file.metadata().ok()?;
        let under_overlay = fs::read(process.join("mountinfo"))
            .ok()
            .and_then(|mountinfo| overlay::real_file(&mountinfo, &mapping.path, &opened, &self.host_root));
        if let Some((real, real_path)) = under_overlay {
            return Some((id_of(&real), file, real_path));
        }
        let library = id_of(&opened);
        let on_host = self.host_root.join(inside);
        let path = if still_there(library, &on_host) { on_host } else { path };
        Some((library, file, path))
    }

    fn attach(&mut self, kernel: &mut Kernel, library: LibraryId, path: &Path, file: &File) {
        if self.libraries.contains_key(&library) || self.refused.contains_key(&library) {
            return;
        }
        let adopted = kernel.libraries().any(|attached| attached == library);
        match try_attach(kernel, library, path, file) {
            Ok(functions) => {
                tracing::info!(
                    %library,
                    path = %path.display(),
                    functions = functions.points.len(),
                    missing = functions.missing.len(),
                    adopted,
                    "libcuda is probed"
                );
                let attached_boottime_ns = (!adopted).then(boottime_ns);
                self.libraries.insert(
                    library,
                    Library {
                        path: path.to_owned(),
                        functions: functions.points.len(),
                        missing: functions.missing,
                        conflicting: functions.conflicting,
                        attached_boottime_ns,
                    },
                );
            }
            Err(reason) => {
                tracing::warn!(%library, path = %path.display(), %reason, "libcuda is not probed");
                self.refused.insert(library, Refused { path: path.to_owned(), reason });
            }
        }
    }

    /// Detaches from libraries that no process has and whose file is gone, as after a driver upgrade.
    fn detach_removed(&mut self, kernel: &mut Kernel, in_use: &BTreeSet<LibraryId>) {
        let gone: Vec<LibraryId> = self
            .libraries
            .iter()
            .filter(|(id, library)| !in_use.contains(id) && !still_there(**id, &library.path))
            .map(|(id, _)| *id)
            .collect();
        let unclaimed = kernel.libraries().filter(|library| !self.libraries.contains_key(library));
        for library in unclaimed.chain(gone).collect::<Vec<_>>() {
            tracing::info!(%library, "libcuda is gone, its probes are removed");
            kernel.detach(library);
            self.libraries.remove(&library);
        }
        self.refused.retain(|id, refused| in_use.contains(id) || still_there(*id, &refused.path));
    }
}

fn try_attach(
    kernel: &mut Kernel,
    library: LibraryId,
    path: &Path,
    file: &File,
) -> Result<Functions, String> {
    let functions = elf::functions(file).map_err(|error: ElfError| Chain(&error).to_string())?;
    kernel
        .attach(library, path, &functions.points)
        .map_err(|error: KernelError| Chain(&error).to_string())?;
    Ok(functions)
}

fn still_there(library: LibraryId, path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| id_of(&metadata) == library)
}

fn id_of(metadata: &fs::Metadata) -> LibraryId {
    LibraryId { device: metadata.dev(), inode: metadata.ino() }
}

/// The boot-time clock, which the programs stamp their records with, in nanoseconds.
pub fn boottime_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let (seconds, nanoseconds) = (now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs());
    seconds.saturating_mul(1_000_000_000).saturating_add(nanoseconds)
}

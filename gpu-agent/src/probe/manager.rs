//! Keeps the probes where libcuda is: scans, resolves, attaches, detaches.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use super::{
    elf::{self, ElfError, Functions},
    library::LibraryId,
    open::{self, OpenError, OpenFile},
    overlay,
    scan::{MAX_LIBRARIES_PER_PROCESS, MappedFile, Mapping, Scanner},
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

/// Libraries that are probed on a node. A node has a handful; a tenant could make thousands of copies, each of
/// which costs the kernel memory for every function.
const MAX_LIBRARIES: usize = 256;

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

/// A library that is not probed, with the reason.
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
    /// Those among `libraries` that stay although no process has them.
    known: BTreeSet<LibraryId>,
    /// Known paths that lead to no file that can be read.
    known_unopened: Vec<Refused>,
    /// Not tried again until they change.
    refused: BTreeMap<LibraryId, Refused>,
    /// Tried again when there is room.
    over_limit: BTreeMap<LibraryId, Refused>,
    /// Tried again at every look.
    unopened: Vec<Refused>,
    resolved: BTreeMap<(u32, u64, MappedFile), LibraryId>,
}

/// The file behind a mapping or a known path.
#[derive(Debug)]
struct Found {
    library: LibraryId,
    file: OpenFile,
    /// Where people find it.
    path: PathBuf,
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
            known: BTreeSet::new(),
            known_unopened: Vec::new(),
            refused: BTreeMap::new(),
            over_limit: BTreeMap::new(),
            unopened: Vec::new(),
            resolved: BTreeMap::new(),
        }
    }

    /// Libraries that carry probes.
    pub fn libraries(&self) -> &BTreeMap<LibraryId, Library> {
        &self.libraries
    }

    /// Libraries that are not probed, and processes with more than are looked at.
    pub fn refused(&self) -> impl Iterator<Item = &Refused> {
        self.refused
            .values()
            .chain(self.over_limit.values())
            .chain(&self.known_unopened)
            .chain(&self.unopened)
    }

    /// Probes the libraries in known places.
    pub fn attach_known_paths(&mut self, kernel: &mut Kernel) {
        let common = COMMON_PATHS.map(Path::new).map(|path| {
            let shown = path.strip_prefix("/").unwrap_or(path);
            (self.host_root.join(shown), open::beneath_following(&self.host_root, path))
        });
        let extra = self.extra_paths.iter().map(|path| (path.clone(), open::trusted(path)));
        for (path, opened) in common.into_iter().chain(extra).collect::<Vec<_>>() {
            match opened {
                Ok(file) => {
                    let library = file.id();
                    self.known.insert(library);
                    self.attach(kernel, Found { library, file, path });
                }
                Err(error) if error.is_absence() => {}
                Err(error) => self.known_unopened.push(unopened(path, &error)),
            }
        }
    }

    /// Looks at all processes; returns those whose library was found only now.
    pub fn rescan(&mut self, kernel: &mut Kernel) -> Vec<Late> {
        let mappings = self.scanner.scan();
        let mut late = Vec::new();
        let mut in_use = BTreeSet::new();
        let mut resolved = BTreeMap::new();
        let mut unreadable: Vec<Refused> = self.scanner.overfull().map(|pid| self.overfull(pid)).collect();
        if self.libraries.len() < MAX_LIBRARIES {
            self.over_limit.clear();
        }
        for mapping in mappings {
            let key = (mapping.pid, mapping.start_ticks, mapping.library.clone());
            let decided = self.resolved.remove(&key).filter(|library| self.is_decided(*library));
            let library = match decided {
                Some(library) => library,
                None => match self.resolve(&mapping) {
                    Ok(found) => {
                        let library = found.library;
                        self.attach(kernel, found);
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
                    Err(error) if error.is_absence() => continue,
                    Err(error) => {
                        unreadable.push(unopened(self.path_in(&mapping), &error));
                        continue;
                    }
                },
            };
            in_use.insert(library);
            resolved.insert(key, library);
        }
        self.resolved = resolved;
        for refused in unreadable.iter().filter(|refused| !self.unopened.contains(refused)) {
            tracing::warn!(path = %refused.path.display(), reason = refused.reason, "libcuda is not probed");
        }
        self.unopened = unreadable;
        self.detach_removed(kernel, &in_use);
        late
    }

    fn is_decided(&self, library: LibraryId) -> bool {
        self.libraries.contains_key(&library)
            || self.refused.contains_key(&library)
            || self.over_limit.contains_key(&library)
    }

    fn overfull(&self, pid: u32) -> Refused {
        Refused {
            path: self.proc.join(pid.to_string()).join("maps"),
            reason: format!(
                "the process has mapped more than {MAX_LIBRARIES_PER_PROCESS} files called libcuda, the others are not \
                 looked at"
            ),
        }
    }

    /// The path of a mapped file as the agent reaches it.
    fn path_in(&self, mapping: &Mapping) -> PathBuf {
        let path = &mapping.library.path;
        let inside = path.strip_prefix("/").unwrap_or(path);
        self.proc.join(mapping.pid.to_string()).join("root").join(inside)
    }

    /// Opens the library of a mapping and finds its real identity.
    fn resolve(&self, mapping: &Mapping) -> Result<Found, OpenError> {
        let process = self.proc.join(mapping.pid.to_string());
        let path = &mapping.library.path;
        let file = match open::mapped(&process, &mapping.library.addresses) {
            Err(OpenError::Io(_)) => open::beneath(&process.join("root"), path)?,
            mapped => mapped?,
        };
        // Under an overlay the mapped file is the overlay's or, in some kernels, the real one; the real one is
        // found either way.
        let under_overlay = fs::read(process.join("mountinfo"))
            .ok()
            .and_then(|mountinfo| overlay::real_file(&mountinfo, path, &file.metadata, &self.host_root));
        if let Some((file, path)) = under_overlay {
            return Ok(Found { library: file.id(), file, path });
        }
        let library = file.id();
        let on_host = self.host_root.join(path.strip_prefix("/").unwrap_or(path));
        let path = if still_there(library, &on_host) { on_host } else { self.path_in(mapping) };
        Ok(Found { library, file, path })
    }

    fn attach(&mut self, kernel: &mut Kernel, found: Found) {
        let Found { library, file, path } = found;
        if self.is_decided(library) {
            return;
        }
        if self.libraries.len() >= MAX_LIBRARIES {
            let reason = format!("{MAX_LIBRARIES} other libraries are probed, which is the most");
            tracing::warn!(%library, path = %path.display(), reason, "libcuda is not probed");
            self.over_limit.insert(library, Refused { path, reason });
            return;
        }
        let adopted = kernel.libraries().any(|attached| attached == library);
        match try_attach(kernel, library, &file) {
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
                        path,
                        functions: functions.points.len(),
                        missing: functions.missing,
                        conflicting: functions.conflicting,
                        attached_boottime_ns,
                    },
                );
            }
            Err(reason) => {
                tracing::warn!(%library, path = %path.display(), %reason, "libcuda is not probed");
                self.refused.insert(library, Refused { path, reason });
            }
        }
    }

    /// Detaches from libraries that no process has and whose file is gone, as after a driver upgrade, or whose
    /// place another one needs.
    fn detach_removed(&mut self, kernel: &mut Kernel, in_use: &BTreeSet<LibraryId>) {
        let gone: Vec<LibraryId> = self
            .libraries
            .iter()
            .filter(|(id, _)| !in_use.contains(id))
            .filter(|(id, library)| {
                let is_in_the_way = !self.over_limit.is_empty() && !self.known.contains(id);
                is_in_the_way || !still_there(**id, &library.path)
            })
            .map(|(id, _)| *id)
            .collect();
        let unclaimed = kernel.libraries().filter(|library| !self.libraries.contains_key(library));
        for library in unclaimed.chain(gone).collect::<Vec<_>>() {
            tracing::info!(%library, "libcuda is gone, its probes are removed");
            kernel.detach(library);
            self.libraries.remove(&library);
        }
        let room = self.refused.len() <= MAX_LIBRARIES;
        self.refused.retain(|id, refused| in_use.contains(id) || (room && still_there(*id, &refused.path)));
        self.over_limit.retain(|id, _| in_use.contains(id));
    }
}

fn try_attach(kernel: &mut Kernel, library: LibraryId, file: &OpenFile) -> Result<Functions, String> {
    let functions = elf::functions(&file.file).map_err(|error: ElfError| Chain(&error).to_string())?;
    kernel
        .attach(library, &file.file, &functions.points)
        .map_err(|error: KernelError| Chain(&error).to_string())?;
    Ok(functions)
}

fn unopened(path: PathBuf, error: &OpenError) -> Refused {
    Refused { path, reason: Chain(error).to_string() }
}

fn still_there(library: LibraryId, path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| LibraryId::of(&metadata) == library)
}

/// The boot-time clock, which the programs stamp their records with, in nanoseconds.
pub fn boottime_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let (seconds, nanoseconds) = (now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs());
    seconds.saturating_mul(1_000_000_000).saturating_add(nanoseconds)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use rustix::fs::{CWD, Mode};

    use super::*;

    /// A process 7 whose root holds what `place` makes at the path of its library.
    fn resolved(place: impl Fn(&Path)) -> Result<Found, OpenError> {
        let proc = tempfile::tempdir().unwrap();
        let root = proc.path().join("7/root");
        fs::create_dir_all(root.join("lib")).unwrap();
        place(&root.join("lib/libcuda.so.1"));
        let library = MappedFile {
            path: "/lib/libcuda.so.1".into(),
            file: "00:00 1".to_owned(),
            addresses: "1000-2000".to_owned(),
        };
        let manager = Manager::new(proc.path().to_owned(), Vec::new());
        manager.resolve(&Mapping { pid: 7, start_ticks: 42, library })
    }

    #[test]
    fn what_a_tenant_puts_in_the_place_of_its_library_is_refused_at_once() {
        let refusal = |place: fn(&Path)| {
            let error = resolved(place).unwrap_err();
            assert!(!error.is_absence(), "it is reported");
            error.to_string()
        };
        let fifo = refusal(|path| rustix::fs::mkfifoat(CWD, path, Mode::RUSR).unwrap());
        assert_eq!(fifo, "there is no regular file but a FIFO");
        let link = refusal(|path| symlink("/etc/passwd", path).unwrap());
        assert_eq!(link, "there is no regular file but a symbolic link");
        let directory = refusal(|path| fs::create_dir(path).unwrap());
        assert_eq!(directory, "there is no regular file but a directory");
    }

    #[test]
    fn a_library_that_is_gone_is_no_refusal() {
        assert!(resolved(|_| ()).unwrap_err().is_absence());
    }

    #[test]
    fn a_library_keeps_its_identity() {
        let found = resolved(|path| fs::write(path, "library").unwrap()).unwrap();
        assert_eq!(found.library, found.file.id());
        assert!(found.path.ends_with("7/root/lib/libcuda.so.1"));
    }
}

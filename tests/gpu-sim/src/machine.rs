//! The simulated machine: a directory with a scenario, a lock file and a memory-mapped file that every process shares.
//!
//! Three kinds of processes meet here. Programs (through the libcuda double) claim a [`process::Slot`], queue work in
//! [`channel::Channel`]s and claim device memory. The daemon runs the GPUs and publishes what NVML may know: busy time,
//! samples, process lists, power. The NVML double reads what the daemon published and the scenario's static facts.
//!
//! Everything in the mapping is an atomic of fixed width, so a process that dies or is stopped at any instruction leaves
//! neither a lock nor a torn value behind.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::fd::AsFd as _,
    path::{Path, PathBuf},
    sync::{
        OnceLock,
        atomic::Ordering::{Acquire, Relaxed, Release, SeqCst},
    },
};

use memmap2::{MmapOptions, MmapRaw};

use crate::scenario::{Scenario, ScenarioError};

pub mod channel;
pub mod clock;
pub mod counters;
pub mod fault;
mod futex;
pub mod layout;
mod lock;
pub mod memory;
pub mod process;
pub mod published;
pub mod samples;

pub use fault::{Fault, MachineFault};
pub use layout::{GpuState, Shared};
pub use lock::{Holder, LockFile};

/// Environment variable that names the machine's directory.
pub const DIRECTORY_VARIABLE: &str = "GPU_SIM_MACHINE";

/// The machine's directory where the variable is not set.
pub const DEFAULT_DIRECTORY: &str = "/run/gpu-sim";

const MEMORY_FILE: &str = "machine";
const LOCK_FILE: &str = "lock";
const SCENARIO_FILE: &str = "scenario.json";

/// Why a machine could not be created or opened.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    /// A file of the machine cannot be created, opened, mapped or locked.
    #[error("cannot use `{}`, a file of the simulated machine", path.display())]
    File {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// The stored scenario is not valid JSON of the expected shape.
    #[error("cannot parse `{}`, the scenario of the simulated machine", path.display())]
    StoredScenario {
        path: PathBuf,
        #[source]
        source: serde_json::Error,
    },
    #[error("cannot use the scenario")]
    Scenario(#[from] ScenarioError),
    /// The memory file was made by another version, or is something else.
    #[error("`{}` has {key} {found}, expected {expected}; create the machine again", path.display())]
    Layout { path: PathBuf, key: &'static str, found: u64, expected: u64 },
    #[error("all {limit} process slots of the simulated machine are taken")]
    NoProcessSlot { limit: usize },
}

/// An open simulated machine. Cheap to share behind an [`std::sync::Arc`].
#[derive(Debug)]
pub struct Machine {
    directory: PathBuf,
    scenario: Scenario,
    mapping: MmapRaw,
    /// Opened by those that hold or look at locks only: see [`LockFile`].
    lock: OnceLock<LockFile>,
}

impl Machine {
    /// The directory that [`DIRECTORY_VARIABLE`] names, or the default.
    pub fn directory_from_environment() -> PathBuf {
        std::env::var_os(DIRECTORY_VARIABLE).map_or_else(|| PathBuf::from(DEFAULT_DIRECTORY), PathBuf::from)
    }

    /// Makes a machine that consists of `scenario`, in place of any that was in `directory`.
    ///
    /// Processes that still use a previous machine keep its old files and never see the new one.
    pub fn create(directory: &Path, scenario: &Scenario) -> Result<Self, MachineError> {
        let file_error = |path: &Path| {
            let path = path.to_owned();
            move |source| MachineError::File { path, source }
        };
        fs::create_dir_all(directory).map_err(file_error(directory))?;
        let text = serde_json::to_vec_pretty(scenario)
            .map_err(|source| MachineError::StoredScenario { path: directory.join(SCENARIO_FILE), source })?;
        replace(&directory.join(SCENARIO_FILE), &text)?;
        replace(&directory.join(LOCK_FILE), &[])?;
        let path = directory.join(MEMORY_FILE);
        let unfinished = directory.join("machine.new");
        let file = open(&unfinished, true)?;
        file.set_len(0).map_err(file_error(&unfinished))?;
        // A new file reads as zeros, and zero is the initial state of everything but the header.
        file.set_len(size_of::<Shared>() as u64).map_err(file_error(&unfinished))?;
        let mapping = map(&file, &unfinished)?;
        let shared = shared(&mapping);
        let header = &shared.header;
        header.version.store(layout::VERSION, Relaxed);
        header.size_bytes.store(size_of::<Shared>() as u64, Relaxed);
        header.gpu_count.store(scenario.gpus.len() as u32, Relaxed);
        header.created_realtime_ns.store(clock::realtime_ns(), Relaxed);
        for (gpu, state) in scenario.gpus.iter().zip(&shared.gpus) {
            state.initialise(gpu);
        }
        header.magic.store(layout::MAGIC, Release);
        fs::rename(&unfinished, &path).map_err(file_error(&path))?;
        Ok(Self {
            directory: directory.to_owned(),
            scenario: scenario.clone(),
            mapping,
            lock: OnceLock::new(),
        })
    }

    /// Opens the machine in `directory`.
    pub fn open(directory: &Path) -> Result<Self, MachineError> {
        let path = directory.join(MEMORY_FILE);
        let file = open(&path, false)?;
        let found =
            file.metadata().map_err(|source| MachineError::File { path: path.clone(), source })?.len();
        let expected = size_of::<Shared>() as u64;
        if found != expected {
            return Err(MachineError::Layout { path, key: "size", found, expected });
        }
        let mapping = map(&file, &path)?;
        let header = &shared(&mapping).header;
        let facts = [
            ("magic", header.magic.load(Acquire), layout::MAGIC),
            ("version", u64::from(header.version.load(Relaxed)), u64::from(layout::VERSION)),
            ("size", header.size_bytes.load(Relaxed), expected),
        ];
        if let Some((key, found, expected)) = facts.into_iter().find(|(_, found, expected)| found != expected)
        {
            return Err(MachineError::Layout { path, key, found, expected });
        }
        let scenario_path = directory.join(SCENARIO_FILE);
        let text = fs::read(&scenario_path)
            .map_err(|source| MachineError::File { path: scenario_path.clone(), source })?;
        let scenario: Scenario = serde_json::from_slice(&text)
            .map_err(|source| MachineError::StoredScenario { path: scenario_path, source })?;
        let (found, expected) = (u64::from(header.gpu_count.load(Relaxed)), scenario.gpus.len() as u64);
        if found != expected {
            return Err(MachineError::Layout { path, key: "GPU count", found, expected });
        }
        Ok(Self { directory: directory.to_owned(), scenario, mapping, lock: OnceLock::new() })
    }

    /// The directory that the machine is in.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The static facts.
    pub fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// The shared state.
    pub fn shared(&self) -> &Shared {
        shared(&self.mapping)
    }

    /// The dynamic state of one GPU.
    pub fn gpu(&self, index: usize) -> Option<&GpuState> {
        self.shared().gpus.get(index).filter(|_| index < self.scenario.gpus.len())
    }

    /// The lock file, whose record locks say which slots have a living owner.
    pub fn lock(&self) -> Result<&LockFile, MachineError> {
        if let Some(lock) = self.lock.get() {
            return Ok(lock);
        }
        let opened = LockFile::open(&self.directory.join(LOCK_FILE))?;
        Ok(self.lock.get_or_init(|| opened))
    }

    /// Whether a daemon runs the GPUs.
    pub fn is_served(&self) -> bool {
        self.shared().header.served.load(SeqCst) != 0
    }

    /// Wakes the daemon if it sleeps more deeply than `depth`; see [`layout::Header::armed`].
    pub(crate) fn ring(&self, depth: layout::SleepDepth) {
        let header = &self.shared().header;
        let armed = header.armed.load(SeqCst);
        if armed >= depth as u32 && header.armed.compare_exchange(armed, 0, SeqCst, SeqCst).is_ok() {
            header.doorbell.fetch_add(1, SeqCst);
            futex::wake_all(&header.doorbell);
        }
    }
}

pub(crate) use futex::wait as sleep_on;

fn open(path: &Path, create: bool) -> Result<File, MachineError> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(create)
        .truncate(false)
        .open(path)
        .map_err(|source| MachineError::File { path: path.to_owned(), source })
}

/// Writes a file under another name and renames it, so that a reader sees the old one or the new one.
fn replace(path: &Path, content: &[u8]) -> Result<(), MachineError> {
    let unfinished = path.with_extension("new");
    fs::write(&unfinished, content)
        .and_then(|()| fs::rename(&unfinished, path))
        .map_err(|source| MachineError::File { path: path.to_owned(), source })
}

fn map(file: &File, path: &Path) -> Result<MmapRaw, MachineError> {
    MmapOptions::new()
        .len(size_of::<Shared>())
        .map_raw(&file.as_fd())
        .map_err(|source| MachineError::File { path: path.to_owned(), source })
}

fn shared(mapping: &MmapRaw) -> &Shared {
    debug_assert!(mapping.len() >= size_of::<Shared>());
    #[expect(clippy::cast_ptr_alignment, reason = "a mapping begins at a page")]
    let shared = mapping.as_ptr().cast::<Shared>();
    // SAFETY: the mapping is page-aligned, as long as `Shared` (checked when it was made), and lives as long as the
    // borrow. `Shared` consists of atomics alone, for which every bit pattern is valid and concurrent access is defined.
    unsafe { &*shared }
}

#[cfg(test)]
mod tests;

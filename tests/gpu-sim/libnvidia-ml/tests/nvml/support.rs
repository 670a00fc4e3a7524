//! A machine from a preset, with a copy of the library that belongs to it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use gpu_sim::daemon::Daemon;
use gpu_sim::machine::Machine;
use gpu_sim::scenario::Scenario;
use nvml_wrapper::Nvml;
use tempfile::TempDir;

pub(crate) struct Installation {
    pub(crate) machine: Arc<Machine>,
    pub(crate) directory: TempDir,
    pub(crate) library: PathBuf,
}

/// Each installation has a library file of its own, so that tests in one process do not meet in the library's state.
pub(crate) fn install(preset: &str) -> Installation {
    let directory = tempfile::tempdir().unwrap();
    let scenario = Scenario::preset(preset).unwrap();
    let machine = Arc::new(Machine::create(directory.path(), &scenario).unwrap());
    let library = directory.path().join("lib/libnvidia-ml.so.1");
    std::fs::create_dir(directory.path().join("lib")).unwrap();
    std::fs::copy(built_library(), &library).unwrap();
    Installation { machine, directory, library }
}

impl Installation {
    pub(crate) fn nvml(&self) -> Nvml {
        Nvml::builder().lib_path(self.library.as_os_str()).init().unwrap()
    }

    pub(crate) fn scenario(&self) -> &Scenario {
        self.machine.scenario()
    }
}

/// The machine's daemon on a thread of this test; it stops when this is dropped.
pub(crate) struct Served {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

pub(crate) fn serve(installation: &Installation) -> Served {
    let stop = Arc::new(AtomicBool::new(false));
    let mut daemon = Daemon::start(Arc::clone(&installation.machine)).unwrap();
    let stopped = Arc::clone(&stop);
    let thread = std::thread::spawn(move || daemon.run(&stopped).unwrap());
    Served { stop, thread: Some(thread) }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

/// Cargo puts the library beside the test.
fn built_library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let found =
        test.ancestors().skip(1).map(|folder| folder.join("libnvidia_ml.so")).find(|path| path.is_file());
    found.unwrap_or_else(|| panic!("no libnvidia_ml.so above {}", test.display()))
}

pub(crate) fn soname(library: &Path) -> Option<String> {
    let output = std::process::Command::new("readelf").arg("-d").arg(library).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let line = text.lines().find(|line| line.contains("(SONAME)"))?;
    Some(line.split_once('[')?.1.split_once(']')?.0.to_owned())
}

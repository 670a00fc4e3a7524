//! Phases of a workload, by which others follow and steer it.

use std::{
    fs::{File, OpenOptions},
    io::Write as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use super::{WorkloadError, log::Log};

/// How often a file that is waited for is looked for.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// Reports the phases that are reached.
pub(super) struct Phases {
    file: Option<(File, PathBuf)>,
    log: Arc<Log>,
}

impl Phases {
    pub(super) fn new(path: Option<&Path>, log: Arc<Log>) -> Result<Self, WorkloadError> {
        let open = |path: &Path| {
            let file = OpenOptions::new().create(true).append(true).open(path);
            file.map(|file| (file, path.to_owned()))
                .map_err(|source| WorkloadError::Write { path: path.to_owned(), source })
        };
        Ok(Self { file: path.map(open).transpose()?, log })
    }

    /// Writes the log as it is, then says that a phase is reached.
    pub(super) fn reach(&mut self, phase: &str) -> Result<(), WorkloadError> {
        if phase != "ended" {
            self.log.write(false)?;
        }
        let Some((file, path)) = &mut self.file else { return Ok(()) };
        writeln!(file, "{phase}").map_err(|source| WorkloadError::Write { path: path.clone(), source })
    }
}

/// Blocks until the file exists.
pub(super) fn wait_for(path: Option<&Path>) {
    let Some(path) = path else { return };
    while !path.exists() {
        std::thread::sleep(POLL_INTERVAL);
    }
}

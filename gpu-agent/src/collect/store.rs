//! What the agent keeps in its state directory between two runs.
//!
//! `ledger.json` holds the totals of processes that have ended. It is written before their rows are deleted from
//! the kernel, so that a kill in between loses nothing. Its modification time is the last moment at which an
//! agent was alive. It is only valid for the boot it was written in: epochs and pids mean nothing in another.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::SystemTime,
};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::ledger::series::Saved;

/// The layout of the file.
const VERSION: u32 = 1;

/// Why the state cannot be stored or read.
#[derive(Debug, Error)]
pub enum StoreError {
    #[error("`{}` cannot be {action}", path.display())]
    File {
        path: PathBuf,
        action: &'static str,
        #[source]
        source: io::Error,
    },
    #[error("`{}` cannot be encoded", path.display())]
    Encode {
        path: PathBuf,
        #[source]
        source: serde_json::Error,
    },
}

#[derive(Debug, Serialize, Deserialize)]
struct File {
    version: u32,
    boot_id: String,
    blind_ns: u64,
    saved: Saved,
}

/// What an earlier agent of this boot left.
#[derive(Debug, Default)]
pub struct Restored {
    pub saved: Saved,
    /// Time without any probe, before the earlier agent, in nanoseconds.
    pub blind_ns: u64,
    /// When the earlier agent was last alive; `None` if there was none.
    pub last_alive: Option<SystemTime>,
}

/// The state directory.
#[derive(Debug)]
pub struct Store {
    directory: PathBuf,
    boot_id: String,
}

impl Store {
    /// Opens, and if need be makes, the directory.
    pub fn open(directory: &Path, proc: &Path) -> Result<Self, StoreError> {
        fs::create_dir_all(directory).map_err(file_error(directory, "made"))?;
        let boot_id_path = proc.join("sys/kernel/random/boot_id");
        let boot_id = fs::read_to_string(&boot_id_path).map_err(file_error(&boot_id_path, "read"))?;
        Ok(Self { directory: directory.to_owned(), boot_id: boot_id.trim().to_owned() })
    }

    /// The boot that the state is of.
    pub fn boot_id(&self) -> &str {
        &self.boot_id
    }

    /// Where the kernel's maps are kept when they cannot be pinned.
    pub fn maps(&self) -> PathBuf {
        self.directory.join("maps.bin")
    }

    fn ledger(&self) -> PathBuf {
        self.directory.join("ledger.json")
    }

    /// Reads what an earlier agent of this boot stored. A file that cannot be read is put aside, named in the log,
    /// and taken for none: starting matters more than the past.
    pub fn restore(&self) -> Restored {
        let path = self.ledger();
        let (text, last_alive) = match read_with_time(&path) {
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Restored::default(),
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "the stored ledger cannot be read");
                return Restored::default();
            }
        };
        match serde_json::from_str::<File>(&text) {
            Ok(file) if file.version == VERSION && file.boot_id == self.boot_id => {
                Restored { saved: file.saved, blind_ns: file.blind_ns, last_alive: Some(last_alive) }
            }
            Ok(_) => {
                tracing::info!(path = %path.display(), "the stored ledger is of another boot or version");
                Restored::default()
            }
            Err(error) => {
                let aside = path.with_extension("json.unreadable");
                let kept = fs::rename(&path, &aside).is_ok();
                tracing::warn!(path = %path.display(), aside = %aside.display(), kept, %error, "the stored ledger is damaged");
                Restored::default()
            }
        }
    }

    /// Stores the ledger, all of it or nothing.
    pub fn save(&self, saved: Saved, blind_ns: u64) -> Result<(), StoreError> {
        let path = self.ledger();
        let file = File { version: VERSION, boot_id: self.boot_id.clone(), blind_ns, saved };
        let text =
            serde_json::to_vec(&file).map_err(|source| StoreError::Encode { path: path.clone(), source })?;
        write_whole(&path, &text)
    }

    /// Notes that the agent is alive.
    pub fn beat(&self) -> Result<(), StoreError> {
        let path = self.ledger();
        fs::File::options()
            .write(true)
            .open(&path)
            .and_then(|file| file.set_modified(SystemTime::now()))
            .map_err(file_error(&path, "touched"))
    }
}

/// Writes a file so that a reader finds the old or the new one, never a part.
pub fn write_whole(path: &Path, contents: &[u8]) -> Result<(), StoreError> {
    let temporary = path.with_extension("tmp");
    fs::write(&temporary, contents).map_err(file_error(&temporary, "written"))?;
    fs::rename(&temporary, path).map_err(file_error(path, "replaced"))
}

fn read_with_time(path: &Path) -> io::Result<(String, SystemTime)> {
    let text = fs::read_to_string(path)?;
    Ok((text, fs::metadata(path)?.modified()?))
}

fn file_error(path: &Path, action: &'static str) -> impl FnOnce(io::Error) -> StoreError + use<> {
    let path = path.to_owned();
    move |source| StoreError::File { path, action, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store(directory: &Path, boot_id: &str) -> Store {
        let proc = directory.join("proc");
        fs::create_dir_all(proc.join("sys/kernel/random")).unwrap();
        fs::write(proc.join("sys/kernel/random/boot_id"), boot_id).unwrap();
        Store::open(&directory.join("state"), &proc).unwrap()
    }

    #[test]
    fn what_was_saved_is_restored_in_the_same_boot_only() {
        let directory = tempfile::tempdir().unwrap();
        store(directory.path(), "one\n").save(Saved::default(), 7).unwrap();
        let restored = store(directory.path(), "one\n").restore();
        assert_eq!(restored.blind_ns, 7);
        assert!(restored.last_alive.is_some());
        let restored = store(directory.path(), "two\n").restore();
        assert_eq!((restored.blind_ns, restored.last_alive), (0, None));
    }

    #[test]
    fn a_damaged_file_is_put_aside() {
        let directory = tempfile::tempdir().unwrap();
        let store = store(directory.path(), "one");
        fs::write(store.ledger(), "{\"version\":1").unwrap();
        assert!(store.restore().last_alive.is_none());
        assert!(!store.ledger().exists());
        let aside = store.ledger().with_extension("json.unreadable");
        assert_eq!(fs::read_to_string(aside).unwrap(), "{\"version\":1");
    }
}

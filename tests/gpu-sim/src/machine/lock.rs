//! Record locks that say who is alive.
//!
//! A process that uses the machine holds the POSIX record lock on the byte of its slot. The kernel releases it when the
//! process ends in whatever way, does not pass it on to a forked child, and tells the holder's pid as the reader's own
//! PID namespace numbers it: what NVML does, too.

use std::{
    fs::{File, OpenOptions},
    io,
    mem::ManuallyDrop,
    os::fd::AsRawFd as _,
    path::{Path, PathBuf},
};

use super::MachineError;

/// The byte that the daemon locks.
const DAEMON_BYTE: i64 = 1 << 20;

/// The machine's lock file. It stays open as long as the process lives, even when the value is dropped: closing any
/// descriptor of the file would release all of the process's locks, those of another libcuda in it included.
#[derive(Debug)]
pub struct LockFile {
    file: ManuallyDrop<File>,
    path: PathBuf,
}

/// Who holds a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// Nobody: the owner has ended.
    Nobody,
    /// A living process; `None` where the reader's PID namespace does not see it.
    Process(Option<u32>),
}

impl LockFile {
    pub(super) fn open(path: &Path) -> Result<Self, MachineError> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(path)
            .map_err(|source| MachineError::File { path: path.to_owned(), source })?;
        Ok(Self { file: ManuallyDrop::new(file), path: path.to_owned() })
    }

    /// Takes the lock of a slot; `false` when another living process has it.
    pub(super) fn acquire_slot(&self, slot: usize) -> Result<bool, MachineError> {
        self.set(byte_of(slot), libc::F_WRLCK)
    }

    pub(crate) fn release_slot(&self, slot: usize) -> Result<(), MachineError> {
        self.set(byte_of(slot), libc::F_UNLCK).map(|_| ())
    }

    /// Takes the daemon's lock; `false` when another daemon serves this machine.
    pub fn acquire_daemon(&self) -> Result<bool, MachineError> {
        self.set(DAEMON_BYTE, libc::F_WRLCK)
    }

    /// Who holds the lock of a slot.
    ///
    /// Asks as the open file, not as the process, so that the process's own locks are seen like all others.
    pub fn slot_holder(&self, slot: usize) -> Result<Holder, MachineError> {
        let mut record = record(byte_of(slot), libc::F_WRLCK);
        // SAFETY: F_OFD_GETLK reads and writes one `flock`, which outlives the call.
        let result = unsafe { libc::fcntl(self.file.as_raw_fd(), libc::F_OFD_GETLK, &raw mut record) };
        if result != 0 {
            return Err(self.last_error());
        }
        Ok(if i32::from(record.l_type) == libc::F_UNLCK {
            Holder::Nobody
        } else {
            Holder::Process(u32::try_from(record.l_pid).ok().filter(|pid| *pid != 0))
        })
    }

    fn set(&self, byte: i64, kind: i32) -> Result<bool, MachineError> {
        let record = record(byte, kind);
        // SAFETY: F_SETLK reads one `flock`, which outlives the call.
        let result = unsafe { libc::fcntl(self.file.as_raw_fd(), libc::F_SETLK, &raw const record) };
        if result == 0 {
            return Ok(true);
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EACCES | libc::EAGAIN) => Ok(false),
            _ => Err(MachineError::File { path: self.path.clone(), source: error }),
        }
    }

    fn last_error(&self) -> MachineError {
        MachineError::File { path: self.path.clone(), source: io::Error::last_os_error() }
    }
}

/// The byte that stands for a slot.
fn byte_of(slot: usize) -> i64 {
    i64::try_from(slot).unwrap_or(i64::MAX - 1)
}

fn record(byte: i64, kind: i32) -> libc::flock {
    // The lock types are 0 to 2 on every Linux architecture; the field is 16 bits wide.
    let l_type = i16::try_from(kind).unwrap_or(i16::MAX);
    libc::flock { l_type, l_whence: libc::SEEK_SET as i16, l_start: byte, l_len: 1, l_pid: 0 }
}

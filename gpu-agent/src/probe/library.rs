//! What a library is: an inode. Uprobes are registered on inodes, so two paths to one inode are one library
//! and a copy is another.

use std::{fmt, fs, os::unix::fs::MetadataExt as _};

use gpu_ebpf::call::Call;

/// Device and inode of a library file, of the real file under an overlay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LibraryId {
    pub device: u64,
    pub inode: u64,
}

impl LibraryId {
    /// The identity of a file that no overlay covers.
    pub fn of(metadata: &fs::Metadata) -> Self {
        Self { device: metadata.dev(), inode: metadata.ino() }
    }
}

impl fmt::Display for LibraryId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor) = (libc::major(self.device), libc::minor(self.device));
        write!(formatter, "{major}:{minor} inode {}", self.inode)
    }
}

/// One function to probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttachPoint {
    /// Offset in the file, in bytes.
    pub offset: u64,
    pub call: Call,
}

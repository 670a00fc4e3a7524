//! What a library is: an inode. Uprobes are registered on inodes, so two paths to one inode are one library
//! and a copy is another.

use std::fmt;

use gpu_ebpf::call::Call;

/// Device and inode of a library file, of the real file under an overlay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LibraryId {
    pub device: u64,
    pub inode: u64,
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

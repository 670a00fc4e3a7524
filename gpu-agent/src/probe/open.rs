//! Opening a library that a tenant may have put something else in the place of.
//!
//! To open a FIFO waits for a writer, to open a device may do anything, and a name may lead somewhere else the
//! next time. So a file is first only referred to, which has no effect on it, then looked at, and opened for
//! reading only if it is a regular file, through the reference and not by its name once more.

use std::{
    fs::{self, File},
    io,
    os::fd::{AsFd, AsRawFd as _},
    path::{Path, PathBuf},
};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use thiserror::Error;

use super::library::LibraryId;

/// Why a library was not opened.
#[derive(Debug, Error)]
pub enum OpenError {
    #[error("the file cannot be opened")]
    Io(#[source] io::Error),
    #[error("there is no regular file but {0}")]
    NotRegular(&'static str),
}

impl OpenError {
    /// Whether the file or its process is just not there, as happens to every process in the end.
    pub fn is_absence(&self) -> bool {
        match self {
            Self::Io(error) => {
                error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH)
            }
            Self::NotRegular(_) => false,
        }
    }
}

/// A regular file, open for reading.
#[derive(Debug)]
pub struct OpenFile {
    pub file: File,
    pub metadata: fs::Metadata,
}

impl OpenFile {
    /// What uprobes on this file are registered on, unless an overlay covers it.
    pub fn id(&self) -> LibraryId {
        LibraryId::of(&self.metadata)
    }
}

/// Opens what a trusted path leads to, links included.
pub fn trusted(path: &Path) -> Result<OpenFile, OpenError> {
    reopen(&refer(path, OFlags::empty())?)
}

/// Opens the file that a process has mapped at `addresses`, whatever has become of its name. It needs
/// `CAP_SYS_ADMIN` or `CAP_CHECKPOINT_RESTORE` in the first user namespace.
pub fn mapped(process: &Path, addresses: &str) -> Result<OpenFile, OpenError> {
    // The last component is a link of the kernel to the file itself, not a name that would be looked up.
    reopen(&refer(&process.join("map_files").join(addresses), OFlags::empty())?)
}

/// Opens a file by its path below a root that another process decides what is in. No link leads out of the root;
/// the last component must be the file itself.
pub fn beneath(root: &Path, path: &Path) -> Result<OpenFile, OpenError> {
    below(root, path, OFlags::NOFOLLOW)
}

/// Like [`beneath`], but the last component may be a link, which is followed inside the root.
pub fn beneath_following(root: &Path, path: &Path) -> Result<OpenFile, OpenError> {
    below(root, path, OFlags::empty())
}

fn below(root: &Path, path: &Path, flags: OFlags) -> Result<OpenFile, OpenError> {
    let root = refer(root, OFlags::DIRECTORY)?;
    let flags = OFlags::PATH | OFlags::CLOEXEC | flags;
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let found = rustix::fs::openat2(&root, path, flags, Mode::empty(), resolve).map_err(io_error)?;
    reopen(&File::from(found))
}

fn refer(path: &Path, flags: OFlags) -> Result<File, OpenError> {
    let flags = OFlags::PATH | OFlags::CLOEXEC | flags;
    rustix::fs::openat(CWD, path, flags, Mode::empty()).map(File::from).map_err(io_error)
}

fn reopen(reference: &File) -> Result<OpenFile, OpenError> {
    let metadata = reference.metadata().map_err(OpenError::Io)?;
    if !metadata.is_file() {
        return Err(OpenError::NotRegular(kind(metadata.file_type())));
    }
    // Not to wait where a tenant holds a lease on the file.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::openat(CWD, path_of(reference), flags, Mode::empty())
        .map(File::from)
        .map_err(io_error)?;
    Ok(OpenFile { file, metadata })
}

/// A path to an open file that leads to this very file for as long as it is open.
pub fn path_of(file: &impl AsFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_fd().as_raw_fd()))
}

fn kind(file_type: fs::FileType) -> &'static str {
    use std::os::unix::fs::FileTypeExt as _;

    if file_type.is_dir() {
        "a directory"
    } else if file_type.is_symlink() {
        "a symbolic link"
    } else if file_type.is_fifo() {
        "a FIFO"
    } else if file_type.is_socket() {
        "a socket"
    } else {
        "a device"
    }
}

fn io_error(error: rustix::io::Errno) -> OpenError {
    OpenError::Io(error.into())
}

#[cfg(test)]
mod tests {
    use std::{
        io::Read as _,
        os::unix::fs::{MetadataExt as _, symlink},
    };

    use super::*;

    fn refusal(result: Result<OpenFile, OpenError>) -> String {
        result.unwrap_err().to_string()
    }

    #[test]
    fn what_is_no_regular_file_is_refused_without_being_opened() {
        let root = tempfile::tempdir().unwrap();
        let library = Path::new("/lib/libcuda.so.1");
        let place = root.path().join("lib/libcuda.so.1");
        fs::create_dir(root.path().join("lib")).unwrap();

        // Nobody writes to the FIFO, so that to open it would take for ever.
        rustix::fs::mkfifoat(CWD, &place, Mode::RUSR).unwrap();
        assert_eq!(refusal(beneath(root.path(), library)), "there is no regular file but a FIFO");
        assert_eq!(refusal(trusted(&place)), "there is no regular file but a FIFO");
        fs::remove_file(&place).unwrap();

        symlink("/etc/passwd", &place).unwrap();
        assert_eq!(refusal(beneath(root.path(), library)), "there is no regular file but a symbolic link");
        fs::remove_file(&place).unwrap();

        fs::create_dir(&place).unwrap();
        assert_eq!(refusal(beneath(root.path(), library)), "there is no regular file but a directory");
        fs::remove_dir(&place).unwrap();

        assert!(beneath(root.path(), library).unwrap_err().is_absence());
        assert_eq!(refusal(trusted(Path::new("/dev/null"))), "there is no regular file but a device");
    }

    #[test]
    fn links_stay_inside_the_root() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("usr")).unwrap();
        fs::write(root.path().join("usr/libcuda.so.550"), "inside").unwrap();
        symlink("/usr", root.path().join("lib")).unwrap();
        symlink("../../../usr/libcuda.so.550", root.path().join("usr/libcuda.so.1")).unwrap();
        symlink("/proc/self/root/etc", root.path().join("out")).unwrap();

        let inside = fs::metadata(root.path().join("usr/libcuda.so.550")).unwrap();
        let file = beneath(root.path(), Path::new("/lib/libcuda.so.550")).unwrap();
        assert_eq!(file.id(), LibraryId { device: inside.dev(), inode: inside.ino() });
        let file = beneath_following(root.path(), Path::new("/lib/libcuda.so.1")).unwrap();
        assert_eq!(file.id(), LibraryId { device: inside.dev(), inode: inside.ino() });
        assert!(beneath(root.path(), Path::new("/out/passwd")).unwrap_err().is_absence());
    }

    #[test]
    fn a_mapped_file_is_found_when_its_name_is_gone() {
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        let own = fs::metadata("/proc/self/exe").unwrap();
        let line = maps.lines().find(|line| line.contains("r-xp") && line.contains('/')).unwrap();
        let addresses = line.split(' ').next().unwrap();
        match mapped(Path::new("/proc/self"), addresses) {
            Ok(found) => assert_eq!(found.id(), LibraryId { device: own.dev(), inode: own.ino() }),
            // Without the capability the kernel refuses; the path is used instead.
            Err(OpenError::Io(error)) => assert_eq!(error.kind(), io::ErrorKind::PermissionDenied),
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn the_path_of_an_open_file_outlives_its_name() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("libcuda.so.1");
        fs::write(&path, "first").unwrap();
        let open = trusted(&path).unwrap();
        fs::remove_file(&path).unwrap();
        fs::write(&path, "second").unwrap();
        let mut text = String::new();
        File::open(path_of(&open.file)).unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "first");
    }
}

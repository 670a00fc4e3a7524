//! Opens a cgroup by its id, with a file handle made by hand.

use std::{
    io,
    os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd},
};

/// Type of a file handle that holds a 64-bit kernfs node id (`FILEID_KERNFS`, `include/linux/exportfs.h`,
/// Linux 5.5 and later).
const FILEID_KERNFS: i32 = 0xfe;

/// `struct file_handle` of open_by_handle_at(2) with the payload of a kernfs handle.
#[repr(C)]
struct KernfsHandle {
    handle_bytes: u32,
    handle_type: i32,
    id: u64,
}

// The payload follows the header directly, as the kernel expects.
const _: () = assert!(size_of::<KernfsHandle>() == 16);
const _: () = assert!(std::mem::offset_of!(KernfsHandle, id) == 8);

/// Opens the directory of the cgroup with this id as a path-only descriptor. `mount` is any open file of the
/// cgroup2 mount.
///
/// # Errors
///
/// `PermissionDenied` without `CAP_DAC_READ_SEARCH`, `Unsupported` where the kernel knows no such handles,
/// `NotFound` where no such cgroup exists.
pub(in crate::tenant) fn open_by_id(mount: BorrowedFd<'_>, id: u64) -> io::Result<OwnedFd> {
    let mut handle = KernfsHandle { handle_bytes: 8, handle_type: FILEID_KERNFS, id };
    let flags = libc::O_PATH | libc::O_CLOEXEC | libc::O_DIRECTORY;
    // SAFETY: the handle has `struct file_handle`'s header, and `handle_bytes` is the size of its payload, which
    // lies in the same allocation; the kernel only reads it, and both arguments outlive the call.
    let descriptor = unsafe { libc::open_by_handle_at(mount.as_raw_fd(), (&raw mut handle).cast(), flags) };
    if descriptor < 0 {
        let error = io::Error::last_os_error();
        return Err(match error.raw_os_error() {
            // A removed cgroup, or an id that never was one.
            Some(libc::ESTALE | libc::EINVAL) => io::ErrorKind::NotFound.into(),
            Some(libc::EOPNOTSUPP | libc::ENOSYS) => io::ErrorKind::Unsupported.into(),
            _ => error,
        });
    }
    // SAFETY: the call returned a new descriptor, which nothing else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

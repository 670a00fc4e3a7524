//! The BPF file system, on which maps and links outlive the agent.

use std::{io, path::Path};

/// `BPF_FS_MAGIC` of `include/uapi/linux/magic.h`.
const BPF_FS_MAGIC: i64 = 0xcafe_4a11;

/// Makes sure that a BPF file system is mounted at `path`; mounts one where none is, as systemd does.
///
/// # Errors
/// When the directory cannot be made or the mount is refused.
pub fn ensure_bpffs(path: &Path) -> io::Result<()> {
    if is_bpffs(path) {
        return Ok(());
    }
    std::fs::create_dir_all(path)?;
    let data: Option<&std::ffi::CStr> = Some(c"mode=0700");
    rustix::mount::mount("bpf", path, "bpf", rustix::mount::MountFlags::empty(), data)?;
    tracing::info!(path = %path.display(), "mounted a BPF file system");
    Ok(())
}

fn is_bpffs(path: &Path) -> bool {
    rustix::fs::statfs(path).is_ok_and(|info| info.f_type == BPF_FS_MAGIC)
}

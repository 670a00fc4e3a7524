//! Where the checkout, its build output and the cache of development tools are.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use xshell::Shell;

/// The checkout that this command was started from.
pub(crate) struct Workspace {
    /// The folder of the root `Cargo.toml`.
    pub(crate) root: PathBuf,
    /// Cargo's target folder: `CARGO_TARGET_DIR`, or `target` in the root. `gpu-agent/build.rs` uses the same rule.
    pub(crate) target: PathBuf,
    /// Starts processes in the root.
    pub(crate) shell: Shell,
}

impl Workspace {
    /// Finds the checkout from what cargo tells a program that it starts, or told it when it was compiled.
    pub(crate) fn locate() -> Result<Self> {
        let manifest_dir = env::var_os("CARGO_MANIFEST_DIR")
            .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
        let root = manifest_dir
            .parent()
            .with_context(|| format!("`{}` has no parent folder", manifest_dir.display()))?
            .to_path_buf();
        let target = match env::var_os("CARGO_TARGET_DIR") {
            // Cargo resolves a relative folder against the directory it was started in, which is ours.
            Some(folder) if !folder.is_empty() => std::path::absolute(&folder)
                .with_context(|| format!("failed to resolve CARGO_TARGET_DIR={}", folder.display()))?,
            _ => root.join("target"),
        };
        let shell = Shell::new().context("failed to open the working directory")?;
        shell.change_dir(&root);
        Ok(Self { root, target, shell })
    }

    /// Where `cargo xtask build-ebpf` leaves the finished objects. It holds nothing else, because the agent's build
    /// script watches this folder while no object exists.
    pub(crate) fn bpf_objects(&self) -> PathBuf {
        self.target.join("bpf")
    }
}

/// The cargo that runs this command, so that everything is built by one toolchain.
pub(crate) fn cargo() -> PathBuf {
    env::var_os("CARGO").map_or_else(|| PathBuf::from("cargo"), PathBuf::from)
}

/// The folder for development tools, kept between checkouts: `$GPUSTACK_CACHE`, or `gpustack-dev` in the user's cache.
pub(crate) fn cache_folder() -> Result<PathBuf> {
    let (chosen, xdg, home) =
        (env::var_os("GPUSTACK_CACHE"), env::var_os("XDG_CACHE_HOME"), env::var_os("HOME"));
    cache_folder_from(chosen, xdg, home)
        .context("found no cache folder: set GPUSTACK_CACHE or HOME to a folder that may be written")
}

fn cache_folder_from(
    chosen: Option<OsString>,
    xdg_cache: Option<OsString>,
    home: Option<OsString>,
) -> Option<PathBuf> {
    let set = |value: Option<OsString>| value.filter(|value| !value.is_empty()).map(PathBuf::from);
    set(chosen)
        .or_else(|| set(xdg_cache).map(|cache| cache.join("gpustack-dev")))
        .or_else(|| set(home).map(|home| home.join(".cache").join("gpustack-dev")))
}

/// Looks a program up in the folders of `PATH`.
pub(crate) fn find_in_path(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join(program)).find(|candidate| is_executable(candidate))
}

/// Whether a path names a file that may be run.
pub(crate) fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_named_cache_folder_wins_over_the_users_cache() {
        assert_eq!(
            cache_folder_from(Some("/c".into()), Some("/x".into()), Some("/h".into())),
            Some(PathBuf::from("/c"))
        );
        assert_eq!(
            cache_folder_from(None, Some("/x".into()), Some("/h".into())),
            Some(PathBuf::from("/x/gpustack-dev"))
        );
        assert_eq!(
            cache_folder_from(Some("".into()), None, Some("/h".into())),
            Some(PathBuf::from("/h/.cache/gpustack-dev"))
        );
        assert_eq!(cache_folder_from(None, None, None), None);
    }
}

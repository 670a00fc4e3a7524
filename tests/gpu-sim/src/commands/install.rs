//! `gpu-sim install`: puts the front ends where programs of this machine load them.

use std::{fs, path::PathBuf};

use anyhow::Context as _;
use clap::Args;

use super::Directory;

/// Name that cargo gives the library, and the one that programs load.
const LIBRARIES: [(&str, &str); 2] =
    [("libcuda.so", "libcuda.so.1"), ("libnvidia_ml.so", "libnvidia-ml.so.1")];

#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    directory: Directory,
    /// Directory in which cargo left the libraries, for example `target/debug`.
    #[arg(long)]
    lib_dir: PathBuf,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let target = options.directory.path.join("lib");
    fs::create_dir_all(&target).with_context(|| format!("cannot create `{}`", target.display()))?;
    for (built, installed) in LIBRARIES {
        let (from, to) = (options.lib_dir.join(built), target.join(installed));
        // A new inode: processes that still map the old library keep it unchanged.
        let unfinished = to.with_extension("new");
        fs::copy(&from, &unfinished)
            .and_then(|_| fs::rename(&unfinished, &to))
            .with_context(|| format!("cannot copy `{}` to `{}`", from.display(), to.display()))?;
    }
    Ok(())
}

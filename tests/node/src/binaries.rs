//! Where the programs under test are.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

/// Folder with the release binaries; xtask sets it.
const FOLDER: &str = "GPUSTACK_RELEASE_DIR";

/// Programs and libraries of one release build.
#[derive(Clone, Debug)]
pub struct Binaries {
    folder: PathBuf,
}

impl Binaries {
    /// Finds them: where xtask says, else in `release/` of the target folder that this program is in.
    ///
    /// # Errors
    /// When they have not been built.
    pub fn find() -> Result<Self> {
        let folder = match std::env::var_os(FOLDER) {
            Some(folder) => PathBuf::from(folder),
            None => {
                let own = std::env::current_exe().context("cannot find this program's own file")?;
                let target = own.ancestors().find(|folder| folder.join("release").is_dir());
                target.map(|target| target.join("release")).context("no `release` folder beside this program")?
            }
        };
        let binaries = Self { folder };
        for program in [binaries.agent(), binaries.sim()] {
            ensure!(
                program.is_file(),
                "`{}` is missing: run the tests by `cargo xtask test`, which builds it",
                program.display()
            );
        }
        Ok(binaries)
    }

    /// The agent.
    pub fn agent(&self) -> PathBuf {
        self.folder.join("gpu-agent")
    }

    /// The test double's command.
    pub fn sim(&self) -> PathBuf {
        self.folder.join("gpu-sim")
    }

    /// Where the test double's libraries are.
    pub fn libraries(&self) -> &Path {
        &self.folder
    }
}

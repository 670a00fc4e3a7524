//! Where the programs under test are.

use std::{env, path::PathBuf};

use anyhow::{Context as _, Result, ensure};

/// Programs and libraries of one release build.
#[derive(Clone, Debug)]
pub struct Binaries {
    /// The agent.
    pub agent: PathBuf,
    /// The test double's command.
    pub sim: PathBuf,
    /// Where the test double's libraries are.
    pub libraries: PathBuf,
}

impl Binaries {
    /// Finds them: where xtask says, else in `release/` of the target folder that this program is in.
    ///
    /// # Errors
    /// When they have not been built.
    pub fn find() -> Result<Self> {
        let own = env::current_exe().context("cannot find this program's own file")?;
        let release = own.ancestors().map(|folder| folder.join("release")).find(|folder| folder.is_dir());
        let place = |variable: &str, name: &str| {
            env::var_os(variable)
                .map(PathBuf::from)
                .or_else(|| Some(release.as_ref()?.join(name)))
                .with_context(|| format!("`{variable}` is not set, and there is no release build"))
        };
        let binaries = Self {
            agent: place("GPUSTACK_TEST_AGENT", "gpu-agent")?,
            sim: place("GPUSTACK_TEST_SIM", "gpu-sim")?,
            libraries: place("GPUSTACK_TEST_SIM_LIBRARIES", "")?,
        };
        for program in [&binaries.agent, &binaries.sim] {
            ensure!(
                program.is_file(),
                "`{}` is missing: run the tests by `cargo xtask test`, which builds it",
                program.display()
            );
        }
        Ok(binaries)
    }
}

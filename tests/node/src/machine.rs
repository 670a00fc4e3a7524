//! The simulated machine that a test runs on.

use std::{
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};
use tempfile::TempDir;

use crate::{binaries::Binaries, process::Process};

/// A machine with its daemon; both go when it is dropped.
#[derive(Debug)]
pub struct Machine {
    directory: TempDir,
    _daemon: Process,
}

impl Machine {
    /// Makes a machine from a preset and waits until it can be used.
    ///
    /// # Errors
    /// When it does not come up.
    pub fn start(binaries: &Binaries, preset: &str) -> Result<Self> {
        let directory = tempfile::Builder::new().prefix("gpu-sim-").tempdir()?;
        let path = directory.path();
        run(Command::new(&binaries.sim).arg("create").arg("--dir").arg(path).args(["--preset", preset]))?;
        run(Command::new(&binaries.sim)
            .arg("install")
            .arg("--dir")
            .arg(path)
            .arg("--lib-dir")
            .arg(&binaries.libraries))?;
        let mut serve = Command::new(&binaries.sim);
        serve.arg("serve").arg("--dir").arg(path).stdout(Stdio::piped());
        let mut daemon = Process::start("gpu-sim serve", serve, None)?;
        let output = daemon.child().stdout.take().context("the daemon has no output")?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        ensure!(line.trim() == "ready", "the simulated machine says `{}`, not `ready`", line.trim());
        Ok(Self { directory, _daemon: daemon })
    }

    /// Its directory, which programs on it find by `GPU_SIM_MACHINE`.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Its libcuda.
    pub fn libcuda(&self) -> PathBuf {
        self.directory.path().join("lib/libcuda.so.1")
    }

    /// Its NVML.
    pub fn nvml(&self) -> PathBuf {
        self.directory.path().join("lib/libnvidia-ml.so.1")
    }
}

fn run(command: &mut Command) -> Result<()> {
    let output = command.output().with_context(|| format!("cannot start {command:?}"))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?} fails: {}", errors.trim());
    Ok(())
}

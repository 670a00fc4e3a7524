//! The process whose calls are measured, from outside.

use std::{
    env,
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{ChildStdin, ChildStdout, Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};
use node_tests::{machine::Machine, process::Process};

/// A call that the process can be asked to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    Launch,
    Copy,
    Synchronize,
}

/// The running process.
pub(super) struct Workload {
    _process: Process,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Workload {
    /// Starts it on a simulated machine and waits until the driver is ready.
    ///
    /// # Errors
    /// When it does not come up.
    pub(super) fn start(machine: &Machine, libcuda: &Path) -> Result<Self> {
        let own = env::current_exe().context("cannot find this program's own file")?;
        let mut command = Command::new(own);
        command
            .args(["load", "--libcuda"])
            .arg(libcuda)
            .env("GPU_SIM_MACHINE", machine.directory())
            .env_remove("CUDA_VISIBLE_DEVICES")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut process = Process::start("gpu-bench load", command, None)?;
        let commands = process.child().stdin.take().context("the process has no input")?;
        let answers = process.child().stdout.take().context("the process has no output")?;
        let mut workload = Self { _process: process, commands, answers: BufReader::new(answers) };
        let answer = workload.answer()?;
        ensure!(answer == "ready", "the process says `{answer}`, not `ready`");
        Ok(workload)
    }

    /// Lets it make `count` calls; returns the median time of one in nanoseconds.
    ///
    /// # Errors
    /// When a call fails or the process ends.
    pub(super) fn make(&mut self, call: Call, count: u64) -> Result<f64> {
        let name = match call {
            Call::Launch => "launch",
            Call::Copy => "copy",
            Call::Synchronize => "synchronize",
        };
        writeln!(self.commands, "{name} {count}").context("the process takes no command")?;
        let answer = self.answer()?;
        answer.parse().with_context(|| format!("the process says `{answer}`, not a time"))
    }

    fn answer(&mut self) -> Result<String> {
        let mut line = String::new();
        self.answers.read_line(&mut line).context("cannot read an answer")?;
        ensure!(!line.is_empty(), "the process that makes the calls has ended");
        Ok(line.trim().to_owned())
    }
}

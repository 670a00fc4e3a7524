//! Machines and processes for tests.

use std::{
    ffi::OsStr,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use gpu_sim::{
    machine::{DIRECTORY_VARIABLE, Machine},
    state::{self, GpuSnapshot, MachineSnapshot},
    truth::Truth,
};
use tempfile::TempDir;

const GPU_SIM: &str = env!("CARGO_BIN_EXE_gpu-sim");

/// Says which test a child process is to run.
const CHILD_VARIABLE: &str = "GPU_SIM_TEST_CHILD";

/// The library, which cargo built as a dependency of this test.
pub(crate) fn libcuda() -> PathBuf {
    let executable = std::env::current_exe().expect("path of this executable");
    executable.parent().expect("directory").join("libcuda.so")
}

/// A machine with a running daemon, both gone when dropped.
pub(crate) struct Node {
    directory: TempDir,
    daemon: Child,
}

impl Node {
    pub(crate) fn start(preset: &str) -> Self {
        let directory = tempfile::tempdir().expect("temporary directory");
        let mut daemon = Command::new(GPU_SIM)
            .args(["up", "--preset", preset, "--dir"])
            .arg(directory.path())
            .stdout(Stdio::piped())
            .spawn()
            .expect("daemon");
        let mut line = String::new();
        BufReader::new(daemon.stdout.take().expect("output")).read_line(&mut line).expect("line");
        assert_eq!(line, "ready\n");
        Self { directory, daemon }
    }

    /// A file in the machine's directory.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn state(&self) -> MachineSnapshot {
        state::read(&Machine::open(self.directory.path()).expect("machine"))
    }

    pub(crate) fn gpu(&self, index: usize) -> GpuSnapshot {
        self.state().gpus.swap_remove(index)
    }

    /// The state once no process uses the machine.
    pub(crate) fn state_without_processes(&self) -> MachineSnapshot {
        self.state_when(|state| state.process_count == 0)
    }

    /// The state as soon as a condition holds.
    pub(crate) fn state_when(&self, condition: impl Fn(&MachineSnapshot) -> bool) -> MachineSnapshot {
        loop {
            let state = self.state();
            if condition(&state) {
                return state;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// A workload that is about to be started; its log is `log`.
    pub(crate) fn workload(&self, log: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(GPU_SIM);
        command.arg("run").args(arguments).arg("--libcuda").arg(libcuda()).arg("--log").arg(self.path(log));
        command.env(DIRECTORY_VARIABLE, self.directory.path());
        command.env_remove("CUDA_VISIBLE_DEVICES").env_remove("CUDA_DEVICE_ORDER");
        command
    }

    /// Runs a workload to its end and returns its log.
    pub(crate) fn run(&self, arguments: &[&str]) -> Truth {
        let status = self.workload("log", arguments).status().expect("workload");
        assert!(status.success(), "workload ended with {status}");
        self.truth("log")
    }

    pub(crate) fn truth(&self, log: &str) -> Truth {
        Truth::read(&self.path(log)).expect("log")
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.daemon.kill().expect("daemon");
        self.daemon.wait().expect("daemon");
    }
}

/// Waits until a workload's phase file has a line.
pub(crate) fn wait_for_phase(path: &Path, phase: &str) {
    loop {
        let reached = std::fs::read_to_string(path).unwrap_or_default();
        if reached.lines().any(|line| line == phase) {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Runs the body of the test `name` in a child process on a machine of its own, because the state of the driver belongs
/// to a process and its environment.
pub(crate) fn in_child(name: &str, preset: &str, environment: &[(&str, &str)], body: fn()) {
    if std::env::var_os(CHILD_VARIABLE).as_deref() == Some(OsStr::new(name)) {
        body();
        return;
    }
    let node = Node::start(preset);
    let output = Command::new(std::env::current_exe().expect("path of this executable"))
        .args(["--exact", name, "--nocapture"])
        .env(CHILD_VARIABLE, name)
        .env(DIRECTORY_VARIABLE, node.directory.path())
        .env_remove("CUDA_VISIBLE_DEVICES")
        .env_remove("CUDA_DEVICE_ORDER")
        .envs(environment.iter().copied())
        .output()
        .expect("child");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "child `{name}`: {}\n{text}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
}

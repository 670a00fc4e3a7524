//! The demo agrees with itself, and does not where something is broken on purpose.

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
};

use anyhow::{Context as _, Result};
use node_tests::{binaries::Binaries, cgroup::Cgroup};
use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;
use tempfile::TempDir;

#[derive(Debug, Deserialize)]
struct Summary {
    ok: bool,
    figures: BTreeMap<String, u64>,
    skipped: Vec<Skipped>,
    notes: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Skipped {
    what: String,
    why: String,
}

impl Summary {
    fn figure(&self, name: &str) -> u64 {
        *self.figures.get(name).unwrap_or_else(|| panic!("no figure `{name}` in {self:?}"))
    }
}

/// The demo with a folder for all that it puts on disk.
struct Run {
    child: Child,
    scratch: TempDir,
}

impl Run {
    fn start(arguments: &[&str]) -> Result<Self> {
        let Binaries { agent, sim, libraries } = Binaries::find()?;
        let scratch = tempfile::tempdir()?;
        let child = Command::new(env!("CARGO_BIN_EXE_node-demo"))
            .args(arguments)
            .env("GPUSTACK_TEST_AGENT", agent)
            .env("GPUSTACK_TEST_SIM", sim)
            .env("GPUSTACK_TEST_SIM_LIBRARIES", libraries)
            .env("TMPDIR", scratch.path())
            .stdout(Stdio::piped())
            .spawn()?;
        Ok(Self { child, scratch })
    }

    /// Waits for its end, after which nothing of it may be left; returns its exit code and the rest of its output.
    fn end(self) -> Result<(Option<i32>, Vec<u8>)> {
        let Self { child, scratch } = self;
        let cgroups = format!("node-test-{}-", child.id());
        let output = child.wait_with_output()?;
        let files: Vec<_> = fs::read_dir(scratch.path())?.collect::<Result<_, _>>()?;
        assert!(files.is_empty(), "{files:?}");
        assert!(!fs::read_to_string("/proc/mounts")?.contains(&*scratch.path().to_string_lossy()));
        for cgroup in fs::read_dir(Cgroup::mount()?)? {
            let name = cgroup?.file_name();
            assert!(!name.to_string_lossy().starts_with(&cgroups), "{}", name.display());
        }
        Ok((output.status.code(), output.stdout))
    }
}

/// Runs the demo for three seconds; returns its exit code and its summary, which is all that it prints.
fn demo(sabotage: &[&str]) -> Result<(Option<i32>, Summary)> {
    let (code, output) = Run::start(&[&["--json", "--seconds", "3"], sabotage].concat())?.end()?;
    let summary = serde_json::from_slice(&output).context("the output is not one JSON object")?;
    Ok((code, summary))
}

#[test]
fn the_agent_reports_what_the_workloads_logged() -> Result<()> {
    let (code, summary) = demo(&[])?;
    assert!(summary.ok, "{summary:?}");
    assert_eq!(code, Some(0));
    assert_eq!(summary.notes, [""; 0]);
    assert!(summary.skipped.is_empty(), "{summary:?}");
    assert_eq!((summary.figure("mismatches"), summary.figure("drops")), (0, 0));
    assert_eq!((summary.figure("tenants"), summary.figure("kernel_probes")), (4, 1));
    assert_eq!(summary.figure("seconds"), 3);
    assert!(summary.figure("launches") > 1000, "{summary:?}");
    Ok(())
}

#[test]
fn an_agent_that_sees_no_calls_differs_in_every_number() -> Result<()> {
    let (code, summary) = demo(&["--sabotage", "agent-blind"])?;
    assert!(!summary.ok);
    assert_eq!(code, Some(1));
    assert!(summary.figure("compared") > 50, "{summary:?}");
    assert_eq!(summary.figure("mismatches"), summary.figure("compared"));
    assert_eq!(summary.figure("drops"), 0);
    let skipped: Vec<_> =
        summary.skipped.iter().map(|Skipped { what, why }| (what.as_str(), why.as_str())).collect();
    assert_eq!(skipped, [("kernel-probes", "switched off by configuration")]);
    Ok(())
}

#[test]
fn one_launch_that_was_only_logged_is_the_one_difference() -> Result<()> {
    let (code, summary) = demo(&["--sabotage", "log-lies"])?;
    assert!(!summary.ok);
    assert_eq!(code, Some(1));
    assert_eq!((summary.figure("mismatches"), summary.figure("drops")), (1, 0));
    let [note] = &summary.notes[..] else { panic!("{:?}", summary.notes) };
    let (logged, reported) = note
        .split_once("gpu_tenant_launches_total: logged ")
        .and_then(|(_, numbers)| numbers.split_once(", reported "))
        .with_context(|| format!("not about launches: {note}"))?;
    assert_eq!(logged.parse::<u64>()?, reported.parse::<u64>()? + 1);
    Ok(())
}

#[test]
fn ctrl_c_ends_the_service_with_a_comparison_and_nothing_stays() -> Result<()> {
    let mut run = Run::start(&["--serve"])?;
    let mut output = BufReader::new(run.child.stdout.take().context("no output")?).lines();
    let mut lines_until = |text: &str| -> Result<String> {
        let found = output.by_ref().find(|line| line.as_ref().map_or(true, |line| line.contains(text)));
        Ok(found.with_context(|| format!("the demo ended before it said `{text}`"))??)
    };
    lines_until("Metrics: http://127.0.0.1:")?;
    lines_until("training")?;
    kill_process(Pid::from_child(&run.child), Signal::INT)?;
    let verdict = lines_until("numbers compared")?;
    let (code, _) = run.end()?;
    assert!(verdict.ends_with(" numbers compared, 0 differ; 0 events dropped."), "{verdict}");
    assert_eq!(code, Some(0));
    Ok(())
}

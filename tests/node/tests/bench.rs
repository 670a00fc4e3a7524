//! The probe benchmark measures what it says, and each sabotage turns the figure red that it should.
#![expect(clippy::float_cmp, reason = "what is compared are whole numbers, printed and read exactly")]

use std::{
    collections::BTreeMap,
    env,
    path::PathBuf,
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result};
use serde::Deserialize;

/// What the benchmark prints.
#[derive(Debug, Deserialize)]
struct Summary {
    ok: bool,
    figures: BTreeMap<String, f64>,
    notes: Vec<String>,
}

impl Summary {
    /// Names of the figures that miss their budget, as the notes begin with them.
    fn missed(&self) -> Vec<&str> {
        self.notes
            .iter()
            .filter(|note| note.contains("its budget is at most"))
            .filter_map(|note| note.split('`').nth(1))
            .collect()
    }

    fn figure(&self, name: &str) -> f64 {
        *self.figures.get(name).unwrap_or_else(|| panic!("no figure `{name}` in {self:?}"))
    }
}

/// Where the benchmark is: where xtask says, else beside the other release binaries.
fn program() -> Result<PathBuf> {
    if let Some(path) = env::var_os("GPUSTACK_TEST_BENCH") {
        return Ok(path.into());
    }
    let own = env::current_exe()?;
    own.ancestors()
        .map(|folder| folder.join("release/gpu-bench"))
        .find(|path| path.is_file())
        .context("there is no release build of `gpu-bench`: run the tests by `cargo xtask test`")
}

/// A short run, whose times mean nothing.
fn probe(arguments: &[&str]) -> Result<Summary> {
    let output = Command::new(program()?)
        .args(["probe", "--json", "--rounds", "1", "--launches", "128"])
        .args(arguments)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start the benchmark")?;
    let summary: Summary =
        serde_json::from_slice(&output.stdout).context("the benchmark prints no figures")?;
    assert_eq!(output.status.success(), summary.ok, "the exit code says the same as `ok`");
    Ok(summary)
}

/// What a run is about whatever the machine's speed: every launch is seen, and no call sends a record.
fn sees_every_launch_without_events(summary: &Summary) {
    assert!(summary.figure("launches_made") > 0.0);
    assert_eq!(summary.figure("launches_seen"), summary.figure("launches_made"));
    for name in ["launches_unseen", "events_per_launch", "events_per_copy", "events_per_synchronize"] {
        assert_eq!(summary.figure(name), 0.0, "{name}");
    }
    for name in [
        "launch_probe_ratio",
        "launch_event_ratio",
        "launch_plain_ratio",
        "launch_program_ns",
        "launch_ours_us",
        "launch_empty_us",
        "launch_event_us",
        "launch_plain_us",
        "functions",
        "perf_event_attach_ms_per_probe",
        "perf_event_detach_ms_per_probe",
    ] {
        assert!(summary.figure(name) > 0.0, "{name} in {summary:?}");
    }
}

#[test]
fn the_probe_benchmark_gives_every_figure() -> Result<()> {
    let summary = probe(&[])?;
    sees_every_launch_without_events(&summary);
    assert!(summary.figure("attach_ms") > 0.0 && summary.figure("detach_ms") > 0.0, "{summary:?}");
    Ok(())
}

#[test]
fn the_probe_benchmark_runs_on_perf_events_too() -> Result<()> {
    let summary = probe(&["--disable", "uprobe-multi"])?;
    sees_every_launch_without_events(&summary);
    assert!(!summary.figures.contains_key("attach_ms"), "skipped, because it takes minutes");
    Ok(())
}

#[test]
fn programs_that_are_not_attached_are_noticed() -> Result<()> {
    let summary = probe(&["--sabotage", "no-program"])?;
    assert!(!summary.ok);
    assert!(summary.missed().contains(&"launches_unseen"), "{summary:?}");
    assert_eq!(summary.figure("launches_seen"), 0.0);
    assert!(!summary.figures.contains_key("launch_program_ns"), "what did not run has no time");
    Ok(())
}

#[test]
fn a_slow_program_is_noticed() -> Result<()> {
    let summary = probe(&["--sabotage", "slow-program"])?;
    assert!(!summary.ok);
    assert!(summary.missed().contains(&"launch_program_ns"), "{summary:?}");
    Ok(())
}

#[test]
fn an_event_for_each_launch_is_noticed() -> Result<()> {
    let summary = probe(&["--sabotage", "event-per-launch"])?;
    assert!(!summary.ok);
    assert!(summary.missed().contains(&"events_per_launch"), "{summary:?}");
    assert_eq!(summary.figure("events_per_launch"), 1.0);
    assert_eq!(summary.figure("events_per_copy"), 0.0, "only launches are spoilt");
    Ok(())
}

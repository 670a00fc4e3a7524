//! `probe`: what the launch instrumentation costs, against programs that do nothing at the same points.
//!
//! One process makes the same launches all the time, and one variant after the other is attached to them:
//! ours, empty programs, a program that sends one event per launch, nothing, and back again. A round is one
//! way there and back; its ratios are taken within it, so that a machine that slows down slows all of them.

mod attach_time;
mod baseline;
mod program_time;
mod ring;
mod rounds;
mod session;
mod subject;
mod workload;

use std::{env, fs, path::PathBuf};

use anyhow::{Context as _, Result};
use clap::{Args, ValueEnum};
use gpu_agent::kernel::loader::Mechanism;

use crate::report::Report;
use rounds::{Rounds, Spread, Variant};
use session::Session;

/// The most that our programs may add to what empty ones cost.
const MOST_PROBE_RATIO: f64 = 1.10;
/// The most that our programs may run for, in nanoseconds per launch.
const MOST_PROGRAM_NS: f64 = 150.0;
/// Where the comparison programs are, below the target folder.
const BASELINE: &str = "bpf/gpu-ebpf-baseline";

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Print one JSON object instead of a table.
    #[arg(long)]
    pub(crate) json: bool,
    /// Spoil the instrumentation in one way, to show that the figures notice.
    #[arg(long, value_enum)]
    sabotage: Option<Sabotage>,
    /// Do without a feature of the kernel.
    #[arg(long, value_enum, value_delimiter = ',')]
    disable: Vec<Feature>,
    /// How often all variants are visited, there and back.
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Launches in each visit.
    #[arg(long, default_value_t = 2048, value_parser = clap::value_parser!(u64).range(64..))]
    launches: u64,
    /// Object with the comparison programs, where it is not in the target folder of this program.
    #[arg(long, env = "GPUSTACK_TEST_BASELINE")]
    baseline: Option<PathBuf>,
}

/// Ways to spoil the instrumentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Sabotage {
    /// The launch programs are not attached.
    NoProgram,
    /// A program that wastes time is attached beside ours.
    SlowProgram,
    /// A program that sends one event per launch is attached beside ours.
    EventPerLaunch,
}

/// Features of the kernel that may be left unused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Feature {
    /// One link for many functions; without it, one perf event for each.
    UprobeMulti,
}

/// Measures.
///
/// # Errors
/// What keeps the programs from being loaded, or the process from making its calls.
pub(crate) fn run(options: &Options) -> Result<Report> {
    let baseline = fs::read(baseline_path(options)?).context("cannot read the comparison programs")?;
    let mut session =
        Session::start(&baseline, !options.disable.contains(&Feature::UprobeMulti), options.sabotage)?;

    let rounds = Rounds::measure(options.rounds, |variant| {
        session.with(variant, |session| session.launches(options.launches))
    })?;
    let program_time = program_time::measure(&mut session, options.launches)?;
    let events = session.events_per_call()?;
    let attach_time = attach_time::measure(&mut session)?;

    let mut report = Report::default();
    let probe_ratio = rounds.ratio(Variant::Ours, Variant::Empty);
    let event_ratio = rounds.ratio(Variant::Event, Variant::Empty);
    let plain_ratio = rounds.ratio(Variant::Ours, Variant::Plain);
    report.budgeted("launch_probe_ratio", probe_ratio.map(|spread| spread.median), MOST_PROBE_RATIO);
    report.budgeted("launch_program_ns", program_time.ours_over_empty_ns(), MOST_PROGRAM_NS);
    report.budgeted("events_per_launch", Some(events.launch), 0.0);
    report.budgeted("events_per_copy", Some(events.copy), 0.0);
    report.budgeted("events_per_synchronize", Some(events.synchronize), 0.0);
    let (made, seen) = session.launches_made_and_seen()?;
    report.budgeted("launches_unseen", Some(made.abs_diff(seen)), 0.0);
    report.figure("launches_made", made);
    report.figure("launches_seen", seen);
    for (name, ratio) in [("launch_event_ratio", event_ratio), ("launch_plain_ratio", plain_ratio)] {
        if let Some(ratio) = ratio {
            report.figure(name, ratio.median);
        }
    }
    for (name, variant) in [
        ("launch_ours_us", Variant::Ours),
        ("launch_empty_us", Variant::Empty),
        ("launch_event_us", Variant::Event),
        ("launch_plain_us", Variant::Plain),
    ] {
        if let Some(best_ns) = rounds.best_ns(variant) {
            report.figure(name, best_ns / 1000.0);
        }
    }
    program_time.report(&mut report);
    attach_time.report(&mut report);

    for (name, spread) in [
        ("launch_probe_ratio", probe_ratio),
        ("launch_event_ratio", event_ratio),
        ("launch_plain_ratio", plain_ratio),
    ] {
        if let Some(Spread { low, high, .. }) = spread {
            let rounds = options.rounds;
            report.note(format!("`{name}`: half of {rounds} rounds between {low:.3} and {high:.3}"));
        }
    }
    report.note(match session.mechanism() {
        (Mechanism::UprobeMulti, _) => "attached by uprobe_multi".to_owned(),
        (Mechanism::PerfEvent, why) => {
            format!("attached by perf events, because uprobe_multi is {}", why.unwrap_or("not there"))
        }
    });
    report.note(machine());
    Ok(report)
}

fn baseline_path(options: &Options) -> Result<PathBuf> {
    if let Some(path) = &options.baseline {
        return Ok(path.clone());
    }
    let own = env::current_exe().context("cannot find this program's own file")?;
    own.ancestors()
        .map(|folder| folder.join(BASELINE))
        .find(|path| path.is_file())
        .context("there are no comparison programs: run `cargo xtask build-ebpf`, or name them by --baseline")
}

/// What absolute times hold for.
fn machine() -> String {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or("unknown processor", |(_, model)| model.trim());
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let kernel = rustix::system::uname().release().to_string_lossy().into_owned();
    format!("times are the best of their repetitions on: {model}, {cpus} CPUs, Linux {kernel}")
}

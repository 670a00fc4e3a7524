//! The demo: a simulated node with tenants at work, seen live by the agent, then compared with the workloads' logs.

mod cast;
mod charge;
mod crew;
mod paint;
mod rates;
mod screen;
mod settle;
mod signals;
mod stage;
mod table;
mod units;
mod verdict;
mod view;

use std::{
    collections::{BTreeMap, VecDeque},
    io,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use clap::{Args, ValueEnum};
use gpu_sim::scenario::Scenario;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use self::{
    cast::TENANTS,
    crew::Logs,
    paint::Tone,
    screen::Screen,
    settle::{Settled, settle},
    stage::Stage,
};
use crate::{
    binaries::Binaries,
    compare::{self, Lives, Row},
    metrics::Metrics,
    summary::{Skipped, Summary},
};

/// How the demo is to go.
#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Print nothing but the summary, as one JSON object.
    #[arg(long)]
    pub json: bool,
    /// Go on until Ctrl-C.
    #[arg(long, conflicts_with = "seconds")]
    pub serve: bool,
    /// Time for which the tenants work.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub seconds: u64,
    /// Something that was not done before the demo started, and why; may be repeated.
    #[arg(long, hide = true, value_name = "WHAT=WHY", value_parser = parse_skipped)]
    pub skipped: Vec<Skipped>,
    /// Break something on purpose, so that the comparison must fail.
    #[arg(long, hide = true, value_enum)]
    pub sabotage: Option<Sabotage>,
}

/// What can be broken on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Sabotage {
    /// The agent runs without kernel probes, and is compared as if it had them.
    AgentBlind,
    /// One workload claims one launch that it did not make.
    LogLies,
}

fn parse_skipped(text: &str) -> Result<Skipped, String> {
    let (what, why) = text.split_once('=').ok_or("expected WHAT=WHY")?;
    Ok(Skipped { what: what.to_owned(), why: why.to_owned() })
}

/// The simulated machine.
const PRESET: &str = "2xA10";

/// How often the demo looks after its processes.
const BEAT: Duration = Duration::from_millis(100);

/// How often the demo looks whether the agent probes other programs as well.
const STRANGERS_EVERY_BEATS: u64 = 5;

/// Time over which rates are taken: several readings of the agent, so that they do not jump.
const WINDOW: Duration = Duration::from_secs(3);

/// Most differences that the summary names one by one.
const MOST_NOTES: usize = 20;

/// Runs the demo from start to end.
///
/// # Errors
/// When the node cannot be set up, or a process of it fails. Differences are in the summary, not errors.
pub fn run(options: &Options) -> Result<Summary> {
    signals::catch().context("cannot handle signals")?;
    keep_no_cores().context("cannot switch core files off")?;
    let binaries = Binaries::find()?;
    let mut screen = Screen::new(options.json);
    let mut stage = Stage::set(&binaries, PRESET, options.sabotage)?;
    stage.missing.splice(0..0, options.skipped.iter().cloned());
    introduce(&mut screen, &stage, options)?;
    let result = play(&mut stage, &mut screen, options);
    let summary =
        result.with_context(|| format!("the demo failed; the agent's last words:\n{}", stage.agent_log()))?;
    let Stage { crew, agent, .. } = stage;
    drop(crew);
    agent.stop()?;
    Ok(summary)
}

/// One workload crashes on purpose; nobody wants its core.
fn keep_no_cores() -> rustix::io::Result<()> {
    let limit = getrlimit(Resource::Core);
    setrlimit(Resource::Core, Rlimit { current: Some(0), ..limit })
}

fn introduce(screen: &mut Screen, stage: &Stage, options: &Options) -> io::Result<()> {
    let indices = stage.agent.metrics().map(|metrics| rates::indices(&metrics)).unwrap_or_default();
    let gpus = if indices.is_empty() { "GPUs".to_owned() } else { format!("{} GPUs", indices.len()) };
    let sight = if stage.has_probes { "eBPF probes on libcuda, and NVML" } else { "NVML alone" };
    screen.say(&format!(
        "A simulated node ({PRESET}, {gpus}), {} tenants, and the agent with {sight}.",
        TENANTS.len()
    ))?;
    for Skipped { what, why } in &stage.missing {
        let line = format!("Missing: {what}: {why}");
        let line = screen.paint().apply(Tone::Warning, &line);
        screen.say(&line)?;
    }
    if !stage.has_probes {
        screen.say("Calls are not seen: launches, copies and waits stay unknown (-), what the driver charges is known.")?;
        if !rustix::process::geteuid().is_root() {
            screen.say(
                "BPF programs need root, or CAP_BPF and CAP_PERFMON: run it as root to see every call.",
            )?;
        }
    }
    screen.say(&format!("Metrics: http://{}/metrics", stage.agent.address()))?;
    let length = if options.serve { "until Ctrl-C".to_owned() } else { format!("for {} s", options.seconds) };
    screen.say(&format!("The tenants work {length}."))
}

fn play(stage: &mut Stage, screen: &mut Screen, options: &Options) -> Result<Summary> {
    let start = Instant::now();
    stage.crew.work(&stage.machine)?;
    stage.crew.wait_until_ready()?;
    let deadline = (!options.serve).then(|| start + Duration::from_secs(options.seconds));
    watch(stage, screen, start, deadline)?;
    let seconds = start.elapsed().as_secs();
    screen.say("")?;
    screen.say("The work has ended; comparing what the workloads logged with what the agent reports.")?;
    stage.crew.rest()?;

    let claims_probes = stage.has_probes || options.sabotage == Some(Sabotage::AgentBlind);
    let mut summary =
        if claims_probes { compare_calls(stage, screen, options)? } else { compare_charges(stage, screen)? };
    summary.figures.insert("seconds".to_owned(), seconds);
    summary.figures.insert("kernel_probes".to_owned(), u64::from(stage.has_probes));
    summary.figures.insert("tenants".to_owned(), TENANTS.len() as u64);
    summary.skipped.clone_from(&stage.missing);
    Ok(summary)
}

/// Shows the tables and keeps everybody at work, until the deadline or a signal.
fn watch(stage: &mut Stage, screen: &mut Screen, start: Instant, deadline: Option<Instant>) -> Result<()> {
    let names: Vec<&str> = TENANTS.iter().map(|tenant| tenant.name).collect();
    let mut scrapes: VecDeque<(Instant, Metrics)> = VecDeque::new();
    // A rate needs two scrapes.
    scrapes.push_back((start, stage.agent.metrics()?));
    screen.rest(start);
    for beat in 0_u64.. {
        stage.crew.tend()?;
        let now = Instant::now();
        if signals::end_is_requested() || deadline.is_some_and(|deadline| now >= deadline) {
            break;
        }
        stage.crew.work(&stage.machine)?;
        if beat.is_multiple_of(STRANGERS_EVERY_BEATS) {
            stage.look_for_strangers()?;
        }
        if screen.is_due(now) {
            let metrics = stage.agent.metrics()?;
            while scrapes.len() > 1 && now.duration_since(scrapes[0].0) > WINDOW {
                scrapes.pop_front();
            }
            scrapes.push_back((now, metrics));
            let (Some((from, before)), Some((_, now_metrics))) = (scrapes.front(), scrapes.back()) else {
                continue;
            };
            let tenants = rates::tenants(before, now_metrics, now.duration_since(*from), &names);
            let lines = view::lines(
                &tenants,
                &rates::gpus(now_metrics),
                &rates::indices(now_metrics),
                screen.paint(),
            );
            screen.show(now, &format!("after {} s", start.elapsed().as_secs()), &lines)?;
        }
        std::thread::sleep(BEAT);
    }
    Ok(())
}

/// Every number that the workloads logged against the agent's.
fn compare_calls(stage: &mut Stage, screen: &mut Screen, options: &Options) -> Result<Summary> {
    let lie = |logs: Logs| if options.sabotage == Some(Sabotage::LogLies) { with_a_lie(logs) } else { logs };
    let rows = |metrics: &Metrics, logs: &Logs| -> Vec<Row> {
        let of_tenant = |(tenant, truths): &(&str, Vec<_>)| {
            let truths: Vec<(_, Lives)> = truths.iter().map(|(truth, lives)| (truth, *lives)).collect();
            compare::tenant_with_lives(metrics, tenant, &truths)
        };
        logs.iter().flat_map(of_tenant).collect()
    };
    let logs = lie(stage.crew.logs()?);
    let held = settle(&stage.agent, |metrics| verdict::held(rows(metrics, &logs)), Row::agrees)?.rows;
    stage.crew.dismiss()?;
    let logs = lie(stage.crew.logs()?);
    let Settled { metrics, rows } = settle(&stage.agent, |metrics| rows(metrics, &logs), Row::agrees)?;

    let rows = verdict::with_held(rows, held);
    stage.look_for_strangers()?;
    let losses = losses(&metrics, !stage.strangers.is_empty());
    let mismatches = compare::mismatches(&rows);
    let figures = figures(&logs, &rows, mismatches.len(), &losses);
    let ok = mismatches.is_empty()
        && losses.is_empty()
        && figures.get("launches").is_some_and(|launches| *launches > 0);
    let mut notes: Vec<String> = mismatches.iter().take(MOST_NOTES).map(ToString::to_string).collect();
    if figures.get("launches").is_none_or(|launches| *launches == 0) {
        notes.push(
            "it ended before any tenant had launched a kernel: there is nothing to agree on".to_owned(),
        );
    }
    if mismatches.len() > MOST_NOTES {
        notes.push(format!("and {} more differences", mismatches.len() - MOST_NOTES));
    }
    notes.extend(stage.strangers.iter().map(|path| {
        format!("programs that are not the demo's use `{path}`: calls that were missed may be theirs and are left out")
    }));
    notes.extend(losses.iter().map(|(what, count)| format!("lost: {what}: {count}")));

    let mut lines = verdict::lines(&rows, &rates::indices(&metrics), screen.paint());
    lines.push(String::new());
    let verdict = format!(
        "{} numbers compared, {} differ; {} events dropped.",
        verdict::compared(&rows),
        mismatches.len(),
        figures.get("drops").copied().unwrap_or_default()
    );
    lines.push(screen.paint().apply(if ok { Tone::Good } else { Tone::Bad }, &verdict));
    lines.extend(losses.iter().map(|(what, count)| format!("Lost: {what}: {count}")));
    screen.conclude(&lines)?;
    Ok(Summary { ok, figures, skipped: Vec::new(), notes })
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "losses are counted by whole numbers"
)]
fn figures(
    logs: &Logs,
    rows: &[Row],
    mismatches: usize,
    losses: &BTreeMap<String, f64>,
) -> BTreeMap<String, u64> {
    let logged = |metric: &str| {
        rows.iter()
            .filter(|row| row.what.split(' ').next() == Some(metric))
            .map(|row| row.logged)
            .sum::<u64>()
    };
    let processes = logs.iter().map(|(_, truths)| truths.len()).sum::<usize>();
    [
        ("mismatches", mismatches as u64),
        ("drops", losses.values().sum::<f64>() as u64),
        ("compared", verdict::compared(rows) as u64),
        ("processes", processes as u64),
        ("launches", logged("gpu_tenant_launches_total")),
        ("graph_launches", logged("gpu_tenant_graph_launches_total")),
        ("allocated_bytes", logged("gpu_tenant_memory_allocated_bytes_total")),
        ("copied_bytes", logged("gpu_tenant_memcpy_io_bytes_total")),
        ("errors", logged("gpu_tenant_errors_total")),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect()
}

/// The same logs with one launch more in the first of them that has any.
fn with_a_lie(mut logs: Logs) -> Logs {
    let truths = logs.iter_mut().flat_map(|(_, truths)| truths);
    let mut gpus = truths.flat_map(|(truth, _)| truth.gpus.values_mut());
    if let Some(gpu) = gpus.find(|gpu| gpu.launches > 0) {
        gpu.launches += 1;
    }
    logs
}

/// What the agent lost, of the demo as far as that can be told.
///
/// Where strangers' calls are probed too, those that were under way when the agent came are missed, and so are frees of
/// what was allocated before. A tenant's own missed call needs no counter: it is a difference.
fn losses(metrics: &Metrics, has_strangers: bool) -> BTreeMap<String, f64> {
    let mut losses = compare::losses(metrics);
    losses.retain(|what, _| !has_strangers || !what.starts_with("gpu_agent_probes_missed_total"));
    losses
}

/// What the driver charges against what the workloads hold.
fn compare_charges(stage: &mut Stage, screen: &mut Screen) -> Result<Summary> {
    let gpus = Scenario::preset(PRESET)?.gpus;
    let context_bytes = gpus.first().map_or(0, |gpu| gpu.model.memory.context_bytes);
    let logs = stage.crew.logs()?;
    let compare = |metrics: &Metrics| charge::compare(metrics, &logs, context_bytes);
    let Settled { metrics, rows } = settle(&stage.agent, compare, charge::Charge::agrees)?;
    stage.crew.dismiss()?;

    let differing: Vec<_> = rows.iter().filter(|row| !row.agrees()).collect();
    let ok = differing.is_empty() && !rows.is_empty();
    let mut lines = charge::lines(&rows, &rates::indices(&metrics), screen.paint());
    lines.push(String::new());
    let verdict = format!(
        "{} charges compared, {} differ. Calls were not seen: there is nothing to compare launches and copies with.",
        rows.len(),
        differing.len()
    );
    lines.push(screen.paint().apply(if ok { Tone::Good } else { Tone::Bad }, &verdict));
    screen.conclude(&lines)?;
    let figures = [("mismatches", differing.len() as u64), ("drops", 0), ("compared", rows.len() as u64)];
    Ok(Summary {
        ok,
        figures: figures.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        skipped: Vec::new(),
        notes: differing.iter().map(ToString::to_string).collect(),
    })
}

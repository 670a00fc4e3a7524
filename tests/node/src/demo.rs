//! The demo: a simulated node with tenants at work, seen live by the agent, then compared with the workloads' logs.

mod cast;
mod charge;
mod crew;
mod judge;
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
    collections::VecDeque,
    io,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use clap::{Args, ValueEnum};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use self::{cast::TENANTS, paint::Tone, screen::Screen, stage::Stage};
use crate::{
    binaries::Binaries,
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
    /// Time for which the tenants work, in seconds.
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
        if claims_probes { judge::calls(stage, screen, options)? } else { judge::charges(stage, screen)? };
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

//! `gpu-sim show`: the machine's state, for people and for tests.

use clap::Args;
use gpu_sim::{machine::Machine, state};

use super::{Directory, say};

#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    directory: Directory,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let machine = Machine::open(&options.directory.path)?;
    let state = state::read(&machine);
    if options.json {
        say(&serde_json::to_string_pretty(&state)?)?;
        return Ok(());
    }
    say(&format!("{}, {}", state.scenario, if state.served { "served" } else { "no daemon" }))?;
    for gpu in &state.gpus {
        say(&format!(
            "{} {}: {} of {} MiB used, {} % busy, {:.1} W, {:.1} C, {:.3} s of SM time",
            gpu.uuid,
            gpu.name,
            gpu.memory_used_bytes >> 20,
            gpu.memory_total_bytes >> 20,
            gpu.utilization_percent,
            f64::from(gpu.power_mw) / 1e3,
            f64::from(gpu.temperature_millicelsius) / 1e3,
            gpu.busy_ns as f64 / 1e9,
        ))?;
        for process in &gpu.processes {
            let pid = process.pid.map_or_else(|| "unknown".to_owned(), |pid| pid.to_string());
            say(&format!(
                "  pid {pid}: {} contexts, {} MiB, {} launches, {:.3} s of SM time",
                process.contexts,
                process.memory_bytes >> 20,
                process.counters.launches,
                process.busy_ns as f64 / 1e9,
            ))?;
        }
    }
    Ok(())
}

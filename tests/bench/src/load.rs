//! The process whose calls are measured. It makes the same calls whatever is attached to them.

pub(crate) mod driver;

use std::{
    io::{self, BufRead as _, Write as _},
    path::PathBuf,
    time::Instant,
};

use anyhow::{Context as _, Result, bail};

use driver::Driver;

/// Launches that are timed together: short enough that most batches run without being preempted.
const BATCH: u64 = 64;
/// Launches between two waits for the device, below the 1024 that a stream takes before a launch blocks.
const QUEUED: u64 = 8 * BATCH;

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Library to load.
    #[arg(long)]
    libcuda: PathBuf,
}

/// Answers commands until standard input ends.
///
/// `launch N`, `copy N` and `synchronize N` make N successful calls and answer with the median time of one in
/// nanoseconds.
///
/// # Errors
/// A command that is not one, and a call that fails.
pub(crate) fn run(options: &Options) -> Result<()> {
    let driver = Driver::start(&options.libcuda)?;
    let mut output = io::stdout();
    writeln!(output, "ready").context("failed to answer")?;
    for line in io::stdin().lock().lines() {
        let line = line.context("failed to read a command")?;
        let (command, count) = line.split_once(' ').context("a command is `NAME COUNT`")?;
        let count = count.parse().with_context(|| format!("`{count}` is no count"))?;
        let median_ns = match command {
            "launch" => median_of_batches(count, &driver, Driver::launch)?,
            "copy" => median_of_batches(count, &driver, Driver::copy)?,
            "synchronize" => median_of_batches(count, &driver, Driver::synchronize)?,
            other => bail!("there is no command `{other}`"),
        };
        writeln!(output, "{median_ns}").context("failed to answer")?;
    }
    Ok(())
}

/// Makes `count` calls in batches; the device is waited for between batches, outside the time that counts.
fn median_of_batches(count: u64, driver: &Driver, call: impl Fn(&Driver) -> Result<()>) -> Result<f64> {
    let mut times = Vec::new();
    let (mut left, mut queued) = (count, 0);
    while left > 0 {
        let batch = left.min(BATCH);
        let begun = Instant::now();
        for _ in 0..batch {
            call(driver)?;
        }
        times.push(begun.elapsed().as_secs_f64() * 1e9 / batch as f64);
        left -= batch;
        queued += batch;
        if queued >= QUEUED {
            driver.synchronize()?;
            queued = 0;
        }
    }
    driver.synchronize()?;
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().context("no call was asked for")
}

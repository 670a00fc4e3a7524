//! Waits until the agent has read what there is to read.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::signals;
use crate::{agent::Agent, metrics::Metrics};

/// How long both sides may differ. Without tracepoints the agent finds ended processes within ten seconds.
const PATIENCE: Duration = Duration::from_secs(12);
const PAUSE: Duration = Duration::from_millis(50);

/// The last comparison, and the scrape that it was made with.
#[derive(Debug)]
pub(super) struct Settled<T> {
    pub(super) metrics: Metrics,
    pub(super) rows: Vec<T>,
}

/// Compares until all rows agree in two readings of the agent, one after the other: what agrees only in passing does
/// not. Gives up, with the last rows, when that takes too long.
///
/// # Errors
/// When the agent does not answer, or nobody wants to wait any longer.
pub(super) fn settle<T>(
    agent: &Agent,
    compare: impl Fn(&Metrics) -> Vec<T>,
    agrees: impl Fn(&T) -> bool,
) -> Result<Settled<T>> {
    let deadline = Instant::now() + PATIENCE;
    let mut agreed_at = None;
    loop {
        ensure!(!signals::haste_is_requested(), "interrupted");
        // Taken before the scrape, which is then of this reading or a later one.
        let reading = agent.status()?["time_unix_seconds"].as_f64();
        let metrics = agent.metrics()?;
        let rows = compare(&metrics);
        if !rows.iter().all(&agrees) {
            agreed_at = None;
        } else if agreed_at.is_some_and(|agreed| agreed != reading) {
            return Ok(Settled { metrics, rows });
        } else if agreed_at.is_none() {
            agreed_at = Some(reading);
        }
        if Instant::now() >= deadline {
            return Ok(Settled { metrics, rows });
        }
        std::thread::sleep(PAUSE);
    }
}

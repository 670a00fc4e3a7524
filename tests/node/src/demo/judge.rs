//! Compares, and puts the result into words and figures.

use std::collections::BTreeMap;

use anyhow::Result;
use gpu_sim::scenario::Scenario;

use super::{
    Options, PRESET, Sabotage, charge,
    crew::Logs,
    paint::Tone,
    rates,
    screen::Screen,
    settle::{Settled, settle},
    stage::Stage,
    verdict,
};
use crate::{
    compare::{self, Lives, Row},
    metrics::Metrics,
    summary::Summary,
};

/// Most differences that the summary names one by one.
const MOST_NOTES: usize = 20;

/// Every number that the workloads logged against the agent's.
pub(super) fn calls(stage: &mut Stage, screen: &mut Screen, options: &Options) -> Result<Summary> {
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
pub(super) fn charges(stage: &mut Stage, screen: &mut Screen) -> Result<Summary> {
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

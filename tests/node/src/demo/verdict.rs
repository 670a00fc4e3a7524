//! What the workloads logged against what the agent reported, for people and as figures.

use super::{
    paint::{Paint, Tone},
    rates,
    table::{
        Align::{Left, Right},
        Cell, Table,
    },
    units,
};
use crate::compare::Row;

/// The metrics that are shown even where both sides agree, and what they are called; the others only where they differ.
const SHOWN: [(&str, &str); 8] = [
    ("gpu_tenant_launches_total", "launches"),
    ("gpu_tenant_graph_launches_total", "graph launches"),
    ("gpu_tenant_memory_allocated_bytes_total", "bytes allocated"),
    ("gpu_tenant_memory_freed_bytes_total", "bytes freed"),
    (HELD, "bytes held after the work"),
    (RECLAIMED, "bytes held at a crash"),
    ("gpu_tenant_memcpy_io_bytes_total", "bytes copied"),
    ("gpu_tenant_errors_total", "errors"),
];

const HELD: &str = "gpu_tenant_memory_usage_bytes";
const RECLAIMED: &str = "gpu_tenant_memory_reclaimed_bytes_total";

/// The rows that only hold while the processes that have finished their work still keep their memory.
pub(super) fn held(rows: Vec<Row>) -> Vec<Row> {
    rows.into_iter().filter(|row| metric(row) == HELD).collect()
}

/// The comparison with what was held in the place of what is held by nobody any more.
///
/// A row for nothing that stays nothing stays: that the agent lets go of what ended is a part of the comparison.
pub(super) fn with_held(ended: Vec<Row>, held: Vec<Row>) -> Vec<Row> {
    let (gone, mut rows): (Vec<Row>, Vec<Row>) = ended.into_iter().partition(|row| metric(row) == HELD);
    rows.extend(gone.into_iter().filter(|row| !row.agrees()));
    rows.extend(held);
    rows
}

/// Numbers that were not zero on both sides.
pub(super) fn compared(rows: &[Row]) -> usize {
    rows.iter().filter(|row| row.logged > 0 || row.reported.is_some_and(|value| value != 0.0)).count()
}

/// One line of the table: the sum of the rows that differ only in a kind or direction.
#[derive(Debug, PartialEq)]
struct Line {
    tenant: String,
    gpu: String,
    what: String,
    logged: u64,
    reported: Option<f64>,
    agrees: bool,
}

/// The table, with a mark or the difference for each line.
pub(super) fn lines(rows: &[Row], indices: &[(String, u32)], paint: Paint) -> Vec<String> {
    let mut table = Table::new(&[
        ("TENANT", Left),
        ("GPU", Left),
        ("WHAT", Left),
        ("WORKLOADS LOGGED", Right),
        ("AGENT REPORTED", Right),
        ("", Left),
    ]);
    for line in condense(rows, indices) {
        let (mark, tone) = match (line.agrees, line.reported) {
            (true, _) => ("\u{2713}".to_owned(), Tone::Good),
            (false, None) => ("\u{2717} not reported".to_owned(), Tone::Bad),
            (false, Some(reported)) => (format!("\u{2717} {:+}", reported - as_f64(line.logged)), Tone::Bad),
        };
        table.push(vec![
            Cell::new(line.tenant),
            Cell::new(rates::short_name(indices, &line.gpu)),
            Cell::new(line.what),
            Cell::new(units::grouped(line.logged)),
            line.reported.map_or_else(|| Cell::new("-"), |value| Cell::new(units::grouped_value(value))),
            Cell::toned(mark, tone),
        ]);
    }
    table.lines(paint)
}

/// The lines, tenants in the order of the rows, GPUs in the order of their indices.
fn condense(rows: &[Row], indices: &[(String, u32)]) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for row in rows {
        let Some(what) = title(row) else { continue };
        let same = |line: &&mut Line| line.tenant == row.tenant && line.gpu == row.gpu && line.what == what;
        if let Some(line) = lines.iter_mut().find(same) {
            line.logged += row.logged;
            line.reported = match (line.reported, row.reported) {
                (Some(sum), more) => Some(sum + more.unwrap_or_default()),
                (None, more) => more,
            };
            line.agrees &= row.agrees();
        } else {
            let Row { tenant, gpu, logged, reported, .. } = row.clone();
            lines.push(Line { tenant, gpu, what, logged, reported, agrees: row.agrees() });
        }
    }
    lines.retain(|line| !line.agrees || line.logged > 0);
    lines.sort_by_key(|line| {
        let tenant = rows.iter().position(|row| row.tenant == line.tenant);
        let gpu = indices.iter().position(|(uuid, _)| *uuid == line.gpu).unwrap_or(indices.len());
        let what = SHOWN.iter().position(|(_, title)| *title == line.what).unwrap_or(SHOWN.len());
        (tenant, gpu, line.gpu.clone(), what)
    });
    lines
}

/// What the row is called, if it is shown.
fn title(row: &Row) -> Option<String> {
    let shown = SHOWN.iter().find(|(name, _)| *name == metric(row)).map(|(_, title)| (*title).to_owned());
    shown.or_else(|| (!row.agrees()).then(|| row.what.clone()))
}

fn metric(row: &Row) -> &str {
    row.what.split(' ').next().unwrap_or_default()
}

#[expect(clippy::cast_precision_loss, reason = "counts below 2^53 are exact")]
fn as_f64(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(what: &str, logged: u64, reported: Option<f64>) -> Row {
        Row { tenant: "a".to_owned(), gpu: "GPU-1".to_owned(), what: what.to_owned(), logged, reported }
    }

    #[test]
    fn kinds_are_added_up_and_only_differences_of_the_rest_are_shown() {
        let rows = [
            row("gpu_tenant_memcpy_io_bytes_total peer", 5, Some(5.0)),
            row("gpu_tenant_memcpy_io_bytes_total array", 7, Some(6.0)),
            row("gpu_tenant_launches_total", 1234, Some(1234.0)),
            row("gpu_tenant_graph_launches_total", 0, None),
            row("gpu_tenant_memcpy_calls_total peer", 1, Some(1.0)),
            row("gpu_tenant_memcpy_calls_total array", 2, None),
        ];
        assert_eq!(
            lines(&rows, &[("GPU-1".to_owned(), 0)], Paint::new(false)),
            [
                "  TENANT  GPU  WHAT                                 WORKLOADS LOGGED  AGENT REPORTED  ",
                "  a       0 1  launches                                        1 234           1 234  \u{2713}",
                "  a       0 1  bytes copied                                       12              11  \u{2717} -1",
                "  a       0 1  gpu_tenant_memcpy_calls_total array                 2               -  \u{2717} not reported",
            ]
        );
        assert_eq!(compared(&rows), 5);
    }

    #[test]
    fn what_is_still_reported_as_held_after_the_end_differs() {
        let held = held(vec![
            row(&format!("{HELD} device"), 9, Some(9.0)),
            row("gpu_tenant_launches_total", 1, None),
        ]);
        assert_eq!(held.len(), 1);
        let gone = row(&format!("{HELD} device"), 0, None);
        let kept = row(&format!("{HELD} device"), 0, Some(3.0));
        assert_eq!(with_held(vec![gone], held.clone()), held);
        assert_eq!(with_held(vec![kept.clone()], held.clone()), [vec![kept], held].concat());
    }
}

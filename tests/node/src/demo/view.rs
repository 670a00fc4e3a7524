//! The live tables.

use super::{
    paint::{Paint, Tone},
    rates::{self, GpuLine, TenantLine},
    table::{
        Align::{Left, Right},
        Cell, Table,
    },
    units,
};

/// Share of a GPU's time or memory from which on it is shown as scarce.
const SCARCE: f64 = 0.9;

const NOT_KNOWN: &str = "-";

/// The table of tenants, and the one of GPUs below it.
pub(super) fn lines(
    tenants: &[TenantLine],
    gpus: &[GpuLine],
    indices: &[(String, u32)],
    paint: Paint,
) -> Vec<String> {
    let mut table = Table::new(&[
        ("TENANT", Left),
        ("GPU", Left),
        ("LAUNCHES/s", Right),
        ("GRAPHS/s", Right),
        ("HELD", Right),
        ("CHARGED", Right),
        ("TO GPU", Right),
        ("FROM GPU", Right),
        ("OTHER COPIES", Right),
        ("WAITING", Right),
        ("ERRORS", Right),
    ]);
    for line in tenants {
        table.push(vec![
            Cell::new(&line.tenant),
            Cell::new(rates::short_name(indices, &line.gpu)),
            cell(line.launches_per_second, units::rate),
            cell(line.graph_launches_per_second, units::rate),
            cell(line.held_bytes, units::bytes),
            cell(line.charged_bytes, units::bytes),
            cell(line.to_gpu_bytes_per_second, units::bytes_per_second),
            cell(line.from_gpu_bytes_per_second, units::bytes_per_second),
            cell(line.other_copied_bytes_per_second, units::bytes_per_second),
            warn_above(cell(line.waiting_share, units::percent), line.waiting_share, SCARCE),
            warn_above(cell(line.errors, units::rate), line.errors, 0.0),
        ]);
    }
    let mut lines = table.lines(paint);
    lines.push(String::new());

    let mut table = Table::new(&[
        ("GPU", Left),
        ("MODEL", Left),
        ("BUSY", Right),
        ("MEMORY", Right),
        ("OF", Right),
        ("POWER", Right),
        ("TEMPERATURE", Right),
    ]);
    for line in gpus {
        table.push(vec![
            Cell::new(rates::short_name(indices, &line.gpu)),
            Cell::new(&line.model),
            warn_above(cell(line.utilization, units::percent), line.utilization, SCARCE),
            cell(line.used_bytes, units::bytes),
            cell(line.total_bytes, units::bytes),
            cell(line.power_watts, |watts| format!("{watts:.0} W")),
            cell(line.temperature_celsius, |degrees| format!("{degrees:.0} \u{b0}C")),
        ]);
    }
    lines.extend(table.lines(paint));
    lines
}

fn cell(value: Option<f64>, text: impl Fn(f64) -> String) -> Cell {
    value.map_or_else(|| Cell::toned(NOT_KNOWN, Tone::Faint), |value| Cell::new(text(value)))
}

fn warn_above(cell: Cell, value: Option<f64>, limit: f64) -> Cell {
    if value.is_some_and(|value| value > limit) { Cell { tone: Tone::Warning, ..cell } } else { cell }
}

//! Figures, their budgets, and whether the budgets are kept.

use std::{
    collections::BTreeMap,
    io::{self, Write as _},
    process::ExitCode,
};

use anyhow::{Context as _, Result};
use serde::Serialize;

/// A measured number; its unit is in its name.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub(crate) enum Value {
    Count(u64),
    Measure(f64),
}

impl From<u64> for Value {
    fn from(count: u64) -> Self {
        Self::Count(count)
    }
}

impl From<f64> for Value {
    fn from(measure: f64) -> Self {
        Self::Measure((measure * 1000.0).round() / 1000.0)
    }
}

impl Value {
    fn as_f64(self) -> f64 {
        match self {
            Self::Count(count) => count as f64,
            Self::Measure(measure) => measure,
        }
    }

    fn text(self) -> String {
        match self {
            Self::Count(count) => count.to_string(),
            Self::Measure(measure) => format!("{measure:.3}"),
        }
    }
}

/// One line of the result.
#[derive(Clone, Debug)]
struct Row {
    name: &'static str,
    /// `None` when it could not be measured, which misses its budget if it has one.
    value: Option<Value>,
    /// The most that it may be.
    budget: Option<f64>,
}

impl Row {
    fn keeps_budget(&self) -> bool {
        let Some(budget) = self.budget else { return true };
        self.value.is_some_and(|value| value.as_f64() <= budget)
    }
}

/// Something that was not measured.
#[derive(Clone, Debug, Serialize)]
struct Skipped {
    what: &'static str,
    why: String,
}

/// The result of one benchmark.
#[derive(Clone, Debug, Default)]
pub(crate) struct Report {
    rows: Vec<Row>,
    skipped: Vec<Skipped>,
    notes: Vec<String>,
}

impl Report {
    /// Adds a figure without a budget.
    pub(crate) fn figure(&mut self, name: &'static str, value: impl Into<Value>) {
        self.rows.push(Row { name, value: Some(value.into()), budget: None });
    }

    /// Adds a figure that may be at most `budget`; one that could not be measured misses it.
    pub(crate) fn budgeted(&mut self, name: &'static str, value: Option<impl Into<Value>>, budget: f64) {
        self.rows.push(Row { name, value: value.map(Into::into), budget: Some(budget) });
    }

    pub(crate) fn skip(&mut self, what: &'static str, why: impl Into<String>) {
        self.skipped.push(Skipped { what, why: why.into() });
    }

    pub(crate) fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// Whether every budget is kept.
    pub(crate) fn ok(&self) -> bool {
        self.rows.iter().all(Row::keeps_budget)
    }

    /// Prints one JSON object, or a table; the exit code says whether every budget is kept.
    pub(crate) fn print(&self, json: bool) -> Result<ExitCode> {
        let text = if json { self.json()? + "\n" } else { self.table() };
        io::stdout().write_all(text.as_bytes()).context("failed to print the figures")?;
        Ok(if self.ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    fn json(&self) -> Result<String> {
        #[derive(Serialize)]
        struct Object<'a> {
            ok: bool,
            figures: BTreeMap<&'static str, Value>,
            skipped: &'a [Skipped],
            notes: Vec<String>,
        }
        let object = Object {
            ok: self.ok(),
            figures: self.rows.iter().filter_map(|row| Some((row.name, row.value?))).collect(),
            skipped: &self.skipped,
            notes: self.missed().chain(self.notes.iter().cloned()).collect(),
        };
        serde_json::to_string(&object).context("failed to write the figures as JSON")
    }

    fn missed(&self) -> impl Iterator<Item = String> {
        self.rows.iter().filter(|row| !row.keeps_budget()).map(|Row { name, value, budget }| {
            let budget = budget.unwrap_or_default();
            match value {
                Some(value) => format!("`{name}` is {}, its budget is at most {budget}", value.text()),
                None => format!("`{name}` could not be measured, its budget is at most {budget}"),
            }
        })
    }

    fn table(&self) -> String {
        let cells: Vec<[String; 4]> = self
            .rows
            .iter()
            .map(|row| {
                let value = row.value.map_or_else(|| "-".to_owned(), Value::text);
                let budget = row.budget.map_or_else(String::new, |budget| format!("<= {budget}"));
                let verdict = match (row.budget.is_some(), row.keeps_budget()) {
                    (false, _) => "",
                    (true, true) => "ok",
                    (true, false) => "MISSED",
                };
                [row.name.to_owned(), value, budget, verdict.to_owned()]
            })
            .collect();
        let width = |column: usize| cells.iter().map(|row| row[column].len()).max().unwrap_or(0);
        let (name, value, budget) = (width(0), width(1), width(2));
        let mut text = String::new();
        for [a, b, c, d] in &cells {
            text += format!("{a:name$}  {b:>value$}  {c:budget$}  {d}").trim_end();
            text.push('\n');
        }
        let skipped = self.skipped.iter().map(|Skipped { what, why }| format!("skipped {what}: {why}"));
        for line in skipped.chain(self.notes.iter().map(|note| format!("note: {note}"))) {
            text = text + &line + "\n";
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_json_has_the_documented_shape() {
        let mut report = Report::default();
        report.figure("made", 7_u64);
        report.budgeted("ratio", Some(1.04), 1.1);
        report.skip("rest", "too slow");
        report.note("a note");
        assert_eq!(
            report.json().unwrap(),
            r#"{"ok":true,"figures":{"made":7,"ratio":1.04},"skipped":[{"what":"rest","why":"too slow"}],"notes":["a note"]}"#
        );
    }

    #[test]
    fn a_missed_budget_and_a_figure_that_is_missing_are_not_ok_and_named() {
        let mut report = Report::default();
        report.budgeted("ratio", Some(1.2), 1.1);
        report.budgeted("time_ns", None::<f64>, 150.0);
        assert!(!report.ok());
        assert_eq!(
            report.json().unwrap(),
            r#"{"ok":false,"figures":{"ratio":1.2},"skipped":[],"notes":["`ratio` is 1.200, its budget is at most 1.1","`time_ns` could not be measured, its budget is at most 150"]}"#
        );
    }

    #[test]
    fn the_table_is_aligned() {
        let mut report = Report::default();
        report.figure("made", 12_345_u64);
        report.budgeted("ratio", Some(1.2), 1.1);
        assert_eq!(report.table(), "made   12345\nratio  1.200  <= 1.1  MISSED\n");
    }
}

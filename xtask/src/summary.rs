//! The one shape of every `--json` output.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write as _};
use std::process::{ExitCode, Stdio};

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

/// What a command found out. `ok` is false when a budget is missed or a check failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Summary {
    pub(crate) ok: bool,
    pub(crate) figures: BTreeMap<String, Figure>,
    pub(crate) skipped: Vec<Skipped>,
    pub(crate) notes: Vec<String>,
}

/// A measured number; its unit is in its name.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Figure {
    Count(u64),
    Measure(f64),
}

/// Something that was not done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Skipped {
    pub(crate) what: String,
    pub(crate) why: String,
}

impl Summary {
    /// A summary of nothing, which is fine.
    pub(crate) fn new() -> Self {
        Self { ok: true, figures: BTreeMap::new(), skipped: Vec::new(), notes: Vec::new() }
    }

    pub(crate) fn count(&mut self, name: &str, value: u64) {
        self.figures.insert(name.to_owned(), Figure::Count(value));
    }

    pub(crate) fn skip(&mut self, what: impl Into<String>, why: impl Into<String>) {
        self.skipped.push(Skipped { what: what.into(), why: why.into() });
    }

    pub(crate) fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// The exit code that says the same as `ok`.
    pub(crate) fn exit_code(&self) -> ExitCode {
        if self.ok { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

/// Where a summary goes: nowhere, or as JSON to what was standard output when the command began.
pub(crate) struct Output {
    json: Option<File>,
}

impl Output {
    /// With `--json`, turns standard output into standard error for this process and all that it starts, so that the
    /// summary is the only thing that reaches the caller's pipe.
    pub(crate) fn begin(json: bool) -> Result<Self> {
        if !json {
            return Ok(Self { json: None });
        }
        let stdout = rustix::io::dup(io::stdout()).context("failed to duplicate standard output")?;
        rustix::stdio::dup2_stdout(io::stderr())
            .context("failed to point standard output at standard error")?;
        Ok(Self { json: Some(File::from(stdout)) })
    }

    /// What was standard output when the command began, for a program that prints the summary itself.
    pub(crate) fn into_stdio(self) -> Stdio {
        self.json.map_or_else(Stdio::inherit, Stdio::from)
    }

    /// Prints the summary where it was asked for.
    pub(crate) fn finish(self, summary: &Summary) -> Result<ExitCode> {
        if let Some(mut stdout) = self.json {
            let text = serde_json::to_string(summary).context("failed to write the summary as JSON")?;
            writeln!(stdout, "{text}").context("failed to print the summary")?;
        }
        Ok(summary.exit_code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_has_the_documented_shape() {
        let mut summary = Summary::new();
        summary.count("failed", 0);
        summary.skip("node", "needs root");
        summary.note("one note");
        assert_eq!(
            serde_json::to_string(&summary).unwrap(),
            r#"{"ok":true,"figures":{"failed":0},"skipped":[{"what":"node","why":"needs root"}],"notes":["one note"]}"#
        );
    }

    #[test]
    fn a_summary_of_another_program_is_passed_on_unchanged() {
        let text = r#"{"ok":false,"figures":{"made":7,"per_call":0.0,"ratio":1.25},"skipped":[],"notes":[]}"#;
        let summary: Summary = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&summary).unwrap(), text);
    }
}

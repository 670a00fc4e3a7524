//! Prometheus' checker of expositions.

use std::{
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result};

/// What `promtool check metrics` says about an exposition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The exit status; absent where a signal ended it.
    pub code: Option<i32>,
    /// Everything that it printed.
    pub output: String,
}

/// Checks an exposition in the text format.
///
/// # Errors
/// When promtool cannot be run.
pub fn check(program: &Path, exposition: &str) -> Result<Verdict> {
    let mut child = Command::new(program)
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start `{}`", program.display()))?;
    let mut input = child.stdin.take().context("promtool has no input")?;
    input.write_all(exposition.as_bytes()).context("promtool does not read its input")?;
    drop(input);
    let output = child.wait_with_output()?;
    let printed = [output.stdout, output.stderr].concat();
    Ok(Verdict { code: output.status.code(), output: String::from_utf8_lossy(&printed).into_owned() })
}

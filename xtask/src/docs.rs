//! `docs`: writes the generated pages, or checks that they and all links are right.

mod links;
mod measurements;

use std::fs;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context as _, Result, ensure};
use xshell::cmd;

use crate::summary::{Output, Summary};
use crate::terminal::Paint;
use crate::workspace::{Workspace, cargo};

/// Writes the generated pages of `docs/`, or checks them and every link.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Change nothing; fail where a page is out of date, a link leads nowhere or a figure has no command.
    #[arg(long)]
    check: bool,
    /// Print one JSON object to standard output, and everything else to standard error.
    #[arg(long)]
    json: bool,
}

/// A page, and the arguments of the cargo command that prints it.
const GENERATED: [(&str, &[&str]); 1] =
    [("docs/metrics.md", &["run", "--quiet", "--package", "gpu-api", "--bin", "metrics-table"])];

const MEASUREMENTS: &str = "docs/measurements.md";

pub(crate) fn run(options: &Options, workspace: &Workspace) -> Result<ExitCode> {
    let output = Output::begin(options.json)?;
    let summary = if options.check { check(workspace) } else { write(workspace) }?;
    output.finish(&summary)
}

/// Checks the generated pages, the links and the table of figures.
pub(crate) fn check(workspace: &Workspace) -> Result<Summary> {
    let mut findings = Vec::new();
    for (page, arguments) in GENERATED {
        let present = fs::read_to_string(workspace.root.join(page));
        match generate(workspace, arguments) {
            Ok(fresh) if present.is_ok_and(|present| present == fresh) => {}
            Ok(_) => findings.push(format!("{page}: is out of date; `cargo xtask docs` writes it")),
            Err(error) => findings.push(format!("{page}: {error:#}")),
        }
    }
    for path in markdown_files(workspace)? {
        let text = fs::read_to_string(workspace.root.join(&path))
            .with_context(|| format!("failed to read `{path}`"))?;
        let exists = |target: &str| workspace.root.join(target).exists();
        findings.extend(links::broken(&path, &text, exists));
        if path == MEASUREMENTS {
            findings.extend(measurements::without_command(&text).map(|finding| format!("{path}:{finding}")));
        }
    }

    let paint = Paint::for_stdout();
    for finding in &findings {
        println!("{} {finding}", paint.bad("failed"));
    }
    if findings.is_empty() {
        println!("{} docs", paint.good("clean"));
    }
    let mut summary = Summary::new();
    summary.ok = findings.is_empty();
    summary.count("failed", findings.len() as u64);
    summary.notes = findings;
    Ok(summary)
}

fn write(workspace: &Workspace) -> Result<Summary> {
    for (page, arguments) in GENERATED {
        let path = workspace.root.join(page);
        let text = generate(workspace, arguments)?;
        fs::write(&path, text).with_context(|| format!("failed to write `{}`", path.display()))?;
        println!("{page}");
    }
    Ok(Summary::new())
}

fn generate(workspace: &Workspace, arguments: &[&str]) -> Result<String> {
    let cargo = cargo();
    let command = cmd!(workspace.shell, "{cargo} {arguments...}");
    let text = command.to_string();
    let output = Command::from(command).stderr(Stdio::inherit()).output();
    let output = output.with_context(|| format!("failed to start `{text}`"))?;
    ensure!(output.status.success(), "`{text}` ended with {}", output.status);
    String::from_utf8(output.stdout).with_context(|| format!("`{text}` prints no text"))
}

/// The Markdown files that git knows or would take.
fn markdown_files(workspace: &Workspace) -> Result<Vec<String>> {
    let listed = cmd!(workspace.shell, "git ls-files -z --cached --others --exclude-standard *.md")
        .quiet()
        .read()
        .context("failed to list the Markdown files")?;
    let there = |path: &&str| workspace.root.join(path).is_file();
    Ok(listed.split('\0').filter(|path| !path.is_empty()).filter(there).map(str::to_owned).collect())
}

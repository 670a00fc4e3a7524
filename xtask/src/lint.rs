//! `lint`: format, clippy, dependency rules and the repository's own rules.

mod tidy;

use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use xshell::cmd;

use crate::setup::cargo_tool::CARGO_DENY;
use crate::summary::{Output, Summary};
use crate::terminal::Paint;
use crate::workspace::{Workspace, cache_folder, cargo};

/// Checks format, lints, dependencies and the repository's own rules.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Print one JSON object to standard output, and everything else to standard error.
    #[arg(long)]
    json: bool,
}

/// What became of one check.
enum Verdict {
    Clean,
    Skipped(String),
}

pub(crate) fn run(options: &Options, workspace: &Workspace) -> Result<ExitCode> {
    let output = Output::begin(options.json)?;
    output.finish(&check(workspace))
}

/// Runs every check, also after one has failed.
pub(crate) fn check(workspace: &Workspace) -> Summary {
    type Check = fn(&Workspace) -> Result<Verdict>;
    let checks: [(&str, Check); 5] = [
        ("tidy", tidy_rules),
        ("rustfmt", rustfmt),
        ("clippy", clippy),
        ("clippy of the BPF programs", clippy_programs),
        ("cargo-deny", cargo_deny),
    ];

    let paint = Paint::for_stdout();
    let mut summary = Summary::new();
    let mut failed = 0;
    for (name, check) in checks {
        match check(workspace) {
            Ok(Verdict::Clean) => println!("{} {name}", paint.good("clean")),
            Ok(Verdict::Skipped(why)) => {
                println!("{} {name}: {why}", paint.doubtful("skipped"));
                summary.skip(name, why);
            }
            Err(error) => {
                println!("{} {name}: {error:#}", paint.bad("failed"));
                summary.note(format!("{name}: {error:#}"));
                failed += 1;
            }
        }
    }
    summary.ok = failed == 0;
    summary.count("failed", failed);
    summary
}

fn tidy_rules(workspace: &Workspace) -> Result<Verdict> {
    let findings = tidy::check_repository(workspace)?;
    for finding in &findings {
        println!("{finding}");
    }
    if findings.is_empty() { Ok(Verdict::Clean) } else { bail!("{} findings", findings.len()) }
}

fn rustfmt(workspace: &Workspace) -> Result<Verdict> {
    let cargo = cargo();
    cmd!(workspace.shell, "{cargo} fmt --all --check")
        .quiet()
        .run()
        .context("`cargo fmt --all` would change files")?;
    Ok(Verdict::Clean)
}

fn clippy(workspace: &Workspace) -> Result<Verdict> {
    let cargo = cargo();
    cmd!(workspace.shell, "{cargo} clippy --workspace --all-targets --quiet -- --deny warnings")
        .quiet()
        .run()
        .context("clippy has findings")?;
    Ok(Verdict::Clean)
}

/// Clippy of the BPF programs as if they were meant for the host, which needs no BPF toolchain.
fn clippy_programs(workspace: &Workspace) -> Result<Verdict> {
    let (cargo, target_dir) = (cargo(), workspace.target.join("bpf-clippy"));
    cmd!(
        workspace.shell,
        "{cargo} clippy --package gpu-ebpf --bins --features programs --quiet --target-dir {target_dir} --
         --deny warnings"
    )
    .quiet()
    // The programs use one intrinsic that stable does not have.
    .env("RUSTC_BOOTSTRAP", "1")
    // Programs without the standard library cannot unwind.
    .env("CARGO_PROFILE_DEV_PANIC", "abort")
    .run()
    .context("clippy has findings in the BPF programs")?;
    Ok(Verdict::Clean)
}

fn cargo_deny(workspace: &Workspace) -> Result<Verdict> {
    let Some(program) = CARGO_DENY.locate(&cache_folder()?) else {
        return Ok(Verdict::Skipped(
            "it is not installed; `cargo xtask setup --only lint` installs it".into(),
        ));
    };
    // The advisories are left out: they change without this repository changing, and come from the network.
    cmd!(workspace.shell, "{program} --workspace --log-level warn check bans licenses sources")
        .quiet()
        .run()
        .context("the dependencies break a rule of deny.toml")?;
    Ok(Verdict::Clean)
}

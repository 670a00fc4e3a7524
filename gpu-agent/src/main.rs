//! The `gpu-agent` command.

use std::{
    io::{IsTerminal as _, Write as _},
    path::Path,
    process::ExitCode,
};

use anyhow::Context as _;
use clap::{Parser, Subcommand};
use gpu_agent::{
    check,
    config::{self, ConfigFile, Flags, Loaded, LogFormat, LogLevel},
    kernel::pins::{Pins, remove_tree},
    report::status::Status,
    run,
};
use tracing_subscriber::filter::LevelFilter;

/// `EX_CONFIG` of sysexits.h is 78; 64, `EX_USAGE`, is what service managers and the other agents of the field
/// use for a configuration that cannot be read.
const BAD_CONFIGURATION: u8 = 64;

/// Sees every GPU call in the kernel and says which tenant did what on which GPU.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 110)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Observe until SIGTERM or SIGINT.
    Run {
        #[command(flatten)]
        flags: Flags,
    },
    /// Ask the running agent what the node looks like.
    Status {
        /// Print one JSON object instead of a table.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        flags: Flags,
    },
    /// Try what this node allows and say what that means.
    Check {
        /// Print one JSON object instead of a table.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        flags: Flags,
    },
    /// Remove what stays in the kernel and on disk when the agent does not run.
    Cleanup {
        #[command(flatten)]
        flags: Flags,
    },
}

impl Command {
    fn flags(&self) -> &Flags {
        match self {
            Self::Run { flags }
            | Self::Status { flags, .. }
            | Self::Check { flags, .. }
            | Self::Cleanup { flags } => flags,
        }
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse_from(arguments());
    let loaded = match load(arguments.command.flags()) {
        Ok(loaded) => loaded,
        Err(errors) => {
            print_error(&errors.to_string());
            return ExitCode::from(BAD_CONFIGURATION);
        }
    };
    let flags = arguments.command.flags();
    if flags.check_config() {
        return print("ok");
    }
    if flags.print_config() {
        return print(loaded.to_string().trim_end());
    }
    initialise_log(&loaded);
    let result = match arguments.command {
        Command::Run { .. } => run_agent(loaded),
        Command::Status { json, .. } => status(&loaded, json),
        Command::Check { json, .. } => check_node(&loaded, json),
        Command::Cleanup { .. } => cleanup(&loaded),
    };
    match result {
        Ok(text) if text.is_empty() => ExitCode::SUCCESS,
        Ok(text) => print(text.trim_end()),
        Err(error) => {
            print_error(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// The arguments; called as `gpustack-node-agent --status`, the name under which images offer it, it is `status`.
fn arguments() -> Vec<std::ffi::OsString> {
    let mut arguments: Vec<_> = std::env::args_os().collect();
    let by_other_name = arguments
        .first()
        .and_then(|name| Path::new(name).file_name())
        .is_some_and(|name| name == "gpustack-node-agent");
    if by_other_name && arguments.get(1).is_some_and(|argument| argument == "--status") {
        arguments[1] = "status".into();
    }
    arguments
}

fn load(flags: &Flags) -> Result<Loaded, config::ConfigErrors> {
    let file = ConfigFile::read(flags, config::process_environment)?;
    config::load(flags, config::process_environment, file.as_ref())
}

fn initialise_log(loaded: &Loaded) {
    let level = match loaded.config.log.level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    let log = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(std::io::stderr)
        .with_target(false)
        .with_ansi(std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none());
    match loaded.config.log.format {
        LogFormat::Text => log.init(),
        LogFormat::Json => log.json().init(),
    }
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    for name in config::unknown_variables(names) {
        tracing::warn!(name, "this variable looks like one of the agent's and is not");
    }
}

fn run_agent(loaded: Loaded) -> anyhow::Result<String> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(16)
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    runtime.block_on(run::run(loaded))?;
    // A call into a library that hangs keeps its thread; the process does not wait for it.
    runtime.shutdown_background();
    Ok(String::new())
}

fn status(loaded: &Loaded, json: bool) -> anyhow::Result<String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let status = runtime.block_on(run::client::status(loaded))?;
    if json {
        return serde_json::to_string_pretty(&status).context("cannot write the status as JSON");
    }
    let status: Status =
        serde_json::from_value(status).context("the agent answers in another version's form")?;
    Ok(status.table())
}

fn check_node(loaded: &Loaded, json: bool) -> anyhow::Result<String> {
    let report = check::check(&loaded.config);
    if json {
        return serde_json::to_string_pretty(&report).context("cannot write the report as JSON");
    }
    Ok(report.table())
}

fn cleanup(loaded: &Loaded) -> anyhow::Result<String> {
    let pins = Pins::root(&loaded.config.bpffs);
    remove_tree(&pins).with_context(|| format!("cannot remove `{}`", pins.display()))?;
    let state = &loaded.config.state_dir;
    // Only what the agent writes: the directory may be one that others use, too.
    for name in run::STATE_FILES {
        let path = state.join(name);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("cannot remove `{}`", path.display()));
            }
            _ => {}
        }
    }
    Ok(format!("removed `{}` and the agent's files in `{}`", pins.display(), state.display()))
}

/// Prints a line; a reader that has gone away is no failure of ours.
fn print(text: &str) -> ExitCode {
    match writeln!(std::io::stdout(), "{text}") {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => ExitCode::FAILURE,
        _ => ExitCode::SUCCESS,
    }
}

fn print_error(text: &str) {
    // There is nowhere left to report a failure to.
    _ = writeln!(std::io::stderr(), "{text}");
}

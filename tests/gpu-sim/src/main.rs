//! The `gpu-sim` command: makes and runs a simulated machine, and runs workloads on it.

#![expect(clippy::cast_precision_loss, reason = "times that are printed are far below 2^52 ns")]

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod commands;

/// A GPU machine in shared memory, with libcuda and NVML as front ends.
#[derive(Debug, Parser)]
#[command(name = "gpu-sim", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Makes a machine.
    Create(commands::create::Options),
    /// Runs a machine's GPUs until SIGTERM or SIGINT.
    Serve(commands::serve::Options),
    /// Makes a machine and runs its GPUs; prints `ready` when programs can use it.
    Up(commands::serve::UpOptions),
    /// Copies the libraries into the machine's directory under the names that programs load.
    Install(commands::install::Options),
    /// Prints the machine's state.
    Show(commands::show::Options),
    /// Runs a workload, which logs exactly what it did.
    Run(Box<gpu_sim::workload::Options>),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Create(options) => commands::create::run(&options),
        Command::Serve(options) => commands::serve::run(&options),
        Command::Up(options) => commands::serve::up(&options),
        Command::Install(options) => commands::install::run(&options),
        Command::Show(options) => commands::show::run(&options),
        Command::Run(options) => gpu_sim::workload::run(&options).map_err(anyhow::Error::from),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            commands::complain(&error);
            ExitCode::FAILURE
        }
    }
}

//! `gpu-sim create`: makes a machine.

use std::path::PathBuf;

use clap::Args;
use gpu_sim::{machine::Machine, scenario::Scenario};

use super::Directory;

#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    pub(crate) directory: Directory,
    #[command(flatten)]
    pub(crate) source: Source,
}

/// What the machine consists of.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Source {
    /// Name of a built-in machine: 1xT4, 2xA10, 8xH100-nvswitch or 8xV100-hybrid-cube-mesh.
    #[arg(long)]
    preset: Option<String>,
    /// A scenario file.
    #[arg(long)]
    scenario: Option<PathBuf>,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    make(options).map(drop)
}

pub(super) fn make(options: &Options) -> anyhow::Result<Machine> {
    let scenario = match (&options.source.preset, &options.source.scenario) {
        (Some(name), _) => Scenario::preset(name)?,
        (None, Some(path)) => Scenario::read(path)?,
        (None, None) => anyhow::bail!("neither --preset nor --scenario is given"),
    };
    Ok(Machine::create(&options.directory.path, &scenario)?)
}

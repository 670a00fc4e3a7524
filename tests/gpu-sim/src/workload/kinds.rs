//! What each workload does.

use super::{
    Kind, Options, WorkloadError,
    session::{Ending, Session},
};

mod allocate;
mod compute;
mod copy;
pub(super) mod export_table;
mod fork;
mod graph;
mod mixed;

type Result<T = ()> = std::result::Result<T, WorkloadError>;

/// A kernel of 54 us.
pub(super) const SHORT_KERNEL: &str = "sim_us_54";

/// The kernel that a workload launches where the options name none.
pub(super) fn default_kernel(kind: Kind) -> &'static str {
    match kind {
        Kind::Train | Kind::Saturate => "sim_heavy_tail",
        Kind::Infer => "sim_us_150",
        Kind::Flood => "sim_us_5",
        Kind::AllocLoop
        | Kind::Copy
        | Kind::Graph
        | Kind::Leak
        | Kind::Fork
        | Kind::Crash
        | Kind::Idle
        | Kind::ExportTable
        | Kind::Mixed => SHORT_KERNEL,
    }
}

/// How the memory ends that a workload still holds after its work.
pub(super) fn ending(kind: Kind) -> Ending {
    match kind {
        Kind::Mixed => Ending::Reset,
        Kind::Graph => Ending::Release,
        _ => Ending::Free,
    }
}

/// Runs one thread's part of a workload.
pub(super) fn run(session: &Session<'_>, options: &Options) -> Result {
    session.enter()?;
    match options.kind {
        Kind::Train => compute::train(session, options),
        Kind::Infer => compute::infer(session, options),
        Kind::Saturate | Kind::Flood => compute::saturate(session, options),
        Kind::AllocLoop => allocate::every_kind(session, options),
        Kind::Leak | Kind::Crash => allocate::leak(session, options),
        Kind::Copy => copy::every_direction(session, options),
        Kind::Graph => graph::launch(session, options),
        Kind::Fork => fork::run(session, options),
        Kind::Mixed => mixed::run(session, options),
        Kind::Idle | Kind::ExportTable => Ok(()),
    }
}

//! Why a workload could not do what it is there for.

use std::{io, path::PathBuf};

/// An unexpected end of a workload. Errors that a workload provokes are logged, not raised.
#[derive(Debug, thiserror::Error)]
pub enum WorkloadError {
    #[error("cannot load `{}`: {reason}", path.display())]
    Load { path: PathBuf, reason: String },
    #[error("`{symbol}` is not in the library")]
    Symbol { symbol: String },
    #[error("{call} returned {name} ({code})")]
    Call { call: &'static str, name: String, code: u32 },
    #[error("{call} succeeded, expected {expected}")]
    UnexpectedSuccess { call: &'static str, expected: &'static str },
    #[error("cannot write `{}`", path.display())]
    Write {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot handle SIGTERM")]
    Signal(#[source] io::Error),
    #[error("cannot fork")]
    Fork(#[source] io::Error),
    #[error("the forked child ended with status {status:#x}, expected 0")]
    Child { status: i32 },
    #[error("a worker thread panicked")]
    ThreadPanicked,
}

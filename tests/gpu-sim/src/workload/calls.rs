//! The driver's calls as workloads make them: each does one call and logs its outcome.

mod context;
mod copy;
mod graph;
mod launch;
mod memory;
mod sync;

pub(super) use copy::{CopyEnds, Direction, Shaped};
pub(super) use memory::PHYSICAL_GRANULE_BYTES;

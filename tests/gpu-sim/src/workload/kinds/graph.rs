//! The workload that launches graphs.

use super::Result;
use crate::workload::{Options, pace::Pace, session::Session};

/// Kernels in each graph.
const NODES: usize = 25;

/// Launches a graph that was built node by node, and one that was captured, two rounds at a time.
pub(super) fn launch(session: &Session<'_>, options: &Options) -> Result {
    session.alloc(32 << 20)?;
    let stream = session.create_stream()?;
    let built = session.build_graph(NODES)?;
    let captured = session.capture_graph(NODES, stream)?;
    session.upload_graph(built, stream)?;
    let mut pace = Pace::new(options, 100, None);
    while pace.next() {
        session.launch_graph(built, stream)?;
        session.launch_graph(captured, stream)?;
        session.synchronize_stream(stream)?;
    }
    session.destroy_graph(built)?;
    session.destroy_graph(captured)?;
    session.destroy_stream(stream)
}

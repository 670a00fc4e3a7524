//! Stream capture: what is submitted to a capturing stream becomes a node of a graph.

use std::sync::{Arc, Mutex, PoisonError};

use crate::{
    driver::driver,
    entry::DefaultStream,
    error::{CudaError, Result},
    event::Event,
    graph::{Graph, NodeKind},
    stream::{Stream, Target, target},
};

/// The capture that a stream takes part in. Streams that joined through an event share the graph.
#[derive(Clone, Debug)]
pub(crate) struct Capture {
    graph: Arc<Mutex<Graph>>,
    /// Whether cuStreamBeginCapture was called on this stream.
    origin: bool,
}

/// CU_STREAM_CAPTURE_STATUS_NONE and _ACTIVE.
const STATUS_NONE: u32 = 0;
const STATUS_ACTIVE: u32 = 1;

/// cuStreamBeginCapture.
pub(crate) fn begin(handle: u64, mode: DefaultStream) -> Result {
    let Target { stream, .. } = target(handle, mode)?;
    // The legacy default stream cannot be captured.
    if stream.handle == 0 && mode == DefaultStream::Legacy {
        return Err(CudaError::StreamCaptureUnsupported);
    }
    let mut capture = stream.capture.lock().unwrap_or_else(PoisonError::into_inner);
    if capture.is_some() {
        return Err(CudaError::IllegalState);
    }
    *capture = Some(Capture { graph: Arc::default(), origin: true });
    Ok(())
}

/// cuStreamEndCapture: the handle of the graph.
pub(crate) fn end(handle: u64, mode: DefaultStream) -> Result<u64> {
    let Target { context, stream } = target(handle, mode)?;
    let capture = stream.capture.lock().unwrap_or_else(PoisonError::into_inner).take();
    let capture = capture.filter(|capture| capture.origin).ok_or(CudaError::IllegalState)?;
    for other in context.all_streams() {
        let mut joined = other.capture.lock().unwrap_or_else(PoisonError::into_inner);
        if joined.as_ref().is_some_and(|joined| Arc::ptr_eq(&joined.graph, &capture.graph)) {
            *joined = None;
        }
    }
    let driver = driver()?;
    let graph = driver.graphs.reserve();
    driver.graphs.insert_at(graph, capture.graph);
    Ok(graph)
}

/// cuStreamIsCapturing.
pub(crate) fn status(handle: u64, mode: DefaultStream) -> Result<u32> {
    let Target { stream, .. } = target(handle, mode)?;
    Ok(if stream.is_capturing() { STATUS_ACTIVE } else { STATUS_NONE })
}

/// Records a node if the stream is capturing; says whether it was.
pub(crate) fn record(stream: &Stream, node: NodeKind) -> bool {
    let capture = stream.capture.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(capture) = capture.as_ref() else { return false };
    capture.graph.lock().unwrap_or_else(PoisonError::into_inner).add(node);
    true
}

/// The capture that an event recorded now would carry to other streams.
pub(crate) fn of(stream: &Stream) -> Option<Capture> {
    let capture = stream.capture.lock().unwrap_or_else(PoisonError::into_inner);
    capture.as_ref().map(|capture| Capture { origin: false, ..capture.clone() })
}

/// Lets a stream join the capture that an event was recorded in; says whether there is one.
pub(crate) fn join(stream: &Stream, event: &Event) -> bool {
    let Some(carried) = event.capture() else { return false };
    stream.capture.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(carried);
    true
}

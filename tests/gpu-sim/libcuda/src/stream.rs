//! Streams: work in order, on a channel to the GPU.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{
        AtomicU64,
        Ordering::{Relaxed, SeqCst},
    },
};

use gpu_sim::machine::channel::{Channel, Work, WorkKind};

use crate::{
    capture::Capture,
    context::{self, Context},
    driver::driver,
    entry::DefaultStream,
    error::{CudaError, Result},
};

/// CU_STREAM_LEGACY and CU_STREAM_PER_THREAD.
const LEGACY: u64 = 1;
const PER_THREAD: u64 = 2;

/// CU_STREAM_NON_BLOCKING.
pub(crate) const NON_BLOCKING: u32 = 1;

/// A stream.
#[derive(Debug)]
pub(crate) struct Stream {
    /// 0 for the default streams.
    pub(crate) handle: u64,
    /// Handle of the context.
    pub(crate) context: u64,
    pub(crate) non_blocking: bool,
    pub(crate) channel: Channel,
    pub(crate) capture: Mutex<Option<Capture>>,
    /// Host functions submitted so far.
    host_functions: AtomicU64,
}

/// The stream that a call means, with its context, which must be current.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) context: Arc<Context>,
    pub(crate) stream: Arc<Stream>,
}

/// Finds the stream that a handle means in a call with this default stream.
pub(crate) fn target(handle: u64, mode: DefaultStream) -> Result<Target> {
    let context = context::current()?;
    let stream = match handle {
        0 => context.default_stream(mode)?,
        LEGACY => context.default_stream(DefaultStream::Legacy)?,
        PER_THREAD => context.default_stream(DefaultStream::PerThread)?,
        _ => driver()?.streams.get(handle)?,
    };
    if stream.context == context.handle {
        Ok(Target { context, stream })
    } else {
        Err(CudaError::InvalidHandle)
    }
}

/// cuStreamCreate.
pub(crate) fn create(flags: u32) -> Result<u64> {
    if flags & !NON_BLOCKING != 0 {
        return Err(CudaError::InvalidValue);
    }
    context::current()?.create_stream(flags & NON_BLOCKING != 0)
}

/// cuStreamDestroy: what is queued still completes.
pub(crate) fn destroy(handle: u64) -> Result {
    let stream = driver()?.streams.remove(handle)?;
    stream.drain()
}

/// cuStreamSynchronize.
pub(crate) fn synchronize(handle: u64, mode: DefaultStream) -> Result {
    let Target { context, stream } = target(handle, mode)?;
    if stream.is_capturing() {
        return Err(CudaError::StreamCaptureUnsupported);
    }
    stream.drain()?;
    crate::pool::trim_after_synchronize(&context)?;
    context.counters()?.synchronizes.fetch_add(1, Relaxed);
    Ok(())
}

/// cuStreamQuery.
pub(crate) fn query(handle: u64, mode: DefaultStream) -> Result {
    let Target { stream, .. } = target(handle, mode)?;
    if stream.is_capturing() {
        return Err(CudaError::StreamCaptureUnsupported);
    }
    if stream.channel.poll(stream.channel.submitted()) { Ok(()) } else { Err(CudaError::NotReady) }
}

/// Whether any stream of a context is recording a graph.
pub(crate) fn any_capturing(context: &Context) -> bool {
    context.all_streams().iter().any(|stream| stream.is_capturing())
}

impl Stream {
    pub(crate) fn new(handle: u64, context: u64, channel: Channel, non_blocking: bool) -> Self {
        Self {
            handle,
            context,
            non_blocking,
            channel,
            capture: Mutex::default(),
            host_functions: AtomicU64::new(0),
        }
    }

    /// Queues work; returns the count of completed entries at which it is done.
    pub(crate) fn submit(
        &self,
        kind: WorkKind,
        duration_ns: u64,
        bytes: u64,
        argument: u32,
        count: u64,
    ) -> Result<u64> {
        Ok(self.channel.submit(Work { kind, duration_ns, bytes, argument, count, submitted_ns: 0 })?)
    }

    /// Waits until everything that is queued has completed.
    pub(crate) fn drain(&self) -> Result {
        Ok(self.channel.wait(self.channel.submitted())?)
    }

    pub(crate) fn is_capturing(&self) -> bool {
        self.capture.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Number of the next host function of this stream, from 1 on.
    pub(crate) fn next_host_function(&self) -> u64 {
        self.host_functions.fetch_add(1, SeqCst) + 1
    }
}

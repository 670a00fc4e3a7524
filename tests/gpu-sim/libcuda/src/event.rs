//! Events: points in a stream that can be awaited and timed.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::Ordering::{Acquire, Relaxed, Release, SeqCst},
};

use gpu_sim::machine::channel::WorkKind;

use crate::{
    capture::{self, Capture},
    context,
    driver::driver,
    entry::DefaultStream,
    error::{CudaError, Result},
    stream::{Stream, Target, target},
};

/// CU_EVENT_BLOCKING_SYNC, CU_EVENT_DISABLE_TIMING and CU_EVENT_INTERPROCESS.
const KNOWN_FLAGS: u32 = 0x1 | DISABLE_TIMING | 0x4;
const DISABLE_TIMING: u32 = 0x2;

/// An event.
#[derive(Debug)]
pub(crate) struct Event {
    /// Handle of the context.
    pub(crate) context: u64,
    timing: bool,
    /// Its place in the machine, where the GPU stores the completion time.
    index: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Where it was recorded last: the stream, and the count of completed entries at which it is reached.
    recorded: Option<(Arc<Stream>, u64)>,
    capture: Option<Capture>,
}

/// cuEventCreate.
pub(crate) fn create(flags: u32) -> Result<u64> {
    if flags & !KNOWN_FLAGS != 0 {
        return Err(CudaError::InvalidValue);
    }
    let context = context::current()?.handle;
    let driver = driver()?;
    let owner = u32::try_from(driver.slot.index() + 1).map_err(|_| CudaError::OperatingSystem)?;
    let events = &driver.slot.machine().shared().events;
    let index = events
        .iter()
        .position(|event| {
            event.owner.load(Relaxed) == 0 && event.owner.compare_exchange(0, owner, SeqCst, Relaxed).is_ok()
        })
        .ok_or(CudaError::OutOfMemory)?;
    let timing = flags & DISABLE_TIMING == 0;
    Ok(driver.events.insert(Event { context, timing, index, state: Mutex::default() }))
}

/// cuEventDestroy.
pub(crate) fn destroy(handle: u64) -> Result {
    driver()?.events.remove(handle).map(drop)
}

/// cuEventRecord.
pub(crate) fn record(event: u64, stream: u64, mode: DefaultStream) -> Result {
    let Target { stream, context } = target(stream, mode)?;
    let event = driver()?.events.get(event)?;
    if event.context != context.handle {
        return Err(CudaError::InvalidHandle);
    }
    if let Some(carried) = capture::of(&stream) {
        event.state().capture = Some(carried);
        return Ok(());
    }
    let index = u32::try_from(event.index).map_err(|_| CudaError::InvalidHandle)?;
    let count = stream.submit(WorkKind::RecordEvent, 0, 0, index, 0)?;
    *event.state() = State { recorded: Some((stream, count)), capture: None };
    Ok(())
}

/// cuEventQuery.
pub(crate) fn query(handle: u64) -> Result {
    let event = driver()?.events.get(handle)?;
    if event.is_complete() { Ok(()) } else { Err(CudaError::NotReady) }
}

/// cuEventSynchronize.
pub(crate) fn synchronize(handle: u64) -> Result {
    let driver = driver()?;
    let event = driver.events.get(handle)?;
    let recorded = event.state().recorded.clone();
    if let Some((stream, count)) = recorded {
        stream.channel.wait(count)?;
    }
    let context = driver.contexts.get(event.context).map_err(|_| CudaError::ContextIsDestroyed)?;
    context.counters()?.synchronizes.fetch_add(1, Relaxed);
    Ok(())
}

/// cuEventElapsedTime: milliseconds between two events.
pub(crate) fn elapsed_ms(start: u64, end: u64) -> Result<f32> {
    let driver = driver()?;
    let times = [driver.events.get(start)?, driver.events.get(end)?].map(|event| {
        if !event.timing || event.state().recorded.is_none() {
            return Err(CudaError::InvalidHandle);
        }
        if !event.is_complete() {
            return Err(CudaError::NotReady);
        }
        Ok(driver.slot.machine().shared().events[event.index].completed_ns.load(Acquire))
    });
    let [start_ns, end_ns] = times;
    Ok(((end_ns? as f64 - start_ns? as f64) / 1e6) as f32)
}

/// cuStreamWaitEvent.
pub(crate) fn wait(stream: u64, event: u64, mode: DefaultStream) -> Result {
    let Target { stream, .. } = target(stream, mode)?;
    let event = driver()?.events.get(event)?;
    if capture::join(&stream, &event) {
        return Ok(());
    }
    let recorded = event.state().recorded.clone();
    if let Some((other, count)) = recorded
        && other.channel.completed() < count
    {
        let channel = u32::try_from(other.channel.index()).map_err(|_| CudaError::InvalidHandle)?;
        stream.submit(WorkKind::WaitChannel, 0, 0, channel, count)?;
    }
    Ok(())
}

impl Event {
    pub(crate) fn capture(&self) -> Option<Capture> {
        self.state().capture.clone()
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_complete(&self) -> bool {
        self.state().recorded.as_ref().is_none_or(|(stream, count)| stream.channel.poll(*count))
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // While the GPU still has to store the time, the place stays taken until the process ends.
        if self.is_complete()
            && let Ok(driver) = driver()
        {
            driver.slot.machine().shared().events[self.index].owner.store(0, Release);
        }
    }
}

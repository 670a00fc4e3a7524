//! Contexts, the primary context of each device, and the stack of current contexts of each thread.

use std::{
    cell::RefCell,
    collections::{BTreeSet, HashMap},
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{
            AtomicBool,
            Ordering::{Acquire, Relaxed, SeqCst},
        },
    },
    thread::ThreadId,
};

use gpu_sim::machine::{channel::Channel, counters::Counters, memory};

use crate::{
    driver::{Driver, driver},
    entry::DefaultStream,
    error::{CudaError, Result},
    stream::{self, Stream},
};

/// A context on one device.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) handle: u64,
    /// Number within the process; the GPU shares its time among contexts.
    pub(crate) number: u32,
    pub(crate) ordinal: i32,
    pub(crate) gpu: usize,
    /// Device memory that the context itself takes.
    cost_bytes: u64,
    legacy: Arc<Stream>,
    per_thread: Mutex<HashMap<ThreadId, Arc<Stream>>>,
    streams: Mutex<Vec<Weak<Stream>>>,
    /// Handles of the contexts whose memory may be accessed directly.
    peers: Mutex<BTreeSet<u64>>,
    destroyed: AtomicBool,
}

/// The primary context of a device, shared by all that retain it.
#[derive(Debug)]
pub(crate) struct Primary {
    /// The same for every incarnation.
    handle: u64,
    context: Option<Arc<Context>>,
    references: u32,
    pub(crate) flags: u32,
}

thread_local! {
    static STACK: RefCell<Vec<Arc<Context>>> = const { RefCell::new(Vec::new()) };
}

/// The calling thread's current context.
pub(crate) fn current() -> Result<Arc<Context>> {
    driver()?;
    let context = top().ok_or(CudaError::InvalidContext)?;
    if context.destroyed.load(Acquire) { Err(CudaError::ContextIsDestroyed) } else { Ok(context) }
}

/// The calling thread's current context, if it has one, be it destroyed or not.
pub(crate) fn top() -> Option<Arc<Context>> {
    // The stack is gone while the thread's own destructors run.
    STACK.try_with(|stack| stack.borrow().last().map(Arc::clone)).ok().flatten()
}

/// Counts a failed call on the GPU of the current context, where there is one.
pub(crate) fn count_error() {
    if let (Ok(driver), Some(context)) = (driver(), top()) {
        driver.slot.gpu(context.gpu).counters.errors.fetch_add(1, Relaxed);
    }
}

/// cuCtxCreate: makes a context and makes it current.
pub(crate) fn create(ordinal: i32) -> Result<u64> {
    let driver = driver()?;
    driver.device(ordinal)?;
    let context = Context::new(driver, ordinal, driver.contexts.reserve())?;
    let handle = context.handle;
    push(context)?;
    Ok(handle)
}

/// cuCtxDestroy.
pub(crate) fn destroy(handle: u64) -> Result {
    let driver = driver()?;
    let context = driver.contexts.get(handle).map_err(|_| CudaError::InvalidContext)?;
    if driver.devices.iter().any(|device| lock(&device.primary).handle == handle) {
        return Err(CudaError::InvalidContext);
    }
    if top().is_some_and(|top| top.handle == handle) {
        pop()?;
    }
    context.shut_down(driver);
    Ok(())
}

/// cuCtxSetCurrent: replaces the top of the stack; 0 empties it by one.
pub(crate) fn set_current(handle: u64) -> Result {
    let driver = driver()?;
    let context = if handle == 0 { None } else { Some(find(driver, handle)?) };
    STACK
        .try_with(|stack| {
            let mut stack = stack.borrow_mut();
            stack.pop();
            stack.extend(context);
        })
        .map_err(|_| CudaError::Deinitialized)
}

/// cuCtxPushCurrent.
pub(crate) fn push_current(handle: u64) -> Result {
    push(find(driver()?, handle)?)
}

/// cuCtxPopCurrent.
pub(crate) fn pop_current() -> Result<u64> {
    driver()?;
    pop()?.map(|context| context.handle).ok_or(CudaError::InvalidContext)
}

/// Handle of the current context, 0 where there is none.
pub(crate) fn current_handle() -> Result<u64> {
    driver()?;
    Ok(top().map_or(0, |context| context.handle))
}

/// cuDevicePrimaryCtxRetain.
pub(crate) fn retain_primary(ordinal: i32) -> Result<u64> {
    let driver = driver()?;
    let mut primary = lock(&driver.device(ordinal)?.primary);
    if primary.context.is_none() {
        primary.context = Some(Context::new(driver, ordinal, primary.handle)?);
    }
    primary.references += 1;
    Ok(primary.handle)
}

/// cuDevicePrimaryCtxRelease.
pub(crate) fn release_primary(ordinal: i32) -> Result {
    let driver = driver()?;
    let mut primary = lock(&driver.device(ordinal)?.primary);
    if primary.references == 0 {
        return Err(CudaError::InvalidContext);
    }
    primary.references -= 1;
    if primary.references == 0 {
        primary.shut_down(driver);
    }
    Ok(())
}

/// cuDevicePrimaryCtxReset: destroys the context whatever the number of references, which stays.
pub(crate) fn reset_primary(ordinal: i32) -> Result {
    let driver = driver()?;
    lock(&driver.device(ordinal)?.primary).shut_down(driver);
    Ok(())
}

/// cuDevicePrimaryCtxSetFlags.
pub(crate) fn set_primary_flags(ordinal: i32, flags: u32) -> Result {
    let driver = driver()?;
    let mut primary = lock(&driver.device(ordinal)?.primary);
    primary.flags = flags;
    Ok(())
}

/// cuDevicePrimaryCtxGetState: flags, and whether the context exists.
pub(crate) fn primary_state(ordinal: i32) -> Result<(u32, bool)> {
    let driver = driver()?;
    let primary = lock(&driver.device(ordinal)?.primary);
    Ok((primary.flags, primary.context.is_some()))
}

/// cuCtxSynchronize.
pub(crate) fn synchronize() -> Result {
    let context = current()?;
    if stream::any_capturing(&context) {
        return Err(CudaError::StreamCaptureUnsupported);
    }
    for stream in context.all_streams() {
        stream.drain()?;
    }
    crate::pool::trim_after_synchronize(&context)?;
    context.counters()?.synchronizes.fetch_add(1, Relaxed);
    Ok(())
}

/// cuCtxEnablePeerAccess.
pub(crate) fn enable_peer(handle: u64) -> Result {
    let context = current()?;
    let peer = find(driver()?, handle)?;
    if peer.gpu == context.gpu {
        return Err(CudaError::InvalidDevice);
    }
    let added = lock(&context.peers).insert(handle);
    if added { Ok(()) } else { Err(CudaError::PeerAccessAlreadyEnabled) }
}

/// cuCtxDisablePeerAccess.
pub(crate) fn disable_peer(handle: u64) -> Result {
    let context = current()?;
    let removed = lock(&context.peers).remove(&handle);
    if removed { Ok(()) } else { Err(CudaError::PeerAccessNotEnabled) }
}

impl Context {
    fn new(driver: &'static Driver, ordinal: i32, handle: u64) -> Result<Arc<Self>> {
        let device = driver.device(ordinal)?;
        let facts = driver.facts(ordinal)?;
        let cost_bytes =
            memory::round_to_blocks(facts.model.memory.context_bytes).ok_or(CudaError::OutOfMemory)?;
        driver.slot.claim_memory(device.gpu, cost_bytes)?;
        let number = driver.next_context.fetch_add(1, Relaxed);
        let channel = Channel::claim(&driver.slot, device.gpu, number).inspect_err(|_| {
            driver.slot.release_memory(device.gpu, cost_bytes);
        })?;
        driver.slot.gpu(device.gpu).contexts.fetch_add(1, SeqCst);
        let context = Arc::new(Self {
            handle,
            number,
            ordinal,
            gpu: device.gpu,
            cost_bytes,
            legacy: Arc::new(Stream::new(0, handle, channel, false)),
            per_thread: Mutex::default(),
            streams: Mutex::default(),
            peers: Mutex::default(),
            destroyed: AtomicBool::new(false),
        });
        driver.contexts.insert_at(handle, Arc::clone(&context));
        Ok(context)
    }

    /// The machine's counters for this process on this context's GPU.
    pub(crate) fn counters(&self) -> Result<&'static Counters> {
        Ok(&driver()?.slot.gpu(self.gpu).counters)
    }

    /// The stream that stream 0 stands for.
    pub(crate) fn default_stream(&self, mode: DefaultStream) -> Result<Arc<Stream>> {
        match mode {
            DefaultStream::Legacy => Ok(Arc::clone(&self.legacy)),
            DefaultStream::PerThread => {
                let mut streams = lock(&self.per_thread);
                let thread = std::thread::current().id();
                if let Some(stream) = streams.get(&thread) {
                    return Ok(Arc::clone(stream));
                }
                let channel = Channel::claim(&driver()?.slot, self.gpu, self.number)?;
                let stream = Arc::new(Stream::new(0, self.handle, channel, false));
                streams.insert(thread, Arc::clone(&stream));
                Ok(stream)
            }
        }
    }

    /// Makes a stream of this context.
    pub(crate) fn create_stream(&self, non_blocking: bool) -> Result<u64> {
        let driver = driver()?;
        let channel = Channel::claim(&driver.slot, self.gpu, self.number)?;
        let handle = driver.streams.reserve();
        let stream = Arc::new(Stream::new(handle, self.handle, channel, non_blocking));
        let mut streams = lock(&self.streams);
        streams.retain(|stream| stream.strong_count() > 0);
        streams.push(Arc::downgrade(&stream));
        driver.streams.insert_at(handle, stream);
        Ok(handle)
    }

    /// Every stream that exists in this context.
    pub(crate) fn all_streams(&self) -> Vec<Arc<Stream>> {
        let mut streams = vec![Arc::clone(&self.legacy)];
        streams.extend(lock(&self.per_thread).values().map(Arc::clone));
        streams.extend(lock(&self.streams).iter().filter_map(Weak::upgrade));
        streams
    }

    /// Destroys the context with everything in it.
    fn shut_down(&self, driver: &Driver) {
        if self.destroyed.swap(true, SeqCst) {
            return;
        }
        driver.contexts.retain(|context| context.number != self.number);
        driver.streams.retain(|stream| stream.context != self.handle);
        lock(&self.per_thread).clear();
        driver.modules.retain(|module| module.context != self.handle);
        driver.functions.retain(|function| function.context != self.handle);
        driver.events.retain(|event| event.context != self.handle);
        driver.arrays.retain(|array| array.context != self.number);
        crate::pool::forget_context(driver, self.ordinal);
        driver.memory().free_context(driver, self.number);
        driver.slot.release_memory(self.gpu, self.cost_bytes);
        driver.slot.gpu(self.gpu).contexts.fetch_sub(1, SeqCst);
    }
}

impl Primary {
    pub(crate) fn new(handle: u64) -> Self {
        Self { handle, context: None, references: 0, flags: 0 }
    }

    fn shut_down(&mut self, driver: &Driver) {
        if let Some(context) = self.context.take() {
            context.shut_down(driver);
        }
    }
}

fn find(driver: &Driver, handle: u64) -> Result<Arc<Context>> {
    driver.contexts.get(handle).map_err(|_| CudaError::InvalidContext)
}

fn push(context: Arc<Context>) -> Result {
    STACK.try_with(|stack| stack.borrow_mut().push(context)).map_err(|_| CudaError::Deinitialized)
}

fn pop() -> Result<Option<Arc<Context>>> {
    STACK.try_with(|stack| stack.borrow_mut().pop()).map_err(|_| CudaError::Deinitialized)
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

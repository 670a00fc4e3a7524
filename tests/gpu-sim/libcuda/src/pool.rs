//! Stream-ordered allocation from memory pools.
//!
//! A freed allocation stays with its pool, still claimed from the GPU, until a synchronisation gives back what exceeds
//! the pool's release threshold. The order of streams is not modelled: freed memory can be used again at once.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use gpu_sim::machine::counters::MemoryKind;

use crate::{
    allocator::Allocator,
    context::Context,
    driver::{Driver, driver},
    entry::DefaultStream,
    error::{CudaError, Result},
    memory::{self, Allocation},
    stream::{Target, target},
};

/// CU_MEMPOOL_ATTR_RELEASE_THRESHOLD.
const RELEASE_THRESHOLD: u32 = 4;

/// A memory pool.
#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) ordinal: usize,
    release_threshold: AtomicU64,
    /// Freed allocations: address and size.
    cached: Mutex<Vec<(u64, u64)>>,
}

/// cuMemAllocAsync (`pool` absent: the device's current one) and cuMemAllocFromPoolAsync.
pub(crate) fn allocate(bytes: usize, pool: Option<u64>, stream: u64, mode: DefaultStream) -> Result<u64> {
    let Target { context, .. } = target(stream, mode)?;
    let driver = driver()?;
    let handle = match pool {
        Some(handle) => handle,
        None => current(driver, context.ordinal)?,
    };
    let pool = driver.pools.get(handle).map_err(|_| CudaError::InvalidValue)?;
    let bytes = bytes as u64;
    if let Some(address) = pool.take_cached(bytes) {
        let allocation = Allocation {
            kind: MemoryKind::Pool,
            bytes,
            gpu: context.gpu,
            context: context.number,
            pool: Some(handle),
        };
        driver.memory().remember(address, allocation);
        context.counters()?.allocated(MemoryKind::Pool, bytes);
        return Ok(address);
    }
    let first = memory::allocate_in(&context, MemoryKind::Pool, bytes, Some(handle));
    if first == Err(CudaError::OutOfMemory) && pool.trim(driver, 0) > 0 {
        return memory::allocate_in(&context, MemoryKind::Pool, bytes, Some(handle));
    }
    first
}

/// cuMemFreeAsync.
pub(crate) fn free(address: u64, stream: u64, mode: DefaultStream) -> Result {
    target(stream, mode)?;
    if address == 0 {
        return Ok(());
    }
    let driver = driver()?;
    let mut memory = driver.memory();
    let Allocation { kind, bytes, pool, .. } = *memory.at(address).ok_or(CudaError::InvalidValue)?;
    if !matches!(kind, MemoryKind::Device | MemoryKind::Pool) {
        return Err(CudaError::InvalidValue);
    }
    let Some(pool) = pool.and_then(|handle| driver.pools.get(handle).ok()) else {
        memory.release(driver, address);
        return Ok(());
    };
    memory.release_to_pool(driver, address);
    drop(memory);
    pool.cached().push((address, bytes));
    Ok(())
}

/// cuMemPoolCreate.
pub(crate) fn create(ordinal: i32) -> Result<u64> {
    let driver = driver()?;
    driver.device(ordinal)?;
    let ordinal = usize::try_from(ordinal).map_err(|_| CudaError::InvalidDevice)?;
    Ok(driver.pools.insert(Pool::new(ordinal, 0)))
}

/// cuMemPoolDestroy.
pub(crate) fn destroy(handle: u64) -> Result {
    let driver = driver()?;
    if driver.devices.iter().any(|device| device.default_pool == handle) {
        return Err(CudaError::InvalidValue);
    }
    let pool = driver.pools.remove(handle).map_err(|_| CudaError::InvalidValue)?;
    pool.trim(driver, 0);
    for device in &driver.devices {
        let mut current = device.current_pool.lock().unwrap_or_else(PoisonError::into_inner);
        if *current == handle {
            *current = device.default_pool;
        }
    }
    Ok(())
}

/// cuMemPoolTrimTo.
pub(crate) fn trim_to(handle: u64, keep_bytes: usize) -> Result {
    let driver = driver()?;
    let pool = driver.pools.get(handle).map_err(|_| CudaError::InvalidValue)?;
    pool.trim(driver, keep_bytes as u64);
    Ok(())
}

/// cuMemPoolSetAttribute: only the release threshold has an effect.
pub(crate) fn set_attribute(handle: u64, attribute: u32, value: u64) -> Result {
    let pool = driver()?.pools.get(handle).map_err(|_| CudaError::InvalidValue)?;
    if attribute == RELEASE_THRESHOLD {
        pool.release_threshold.store(value, Relaxed);
    }
    Ok(())
}

/// cuMemPoolGetAttribute.
pub(crate) fn attribute(handle: u64, attribute: u32) -> Result<u64> {
    let pool = driver()?.pools.get(handle).map_err(|_| CudaError::InvalidValue)?;
    Ok(if attribute == RELEASE_THRESHOLD { pool.release_threshold.load(Relaxed) } else { 0 })
}

/// cuDeviceGetDefaultMemPool.
pub(crate) fn default(ordinal: i32) -> Result<u64> {
    Ok(driver()?.device(ordinal)?.default_pool)
}

/// cuDeviceGetMemPool.
pub(crate) fn current(driver: &Driver, ordinal: i32) -> Result<u64> {
    Ok(*driver.device(ordinal)?.current_pool.lock().unwrap_or_else(PoisonError::into_inner))
}

/// cuDeviceSetMemPool.
pub(crate) fn set_current(ordinal: i32, handle: u64) -> Result {
    let driver = driver()?;
    let pool = driver.pools.get(handle).map_err(|_| CudaError::InvalidValue)?;
    if i32::try_from(pool.ordinal) != Ok(ordinal) {
        return Err(CudaError::InvalidValue);
    }
    *driver.device(ordinal)?.current_pool.lock().unwrap_or_else(PoisonError::into_inner) = handle;
    Ok(())
}

/// Gives back what the pools of a context's device hold above their thresholds.
pub(crate) fn trim_after_synchronize(context: &Context) -> Result {
    let driver = driver()?;
    driver.pools.for_each(|pool| {
        if i32::try_from(pool.ordinal) == Ok(context.ordinal) {
            pool.trim(driver, pool.release_threshold.load(Relaxed));
        }
    });
    Ok(())
}

/// Gives back everything that the pools of a device hold, when a context on it is destroyed.
pub(crate) fn forget_context(driver: &Driver, ordinal: i32) {
    driver.pools.for_each(|pool| {
        if i32::try_from(pool.ordinal) == Ok(ordinal) {
            pool.trim(driver, 0);
        }
    });
}

impl Pool {
    pub(crate) fn new(ordinal: usize, release_threshold: u64) -> Self {
        Self { ordinal, release_threshold: AtomicU64::new(release_threshold), cached: Mutex::default() }
    }

    fn cached(&self) -> std::sync::MutexGuard<'_, Vec<(u64, u64)>> {
        self.cached.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A freed allocation of the same rounded size.
    fn take_cached(&self, bytes: u64) -> Option<u64> {
        let mut cached = self.cached();
        let position =
            cached.iter().position(|(_, other)| Allocator::round(*other) == Allocator::round(bytes))?;
        Some(cached.swap_remove(position).0)
    }

    /// Gives freed allocations back until at most `keep_bytes` are held; returns how many bytes were given back.
    fn trim(&self, driver: &Driver, keep_bytes: u64) -> u64 {
        let Some(gpu) = driver.devices.get(self.ordinal).map(|device| device.gpu) else { return 0 };
        let mut surplus = Vec::new();
        {
            let mut cached = self.cached();
            let mut held: u64 = cached.iter().map(|(_, bytes)| bytes).sum();
            while held > keep_bytes {
                let Some((address, bytes)) = cached.pop() else { break };
                held -= bytes;
                surplus.push((address, bytes));
            }
        }
        let mut memory = driver.memory();
        for (address, bytes) in &surplus {
            memory.give_back(driver, gpu, *address, *bytes);
        }
        surplus.iter().map(|(_, bytes)| bytes).sum()
    }
}

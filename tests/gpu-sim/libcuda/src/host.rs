//! Pinned host memory, and host functions in streams.

use std::ffi::c_void;

use gpu_sim::machine::{channel::WorkKind, counters::MemoryKind};

use crate::{
    context,
    driver::driver,
    entry::DefaultStream,
    error::{CudaError, Result},
    managed,
    memory::Allocation,
    stream::{Stream, Target, target},
};

/// cuMemHostAlloc, cuMemAllocHost.
pub(crate) fn allocate(bytes: usize) -> Result<u64> {
    let context = context::current()?;
    let driver = driver()?;
    let address = managed::map(bytes)?;
    let allocation = Allocation {
        kind: MemoryKind::Host,
        bytes: bytes as u64,
        gpu: context.gpu,
        context: context.number,
        pool: None,
    };
    driver.memory().remember(address, allocation);
    context.counters()?.allocated(MemoryKind::Host, bytes as u64);
    Ok(address)
}

/// cuMemFreeHost.
pub(crate) fn free(address: u64) -> Result {
    context::current()?;
    if address == 0 {
        return Ok(());
    }
    let driver = driver()?;
    let mut memory = driver.memory();
    memory
        .at(address)
        .filter(|allocation| allocation.kind == MemoryKind::Host)
        .ok_or(CudaError::InvalidValue)?;
    memory.release(driver, address);
    Ok(())
}

/// Unmaps memory that [`allocate`] mapped.
pub(crate) fn release(address: u64, bytes: u64) {
    managed::unmap(address, bytes);
}

/// cuMemHostRegister.
pub(crate) fn register(address: u64, bytes: usize) -> Result {
    let context = context::current()?;
    if address == 0 || bytes == 0 {
        return Err(CudaError::InvalidValue);
    }
    driver()?.address_space().register_host(address, bytes as u64, context.gpu)?;
    context.counters()?.allocated(MemoryKind::Host, bytes as u64);
    Ok(())
}

/// cuMemHostUnregister.
pub(crate) fn unregister(address: u64) -> Result {
    context::current()?;
    let driver = driver()?;
    let (bytes, gpu) = driver.address_space().unregister_host(address)?;
    driver.slot.gpu(gpu).counters.freed(MemoryKind::Host, bytes);
    Ok(())
}

/// cuMemHostGetDevicePointer: host memory has the same address on the device.
pub(crate) fn device_pointer(address: u64) -> Result<u64> {
    context::current()?;
    let driver = driver()?;
    let pinned = driver
        .memory()
        .containing(address)
        .is_some_and(|(_, allocation)| allocation.kind == MemoryKind::Host);
    if pinned || driver.address_space().is_registered(address) {
        Ok(address)
    } else {
        Err(CudaError::InvalidValue)
    }
}

/// A function and its argument, both the caller's.
struct Callback {
    function: unsafe extern "C" fn(*mut c_void),
    argument: *mut c_void,
}

// SAFETY: cuLaunchHostFunc runs the function on a thread of the driver's; the caller provides for that.
unsafe impl Send for Callback {}

/// cuLaunchHostFunc: the stream goes on when the function has returned.
pub(crate) fn launch(
    stream: u64,
    function: Option<unsafe extern "C" fn(*mut c_void)>,
    argument: *mut c_void,
    mode: DefaultStream,
) -> Result {
    let Target { stream, .. } = target(stream, mode)?;
    let function = function.ok_or(CudaError::InvalidValue)?;
    if stream.is_capturing() {
        return Err(CudaError::StreamCaptureUnsupported);
    }
    let number = stream.next_host_function();
    let reached = stream.submit(WorkKind::HostFunction, 0, 0, 0, number)? - 1;
    let callback = Callback { function, argument };
    std::thread::Builder::new()
        .name("cuda-host-func".to_owned())
        .spawn(move || run(&stream, reached, &callback))
        .map(drop)
        .map_err(|_| CudaError::OperatingSystem)
}

fn run(stream: &Stream, reached: u64, callback: &Callback) {
    let Callback { function, argument } = *callback;
    if stream.channel.wait(reached).is_ok() {
        // SAFETY: the caller of cuLaunchHostFunc provides a function that may be called with its argument.
        unsafe { function(argument) };
    }
    stream.channel.host_function_done();
}

//! Kernel launches.

use std::sync::atomic::Ordering::Relaxed;

use gpu_sim::machine::{channel::WorkKind, clock};

use crate::{
    abi::LaunchParams,
    capture,
    driver::driver,
    entry::DefaultStream,
    error::{CudaError, Result},
    graph::NodeKind,
    stream::{Target, target},
};

/// CPU time of one launch.
const LAUNCH_NS: u64 = 3_000;

/// The most threads in one block.
const MAX_BLOCK_THREADS: u64 = 1024;

/// cuLaunchKernel and relatives.
pub(crate) fn kernel(
    function: u64,
    grid: [u32; 3],
    block: [u32; 3],
    stream: u64,
    mode: DefaultStream,
) -> Result {
    let started_ns = clock::monotonic_ns();
    let Target { context, stream } = target(stream, mode)?;
    let function = driver()?.functions.get(function)?;
    if function.context != context.handle {
        return Err(CudaError::InvalidHandle);
    }
    let threads = block.iter().map(|count| u64::from(*count)).product::<u64>();
    if grid.contains(&0) || threads == 0 || threads > MAX_BLOCK_THREADS {
        return Err(CudaError::InvalidValue);
    }
    let duration_ns = function.duration.next_ns();
    if !capture::record(&stream, NodeKind::Kernel { duration_ns }) {
        spend(started_ns);
        stream.submit(WorkKind::Kernel, duration_ns, 0, 0, 0)?;
    }
    context.counters()?.launches.fetch_add(1, Relaxed);
    Ok(())
}

/// cuLaunchCooperativeKernelMultiDevice: one launch for each element.
pub(crate) fn cooperative_multi_device(launches: &[LaunchParams]) -> Result {
    if launches.is_empty() {
        return Err(CudaError::InvalidValue);
    }
    for launch in launches {
        kernel(launch.function, launch.grid, launch.block, launch.stream, DefaultStream::Legacy)?;
    }
    Ok(())
}

/// Uses the CPU until a launch that began at `started_ns` has cost what it costs.
pub(crate) fn spend(started_ns: u64) {
    while clock::monotonic_ns() < started_ns + LAUNCH_NS {
        std::hint::spin_loop();
    }
}

//! Device queries.

use gpu_sim::scenario::Scenario;

use crate::{
    driver::{Driver, driver},
    error::{CudaError, Result},
};

/// Attribute numbers (CUdevice_attribute) end here.
const LAST_ATTRIBUTE: i32 = 150;

/// cuDeviceGet.
pub(crate) fn get(ordinal: i32) -> Result<i32> {
    driver()?.device(ordinal)?;
    Ok(ordinal)
}

/// cuDeviceGetCount.
pub(crate) fn count() -> Result<i32> {
    i32::try_from(driver()?.devices.len()).map_err(|_| CudaError::InvalidValue)
}

/// cuDriverGetVersion. It works before cuInit, as long as there is a machine.
pub(crate) fn driver_version() -> i32 {
    driver().map_or(DEFAULT_VERSION, |driver| driver.slot.machine().scenario().cuda_version)
}

/// What cuDriverGetVersion says before cuInit.
const DEFAULT_VERSION: i32 = 13_000;

/// cuDeviceGetByPCIBusId.
pub(crate) fn by_bus_id(text: &str) -> Result<i32> {
    let driver = driver()?;
    let ordinal = (0..count()?).find(|ordinal| {
        driver.facts(*ordinal).is_ok_and(|gpu| {
            let id = gpu.pci.short_bus_id();
            id.eq_ignore_ascii_case(text) || id["0000:".len()..].eq_ignore_ascii_case(text)
        })
    });
    ordinal.ok_or(CudaError::InvalidDevice)
}

/// cuDeviceCanAccessPeer.
pub(crate) fn can_access_peer(device: i32, peer: i32) -> Result<bool> {
    let driver = driver()?;
    driver.device(device)?;
    driver.device(peer)?;
    Ok(device != peer)
}

/// cuDeviceGetAttribute.
pub(crate) fn attribute(attribute: i32, ordinal: i32) -> Result<i32> {
    let driver = driver()?;
    driver.device(ordinal)?;
    if !(1..=LAST_ATTRIBUTE).contains(&attribute) {
        return Err(CudaError::InvalidValue);
    }
    let value =
        model_attribute(driver, attribute, ordinal)?.or_else(|| common_attribute(attribute)).unwrap_or(0);
    i32::try_from(value).map_err(|_| CudaError::InvalidValue)
}

/// Attributes that depend on the GPU.
fn model_attribute(driver: &Driver, attribute: i32, ordinal: i32) -> Result<Option<u32>> {
    let gpu = driver.facts(ordinal)?;
    let model = &gpu.model;
    Ok(Some(match attribute {
        13 => model.clocks.max_sm_mhz * 1000,
        16 => model.sm_count,
        32 => u32::from(model.ecc),
        33 => gpu.pci.bus,
        34 => gpu.pci.device,
        36 => model.clocks.max_memory_mhz * 1000,
        37 => model.memory.bus_width_bits,
        50 => gpu.pci.domain,
        75 => model.compute_capability.0,
        76 => model.compute_capability.1,
        134 => gpu.numa_node,
        _ => return Ok(None),
    }))
}

/// Attributes that are the same for all GPUs since Volta.
fn common_attribute(attribute: i32) -> Option<u32> {
    Some(match attribute {
        // MAX_THREADS_PER_BLOCK, MAX_BLOCK_DIM_X and _Y
        1..=3 => 1024,
        // MAX_BLOCK_DIM_Z
        4 => 64,
        // MAX_GRID_DIM_X, MAX_PITCH
        5 | 11 => i32::MAX.unsigned_abs(),
        // MAX_GRID_DIM_Y and _Z
        6 | 7 => 65_535,
        // MAX_SHARED_MEMORY_PER_BLOCK
        8 => 48 * 1024,
        // TOTAL_CONSTANT_MEMORY, MAX_REGISTERS_PER_BLOCK and _PER_MULTIPROCESSOR
        9 | 12 | 82 => 64 * 1024,
        // WARP_SIZE
        10 => 32,
        // GPU_OVERLAP, CAN_MAP_HOST_MEMORY, CONCURRENT_KERNELS, UNIFIED_ADDRESSING, STREAM_PRIORITIES_SUPPORTED,
        // MANAGED_MEMORY, CONCURRENT_MANAGED_ACCESS, COOPERATIVE_LAUNCH, COOPERATIVE_MULTI_DEVICE_LAUNCH,
        // VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, MEMORY_POOLS_SUPPORTED
        15 | 19 | 31 | 41 | 78 | 83 | 89 | 95 | 96 | 102 | 103 | 115 => 1,
        // ASYNC_ENGINE_COUNT
        40 => 3,
        // MAX_THREADS_PER_MULTIPROCESSOR
        39 => 2048,
        // MAX_SHARED_MEMORY_PER_MULTIPROCESSOR and _PER_BLOCK_OPTIN
        81 | 97 => 96 * 1024,
        _ => return None,
    })
}

/// The scenario, for calls that need no context.
pub(crate) fn scenario() -> Result<&'static Scenario> {
    Ok(driver()?.slot.machine().scenario())
}

/// cuDeviceGetP2PAttribute: performance rank, access, native atomics, array access.
pub(crate) fn p2p_attribute(attribute: i32, source: i32, destination: i32) -> Result<i32> {
    let driver = driver()?;
    let (from, to) = (driver.device(source)?.gpu, driver.device(destination)?.gpu);
    if source == destination {
        return Err(CudaError::InvalidDevice);
    }
    let linked = scenario()?.nvlinks_between(from, to) > 0;
    match attribute {
        1 => Ok(i32::from(!linked)),
        2 | 4 => Ok(1),
        3 => Ok(i32::from(linked)),
        _ => Err(CudaError::InvalidValue),
    }
}

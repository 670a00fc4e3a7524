//! The state of the driver in this process.

use std::{
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use gpu_sim::{
    machine::{Machine, MachineError, process::Slot},
    scenario::{Gpu, MAX_GPUS},
};

use crate::{
    array::Array,
    context::{Context, Primary},
    error::{CudaError, Result},
    event::Event,
    graph::{Graph, GraphExec},
    memory::Memory,
    module::{Function, Module},
    pool::Pool,
    stream::Stream,
    table::Table,
    virtual_memory::{AddressSpace, Physical},
    visible,
};

/// Everything that cuInit sets up. It lives until the process ends.
#[derive(Debug)]
pub(crate) struct Driver {
    pub(crate) slot: Slot,
    /// The visible devices, by CUDA ordinal.
    pub(crate) devices: Vec<Device>,
    memory: Mutex<Memory>,
    address_space: Mutex<AddressSpace>,
    pub(crate) contexts: Table<Context>,
    pub(crate) streams: Table<Stream>,
    pub(crate) events: Table<Event>,
    pub(crate) modules: Table<Module>,
    pub(crate) functions: Table<Function>,
    pub(crate) graphs: Table<Mutex<Graph>>,
    pub(crate) graph_execs: Table<GraphExec>,
    pub(crate) pools: Table<Pool>,
    pub(crate) arrays: Table<Array>,
    pub(crate) physical: Table<Physical>,
    /// Numbers contexts within this process.
    pub(crate) next_context: AtomicU32,
}

/// A visible device.
#[derive(Debug)]
pub(crate) struct Device {
    /// Index of the GPU in the machine.
    pub(crate) gpu: usize,
    pub(crate) primary: Mutex<Primary>,
    /// Handles of the memory pools that belong to the device: the default one and the current one.
    pub(crate) default_pool: u64,
    pub(crate) current_pool: Mutex<u64>,
}

static DRIVER: OnceLock<Driver> = OnceLock::new();
static INITIALISING: Mutex<()> = Mutex::new(());
static FORKED: AtomicBool = AtomicBool::new(false);

/// The initialised driver.
pub(crate) fn driver() -> Result<&'static Driver> {
    // A forked child has the parent's state in its memory and may not use it.
    if FORKED.load(Relaxed) {
        return Err(CudaError::NotInitialized);
    }
    DRIVER.get().ok_or(CudaError::NotInitialized)
}

/// A real driver opens its devices in no less, and mostly takes ten times as long: no process that uses CUDA lives
/// shorter than this.
const INITIALISATION_TIME: Duration = Duration::from_millis(20);

/// cuInit.
pub(crate) fn initialise(flags: u32) -> Result {
    if flags != 0 {
        return Err(CudaError::InvalidValue);
    }
    let _guard = INITIALISING.lock().unwrap_or_else(PoisonError::into_inner);
    if FORKED.load(Relaxed) {
        return Err(CudaError::NotInitialized);
    }
    if DRIVER.get().is_some() {
        return Ok(());
    }
    thread::sleep(INITIALISATION_TIME);
    let machine = Machine::open(&Machine::directory_from_environment()).map_err(|_| CudaError::NoDevice)?;
    if !machine.is_served() {
        return Err(CudaError::SystemNotReady);
    }
    let devices = std::env::var("CUDA_VISIBLE_DEVICES").ok();
    let order = std::env::var("CUDA_DEVICE_ORDER").ok();
    let visible = visible::visible_gpus(machine.scenario(), devices.as_deref(), order.as_deref());
    if visible.is_empty() {
        return Err(CudaError::NoDevice);
    }
    let driver = Driver::new(&Arc::new(machine), &visible).map_err(|error| match error {
        MachineError::NoProcessSlot { .. } => CudaError::OutOfMemory,
        _ => CudaError::OperatingSystem,
    })?;
    // SAFETY: the handler only stores to an atomic.
    let registered = unsafe { libc::pthread_atfork(None, None, Some(forked)) };
    if registered != 0 {
        return Err(CudaError::OperatingSystem);
    }
    // `INITIALISING` is held, so nobody else has set it.
    DRIVER.get_or_init(|| driver);
    Ok(())
}

extern "C" fn forked() {
    FORKED.store(true, Relaxed);
}

impl Driver {
    fn new(machine: &Arc<Machine>, visible: &[usize]) -> std::result::Result<Self, MachineError> {
        let slot = Slot::claim(machine)?;
        let pools = Table::new(8);
        let contexts = Table::new(1);
        let devices = visible.iter().enumerate().map(|(ordinal, gpu)| {
            let default_pool = pools.insert(Pool::new(ordinal, 0));
            let primary = Mutex::new(Primary::new(contexts.reserve()));
            Device { gpu: *gpu, primary, default_pool, current_pool: Mutex::new(default_pool) }
        });
        Ok(Self {
            devices: devices.collect(),
            memory: Mutex::new(Memory::new(MAX_GPUS)),
            address_space: Mutex::default(),
            contexts,
            streams: Table::new(2),
            events: Table::new(3),
            modules: Table::new(4),
            functions: Table::new(5),
            graphs: Table::new(6),
            graph_execs: Table::new(7),
            pools,
            arrays: Table::new(9),
            physical: Table::new(10),
            next_context: AtomicU32::new(0),
            slot,
        })
    }

    /// The device with a CUDA ordinal.
    pub(crate) fn device(&self, ordinal: i32) -> Result<&Device> {
        let index = usize::try_from(ordinal).map_err(|_| CudaError::InvalidDevice)?;
        self.devices.get(index).ok_or(CudaError::InvalidDevice)
    }

    /// Static facts of the GPU behind a CUDA ordinal.
    pub(crate) fn facts(&self, ordinal: i32) -> Result<&Gpu> {
        let gpu = self.device(ordinal)?.gpu;
        self.slot.machine().scenario().gpus.get(gpu).ok_or(CudaError::InvalidDevice)
    }

    /// The memory of all devices, for the time of one operation.
    pub(crate) fn memory(&self) -> std::sync::MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Addresses outside plain device memory, for the time of one operation. Taken after `memory`, never before it.
    pub(crate) fn address_space(&self) -> std::sync::MutexGuard<'_, AddressSpace> {
        self.address_space.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! Initialisation, versions, the list of GPUs, error texts.

use std::ffi::{c_char, c_int, c_uint};
use std::path::PathBuf;

use nvml_wrapper_sys::bindings::{nvmlReturn_t, nvmlTemperatureSensors_t};

use crate::abi::{Answer, Handle, InOut, Items, Out, Text, TextIn, code};
use crate::library;

export! {
    fn nvmlInit() {
        library::initialise()
    }

    fn nvmlInit_v2() {
        library::initialise()
    }

    fn nvmlInitWithFlags(_flags: c_uint) {
        library::initialise()
    }

    fn nvmlShutdown() {
        library::shut_down()
    }

    fn nvmlSystemGetDriverVersion(version: Text, length: c_uint) {
        version.set(length, &library::machine()?.scenario().driver_version)
    }

    fn nvmlSystemGetNVMLVersion(version: Text, length: c_uint) {
        let machine = library::machine()?;
        let scenario = machine.scenario();
        // NVML's own version is the major version of CUDA and the driver's version.
        version.set(length, &format!("{}.{}", scenario.cuda_version / 1000, scenario.driver_version))
    }

    fn nvmlSystemGetCudaDriverVersion(version: Out<c_int>) {
        version.set(library::machine()?.scenario().cuda_version)
    }

    fn nvmlSystemGetCudaDriverVersion_v2(version: Out<c_int>) {
        version.set(library::machine()?.scenario().cuda_version)
    }

    fn nvmlSystemGetProcessName(pid: c_uint, name: Text, length: c_uint) {
        library::machine()?;
        let path = std::fs::read_link(PathBuf::from(format!("/proc/{pid}/exe")))
            .map_err(|_no_process| code::NOT_FOUND)?;
        // The driver cuts a path that is too long.
        let mut path = path.to_string_lossy().into_owned();
        while path.len() >= length as usize && path.pop().is_some() {}
        name.set(length, &path)
    }

    fn nvmlSystemGetHicVersion(count: Out<c_uint>, _entries: Items<c_uint>) {
        library::machine()?;
        count.set(0)
    }

    fn nvmlUnitGetCount(count: Out<c_uint>) {
        library::machine()?;
        count.set(0)
    }

    fn nvmlGetExcludedDeviceCount(count: Out<c_uint>) {
        library::machine()?;
        count.set(0)
    }

    fn nvmlDeviceGetCount(count: Out<c_uint>) {
        gpu_count(count)
    }

    fn nvmlDeviceGetCount_v2(count: Out<c_uint>) {
        gpu_count(count)
    }

    fn nvmlDeviceGetHandleByIndex(index: c_uint, device: Out<Handle>) {
        by_index(index, device)
    }

    fn nvmlDeviceGetHandleByIndex_v2(index: c_uint, device: Out<Handle>) {
        by_index(index, device)
    }

    fn nvmlDeviceGetHandleByUUID(uuid: TextIn, device: Out<Handle>) {
        let uuid = uuid.get()?;
        find(device, |gpu| gpu.uuid == uuid)
    }

    fn nvmlDeviceGetHandleBySerial(serial: TextIn, device: Out<Handle>) {
        let serial = serial.get()?;
        find(device, |gpu| gpu.serial == serial)
    }

    fn nvmlDeviceGetHandleByPciBusId(bus_id: TextIn, device: Out<Handle>) {
        by_bus_id(&bus_id, device)
    }

    fn nvmlDeviceGetHandleByPciBusId_v2(bus_id: TextIn, device: Out<Handle>) {
        by_bus_id(&bus_id, device)
    }

    fn nvmlSystemGetTopologyGpuSet(cpu: c_uint, count: InOut<c_uint>, devices: Items<Handle>) {
        let machine = library::machine()?;
        let near = machine.scenario().gpus.iter().enumerate();
        let near: Vec<Handle> = near
            .filter(|(_, gpu)| gpu.numa_node == cpu / crate::topology::CPUS_PER_NODE)
            .map(|(index, _)| Handle::of(index))
            .collect();
        if devices.is_null() {
            return count.set(c_uint::try_from(near.len()).map_err(|_too_many| code::UNKNOWN)?);
        }
        devices.fill(&count, &near)
    }
}

/// NVML's text for a code.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn nvmlErrorString(result: nvmlReturn_t) -> *const c_char {
    let text = match result {
        0 => c"Success",
        1 => c"Uninitialized",
        2 => c"Invalid Argument",
        3 => c"Not Supported",
        4 => c"Insufficient Permissions",
        5 => c"Already Initialized",
        6 => c"Not Found",
        7 => c"Insufficient Size",
        8 => c"Insufficient External Power",
        9 => c"Driver Not Loaded",
        10 => c"Timeout",
        11 => c"Interrupt Request Issue",
        12 => c"NVML Shared Library Not Found",
        13 => c"Function Not Found",
        14 => c"Corrupted infoROM",
        15 => c"GPU is lost",
        16 => c"GPU requires reset",
        17 => c"GPU access blocked by the operating system",
        18 => c"Driver/library version mismatch",
        19 => c"In use by another client",
        20 => c"Insufficient Memory",
        21 => c"No data",
        22 => c"Not supported when ECC is enabled",
        23 => c"Insufficient Resources",
        25 => c"Argument version mismatch",
        26 => c"Deprecated",
        27 => c"Not Ready",
        28 => c"GPU not found",
        29 => c"Invalid State",
        _ => c"Unknown Error",
    };
    text.as_ptr()
}

/// `NVML_TEMPERATURE_GPU`.
pub(crate) const SENSOR_GPU: nvmlTemperatureSensors_t = 0;

fn gpu_count(count: Out<c_uint>) -> Answer {
    let gpus = library::machine()?.scenario().gpus.len();
    count.set(c_uint::try_from(gpus).map_err(|_too_many| code::UNKNOWN)?)
}

fn by_index(index: c_uint, device: Out<Handle>) -> Answer {
    let handle = Handle::of(index as usize);
    handle.device()?;
    device.set(handle)
}

fn by_bus_id(bus_id: &TextIn, device: Out<Handle>) -> Answer {
    let bus_id = bus_id.get()?;
    find(device, |gpu| {
        bus_id.eq_ignore_ascii_case(&gpu.pci.bus_id()) || bus_id.eq_ignore_ascii_case(&gpu.pci.short_bus_id())
    })
}

fn find(device: Out<Handle>, is_it: impl Fn(&gpu_sim::scenario::Gpu) -> bool) -> Answer {
    let machine = library::machine()?;
    let index = machine.scenario().gpus.iter().position(is_it).ok_or(code::NOT_FOUND)?;
    let handle = Handle::of(index);
    handle.device()?;
    device.set(handle)
}

//! Device memory.

use std::ffi::c_uint;

use gpu_sim::machine::Fault;
use nvml_wrapper_sys::bindings::{nvmlBAR1Memory_t, nvmlMemory_t, nvmlMemory_v2_t};

use crate::abi::{Device, Handle, InOut, Out, code};

/// `NVML_STRUCT_VERSION(Memory, 2)`: the size, and the version in the topmost byte.
const MEMORY_V2: u32 = 0x28 | 2 << 24;

const _: () = assert!(size_of::<nvmlMemory_v2_t>() == 0x28);

export! {
    /// Before `_v2`, what the driver keeps for itself counted as used.
    fn nvmlDeviceGetMemoryInfo(device: Handle, memory: Out<nvmlMemory_t>) {
        let amounts = Amounts::of(&device.device()?);
        memory.set(nvmlMemory_t {
            total: amounts.total,
            free: amounts.free,
            used: amounts.used.saturating_add(amounts.reserved),
        })
    }

    fn nvmlDeviceGetMemoryInfo_v2(device: Handle, memory: InOut<nvmlMemory_v2_t>) {
        let version = memory.get()?.version;
        if version != MEMORY_V2 {
            return Err(code::ARGUMENT_VERSION_MISMATCH);
        }
        let Amounts { total, reserved, free, used } = Amounts::of(&device.device()?);
        memory.set(nvmlMemory_v2_t { version, total, reserved, free, used })
    }

    /// A context maps two MiB of the window, which is all that this double models of it.
    fn nvmlDeviceGetBAR1MemoryInfo(device: Handle, memory: Out<nvmlBAR1Memory_t>) {
        let device = device.device()?;
        let total = device.model().memory.bar1_bytes;
        let used = (2 << 20) * device.state().process_list.read().len() as u64;
        memory.set(nvmlBAR1Memory_t { bar1Total: total, bar1Free: total.saturating_sub(used), bar1Used: used })
    }

    fn nvmlDeviceGetMemoryBusWidth(device: Handle, width: Out<c_uint>) {
        width.set(device.device()?.model().memory.bus_width_bits)
    }
}

struct Amounts {
    total: u64,
    reserved: u64,
    free: u64,
    used: u64,
}

impl Amounts {
    fn of(device: &Device) -> Self {
        if device.fault(Fault::NotAvailable) != 0 {
            return Self { total: u64::MAX, reserved: u64::MAX, free: u64::MAX, used: u64::MAX };
        }
        let memory = &device.model().memory;
        let used = device.machine.memory_used_bytes(device.index).saturating_sub(memory.reserved_bytes);
        Self {
            total: memory.total_bytes,
            reserved: memory.reserved_bytes,
            free: memory.total_bytes.saturating_sub(memory.reserved_bytes).saturating_sub(used),
            used,
        }
    }
}

//! Allocations: into the table of what is held, and into the counters.

use gpu_ebpf::{
    abi::{Allocation, AllocationKey, Stat, Thread},
    call::{AddressSpace, Call, MemoryKind},
    descriptor::{array, array_3d, array_bytes, channel_bytes},
};

use crate::{
    context, free,
    maps::ALLOCATIONS,
    stats::{add, count},
    thread,
    user::read,
};

const BPF_ANY: u64 = 0;
/// Mipmap levels of the largest texture, which is 131072 texels wide.
const MIPMAP_LEVELS: u64 = 18;

/// Records an allocation that succeeded.
#[inline(never)]
pub(crate) fn leave(thread: &mut Thread, call: Call) {
    let [out, second, third] = thread.in_flight.arguments;
    let (kind, space) = match call {
        Call::AllocateManaged => (MemoryKind::Managed as u32, AddressSpace::Device),
        Call::AllocatePool => (MemoryKind::Pool as u32, AddressSpace::Device),
        Call::AllocatePhysical => (MemoryKind::Virtual as u32, AddressSpace::PhysicalHandle),
        Call::ImportPhysical => (MemoryKind::IMPORTED, AddressSpace::PhysicalHandle),
        Call::AllocateArray | Call::AllocateArray3d | Call::AllocateMipmap => {
            (MemoryKind::Array as u32, AddressSpace::Array)
        }
        Call::AllocateHost | Call::RegisterHost => (MemoryKind::Host as u32, AddressSpace::Host),
        _ => (MemoryKind::Device as u32, AddressSpace::Device),
    };
    let bytes = match call {
        Call::AllocatePitch => read::<u64>(second, 0).unwrap_or(0).wrapping_mul(third),
        Call::AllocateArray => array_size(second),
        Call::AllocateArray3d => array_3d_size(second, 1),
        Call::AllocateMipmap => array_3d_size(second, third & 0xffff_ffff),
        Call::ImportPhysical => 0,
        _ => second,
    };
    let address = if matches!(call, Call::RegisterHost) { Some(out) } else { read::<u64>(out, 0) };

    let key = thread::counter_key(thread);
    if kind != MemoryKind::IMPORTED
        && let Some(counters) = thread::counters(&key)
        && (kind as usize) < MemoryKind::COUNT
    {
        // SAFETY: the pointer is to a live map value and `kind` is below the array's length.
        unsafe {
            let flow = (&raw mut (*counters).memory).cast::<gpu_ebpf::abi::MemoryFlow>().add(kind as usize);
            add(&raw mut (*flow).allocations, 1);
            add(&raw mut (*flow).allocated_bytes, bytes);
        }
    }

    let Some(address) = address else { return };
    let allocation_key =
        AllocationKey { epoch_ns: thread.epoch_ns, address, tgid: thread.tgid, space: space as u32 };
    // An entry under this address ended with its context and was not swept yet: the driver would not
    // hand the address out otherwise.
    // SAFETY: the value is copied at once; the agent may remove the entry but nobody else writes it.
    if let Some(stale) = unsafe { ALLOCATIONS.get(allocation_key) }.copied()
        && ALLOCATIONS.remove(allocation_key).is_ok()
    {
        free::count_freed(thread, &stale);
    }
    // Physical memory and what is merely registered belong to the process and outlive their context.
    let context_id = match call {
        Call::AllocatePhysical | Call::ImportPhysical | Call::RegisterHost => 0,
        _ => context::current_id(thread),
    };
    let allocation = Allocation {
        bytes,
        cgroup_id: key.cgroup_id,
        context_id,
        link: 0,
        references: 1,
        stamp: thread.in_flight.entered_ns,
        device: thread.device,
        kind,
    };
    if ALLOCATIONS.insert(allocation_key, &allocation, BPF_ANY).is_err() {
        count(Stat::AllocationsFull);
    }
}

#[inline(always)]
fn array_size(descriptor: u64) -> u64 {
    let [width, height] = read::<[u64; 2]>(descriptor, array::EXTENT).unwrap_or([0; 2]);
    sized(
        [width, height, 0],
        read::<u32>(descriptor, array::FORMAT),
        read::<u32>(descriptor, array::CHANNELS),
        1,
    )
}

#[inline(always)]
fn array_3d_size(descriptor: u64, levels: u64) -> u64 {
    sized(
        read::<[u64; 3]>(descriptor, array_3d::EXTENT).unwrap_or([0; 3]),
        read::<u32>(descriptor, array_3d::FORMAT),
        read::<u32>(descriptor, array_3d::CHANNELS),
        levels,
    )
}

#[inline(always)]
fn sized(extent: [u64; 3], format: Option<u32>, channels: Option<u32>, levels: u64) -> u64 {
    let Some(channel_bytes) = format.and_then(channel_bytes) else {
        count(Stat::UnknownFormat);
        return 0;
    };
    let channels = channels.unwrap_or(0);
    let [mut width, mut height, mut depth] = extent;
    let mut total: u64 = 0;
    let mut level = 0;
    while level < MIPMAP_LEVELS {
        if level >= levels {
            break;
        }
        total = total.wrapping_add(array_bytes(width, height, depth, channels, channel_bytes));
        width = if width > 1 { width >> 1 } else { width };
        height = if height > 1 { height >> 1 } else { height };
        depth = if depth > 1 { depth >> 1 } else { depth };
        level += 1;
    }
    total
}

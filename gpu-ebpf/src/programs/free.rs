//! Frees, and the life of physical memory, which lasts until it is released and unmapped everywhere.
//!
//! The entry of a free takes the allocation out of the table, its failed return puts it back: as soon as
//! the driver has freed an address, another thread may be given the same one. A handle to physical memory stays in
//! the table until its last release has returned, because other threads may map or retain it meanwhile; its stamp tells
//! whether the handle is still that of the same memory.

use gpu_ebpf::{
    abi::{Allocation, AllocationKey, CounterKey, MemoryFlow, Stat, Thread},
    call::{AddressSpace, Call, MemoryKind},
};

use crate::{
    maps::ALLOCATIONS,
    stats::{add, count},
    thread,
    user::read,
};

const BPF_ANY: u64 = 0;
/// Mappings that one `cuMemUnmap` is followed over; what is beyond is counted as truncated.
const UNMAP_LIMIT: u32 = 32;

#[inline(always)]
fn key(thread: &Thread, space: AddressSpace, address: u64) -> AllocationKey {
    AllocationKey { epoch_ns: thread.epoch_ns, address, tgid: thread.tgid, space: space as u32 }
}

#[inline(always)]
fn space_of(call: u32) -> AddressSpace {
    if call == Call::FreeArray as u32 {
        AddressSpace::Array
    } else if call == Call::FreeHost as u32 {
        AddressSpace::Host
    } else if call == Call::ReleasePhysical as u32 {
        AddressSpace::PhysicalHandle
    } else {
        AddressSpace::Device
    }
}

/// Takes the allocation out of the table.
#[inline(always)]
pub(crate) fn enter(thread: &mut Thread, call: Call) {
    thread.pending_valid = 0;
    thread.pending.stamp = 0;
    let key = key(thread, space_of(call as u32), thread.in_flight.arguments[0]);
    // SAFETY: the value is copied at once; only the agent might remove the entry meanwhile.
    let Some(allocation) = (unsafe { ALLOCATIONS.get(key) }) else { return };
    thread.pending = *allocation;
    if matches!(call, Call::ReleasePhysical) {
        return;
    }
    if ALLOCATIONS.remove(key).is_ok() {
        thread.pending_valid = 1;
    }
}

/// Puts back what a failed free took out.
#[inline(always)]
pub(crate) fn undo(thread: &mut Thread) {
    if thread.pending_valid == 0 {
        return;
    }
    thread.pending_valid = 0;
    let key = key(thread, space_of(thread.in_flight.call), thread.in_flight.arguments[0]);
    if ALLOCATIONS.insert(key, &thread.pending, BPF_ANY).is_err() {
        count(Stat::AllocationsFull);
    }
}

/// Puts back what a free took out that will not return.
#[inline(never)]
pub(crate) fn undo_abandoned(thread: &mut Thread) -> u32 {
    undo(thread);
    0
}

/// Counts a free, a mapping or an unmapping that succeeded.
#[inline(never)]
pub(crate) fn leave(thread: &mut Thread, call: Call) {
    match call {
        Call::Map => map(thread),
        Call::Unmap => unmap(thread),
        Call::RetainPhysical => retain(thread),
        Call::ReleasePhysical => release(thread),
        _ if thread.pending_valid != 0 => {
            thread.pending_valid = 0;
            let pending = thread.pending;
            count_freed(thread, &pending);
        }
        // Freeing nothing succeeds and means nothing.
        _ if thread.in_flight.arguments[0] == 0 => {}
        _ => count(Stat::UnknownFree),
    }
}

/// Adds a freed allocation to the counters of whoever paid for it.
#[inline(always)]
pub(crate) fn count_freed(thread: &Thread, allocation: &Allocation) {
    let kind = allocation.kind as usize;
    if kind >= MemoryKind::COUNT {
        return;
    }
    let key = CounterKey {
        cgroup_id: allocation.cgroup_id,
        epoch_ns: thread.epoch_ns,
        tgid: thread.tgid,
        device: allocation.device,
    };
    if let Some(counters) = thread::counters(&key) {
        // SAFETY: the pointer is to a live map value and `kind` is below the array's length.
        unsafe {
            let flow = (&raw mut (*counters).memory).cast::<MemoryFlow>().add(kind);
            add(&raw mut (*flow).frees, 1);
            add(&raw mut (*flow).freed_bytes, allocation.bytes);
        }
    }
}

#[inline(always)]
fn map(thread: &Thread) {
    let [address, bytes, handle] = thread.in_flight.arguments;
    let Some(physical) = ALLOCATIONS.get_ptr_mut(key(thread, AddressSpace::PhysicalHandle, handle)) else {
        return;
    };
    // SAFETY: the pointer is to a live map value; the field's address is inside it.
    let (links, cgroup_id, context_id, device) = unsafe {
        (&raw mut (*physical).link, (*physical).cgroup_id, (*physical).context_id, (*physical).device)
    };
    add(links, 1);
    let mapping = Allocation {
        bytes,
        cgroup_id,
        context_id,
        link: handle,
        references: 0,
        stamp: thread.in_flight.entered_ns,
        device,
        kind: MemoryKind::IMPORTED,
    };
    if ALLOCATIONS.insert(key(thread, AddressSpace::Mapping, address), &mapping, BPF_ANY).is_err() {
        count(Stat::AllocationsFull);
    }
}

#[inline(always)]
fn unmap(thread: &Thread) {
    let [start, bytes, _] = thread.in_flight.arguments;
    let end = start.wrapping_add(bytes);
    let mut address = start;
    let mut step = 0;
    while step < UNMAP_LIMIT {
        if address >= end {
            return;
        }
        let mapping_key = key(thread, AddressSpace::Mapping, address);
        // SAFETY: the value is copied at once; only the agent might remove the entry meanwhile.
        let Some(mapping) = (unsafe { ALLOCATIONS.get(mapping_key) }) else { return };
        let (length, handle) = (mapping.bytes, mapping.link);
        if ALLOCATIONS.remove(mapping_key).is_ok() {
            unlink(thread, handle);
        }
        if length == 0 {
            return;
        }
        address = address.wrapping_add(length);
        step += 1;
    }
    count(Stat::Truncated);
}

#[inline(always)]
fn unlink(thread: &Thread, handle: u64) {
    let key = key(thread, AddressSpace::PhysicalHandle, handle);
    let Some(physical) = ALLOCATIONS.get_ptr_mut(key) else { return };
    // SAFETY: the pointer is to a live map value; the field's address is inside it.
    add(unsafe { &raw mut (*physical).link }, u64::MAX);
    end_if_unused(thread, key, physical);
}

#[inline(always)]
fn retain(thread: &Thread) {
    let Some(handle) = read::<u64>(thread.in_flight.arguments[0], 0) else { return };
    let key = key(thread, AddressSpace::PhysicalHandle, handle);
    let Some(physical) = ALLOCATIONS.get_ptr_mut(key) else { return };
    // SAFETY: the pointer is to a live map value; the field's address is inside it.
    add(unsafe { &raw mut (*physical).references }, 1);
}

#[inline(always)]
fn release(thread: &Thread) {
    if thread.pending.stamp == 0 {
        return count(Stat::UnknownFree);
    }
    let key = key(thread, AddressSpace::PhysicalHandle, thread.in_flight.arguments[0]);
    let Some(physical) = ALLOCATIONS.get_ptr_mut(key) else { return };
    // SAFETY: the pointer is to a live map value.
    if unsafe { (*physical).stamp } != thread.pending.stamp {
        // The handle was given out again before this return was seen, and the old memory was counted then.
        return;
    }
    // SAFETY: as above; the field's address is inside the value.
    add(unsafe { &raw mut (*physical).references }, u64::MAX);
    end_if_unused(thread, key, physical);
}

/// Counts physical memory as freed if its handle was released and no mapping is left. Two threads may both see the last
/// use go, because each has taken its own away before it looks; only one of them removes the entry.
#[inline(always)]
fn end_if_unused(thread: &Thread, key: AllocationKey, physical: *mut Allocation) {
    // SAFETY: callers pass a pointer to a live map value, which is copied at once.
    let now = unsafe { *physical };
    if now.link == 0 && now.references == 0 && ALLOCATIONS.remove(key).is_ok() {
        count_freed(thread, &now);
    }
}

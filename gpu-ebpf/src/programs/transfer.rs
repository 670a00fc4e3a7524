//! Copies and memsets: how many bytes, in which direction.

use aya_ebpf::programs::ProbeContext;
use gpu_ebpf::{
    abi::{Counters, Stat, Thread, Transfer},
    call::{Call, CopyDirection},
    descriptor::{self, batch_3d, copy_2d, copy_3d},
};

use crate::{
    enter::argument,
    stats::{add, count},
    user::read,
};

/// Entries of one batch that are added up; what is beyond is counted as truncated.
const BATCH_LIMIT: u64 = 512;

/// Remembers the bytes (`arguments[1]`) and the direction (`arguments[2]`).
#[inline(always)]
pub(crate) fn enter(ctx: &ProbeContext, thread: &mut Thread, call: Call) {
    let (bytes, direction) = match call {
        Call::CopyHostToDevice => (argument(ctx, 2), CopyDirection::HostToDevice),
        Call::CopyDeviceToHost => (argument(ctx, 2), CopyDirection::DeviceToHost),
        Call::CopyDeviceToDevice => (argument(ctx, 2), CopyDirection::DeviceToDevice),
        Call::CopyPeer => (argument(ctx, 4), CopyDirection::Peer),
        Call::CopyArrayLinear => (argument(ctx, 3), CopyDirection::Array),
        Call::CopyArrayToArray => (argument(ctx, 4), CopyDirection::Array),
        Call::Copy2d => {
            let [width, height] = extent(argument(ctx, 0), copy_2d::EXTENT);
            (
                width.wrapping_mul(height),
                direction(argument(ctx, 0), copy_2d::SOURCE_TYPE, copy_2d::DESTINATION_TYPE),
            )
        }
        Call::Copy3d => (
            volume(argument(ctx, 0), copy_3d::EXTENT),
            direction(argument(ctx, 0), copy_3d::SOURCE_TYPE, copy_3d::DESTINATION_TYPE),
        ),
        Call::Copy3dPeer => (volume(argument(ctx, 0), copy_3d::EXTENT), CopyDirection::Peer),
        Call::CopyBatch => (batch_bytes(argument(ctx, 2), argument(ctx, 3)), CopyDirection::Unified),
        Call::Copy3dBatch => (batch_3d_bytes(argument(ctx, 1), argument(ctx, 0)), CopyDirection::Unified),
        Call::Memset16 => (argument(ctx, 2).wrapping_mul(2), CopyDirection::Unified),
        Call::Memset32 => (argument(ctx, 2).wrapping_mul(4), CopyDirection::Unified),
        Call::Memset2d8 => (area(ctx), CopyDirection::Unified),
        Call::Memset2d16 => (area(ctx).wrapping_mul(2), CopyDirection::Unified),
        Call::Memset2d32 => (area(ctx).wrapping_mul(4), CopyDirection::Unified),
        // `cuMemcpy` and `cuMemsetD8` have their bytes at one place.
        _ => (argument(ctx, 2), CopyDirection::Unified),
    };
    thread.in_flight.arguments[1] = bytes;
    thread.in_flight.arguments[2] = direction as u64;
}

/// Counts a copy or memset that succeeded.
#[inline(always)]
pub(crate) fn leave(thread: &Thread, call: Call, counters: *mut Counters) {
    let [_, bytes, direction] = thread.in_flight.arguments;
    let transfer = if (call as u32) >= Call::Memset8 as u32 {
        // SAFETY: the pointer is to a live map value; the field's address is inside it.
        unsafe { &raw mut (*counters).memset }
    } else {
        let index = (direction & 7) as usize;
        if index >= CopyDirection::COUNT {
            return;
        }
        // SAFETY: as above, and `index` is below the array's length.
        unsafe { (&raw mut (*counters).copies).cast::<Transfer>().add(index) }
    };
    // SAFETY: `transfer` points into a live map value.
    unsafe {
        add(&raw mut (*transfer).calls, 1);
        add(&raw mut (*transfer).bytes, bytes);
    }
}

#[inline(always)]
fn area(ctx: &ProbeContext) -> u64 {
    argument(ctx, 3).wrapping_mul(argument(ctx, 4))
}

#[inline(always)]
fn extent(address: u64, offset: usize) -> [u64; 2] {
    read::<[u64; 2]>(address, offset).unwrap_or([0, 0])
}

#[inline(always)]
fn volume(address: u64, offset: usize) -> u64 {
    let [width, height, depth] = read::<[u64; 3]>(address, offset).unwrap_or([0; 3]);
    width.wrapping_mul(height).wrapping_mul(depth)
}

#[inline(always)]
fn direction(address: u64, source: usize, destination: usize) -> CopyDirection {
    let source = read::<u32>(address, source).unwrap_or(0);
    let destination = read::<u32>(address, destination).unwrap_or(0);
    descriptor::direction(source, destination)
}

#[inline(never)]
fn batch_bytes(sizes: u64, length: u64) -> u64 {
    let mut total: u64 = 0;
    let mut index = 0;
    while index < BATCH_LIMIT {
        if index >= length {
            return total;
        }
        let Some(bytes) = read::<u64>(sizes, (index * 8) as usize) else { return total };
        total = total.wrapping_add(bytes);
        index += 1;
    }
    if length > BATCH_LIMIT {
        count(Stat::Truncated);
    }
    total
}

#[inline(never)]
fn batch_3d_bytes(operations: u64, length: u64) -> u64 {
    let mut total: u64 = 0;
    let mut index = 0;
    while index < BATCH_LIMIT {
        if index >= length {
            return total;
        }
        total = total.wrapping_add(volume(operations, index as usize * batch_3d::SIZE + batch_3d::EXTENT));
        index += 1;
    }
    if length > BATCH_LIMIT {
        count(Stat::Truncated);
    }
    total
}

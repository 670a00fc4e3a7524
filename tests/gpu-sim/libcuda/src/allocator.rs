//! Device addresses: small allocations share blocks of 2 MiB, larger ones have whole blocks of their own.
//!
//! Pure bookkeeping of a made-up address range: device memory has no content.

use std::collections::BTreeMap;

use gpu_sim::machine::memory::BLOCK_BYTES;

/// Every allocation starts and ends at a multiple of this.
pub(crate) const GRANULE_BYTES: u64 = 512;

/// Allocations above this size get blocks of their own.
const SMALL_LIMIT_BYTES: u64 = BLOCK_BYTES / 2;

/// The addresses of one GPU.
#[derive(Debug)]
pub(crate) struct Allocator {
    next: u64,
    /// Free address ranges below `next`, in whole blocks: start to length.
    free_ranges: BTreeMap<u64, u64>,
    /// Blocks that small allocations share: start to free ranges within.
    shared_blocks: BTreeMap<u64, BTreeMap<u64, u64>>,
}

/// Where an allocation lies, and how many bytes of blocks it needs that are not yet claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Placement {
    /// In a shared block that has room.
    Existing(u64),
    /// In new blocks of this size.
    New(u64),
}

impl Allocator {
    /// Hands out addresses from `base` (a multiple of the block size) on.
    pub(crate) fn new(base: u64) -> Self {
        Self { next: base, free_ranges: BTreeMap::new(), shared_blocks: BTreeMap::new() }
    }

    /// Bytes as they are allocated; `None` for 0 and for more than an address space holds.
    pub(crate) fn round(bytes: u64) -> Option<u64> {
        if bytes == 0 || bytes > 1 << 46 {
            return None;
        }
        bytes.checked_next_multiple_of(GRANULE_BYTES)
    }

    /// Looks for a place for `bytes` (rounded). New blocks must be claimed before [`Allocator::place`] is called.
    pub(crate) fn find(&self, bytes: u64) -> Placement {
        if bytes > SMALL_LIMIT_BYTES {
            return Placement::New(bytes.next_multiple_of(BLOCK_BYTES));
        }
        let ranges = self.shared_blocks.values().flatten();
        let fitting = ranges.into_iter().find(|(_, length)| **length >= bytes).map(|(start, _)| *start);
        fitting.map_or(Placement::New(BLOCK_BYTES), Placement::Existing)
    }

    /// Takes the place for `bytes` (rounded) and returns its address.
    pub(crate) fn place(&mut self, bytes: u64, placement: Placement) -> u64 {
        match placement {
            Placement::Existing(start) => self.take_from_shared(start, bytes),
            Placement::New(length) => {
                let start = self.take_range(length);
                if bytes > SMALL_LIMIT_BYTES {
                    return start;
                }
                self.shared_blocks.insert(start, BTreeMap::from([(start, length)]));
                self.take_from_shared(start, bytes)
            }
        }
    }

    /// Gives a place back and returns how many bytes of blocks became free.
    pub(crate) fn free(&mut self, start: u64, bytes: u64) -> u64 {
        if bytes > SMALL_LIMIT_BYTES {
            let length = bytes.next_multiple_of(BLOCK_BYTES);
            insert_merged(&mut self.free_ranges, start, length);
            return length;
        }
        let block = start - start % BLOCK_BYTES;
        let Some(ranges) = self.shared_blocks.get_mut(&block) else { return 0 };
        insert_merged(ranges, start, bytes);
        if ranges.get(&block) != Some(&BLOCK_BYTES) {
            return 0;
        }
        self.shared_blocks.remove(&block);
        insert_merged(&mut self.free_ranges, block, BLOCK_BYTES);
        BLOCK_BYTES
    }

    fn take_from_shared(&mut self, start: u64, bytes: u64) -> u64 {
        let block = start - start % BLOCK_BYTES;
        if let Some(ranges) = self.shared_blocks.get_mut(&block) {
            take_front(ranges, start, bytes);
        }
        start
    }

    /// Takes whole blocks, from the lowest free range that is long enough.
    fn take_range(&mut self, length: u64) -> u64 {
        let fitting = self.free_ranges.iter().find(|(_, free)| **free >= length).map(|(start, _)| *start);
        if let Some(start) = fitting {
            take_front(&mut self.free_ranges, start, length);
            return start;
        }
        let start = self.next;
        self.next += length;
        start
    }
}

fn take_front(ranges: &mut BTreeMap<u64, u64>, start: u64, length: u64) {
    if let Some(free) = ranges.remove(&start)
        && free > length
    {
        ranges.insert(start + length, free - length);
    }
}

/// Adds a free range and joins it with its neighbours.
fn insert_merged(ranges: &mut BTreeMap<u64, u64>, start: u64, length: u64) {
    let (mut start, mut length) = (start, length);
    if let Some(following) = ranges.remove(&(start + length)) {
        length += following;
    }
    if let Some((before, before_length)) =
        ranges.range(..start).next_back().map(|(at, length)| (*at, *length))
        && before + before_length == start
    {
        start = before;
        length += before_length;
    }
    ranges.insert(start, length);
}

#[cfg(test)]
mod tests;

use proptest::prelude::*;

use super::*;

const BASE: u64 = 0x3000_0000_0000;

/// Allocates and returns the address together with the bytes of newly claimed blocks.
fn allocate(allocator: &mut Allocator, bytes: u64) -> (u64, u64) {
    let rounded = Allocator::round(bytes).expect("valid size");
    let placement = allocator.find(rounded);
    let claimed = match placement {
        Placement::Existing(_) => 0,
        Placement::New(length) => length,
    };
    (allocator.place(rounded, placement), claimed)
}

#[test]
fn small_allocations_share_a_block() {
    let mut allocator = Allocator::new(BASE);
    assert_eq!(allocate(&mut allocator, 1), (BASE, BLOCK_BYTES));
    assert_eq!(allocate(&mut allocator, 513), (BASE + 512, 0));
    assert_eq!(allocate(&mut allocator, 512), (BASE + 1536, 0));
    assert_eq!(allocator.free(BASE, 512), 0);
    assert_eq!(allocate(&mut allocator, 300), (BASE, 0));
}

#[test]
fn the_last_free_in_a_block_returns_the_block() {
    let mut allocator = Allocator::new(BASE);
    allocate(&mut allocator, 512);
    allocate(&mut allocator, 512);
    assert_eq!(allocator.free(BASE, 512), 0);
    assert_eq!(allocator.free(BASE + 512, 512), BLOCK_BYTES);
    assert_eq!(allocate(&mut allocator, 512), (BASE, BLOCK_BYTES));
}

#[test]
fn large_allocations_take_whole_blocks_and_addresses_are_used_again() {
    let mut allocator = Allocator::new(BASE);
    assert_eq!(allocate(&mut allocator, BLOCK_BYTES + 1), (BASE, 2 * BLOCK_BYTES));
    assert_eq!(allocate(&mut allocator, 1 << 30), (BASE + 2 * BLOCK_BYTES, 1 << 30));
    assert_eq!(allocator.free(BASE, BLOCK_BYTES + 512), 2 * BLOCK_BYTES);
    assert_eq!(allocate(&mut allocator, 512), (BASE, BLOCK_BYTES));
}

#[test]
fn zero_and_absurd_sizes_are_refused() {
    assert_eq!(Allocator::round(0), None);
    assert_eq!(Allocator::round(1 << 62), None);
    assert_eq!(Allocator::round(u64::MAX), None);
}

proptest! {
    #[test]
    fn allocations_never_overlap_and_all_blocks_come_back(
        steps in prop::collection::vec((prop::bool::ANY, 1..6_000_000_u64), 1..200),
    ) {
        let mut allocator = Allocator::new(BASE);
        let mut live: Vec<(u64, u64)> = Vec::new();
        let mut claimed = 0;
        for (free, bytes) in steps {
            if free && !live.is_empty() {
                let (start, length) = live.swap_remove(bytes as usize % live.len());
                claimed -= allocator.free(start, length);
            } else {
                let (start, new) = allocate(&mut allocator, bytes);
                let length = bytes.next_multiple_of(GRANULE_BYTES);
                prop_assert!(live.iter().all(|(s, l)| start + length <= *s || s + l <= start));
                live.push((start, length));
                claimed += new;
            }
            prop_assert_eq!(claimed % BLOCK_BYTES, 0);
            prop_assert!(claimed >= live.iter().map(|(_, length)| length).sum::<u64>());
        }
        for (start, length) in live {
            claimed -= allocator.free(start, length);
        }
        prop_assert_eq!(claimed, 0);
    }
}

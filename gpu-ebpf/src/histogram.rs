//! Log2 histograms of durations.

/// Number of buckets.
pub const BUCKETS: usize = 24;

/// Durations below `1 << FIRST_SHIFT` nanoseconds (1.024 µs) share the first bucket.
const FIRST_SHIFT: u32 = 10;

/// The bucket of a duration: bucket 0 holds less than 1.024 µs, each next one twice as much, the last
/// everything from 4.3 s up.
///
/// Written without `leading_zeros`, which LLVM has no instruction for on BPF and would open-code at
/// several times the length.
#[inline(always)]
pub const fn bucket(duration_ns: u64) -> usize {
    let mut value = duration_ns >> FIRST_SHIFT;
    if value > 0xffff_ffff {
        return BUCKETS - 1;
    }
    let mut bits = 0;
    if value >= 1 << 16 {
        value >>= 16;
        bits += 16;
    }
    if value >= 1 << 8 {
        value >>= 8;
        bits += 8;
    }
    if value >= 1 << 4 {
        value >>= 4;
        bits += 4;
    }
    if value >= 1 << 2 {
        value >>= 2;
        bits += 2;
    }
    if value >= 2 {
        value >>= 1;
        bits += 1;
    }
    // `value` is 0 or 1 here: 0 only for the first bucket.
    let index = if value == 0 { bits } else { bits + 1 };
    if index < BUCKETS { index } else { BUCKETS - 1 }
}

/// Upper bounds of all buckets but the last, which has none, in nanoseconds.
pub const fn upper_bounds_ns() -> [u64; BUCKETS - 1] {
    let mut bounds = [0; BUCKETS - 1];
    let mut index = 0;
    while index < BUCKETS - 1 {
        bounds[index] = 1 << (FIRST_SHIFT as usize + index);
        index += 1;
    }
    bounds
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn bucket_edges() {
        assert_eq!(bucket(0), 0);
        assert_eq!(bucket(1023), 0);
        assert_eq!(bucket(1024), 1);
        assert_eq!(bucket(2047), 1);
        assert_eq!(bucket(2048), 2);
        assert_eq!(bucket((1 << 32) - 1), 22);
        assert_eq!(bucket(1 << 32), 23);
        assert_eq!(bucket(u64::MAX), 23);
    }

    proptest! {
        #[test]
        fn a_duration_lies_within_its_buckets_bounds(duration in any::<u64>()) {
            let bounds = upper_bounds_ns();
            let index = bucket(duration);
            if index > 0 {
                prop_assert!(duration >= bounds[index - 1]);
            }
            if index < BUCKETS - 1 {
                prop_assert!(duration < bounds[index]);
            }
        }
    }
}

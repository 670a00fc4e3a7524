//! Not timing what takes no time.
//!
//! Reading the clock twice is the largest part of what a launch costs us, and most launches only put a command into
//! a queue. So a launch is timed if it is its thread's first in a tick of the kernel (1 to 10 ms), or if the one before
//! it was not quick. A launch that follows a quick one within a tick is taken to have been as quick.
//!
//! A queue that is full makes every launch wait, so all of them are timed; one that becomes full is noticed
//! with the next tick at the latest.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::histogram;

/// Launches that take longer are timed each, in nanoseconds. A launch that does not wait takes some microseconds,
/// with the probes' own traps up to twenty on virtual machines.
pub const QUICK_NS: u64 = 32_768;

/// What a thread knows of its last timed launch.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Quick {
    /// The tick in which a launch was timed and was quick; no launch is timed in it any more.
    pub tick: u64,
    /// How long that launch took, in nanoseconds.
    pub duration_ns: u32,
    /// Its bucket in the histogram.
    pub bucket: u32,
    /// Time of launches that were not timed and that is not in the counters yet, in nanoseconds.
    pub owed_ns: u64,
}

const _: [(); 24] = [(); size_of::<Quick>()];

impl Quick {
    /// Whether a launch that begins in `tick` is to be timed.
    #[inline(always)]
    pub const fn must_time(&self, tick: u64) -> bool {
        self.tick != tick
    }

    /// The bucket of a launch that is not timed; its time is owed until the next one that is.
    #[inline(always)]
    pub const fn assume(&mut self) -> u32 {
        self.owed_ns = self.owed_ns.wrapping_add(self.duration_ns as u64);
        self.bucket
    }

    /// The time that is owed, which is not from then on.
    #[inline(always)]
    pub const fn pay(&mut self) -> u64 {
        let owed_ns = self.owed_ns;
        self.owed_ns = 0;
        owed_ns
    }

    /// Learns from a launch that began in `tick` and was timed.
    #[inline(always)]
    pub fn learn(&mut self, tick: u64, duration_ns: u64) {
        if duration_ns < QUICK_NS {
            self.tick = tick;
            #[expect(clippy::cast_possible_truncation, reason = "below QUICK_NS")]
            {
                self.duration_ns = duration_ns as u32;
                self.bucket = histogram::bucket(duration_ns) as u32;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_launch_of_a_tick_is_timed_and_stands_for_the_others() {
        let mut quick = Quick::default();
        assert!(quick.must_time(7));
        quick.learn(7, 5_000);
        assert!(!quick.must_time(7));
        assert_eq!((quick.assume(), quick.assume()), (3, 3));
        assert_eq!((quick.pay(), quick.pay()), (10_000, 0));
        assert!(quick.must_time(8));
    }

    #[test]
    fn while_launches_wait_each_is_timed() {
        let mut quick = Quick::default();
        quick.learn(7, QUICK_NS);
        assert!(quick.must_time(7), "it was not quick");
        quick.learn(7, 1_000);
        assert!(!quick.must_time(7));
    }
}

//! Which entry a return belongs to, and which entries are not calls of their own.
//!
//! A thread has at most one tracked call: the outermost one. The stack pointer tells the cases apart,
//! because the stack grows down: an entry below the tracked one is the driver calling itself; an entry
//! at or above it means that the tracked call will never return (a signal handler jumped out of it).
//! Counting happens at the return only, so an entry that is reported twice is harmless.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The call that a thread is in.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct InFlight {
    /// Stack pointer at the entry, which points to the return address.
    pub stack_pointer: u64,
    /// Monotonic clock at the entry; 0 for a launch that is not timed.
    pub entered_ns: u64,
    /// A [`crate::call::Call`].
    pub call: u32,
    /// 1 while the call is under way.
    pub active: u32,
    /// What the call's return needs of its arguments; meaning by call.
    pub arguments: [u64; 3],
}

const _: [(); 48] = [(); size_of::<InFlight>()];

/// What an entry means for the call that the thread may already be in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// No call is under way.
    Fresh,
    /// The same entry was reported before, by another probe at the same instruction.
    Duplicate,
    /// The driver calls one of its own exported functions.
    Nested,
    /// The call under way was left without returning; the new one takes its place.
    Abandoned,
}

impl InFlight {
    /// Classifies an entry of `call` with the given stack pointer and first argument.
    #[inline(always)]
    pub fn classify_entry(&self, stack_pointer: u64, call: u32, first_argument: u64) -> Entry {
        if self.active == 0 {
            Entry::Fresh
        } else if stack_pointer < self.stack_pointer {
            Entry::Nested
        } else if stack_pointer == self.stack_pointer
            && self.call == call
            && self.arguments[0] == first_argument
        {
            Entry::Duplicate
        } else {
            Entry::Abandoned
        }
    }

    /// Whether a return with this stack pointer ends the call under way.
    ///
    /// `return_slot_bytes` is what the return popped: 8 on x86-64, 0 where the return address is in a
    /// register.
    #[inline(always)]
    pub fn ends_at(&self, stack_pointer: u64, return_slot_bytes: u64) -> bool {
        self.active != 0 && self.stack_pointer.wrapping_add(return_slot_bytes) == stack_pointer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAUNCH: u32 = 1;

    fn under_way(stack_pointer: u64) -> InFlight {
        InFlight { stack_pointer, call: LAUNCH, active: 1, arguments: [42, 0, 0], ..InFlight::default() }
    }

    #[test]
    fn an_idle_thread_enters_freshly() {
        assert_eq!(InFlight::default().classify_entry(0x1000, LAUNCH, 42), Entry::Fresh);
    }

    #[test]
    fn a_deeper_entry_is_the_drivers_own() {
        assert_eq!(under_way(0x1000).classify_entry(0x0f00, LAUNCH, 42), Entry::Nested);
    }

    #[test]
    fn two_probes_at_one_instruction_are_one_call() {
        assert_eq!(under_way(0x1000).classify_entry(0x1000, LAUNCH, 42), Entry::Duplicate);
    }

    #[test]
    fn an_entry_from_an_outer_frame_means_that_the_call_was_left() {
        assert_eq!(under_way(0x1000).classify_entry(0x1100, LAUNCH, 42), Entry::Abandoned);
        assert_eq!(under_way(0x1000).classify_entry(0x1000, LAUNCH, 43), Entry::Abandoned);
        assert_eq!(under_way(0x1000).classify_entry(0x1000, LAUNCH + 1, 42), Entry::Abandoned);
    }

    #[test]
    fn only_the_matching_return_ends_the_call() {
        assert!(under_way(0x1000).ends_at(0x1008, 8));
        assert!(!under_way(0x1000).ends_at(0x0f08, 8), "the return of a nested call");
        assert!(!under_way(0x1000).ends_at(0x1108, 8), "the return of an outer frame");
        assert!(!InFlight::default().ends_at(8, 8), "no call is under way");
        assert!(under_way(u64::MAX).ends_at(7, 8), "a forged stack pointer wraps and harms nobody");
    }
}

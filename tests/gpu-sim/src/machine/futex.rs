//! Waiting on and waking a 32-bit word of the shared mapping, across processes.

use std::{sync::atomic::AtomicU32, time::Duration};

use rustix::{
    io::Errno,
    thread::futex::{self, Flags, Timespec},
};

/// Sleeps while `word` holds `expected`, until a wake-up, a signal or the timeout.
///
/// Callers check their condition again after every return, so the reason for it does not matter.
pub(crate) fn wait(word: &AtomicU32, expected: u32, timeout: Duration) {
    let timeout = Timespec {
        tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(timeout.subsec_nanos()),
    };
    match futex::wait(word, Flags::empty(), expected, Some(&timeout)) {
        Ok(()) | Err(Errno::AGAIN | Errno::INTR | Errno::TIMEDOUT) => {}
        Err(error) => debug_assert!(false, "futex wait: {error}"),
    }
}

/// Wakes every waiter of `word`.
pub(crate) fn wake_all(word: &AtomicU32) {
    let woken = futex::wake(word, Flags::empty(), i32::MAX as u32);
    debug_assert!(woken.is_ok(), "futex wake: {woken:?}");
}

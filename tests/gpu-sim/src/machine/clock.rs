//! Clocks. Model time is CLOCK_MONOTONIC, which all processes of one boot share; NVML's time stamps are wall-clock time.

use rustix::time::{ClockId, Timespec, clock_gettime};

/// Nanoseconds of CLOCK_MONOTONIC.
pub fn monotonic_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::Monotonic))
}

/// Nanoseconds since the epoch.
pub fn realtime_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::Realtime))
}

fn nanoseconds(time: Timespec) -> u64 {
    // Both parts are positive for every clock that is read here.
    (time.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(time.tv_nsec as u64)
}

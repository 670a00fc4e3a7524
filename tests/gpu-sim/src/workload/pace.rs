//! When the next round begins, and whether there is one; and random numbers that are the same in every run.

use std::time::{Duration, Instant};

use super::{Options, stop};

/// Ends a loop after a number of rounds or a time, and keeps a rate.
pub(super) struct Pace {
    rounds_left: u64,
    deadline: Option<Instant>,
    interval: Option<Duration>,
    next: Instant,
}

impl Pace {
    /// `rounds` is how many there are when the options name neither a number nor a time.
    pub(super) fn new(options: &Options, rounds: u64, rate: Option<f64>) -> Self {
        let now = Instant::now();
        let default = if options.duration_ms.is_some() { u64::MAX } else { rounds };
        let rate = options.rate.or(rate).filter(|rate| *rate > 0.0);
        Self {
            rounds_left: options.iterations.unwrap_or(default),
            deadline: options.duration_ms.map(|duration_ms| now + Duration::from_millis(duration_ms)),
            interval: rate.map(|rate| Duration::from_secs_f64(1.0 / rate)),
            next: now,
        }
    }

    /// Waits for the next round; `false` when there is none.
    pub(super) fn next(&mut self) -> bool {
        self.next_after(1.0)
    }

    /// Waits for `factor` intervals since the last round.
    pub(super) fn next_after(&mut self, factor: f64) -> bool {
        let late = self.deadline.is_some_and(|deadline| Instant::now() >= deadline);
        if self.rounds_left == 0 || late || stop::is_requested() {
            return false;
        }
        self.rounds_left -= 1;
        if let Some(interval) = self.interval {
            // A round that is late is caught up with: the rate is an average.
            std::thread::sleep(self.next.saturating_duration_since(Instant::now()));
            self.next += interval.mul_f64(factor);
        }
        true
    }
}

/// A small generator (splitmix64).
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.0;
        value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ (value >> 31)
    }

    /// A number below `limit`, which is not 0.
    pub(super) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// A number between 0 and 1, neither of which occurs.
    pub(super) fn fraction(&mut self) -> f64 {
        ((self.next() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }

    /// An exponentially distributed number with mean 1.
    pub(super) fn exponential(&mut self) -> f64 {
        -self.fraction().ln()
    }
}

//! How long a kernel runs: its name says so.
//!
//! `sim_ns_500`, `sim_us_54` and `sim_ms_5` take a fixed time, and `sim_heavy_tail` has the distribution of a real
//! training step: 70 % of about 30 us, 25 % of about 200 us, 5 % of milliseconds; 207 us on average. Any other kernel
//! takes 10 us.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Time that a kernel takes whose name says nothing.
const DEFAULT_NS: u64 = 10_000;

/// The longest time that a name can ask for: one hour.
const LIMIT_NS: u64 = 3_600_000_000_000;

/// The running time of one kernel.
#[derive(Debug)]
pub(crate) enum Duration {
    Fixed(u64),
    /// Counts launches, so that the sequence of times is the same in every run.
    HeavyTail(AtomicU64),
}

impl Duration {
    /// The running time of the kernel with this name.
    pub(crate) fn from_name(name: &str) -> Self {
        if name == "sim_heavy_tail" {
            return Self::HeavyTail(AtomicU64::new(0));
        }
        let fixed = [("sim_ns_", 1), ("sim_us_", 1_000), ("sim_ms_", 1_000_000)].into_iter().find_map(
            |(prefix, unit)| {
                let count: u64 = name.strip_prefix(prefix)?.parse().ok()?;
                count.checked_mul(unit)
            },
        );
        Self::Fixed(fixed.unwrap_or(DEFAULT_NS).min(LIMIT_NS))
    }

    /// The running time of the next launch.
    pub(crate) fn next_ns(&self) -> u64 {
        match self {
            Self::Fixed(duration_ns) => *duration_ns,
            Self::HeavyTail(launches) => heavy_tail_ns(launches.fetch_add(1, Relaxed)),
        }
    }
}

fn heavy_tail_ns(launch: u64) -> u64 {
    let class = mix(launch) % 100;
    let (low, high) = match class {
        0..70 => (5_000, 55_000),
        70..95 => (100_000, 300_000),
        _ => (400_000, 5_040_000),
    };
    low + mix(launch ^ (1 << 63)) % (high - low + 1)
}

/// The splitmix64 mixer.
fn mix(seed: u64) -> u64 {
    let mut value = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_how_long() {
        for (name, expected) in [
            ("sim_us_54", 54_000),
            ("sim_ns_7", 7),
            ("sim_ms_5", 5_000_000),
            ("sim_us_", DEFAULT_NS),
            ("_Z6vectorPf", DEFAULT_NS),
            ("sim_ms_99999999999999999", DEFAULT_NS),
            ("sim_ms_99999999", LIMIT_NS),
        ] {
            assert_eq!(Duration::from_name(name).next_ns(), expected, "{name}");
        }
    }

    #[test]
    fn the_heavy_tail_has_the_mean_and_spread_of_the_study() {
        let duration = Duration::from_name("sim_heavy_tail");
        let times: Vec<f64> = (0..100_000).map(|_| duration.next_ns() as f64 / 1000.0).collect();
        let mean = times.iter().sum::<f64>() / times.len() as f64;
        let variance = times.iter().map(|time| (time - mean).powi(2)).sum::<f64>() / times.len() as f64;
        assert!((200.0..214.0).contains(&mean), "mean {mean}");
        assert!((620.0..690.0).contains(&variance.sqrt()), "deviation {}", variance.sqrt());
    }
}

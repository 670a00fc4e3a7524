//! Exponential back-off as a pure function.

use std::time::Duration;

/// The pause before the next attempt after `failures` failed ones in a row: `initial`, doubled each time, at most `max`.
pub(super) fn delay(initial: Duration, max: Duration, failures: u32) -> Duration {
    let doublings = failures.saturating_sub(1).min(31);
    initial.saturating_mul(1 << doublings).min(max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_up_to_the_limit_and_never_overflows() {
        let seconds = |failures| delay(Duration::from_secs(1), Duration::from_secs(60), failures).as_secs();
        assert_eq!([0, 1, 2, 3, 6, 7, 1000].map(seconds), [1, 1, 2, 4, 32, 60, 60]);
    }
}

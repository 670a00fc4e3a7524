//! Counts of tests, read from what the test runners print when they close.

use std::fmt;
use std::ops::AddAssign;

/// How many tests ended which way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) skipped: u64,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        let Self { passed, failed, skipped } = other;
        self.passed += passed;
        self.failed += failed;
        self.skipped += skipped;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { passed, failed, skipped } = self;
        write!(formatter, "{passed} passed, {failed} failed, {skipped} skipped")
    }
}

/// Reads a runner's closing line; `None` for any other line.
///
/// cargo test closes each of its test programs with `test result: ok. 3 passed; 0 failed; 1 ignored; …`, nextest the
/// whole run with `Summary [ 1.0s] 4 tests run: 3 passed (1 slow), 1 failed, 2 skipped`.
pub(crate) fn closing_line(line: &str) -> Option<Tally> {
    let line = without_colours(line);
    let line = line.trim();
    let counts = if let Some(rest) = line.strip_prefix("test result: ") {
        rest
    } else if line.starts_with("Summary [") {
        line.split_once("run: ")?.1
    } else {
        return None;
    };
    let mut tally = Tally::default();
    for part in counts.split([';', ',', '.']) {
        let mut words = part.split_whitespace();
        let (Some(Ok(count)), Some(kind)) = (words.next().map(str::parse::<u64>), words.next()) else {
            continue;
        };
        match kind {
            "passed" => tally.passed += count,
            // Nextest counts tests that ran out of time, or could not start, apart.
            "failed" | "timed" | "exec" => tally.failed += count,
            "ignored" | "skipped" => tally.skipped += count,
            _ => {}
        }
    }
    Some(tally)
}

/// The text without terminal sequences such as `ESC [ 3 2 m`.
fn without_colours(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("\x1b[") {
        plain.push_str(before);
        rest = after.split_once(|end: char| end.is_ascii_alphabetic()).map_or("", |(_, after)| after);
    }
    plain + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_test_closes_each_program() {
        let line = "test result: FAILED. 17 passed; 2 failed; 1 ignored; 0 measured; 5 filtered out; finished in 0.03s";
        assert_eq!(closing_line(line), Some(Tally { passed: 17, failed: 2, skipped: 1 }));
        let coloured =
            "test result: \x1b[32mok\x1b[m. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out";
        assert_eq!(closing_line(coloured), Some(Tally { passed: 3, failed: 0, skipped: 0 }));
    }

    #[test]
    fn nextest_closes_the_run() {
        let line = "     Summary [   2.310s] 41 tests run: 38 passed (2 slow, 1 leaky), 2 failed, 1 timed out, 4 skipped";
        assert_eq!(closing_line(line), Some(Tally { passed: 38, failed: 3, skipped: 4 }));
        let single = "\x1b[32;1m     Summary\x1b[0m [   0.1s] \x1b[1m1\x1b[0m test run: \x1b[1m1\x1b[0m \x1b[32;1mpassed\x1b[0m, 0 skipped";
        assert_eq!(closing_line(single), Some(Tally { passed: 1, failed: 0, skipped: 0 }));
    }

    #[test]
    fn other_lines_close_nothing() {
        assert_eq!(closing_line("test tests::it_passed ... ok"), None);
        assert_eq!(closing_line("3 passed, 0 failed"), None);
    }

    #[test]
    fn tallies_add_up_to_the_plain_line() {
        let mut total = Tally { passed: 1, failed: 2, skipped: 3 };
        total += Tally { passed: 10, failed: 0, skipped: 1 };
        assert_eq!(total.to_string(), "11 passed, 2 failed, 4 skipped");
    }
}

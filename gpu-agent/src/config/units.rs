//! Durations such as `200ms` and sizes such as `256KiB`, read and written exactly.

use std::time::Duration;

/// Duration units, longest first, in nanoseconds.
const DURATIONS: [(&str, u64); 6] = [
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

/// Size units, largest first, in bytes.
const SIZES: [(&str, u64); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

/// Parses a whole number and a unit (`ns`, `us`, `ms`, `s`, `m`, `h`), for example `200ms`.
///
/// # Errors
///
/// What to write instead, as one clause.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let nanoseconds = parse_scaled(text, &DURATIONS, "a time unit: ns, us, ms, s, m or h, as in `200ms`")?;
    Ok(Duration::from_nanos(nanoseconds))
}

/// Parses a whole number and a unit (`B`, `KiB`, `MiB`, `GiB`), for example `256KiB`.
///
/// # Errors
///
/// What to write instead, as one clause.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    parse_scaled(text, &SIZES, "a size unit: B, KiB, MiB or GiB, as in `256KiB`")
}

/// Writes a duration in the largest unit that divides it; [`parse_duration`] reads it back.
pub fn render_duration(duration: Duration) -> String {
    let nanoseconds = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    render_scaled(nanoseconds, &DURATIONS, "s")
}

/// Writes a size in the largest unit that divides it; [`parse_bytes`] reads it back.
pub fn render_bytes(bytes: u64) -> String {
    render_scaled(bytes, &SIZES, "B")
}

fn parse_scaled(text: &str, units: &[(&str, u64)], advice: &str) -> Result<u64, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    if number.is_empty() {
        return Err(format!("begin with a whole number, then {advice}"));
    }
    let Some(&(_, scale)) = units.iter().find(|(name, _)| *name == unit.trim_start()) else {
        return Err(format!("end with {advice}"));
    };
    number
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(scale))
        .ok_or_else(|| "use a smaller number".to_owned())
}

fn render_scaled(amount: u64, units: &[(&str, u64)], zero_unit: &str) -> String {
    let exact = units.iter().find(|(_, scale)| amount != 0 && amount.is_multiple_of(*scale));
    match exact {
        Some((unit, scale)) => format!("{}{unit}", amount / scale),
        None => format!("{amount}{zero_unit}"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, proptest};

    use super::*;

    #[test]
    fn durations_are_read_with_their_unit() {
        for (text, nanoseconds) in [
            ("1s", 1_000_000_000),
            ("200ms", 200_000_000),
            ("5 m", 300_000_000_000),
            ("7us", 7000),
            ("0s", 0),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_nanos(nanoseconds)), "{text}");
        }
    }

    #[test]
    fn a_number_without_unit_and_a_unit_without_number_are_refused() {
        for text in
            ["", "1", "s", "-1s", "1.5s", "1S", "1sec", "1s1", "18446744073709551616s", "9999999999h", "１s"]
        {
            assert!(parse_duration(text).is_err(), "{text}");
        }
        for text in ["", "1", "KiB", "1KB", "1kib", "1 M", "99999999999GiB"] {
            assert!(parse_bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_are_read_and_written_exactly() {
        assert_eq!(parse_bytes("256KiB"), Ok(262_144));
        assert_eq!(render_bytes(262_144), "256KiB");
        assert_eq!(render_bytes(262_145), "262145B");
        assert_eq!(render_bytes(0), "0B");
        assert_eq!(render_duration(Duration::from_millis(1500)), "1500ms");
        assert_eq!(render_duration(Duration::ZERO), "0s");
    }

    proptest! {
        #[test]
        fn rendered_values_are_read_back(amount in any::<u64>()) {
            assert_eq!(parse_bytes(&render_bytes(amount)), Ok(amount));
            let duration = Duration::from_nanos(amount);
            assert_eq!(parse_duration(&render_duration(duration)), Ok(duration));
        }

        #[test]
        fn what_is_accepted_is_a_number_and_a_unit(text in ".{0,12}") {
            let form = |units: &[&str]| {
                let digits = text.bytes().take_while(u8::is_ascii_digit).count();
                digits > 0 && units.contains(&text[digits..].trim_start())
            };
            assert!(parse_duration(&text).is_err() || form(&["ns", "us", "ms", "s", "m", "h"]));
            assert!(parse_bytes(&text).is_err() || form(&["B", "KiB", "MiB", "GiB"]));
        }
    }
}

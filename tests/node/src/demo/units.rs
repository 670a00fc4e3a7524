//! Numbers for people.

/// Bytes by powers of 1024, to three digits.
pub(super) fn bytes(value: f64) -> String {
    scaled(value, 1024.0, &["B", "KiB", "MiB", "GiB", "TiB"])
}

/// Bytes per second.
pub(super) fn bytes_per_second(value: f64) -> String {
    if value < 0.5 { "0".to_owned() } else { format!("{}/s", bytes(value)) }
}

/// A rate without a unit, as a whole number.
pub(super) fn rate(value: f64) -> String {
    format!("{value:.0}")
}

/// A share as a percentage.
pub(super) fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// A whole number that a scrape gave as a float.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is whole and not negative")]
pub(super) fn grouped_value(value: f64) -> String {
    grouped(value as u64)
}

/// A whole number with its digits in groups.
pub(super) fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

fn scaled(value: f64, base: f64, units: &[&str]) -> String {
    let mut value = value;
    let mut units = units.iter();
    let mut unit = units.next().copied().unwrap_or_default();
    while value >= base
        && let Some(larger) = units.next()
    {
        value /= base;
        unit = larger;
    }
    if value < 10.0 && value.fract() > 0.05 {
        format!("{value:.1} {unit}")
    } else {
        format!("{value:.0} {unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_have_units() {
        assert_eq!(bytes(0.0), "0 B");
        assert_eq!(bytes(1536.0), "1.5 KiB");
        assert_eq!(bytes(512.0 * 1_048_576.0), "512 MiB");
        assert_eq!(bytes_per_second(0.0), "0");
        assert_eq!(bytes_per_second(4096.0), "4 KiB/s");
        assert_eq!(percent(0.256), "26 %");
        assert_eq!(grouped(1_234_567), "1 234 567");
        assert_eq!(grouped(12), "12");
    }
}

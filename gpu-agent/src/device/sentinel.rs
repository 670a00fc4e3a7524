//! Values by which NVML says "not available" in place of an error, and conversions that never let one through.

/// `NVML_VALUE_NOT_AVAILABLE` and DCGM's blanks: the values from here up to `i64::MAX` are DCGM's `DCGM_INT64_*` blanks,
/// which libraries that copy NVML structures have leaked into counters.
const BLANK_64_FIRST: u64 = 0x7fff_ffff_ffff_fff0;
/// DCGM's `DCGM_INT32_*` blanks.
const BLANK_32_FIRST: u32 = 0x7fff_fff0;
const BLANK_32_LAST: u32 = 0x7fff_ffff;

/// A 64-bit value, unless it is a sentinel.
///
/// `u64::MAX` is `NVML_VALUE_NOT_AVAILABLE`; no counter or size of a GPU comes near 2^63.
pub fn known_u64(value: u64) -> Option<u64> {
    (value < BLANK_64_FIRST).then_some(value)
}

/// A 32-bit value, unless it is a sentinel. `u32::MAX` is `NVML_VALUE_NOT_AVAILABLE` cut to 32 bits.
pub fn known_u32(value: u32) -> Option<u32> {
    let blank = value == u32::MAX || (BLANK_32_FIRST..=BLANK_32_LAST).contains(&value);
    (!blank).then_some(value)
}

/// A finite floating-point value. DCGM's blank for doubles is 2^47 and larger, which no ratio, rate or power reaches.
pub fn known_f64(value: f64) -> Option<f64> {
    (value.is_finite() && value.abs() < 140_737_488_355_328.0).then_some(value)
}

/// Percent as a ratio from 0 to 1; `None` for a sentinel and for garbage above 100.
pub fn ratio_from_percent(percent: u32) -> Option<f64> {
    (percent <= 100).then(|| f64::from(percent) / 100.0)
}

/// Percent as a ratio from 0 to 1 for GPM's floating-point metrics.
///
/// Two GPM samples are not taken at quite the same instant for all units, so that a busy unit reads up to a few percent
/// above 100: that is full use, not garbage.
pub fn ratio_from_percent_f64(percent: f64) -> Option<f64> {
    known_f64(percent)
        .filter(|percent| (0.0..=110.0).contains(percent))
        .map(|percent| (percent / 100.0).min(1.0))
}

/// Milliwatts as watts.
pub fn watts_from_milliwatts(milliwatts: u32) -> Option<f64> {
    known_u32(milliwatts).map(|milliwatts| f64::from(milliwatts) / 1000.0)
}

/// Millijoules as joules.
pub fn joules_from_millijoules(millijoules: u64) -> Option<f64> {
    known_u64(millijoules).map(|millijoules| as_f64(millijoules) / 1000.0)
}

/// Megahertz as hertz.
pub fn hertz_from_megahertz(megahertz: u32) -> Option<u64> {
    known_u32(megahertz).map(|megahertz| u64::from(megahertz) * 1_000_000)
}

/// NVML's "KB/s" of `nvmlDeviceGetPcieThroughput` as bytes per second; NVML counts 1024 bytes to the KB there.
pub fn bytes_per_second_from_kib(kib_per_second: u32) -> Option<f64> {
    known_u32(kib_per_second).map(|kib| f64::from(kib) * 1024.0)
}

/// GPM's MiB/s as bytes per second.
pub fn bytes_per_second_from_mib(mib_per_second: f64) -> Option<f64> {
    known_f64(mib_per_second).filter(|mib| *mib >= 0.0).map(|mib| mib * 1_048_576.0)
}

#[expect(clippy::cast_precision_loss, reason = "a metric's value: 53 bits of a counter are more than enough")]
fn as_f64(value: u64) -> f64 {
    value as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentinels_are_absent() {
        for value in
            [u64::MAX, 9_223_372_036_854_775_792, 9_223_372_036_854_775_794, i64::MAX.cast_unsigned()]
        {
            assert_eq!(known_u64(value), None, "{value}");
        }
        for value in [u32::MAX, 2_147_483_632, 2_147_483_647] {
            assert_eq!(known_u32(value), None, "{value}");
        }
        for value in [f64::NAN, f64::INFINITY, 140_737_488_355_328.0] {
            assert_eq!(known_f64(value), None, "{value}");
        }
    }

    #[test]
    fn large_but_real_values_pass() {
        assert_eq!(known_u64(0), Some(0));
        assert_eq!(
            known_u64(u64::from(u32::MAX)),
            Some(4_294_967_295),
            "4 GiB - 1 is an ordinary amount of memory"
        );
        assert_eq!(known_u32(700_000), Some(700_000));
        assert_eq!(known_u32(0x8000_0000), Some(0x8000_0000));
    }

    #[test]
    fn units_are_base_units() {
        assert_eq!(ratio_from_percent(100), Some(1.0));
        assert_eq!(ratio_from_percent(101), None);
        assert_eq!(ratio_from_percent(u32::MAX), None);
        assert_eq!(ratio_from_percent_f64(103.5), Some(1.0));
        assert_eq!(ratio_from_percent_f64(250.0), None);
        assert_eq!(watts_from_milliwatts(71_500), Some(71.5));
        assert_eq!(joules_from_millijoules(1500), Some(1.5));
        assert_eq!(hertz_from_megahertz(1980), Some(1_980_000_000));
        assert_eq!(bytes_per_second_from_kib(2), Some(2048.0));
        assert_eq!(bytes_per_second_from_mib(0.5), Some(524_288.0));
    }
}

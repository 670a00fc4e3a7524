//! Per-process utilisation samples, and the filter that keeps the driver's garbage out.

use super::sentinel::ratio_from_percent;
use super::uuid::GpuUuid;

/// A sample as the library hands it over, nothing checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RawUtilization {
    /// Process id.
    pub pid: u32,
    /// Microseconds since the Unix epoch at which the driver took it.
    pub timestamp_us: u64,
    /// SM time in percent.
    pub sm_percent: u32,
    /// Memory time in percent.
    pub memory_percent: u32,
    /// Encoder time in percent.
    pub encoder_percent: u32,
    /// Decoder time in percent.
    pub decoder_percent: u32,
}

/// A sample of one process on one GPU that passed the filter. Ratios from 0 to 1.
#[derive(Debug, Clone, PartialEq)]
pub struct ProcessUtilization {
    /// The GPU.
    pub gpu: GpuUuid,
    /// Process id.
    pub pid: u32,
    /// Microseconds since the Unix epoch; the driver averages over the time before it and hands samples over late.
    pub timestamp_us: u64,
    /// SM time.
    pub sm_ratio: f64,
    /// Memory time.
    pub memory_ratio: f64,
    /// Encoder time.
    pub encoder_ratio: f64,
    /// Decoder time.
    pub decoder_ratio: f64,
}

/// Samples that the filter took out, by reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DroppedSamples {
    /// Not newer than what this GPU gave before, or older than a driver keeps samples.
    pub stale: u64,
    /// Dated in the future.
    pub future: u64,
    /// Over 100 percent.
    pub out_of_range: u64,
    /// No process id.
    pub without_process: u64,
}

impl DroppedSamples {
    /// All of them.
    pub fn total(self) -> u64 {
        self.stale + self.future + self.out_of_range + self.without_process
    }

    pub(super) fn add(&mut self, other: Self) {
        let Self { stale, future, out_of_range, without_process } = other;
        self.stale += stale;
        self.future += future;
        self.out_of_range += out_of_range;
        self.without_process += without_process;
    }
}

/// How long ago a sample may have been taken. Drivers keep about 20 seconds of them; what is much older is garbage.
const AGE_LIMIT_US: u64 = 60_000_000;

/// How far the driver's clock may be ahead of the agent's. A sample from beyond would make every later one look stale.
const FUTURE_TOLERANCE_US: u64 = 10_000_000;

/// The filter of one GPU. Each GPU has its own, because their sample clocks are independent.
#[derive(Debug, Clone, Default)]
pub struct SampleFilter {
    last_timestamp_us: u64,
}

impl SampleFilter {
    /// The newest timestamp so far: what the next query passes as `lastSeenTimeStamp`.
    pub fn last_timestamp_us(&self) -> u64 {
        self.last_timestamp_us
    }

    /// Splits one answer of the library into good samples and counts of bad ones.
    ///
    /// Samples of one answer are compared with the answers before it, not with each other: several processes share one
    /// timestamp. `now_us` is the agent's clock, in microseconds since the Unix epoch.
    pub fn accept(
        &mut self,
        gpu: &GpuUuid,
        samples: &[RawUtilization],
        now_us: u64,
    ) -> (Vec<ProcessUtilization>, DroppedSamples) {
        let before_us = self.last_timestamp_us.max(now_us.saturating_sub(AGE_LIMIT_US));
        let mut dropped = DroppedSamples::default();
        let mut accepted = Vec::with_capacity(samples.len());
        for sample in samples {
            let reason = if sample.pid == 0 {
                Some(&mut dropped.without_process)
            } else if sample.timestamp_us <= before_us {
                Some(&mut dropped.stale)
            } else if sample.timestamp_us > now_us.saturating_add(FUTURE_TOLERANCE_US) {
                Some(&mut dropped.future)
            } else {
                None
            };
            if let Some(counter) = reason {
                *counter += 1;
                continue;
            }
            let Some(sample) = in_range(gpu, sample) else {
                dropped.out_of_range += 1;
                continue;
            };
            self.last_timestamp_us = self.last_timestamp_us.max(sample.timestamp_us);
            accepted.push(sample);
        }
        (accepted, dropped)
    }
}

fn in_range(gpu: &GpuUuid, sample: &RawUtilization) -> Option<ProcessUtilization> {
    Some(ProcessUtilization {
        gpu: gpu.clone(),
        pid: sample.pid,
        timestamp_us: sample.timestamp_us,
        sm_ratio: ratio_from_percent(sample.sm_percent)?,
        memory_ratio: ratio_from_percent(sample.memory_percent)?,
        encoder_ratio: ratio_from_percent(sample.encoder_percent)?,
        decoder_ratio: ratio_from_percent(sample.decoder_percent)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_US: u64 = 1_800_000_000_000_000;

    fn raw(pid: u32, timestamp_us: u64, sm_percent: u32) -> RawUtilization {
        RawUtilization { pid, timestamp_us, sm_percent, ..RawUtilization::default() }
    }

    fn gpu() -> GpuUuid {
        GpuUuid::from_bytes([7; 16])
    }

    #[test]
    fn processes_that_share_a_timestamp_are_all_kept() {
        let mut filter = SampleFilter::default();
        let (kept, dropped) = filter.accept(&gpu(), &[raw(10, NOW_US, 25), raw(11, NOW_US, 75)], NOW_US);
        assert_eq!(
            kept.iter().map(|sample| (sample.pid, sample.sm_ratio)).collect::<Vec<_>>(),
            [(10, 0.25), (11, 0.75)]
        );
        assert_eq!(dropped, DroppedSamples::default());
        assert_eq!(filter.last_timestamp_us(), NOW_US);
    }

    #[test]
    fn what_was_seen_before_is_dropped_and_counted() {
        let mut filter = SampleFilter::default();
        filter.accept(&gpu(), &[raw(10, NOW_US, 25)], NOW_US);
        let (kept, dropped) = filter.accept(
            &gpu(),
            &[raw(10, NOW_US, 25), raw(10, NOW_US - 1, 90), raw(10, NOW_US + 166_000, 30)],
            NOW_US,
        );
        assert_eq!(kept.len(), 1);
        assert_eq!(kept[0].timestamp_us, NOW_US + 166_000);
        assert_eq!(dropped, DroppedSamples { stale: 2, ..DroppedSamples::default() });
    }

    #[test]
    fn the_first_answer_has_no_samples_from_long_ago() {
        let mut filter = SampleFilter::default();
        let old =
            [raw(10, 1, 25), raw(10, NOW_US - AGE_LIMIT_US, 25), raw(10, NOW_US - AGE_LIMIT_US + 1, 25)];
        let (kept, dropped) = filter.accept(&gpu(), &old, NOW_US);
        assert_eq!((kept.len(), dropped.stale), (1, 2));
    }

    #[test]
    fn garbage_is_dropped_and_counted_and_does_not_poison_the_filter() {
        let mut filter = SampleFilter::default();
        let garbage = [
            raw(10, NOW_US, 101),
            raw(10, NOW_US, u32::MAX),
            raw(0, NOW_US, 5),
            raw(10, u64::MAX, 5),
            raw(10, 0, 5),
        ];
        let (kept, dropped) = filter.accept(&gpu(), &garbage, NOW_US);
        assert_eq!(kept, []);
        assert_eq!(dropped, DroppedSamples { stale: 1, future: 1, out_of_range: 2, without_process: 1 });
        assert_eq!(dropped.total(), 5);
        assert_eq!(
            filter.accept(&gpu(), &[raw(10, NOW_US, 5)], NOW_US).0.len(),
            1,
            "a good sample still passes"
        );
    }
}

//! How fast a GPU's clocks run, and what holds them back.

use std::time::Duration;

use gpu_api::metric::attribute::{GPU_CLOCK_DOMAIN, GPU_CLOCK_THROTTLE_POLICY, GPU_CLOCK_THROTTLE_REASON};
use gpu_api::metric::device;
use gpu_api::metric::value::{ClockDomain, ThrottlePolicy};

use super::points::Points;
use crate::device::Reading;
use crate::device::reading::{Clocks, ThrottleReason, ThrottledTime};

pub(super) fn add(points: &mut Points<'_>, clocks: &Clocks, sm_max_hertz: Option<u64>) {
    let Clocks { graphics_hertz, sm_hertz, memory_hertz, video_hertz } = *clocks;
    for (domain, hertz) in [
        (ClockDomain::Graphics, graphics_hertz),
        (ClockDomain::Memory, memory_hertz),
        (ClockDomain::Sm, sm_hertz),
        (ClockDomain::Video, video_hertz),
    ] {
        points.int(&device::CLOCK_FREQUENCY, [(&GPU_CLOCK_DOMAIN, domain.as_str().into())], hertz);
    }
    let sm = (&GPU_CLOCK_DOMAIN, ClockDomain::Sm.as_str().into());
    points.int(&device::CLOCK_FREQUENCY_LIMIT, [sm], sm_max_hertz);
}

pub(super) fn add_throttling(points: &mut Points<'_>, reading: &Reading) {
    for reason in ThrottleReason::ALL {
        let holds = reading.throttle_reasons.as_ref().map(|reasons| reasons.contains(&reason));
        let extra = [(&GPU_CLOCK_THROTTLE_REASON, reason.as_str().into())];
        points.flag(&device::CLOCK_THROTTLED, extra, holds);
    }
    let ThrottledTime { power_ns, thermal_ns, board_ns, reliability_ns } = reading.throttled_time;
    for (policy, time_ns) in [
        (ThrottlePolicy::Power, power_ns),
        (ThrottlePolicy::Thermal, thermal_ns),
        (ThrottlePolicy::Board, board_ns),
        (ThrottlePolicy::Reliability, reliability_ns),
    ] {
        let extra = [(&GPU_CLOCK_THROTTLE_POLICY, policy.as_str().into())];
        let seconds = time_ns.map(|time_ns| Duration::from_nanos(time_ns).as_secs_f64());
        points.double(&device::CLOCK_THROTTLED_DURATION, extra, seconds);
    }
    points.int(&device::PERFORMANCE_STATE, [], reading.performance_state.map(u64::from));
}

//! How a GPU does: whether it answers, what follows for its health, and its XID errors.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use gpu_api::metric::attribute::{GPU_CONDITION, GPU_XID, HW_STATE};
use gpu_api::metric::device;
use gpu_api::metric::value::{DeviceCondition, HwState};
use tokio::time::Instant;

use super::points::{Points, typed};
use crate::device::reading::Rows;
use crate::device::snapshot::XidCount;
use crate::device::{GpuCondition, GpuState};

pub(super) fn add(points: &mut Points<'_>, state: &GpuState, now: Instant, max_age: Duration) {
    let condition = condition(state, now, max_age);
    for each in DeviceCondition::ALL {
        let extra = [(&GPU_CONDITION, each.as_str().into())];
        points.flag(&device::CONDITION, extra, Some(*each == condition));
    }
    let rows = state.fresh_reading(now, max_age).map(|reading| reading.rows).unwrap_or_default();
    if let Some(health) = health(condition, rows) {
        for each in HwState::ALL {
            let extra = [typed(), (&HW_STATE, each.as_str().into())];
            points.flag(&device::STATUS, extra, Some(*each == health));
        }
    }
}

pub(super) fn add_xids(points: &mut Points<'_>, xids: &BTreeMap<u64, XidCount>, agent_start: SystemTime) {
    for (code, xid) in xids {
        let extra = [(&GPU_XID, code.to_string().into())];
        points.count_since(&device::XID_ERRORS, extra, agent_start, xid.count);
    }
}

/// A GPU that has said nothing for `max_age` does not answer, whatever it said last.
pub(super) fn condition(state: &GpuState, now: Instant, max_age: Duration) -> DeviceCondition {
    match state.condition {
        GpuCondition::Ok if now.saturating_duration_since(state.last_seen) > max_age => {
            DeviceCondition::Unavailable
        }
        GpuCondition::Ok => DeviceCondition::Ok,
        GpuCondition::Unavailable(_) => DeviceCondition::Unavailable,
        GpuCondition::Lost => DeviceCondition::Lost,
        GpuCondition::Hung => DeviceCondition::Hung,
    }
}

/// `None` for a GPU that cannot be asked: refused access or a library that does not open says nothing about the hardware.
fn health(condition: DeviceCondition, rows: Rows) -> Option<HwState> {
    match condition {
        DeviceCondition::Unavailable => None,
        DeviceCondition::Lost | DeviceCondition::Hung => Some(HwState::Failed),
        DeviceCondition::Ok if rows.failed == Some(true) => Some(HwState::PredictedFailure),
        DeviceCondition::Ok if rows.pending == Some(true) => Some(HwState::Degraded),
        DeviceCondition::Ok => Some(HwState::Ok),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn health_follows_from_condition_and_rows() {
        let rows = |pending, failed| Rows { pending, failed, ..Rows::default() };
        let unknown = Rows::default();
        for (condition, rows, expected) in [
            (DeviceCondition::Ok, unknown, Some(HwState::Ok)),
            (DeviceCondition::Ok, rows(Some(false), Some(false)), Some(HwState::Ok)),
            (DeviceCondition::Ok, rows(Some(true), Some(false)), Some(HwState::Degraded)),
            (DeviceCondition::Ok, rows(Some(true), Some(true)), Some(HwState::PredictedFailure)),
            (DeviceCondition::Unavailable, unknown, None),
            (DeviceCondition::Lost, unknown, Some(HwState::Failed)),
            (DeviceCondition::Hung, unknown, Some(HwState::Failed)),
        ] {
            assert_eq!(health(condition, rows), expected, "{condition:?} {rows:?}");
        }
    }
}

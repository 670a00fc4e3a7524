//! Power, heat and cooling.

use gpu_api::metric::attribute::{GPU_FAN_ID, HW_LIMIT_TYPE, HW_SENSOR_LOCATION};
use gpu_api::metric::device;
use gpu_api::metric::value::{SensorLocation, TemperatureLimit};

use super::points::{Points, typed};
use crate::device::reading::{Power, Temperature};

pub(super) fn add(points: &mut Points<'_>, power: &Power) {
    let Power { usage_watts, limit_watts, energy_joules } = *power;
    points.double(&device::POWER, [typed()], usage_watts);
    points.double(&device::POWER_LIMIT, [], limit_watts);
    points.double(&device::ENERGY, [typed()], energy_joules);
}

pub(super) fn add_temperature(points: &mut Points<'_>, temperature: &Temperature) {
    let Temperature { gpu_celsius, memory_celsius, slowdown_celsius, shutdown_celsius } = *temperature;
    for (sensor, celsius) in [(SensorLocation::Gpu, gpu_celsius), (SensorLocation::Memory, memory_celsius)] {
        let extra = [typed(), (&HW_SENSOR_LOCATION, sensor.as_str().into())];
        points.double(&device::TEMPERATURE, extra, celsius.map(f64::from));
    }
    for (limit, celsius) in
        [(TemperatureLimit::HighCritical, slowdown_celsius), (TemperatureLimit::HighFatal, shutdown_celsius)]
    {
        let extra = [typed(), (&HW_LIMIT_TYPE, limit.as_str().into())];
        points.double(&device::TEMPERATURE_LIMIT, extra, celsius.map(f64::from));
    }
}

pub(super) fn add_fans(points: &mut Points<'_>, ratios: &[f64]) {
    for (fan, ratio) in ratios.iter().enumerate() {
        points.double(&device::FAN_SPEED_RATIO, [(&GPU_FAN_ID, fan.to_string().into())], Some(*ratio));
    }
}

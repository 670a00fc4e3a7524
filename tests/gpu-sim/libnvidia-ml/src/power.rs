//! Power, energy, temperature, fans.

use std::ffi::{c_uint, c_ulonglong};
use std::sync::atomic::Ordering::Relaxed;

use gpu_sim::machine::Fault;
use nvml_wrapper_sys::bindings::nvmlEnableState_t;

use crate::abi::{Device, Handle, Out, code, supported};
use crate::system::SENSOR_GPU;

export! {
    fn nvmlDeviceGetPowerUsage(device: Handle, milliwatts: Out<c_uint>) {
        let device = device.device()?;
        if device.fault(Fault::NotAvailable) != 0 {
            return milliwatts.set(u32::MAX);
        }
        milliwatts.set(device.state().power_mw.load(Relaxed))
    }

    fn nvmlDeviceGetTotalEnergyConsumption(device: Handle, millijoules: Out<c_ulonglong>) {
        millijoules.set(energy_mj(&device.device()?))
    }

    fn nvmlDeviceGetPowerManagementMode(device: Handle, mode: Out<nvmlEnableState_t>) {
        device.device()?;
        mode.set(1)
    }

    fn nvmlDeviceGetPowerManagementLimit(device: Handle, milliwatts: Out<c_uint>) {
        milliwatts.set(device.device()?.state().power_limit_mw.load(Relaxed))
    }

    fn nvmlDeviceGetEnforcedPowerLimit(device: Handle, milliwatts: Out<c_uint>) {
        milliwatts.set(device.device()?.state().power_limit_mw.load(Relaxed))
    }

    fn nvmlDeviceGetPowerManagementDefaultLimit(device: Handle, milliwatts: Out<c_uint>) {
        milliwatts.set(device.device()?.model().power.limit_mw)
    }

    fn nvmlDeviceGetPowerManagementLimitConstraints(device: Handle, min: Out<c_uint>, max: Out<c_uint>) {
        let device = device.device()?;
        min.set(device.model().power.min_limit_mw)?;
        max.set(device.model().power.max_limit_mw)
    }

    fn nvmlDeviceSetPowerManagementLimit(device: Handle, milliwatts: c_uint) {
        let device = device.device()?;
        let power = &device.model().power;
        if !(power.min_limit_mw..=power.max_limit_mw).contains(&milliwatts) {
            return Err(code::INVALID_ARGUMENT);
        }
        device.state().power_limit_mw.store(milliwatts, Relaxed);
        Ok(())
    }

    fn nvmlDeviceGetPowerSource(device: Handle, source: Out<c_uint>) {
        device.device()?;
        source.set(nvml_wrapper_sys::bindings::NVML_POWER_SOURCE_AC)
    }

    fn nvmlDeviceGetTemperature(device: Handle, sensor: c_uint, celsius: Out<c_uint>) {
        let device = device.device()?;
        if sensor != SENSOR_GPU {
            return Err(code::INVALID_ARGUMENT);
        }
        celsius.set(gpu_celsius(&device))
    }

    fn nvmlDeviceGetTemperatureThreshold(device: Handle, threshold: c_uint, celsius: Out<c_uint>) {
        let device = device.device()?;
        let temperature = &device.model().temperature;
        match threshold {
            0 => celsius.set(temperature.shutdown_celsius),
            1 => celsius.set(temperature.slowdown_celsius),
            2 if device.has_stacked_memory() => celsius.set(temperature.max_operating_celsius + 10),
            3 => celsius.set(temperature.max_operating_celsius),
            2 | 4..=7 => Err(code::NOT_SUPPORTED),
            _ => Err(code::INVALID_ARGUMENT),
        }
    }

    fn nvmlDeviceGetNumFans(device: Handle, fans: Out<c_uint>) {
        fans.set(device.device()?.model().fan_count)
    }

    fn nvmlDeviceGetFanSpeed(device: Handle, percent: Out<c_uint>) {
        percent.set(fan_percent(&device.device()?, 0)?)
    }

    fn nvmlDeviceGetFanSpeed_v2(device: Handle, fan: c_uint, percent: Out<c_uint>) {
        percent.set(fan_percent(&device.device()?, fan)?)
    }

    fn nvmlDeviceGetTargetFanSpeed(device: Handle, fan: c_uint, percent: Out<c_uint>) {
        percent.set(fan_percent(&device.device()?, fan)?)
    }

    fn nvmlDeviceGetMinMaxFanSpeed(device: Handle, min: Out<c_uint>, max: Out<c_uint>) {
        supported(device.device()?.model().fan_count > 0)?;
        min.set(30)?;
        max.set(100)
    }
}

pub(crate) fn energy_mj(device: &Device) -> u64 {
    device.state().energy_uj.load(Relaxed) / 1000
}

pub(crate) fn gpu_celsius(device: &Device) -> u32 {
    (device.state().temperature_millicelsius.load(Relaxed) + 500) / 1000
}

/// Stacked memory has a sensor; it is a little warmer than the GPU.
pub(crate) fn memory_celsius(device: &Device) -> Result<u32, c_uint> {
    supported(device.has_stacked_memory())?;
    Ok(gpu_celsius(device) + 4)
}

/// Fans turn with the temperature, from 30 percent when idle to 100 percent at the highest operating temperature.
fn fan_percent(device: &Device, fan: c_uint) -> Result<c_uint, c_uint> {
    let model = device.model();
    supported(model.fan_count > 0)?;
    if fan >= model.fan_count {
        return Err(code::INVALID_ARGUMENT);
    }
    let temperature = &model.temperature;
    let above = gpu_celsius(device).saturating_sub(temperature.idle_celsius);
    let range = temperature.max_operating_celsius.saturating_sub(temperature.idle_celsius).max(1);
    Ok((30 + above * 70 / range).min(100))
}

//! One sample of one GPU.

use nvml_wrapper::bitmasks::device::ThrottleReasons;
use nvml_wrapper::enum_wrappers::device::{
    Clock, EccCounter, MemoryError, PcieUtilCounter, PerformancePolicy, PerformanceState, TemperatureSensor,
    TemperatureThreshold,
};
use nvml_wrapper::sys_exports::field_id;
use nvml_wrapper::{Device, Nvml};

use super::gather::Gather;
use super::links;
use super::raw::{self, Field};
use super::session::Slot;
use crate::device::error::DeviceError;
use crate::device::reading::{
    Clocks, Ecc, Memory, Pcie, Power, Reading, Rows, Temperature, ThrottleReason, ThrottledTime, Utilization,
};
use crate::device::sentinel::{
    bytes_per_second_from_kib, hertz_from_megahertz, joules_from_millijoules, known_u32, known_u64,
    ratio_from_percent, watts_from_milliwatts,
};

pub(super) fn read<'nvml>(nvml: &'nvml Nvml, slot: &mut Slot<'nvml>) -> Result<Reading, DeviceError> {
    let mut gather = Gather::default();
    let g = &mut gather;
    let Slot { device, gpm, link_errors, .. } = slot;
    let gpm = gpm.sample(nvml, device, g);
    let mut links = links::read(nvml, device, link_errors, g);
    for link in &mut links {
        if let Some((transmit, receive)) = gpm.link_rates(link.link) {
            link.transmit_bytes_per_second = transmit;
            link.receive_bytes_per_second = receive;
        }
    }
    let [memory_celsius, transmitted, received, remapped_corrected, remapped_uncorrected, pending, failed] =
        extra_fields(nvml, device, g);
    let mut pcie = pcie(device, g, gpm.pcie_rates());
    pcie.transmitted_bytes = transmitted.and_then(known_u64);
    pcie.received_bytes = received.and_then(known_u64);
    let mut temperature = temperature(device, g);
    // The field answers 0 on cards whose memory has no sensor.
    temperature.memory_celsius =
        memory_celsius.and_then(|value| u32::try_from(value).ok()).filter(|celsius| *celsius != 0);
    let mut reading = Reading {
        utilization: utilization(device, g),
        memory: memory(device, g),
        power: power(device, g),
        temperature,
        clocks: clocks(device, g),
        fan_ratios: fans(device, g),
        pcie,
        links,
        ecc: ecc(device, g),
        rows: Rows {
            remapped_corrected: remapped_corrected.and_then(known_u64),
            remapped_uncorrected: remapped_uncorrected.and_then(known_u64),
            pending: pending.map(|value| value != 0),
            failed: failed.map(|value| value != 0),
        },
        pipes: gpm.pipes(),
        throttle_reasons: g
            .get("nvmlDeviceGetCurrentClocksThrottleReasons", || device.current_throttle_reasons())
            .map(throttle_reasons),
        throttled_time: throttled_time(device, g),
        performance_state: g
            .get("nvmlDeviceGetPerformanceState", || device.performance_state())
            .and_then(performance_state),
        errors: std::collections::BTreeMap::new(),
    };
    reading.errors = gather.finish("nvmlDeviceGetMemoryInfo_v2")?;
    Ok(reading)
}

/// Values that only exist as fields, in one call.
fn extra_fields(nvml: &Nvml, device: &Device<'_>, g: &mut Gather) -> [Option<u64>; 7] {
    let ids = [
        field_id::NVML_FI_DEV_MEMORY_TEMP,
        field_id::NVML_FI_DEV_PCIE_COUNT_TX_BYTES,
        field_id::NVML_FI_DEV_PCIE_COUNT_RX_BYTES,
        field_id::NVML_FI_DEV_REMAPPED_COR,
        field_id::NVML_FI_DEV_REMAPPED_UNC,
        field_id::NVML_FI_DEV_REMAPPED_PENDING,
        field_id::NVML_FI_DEV_REMAPPED_FAILURE,
    ];
    let wanted = ids.map(|id| Field { id, scope: 0 });
    g.get("nvmlDeviceGetFieldValues", || raw::field_values(nvml, device, &wanted))
        .and_then(|values| values.try_into().ok())
        .unwrap_or_default()
}

fn utilization(device: &Device<'_>, g: &mut Gather) -> Utilization {
    let rates = g.get("nvmlDeviceGetUtilizationRates", || device.utilization_rates());
    Utilization {
        gpu: rates.as_ref().and_then(|rates| ratio_from_percent(rates.gpu)),
        memory: rates.as_ref().and_then(|rates| ratio_from_percent(rates.memory)),
        encoder: g
            .get("nvmlDeviceGetEncoderUtilization", || device.encoder_utilization())
            .and_then(|info| ratio_from_percent(info.utilization)),
        decoder: g
            .get("nvmlDeviceGetDecoderUtilization", || device.decoder_utilization())
            .and_then(|info| ratio_from_percent(info.utilization)),
    }
}

fn memory(device: &Device<'_>, g: &mut Gather) -> Memory {
    let info = g.get("nvmlDeviceGetMemoryInfo_v2", || device.memory_info());
    let bar1 = g.get("nvmlDeviceGetBAR1MemoryInfo", || device.bar1_memory_info());
    Memory {
        total_bytes: info.as_ref().and_then(|info| known_u64(info.total)),
        used_bytes: info.as_ref().and_then(|info| known_u64(info.used)),
        free_bytes: info.as_ref().and_then(|info| known_u64(info.free)),
        reserved_bytes: info.as_ref().and_then(|info| known_u64(info.reserved)),
        bar1_used_bytes: bar1.as_ref().and_then(|info| known_u64(info.used)),
        bar1_total_bytes: bar1.as_ref().and_then(|info| known_u64(info.total)),
    }
}

fn power(device: &Device<'_>, g: &mut Gather) -> Power {
    Power {
        usage_watts: g
            .get("nvmlDeviceGetPowerUsage", || device.power_usage())
            .and_then(watts_from_milliwatts),
        limit_watts: g
            .get("nvmlDeviceGetEnforcedPowerLimit", || device.enforced_power_limit())
            .and_then(watts_from_milliwatts),
        energy_joules: g
            .get("nvmlDeviceGetTotalEnergyConsumption", || device.total_energy_consumption())
            .and_then(joules_from_millijoules),
    }
}

fn temperature(device: &Device<'_>, g: &mut Gather) -> Temperature {
    let mut threshold = |which: TemperatureThreshold| {
        g.get("nvmlDeviceGetTemperatureThreshold", || device.temperature_threshold(which)).and_then(known_u32)
    };
    Temperature {
        slowdown_celsius: threshold(TemperatureThreshold::Slowdown),
        shutdown_celsius: threshold(TemperatureThreshold::Shutdown),
        gpu_celsius: g
            .get("nvmlDeviceGetTemperature", || device.temperature(TemperatureSensor::Gpu))
            .and_then(known_u32),
        memory_celsius: None,
    }
}

fn clocks(device: &Device<'_>, g: &mut Gather) -> Clocks {
    let mut clock = |which: Clock| {
        g.get("nvmlDeviceGetClockInfo", || device.clock_info(which)).and_then(hertz_from_megahertz)
    };
    Clocks {
        graphics_hertz: clock(Clock::Graphics),
        sm_hertz: clock(Clock::SM),
        memory_hertz: clock(Clock::Memory),
        video_hertz: clock(Clock::Video),
    }
}

fn fans(device: &Device<'_>, g: &mut Gather) -> Vec<f64> {
    let count = g.get("nvmlDeviceGetNumFans", || device.num_fans()).and_then(known_u32).unwrap_or(0);
    (0..count)
        .filter_map(|fan| g.get("nvmlDeviceGetFanSpeed_v2", || device.fan_speed(fan)))
        .filter_map(ratio_from_percent)
        .collect()
}

/// `rates` are those of GPM; without them the driver is asked, which takes it 20 ms for each direction.
fn pcie(device: &Device<'_>, g: &mut Gather, rates: Option<(Option<f64>, Option<f64>)>) -> Pcie {
    let (transmit_bytes_per_second, receive_bytes_per_second) = rates.unwrap_or_else(|| {
        let mut throughput = |direction: PcieUtilCounter| {
            g.get("nvmlDeviceGetPcieThroughput", || device.pcie_throughput(direction))
                .and_then(bytes_per_second_from_kib)
        };
        (throughput(PcieUtilCounter::Send), throughput(PcieUtilCounter::Receive))
    });
    Pcie {
        generation: g
            .get("nvmlDeviceGetCurrPcieLinkGeneration", || device.current_pcie_link_gen())
            .and_then(known_u32),
        width: g
            .get("nvmlDeviceGetCurrPcieLinkWidth", || device.current_pcie_link_width())
            .and_then(known_u32),
        transmit_bytes_per_second,
        receive_bytes_per_second,
        transmitted_bytes: None,
        received_bytes: None,
        replays: g
            .get("nvmlDeviceGetPcieReplayCounter", || device.pcie_replay_counter())
            .and_then(known_u32)
            .map(u64::from),
    }
}

fn ecc(device: &Device<'_>, g: &mut Gather) -> Ecc {
    let mut total = |error: MemoryError, counter: EccCounter| {
        g.get("nvmlDeviceGetTotalEccErrors", || device.total_ecc_errors(error, counter)).and_then(known_u64)
    };
    Ecc {
        corrected: total(MemoryError::Corrected, EccCounter::Volatile),
        uncorrected: total(MemoryError::Uncorrected, EccCounter::Volatile),
        corrected_lifetime: total(MemoryError::Corrected, EccCounter::Aggregate),
        uncorrected_lifetime: total(MemoryError::Uncorrected, EccCounter::Aggregate),
    }
}

fn throttled_time(device: &Device<'_>, g: &mut Gather) -> ThrottledTime {
    let mut time = |policy: PerformancePolicy| {
        g.get("nvmlDeviceGetViolationStatus", || device.violation_status(policy))
            .and_then(|status| known_u64(status.violation_time))
    };
    ThrottledTime {
        power_ns: time(PerformancePolicy::Power),
        thermal_ns: time(PerformancePolicy::Thermal),
        board_ns: time(PerformancePolicy::BoardLimit),
        reliability_ns: time(PerformancePolicy::Reliability),
    }
}

fn throttle_reasons(reasons: ThrottleReasons) -> Vec<ThrottleReason> {
    let known = [
        (ThrottleReasons::GPU_IDLE, ThrottleReason::Idle),
        (ThrottleReasons::APPLICATIONS_CLOCKS_SETTING, ThrottleReason::ApplicationClocks),
        (ThrottleReasons::SW_POWER_CAP, ThrottleReason::PowerCap),
        (ThrottleReasons::HW_SLOWDOWN, ThrottleReason::HardwareSlowdown),
        (ThrottleReasons::SYNC_BOOST, ThrottleReason::SyncBoost),
        (ThrottleReasons::SW_THERMAL_SLOWDOWN, ThrottleReason::SoftwareThermal),
        (ThrottleReasons::HW_THERMAL_SLOWDOWN, ThrottleReason::HardwareThermal),
        (ThrottleReasons::HW_POWER_BRAKE_SLOWDOWN, ThrottleReason::HardwarePowerBrake),
        (ThrottleReasons::DISPLAY_CLOCK_SETTING, ThrottleReason::Display),
    ];
    known.into_iter().filter(|(bit, _)| reasons.contains(*bit)).map(|(_, reason)| reason).collect()
}

fn performance_state(state: PerformanceState) -> Option<u8> {
    u8::try_from(state.as_c()).ok().filter(|number| *number <= 15)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_performance_state_is_absent() {
        assert_eq!(performance_state(PerformanceState::Eight), Some(8));
        assert_eq!(performance_state(PerformanceState::Unknown), None);
    }

    #[test]
    fn each_reason_is_found_and_none_is_invented() {
        assert_eq!(throttle_reasons(ThrottleReasons::empty()), []);
        assert_eq!(throttle_reasons(ThrottleReasons::all()), ThrottleReason::ALL);
        assert_eq!(
            throttle_reasons(ThrottleReasons::SW_POWER_CAP | ThrottleReasons::HW_THERMAL_SLOWDOWN),
            [ThrottleReason::PowerCap, ThrottleReason::HardwareThermal]
        );
    }
}

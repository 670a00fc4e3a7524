//! Field values: many facts in one call, each with a return code of its own.

use std::ffi::{c_int, c_uint};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use gpu_sim::machine::{Fault, clock};
use nvml_wrapper_sys::bindings::{field_id as id, nvmlFieldValue_t, nvmlValue_t};

use crate::abi::{Device, Handle, Items, code, supported};
use crate::nvlink::Link;
use crate::{power, reliability};

/// `NVML_VALUE_TYPE_UNSIGNED_INT` and `_UNSIGNED_LONG_LONG`.
const UNSIGNED_INT: c_uint = 1;
const UNSIGNED_LONG_LONG: c_uint = 3;

/// Hopper, from which on the driver counts PCIe bytes.
const HOPPER: u32 = 9;

/// A scope that means all links together.
const ALL_LINKS: c_uint = u32::MAX;

export! {
    fn nvmlDeviceGetFieldValues(device: Handle, count: c_int, values: Items<nvmlFieldValue_t>) {
        let mut values = values;
        device.device()?;
        let count = usize::try_from(count).map_err(|_negative| code::INVALID_ARGUMENT)?;
        for field in values.as_mut_slice(count)? {
            field.timestamp = i64::try_from(clock::realtime_ns() / 1000).unwrap_or(i64::MAX);
            field.latencyUsec = 0;
            match value(device, field.fieldId, field.scopeId) {
                Ok(found) => {
                    field.nvmlReturn = code::SUCCESS;
                    found.store(field);
                }
                Err(error) => field.nvmlReturn = error,
            }
        }
        Ok(())
    }

    fn nvmlDeviceClearFieldValues(device: Handle, _count: c_int, _values: Items<nvmlFieldValue_t>) {
        device.device()?;
        Err(code::NOT_SUPPORTED)
    }
}

enum Value {
    Narrow(u32),
    Wide(u64),
}

impl Value {
    fn store(self, field: &mut nvmlFieldValue_t) {
        // The whole union is written first, so that no byte of it is undefined.
        field.value = nvmlValue_t { ullVal: 0 };
        match self {
            Self::Narrow(value) => {
                field.valueType = UNSIGNED_INT;
                field.value.uiVal = value;
            }
            Self::Wide(value) => {
                field.valueType = UNSIGNED_LONG_LONG;
                field.value.ullVal = value;
            }
        }
    }
}

fn value(handle: Handle, field: c_uint, scope: c_uint) -> Result<Value, c_uint> {
    let device = handle.device()?;
    let model = device.model();
    Ok(match field {
        id::NVML_FI_DEV_ECC_CURRENT | id::NVML_FI_DEV_ECC_PENDING => Value::Narrow(u32::from(model.ecc)),
        id::NVML_FI_DEV_ECC_SBE_VOL_TOTAL => Value::Wide(reliability::ecc_errors(&device, 0, 0)?),
        id::NVML_FI_DEV_ECC_DBE_VOL_TOTAL => Value::Wide(reliability::ecc_errors(&device, 1, 0)?),
        id::NVML_FI_DEV_ECC_SBE_AGG_TOTAL => Value::Wide(reliability::ecc_errors(&device, 0, 1)?),
        id::NVML_FI_DEV_ECC_DBE_AGG_TOTAL => Value::Wide(reliability::ecc_errors(&device, 1, 1)?),
        id::NVML_FI_DEV_PERF_POLICY_POWER..=id::NVML_FI_DEV_PERF_POLICY_TOTAL_BASE_CLOCKS => Value::Wide(0),
        id::NVML_FI_DEV_MEMORY_TEMP => Value::Narrow(power::memory_celsius(&device)?),
        id::NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION | id::NVML_FI_DEV_ENERGY => {
            Value::Wide(power::energy_mj(&device))
        }
        id::NVML_FI_DEV_POWER_AVERAGE | id::NVML_FI_DEV_POWER_INSTANT => {
            Value::Narrow(device.state().power_mw.load(Relaxed))
        }
        id::NVML_FI_DEV_POWER_MIN_LIMIT => Value::Narrow(model.power.min_limit_mw),
        id::NVML_FI_DEV_POWER_MAX_LIMIT => Value::Narrow(model.power.max_limit_mw),
        id::NVML_FI_DEV_POWER_DEFAULT_LIMIT => Value::Narrow(model.power.limit_mw),
        id::NVML_FI_DEV_POWER_CURRENT_LIMIT | id::NVML_FI_DEV_POWER_REQUESTED_LIMIT => {
            Value::Narrow(device.state().power_limit_mw.load(Relaxed))
        }
        id::NVML_FI_DEV_PCIE_REPLAY_COUNTER => Value::Wide(device.fault(Fault::PcieReplays)),
        id::NVML_FI_DEV_PCIE_COUNT_TX_BYTES => {
            supported(model.architecture >= HOPPER)?;
            Value::Wide(device.state().pcie_tx_bytes.load(Relaxed))
        }
        id::NVML_FI_DEV_PCIE_COUNT_RX_BYTES => {
            supported(model.architecture >= HOPPER)?;
            Value::Wide(device.state().pcie_rx_bytes.load(Relaxed))
        }
        id::NVML_FI_DEV_REMAPPED_COR => Value::Narrow(reliability::remapped_rows(&device)?.corrected),
        id::NVML_FI_DEV_REMAPPED_UNC => Value::Narrow(reliability::remapped_rows(&device)?.uncorrected),
        id::NVML_FI_DEV_REMAPPED_PENDING => Value::Narrow(reliability::remapped_rows(&device)?.pending),
        id::NVML_FI_DEV_REMAPPED_FAILURE => Value::Narrow(reliability::remapped_rows(&device)?.failed),
        _ => return nvlink_value(device, field, scope),
    })
}

fn nvlink_value(device: Device, field: c_uint, scope: c_uint) -> Result<Value, c_uint> {
    let speed = device.model().nvlink_link_mb_per_s;
    let links = device.gpu().nvlink_peers.len();
    supported(links > 0)?;
    Ok(match field {
        id::NVML_FI_DEV_NVLINK_LINK_COUNT => {
            Value::Narrow(u32::try_from(links).map_err(|_too_many| code::UNKNOWN)?)
        }
        id::NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON => Value::Narrow(speed),
        id::NVML_FI_DEV_NVLINK_SPEED_MBPS_L0..=id::NVML_FI_DEV_NVLINK_SPEED_MBPS_L5 => {
            Link::on(device, field - id::NVML_FI_DEV_NVLINK_SPEED_MBPS_L0)?;
            Value::Narrow(speed)
        }
        id::NVML_FI_DEV_NVLINK_SPEED_MBPS_L6..=id::NVML_FI_DEV_NVLINK_SPEED_MBPS_L11 => {
            Link::on(device, field - id::NVML_FI_DEV_NVLINK_SPEED_MBPS_L6 + 6)?;
            Value::Narrow(speed)
        }
        id::NVML_FI_DEV_NVLINK_GET_SPEED => {
            Link::on(device, scope)?;
            Value::Narrow(speed)
        }
        id::NVML_FI_DEV_NVLINK_GET_STATE => Value::Narrow(u32::from(Link::on(device, scope)?.is_active())),
        id::NVML_FI_DEV_NVLINK_GET_VERSION => {
            Value::Narrow(Link::on(device, scope)?.device.model().nvlink_version)
        }
        id::NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX | id::NVML_FI_DEV_NVLINK_THROUGHPUT_RAW_TX => {
            Value::Wide(total(device, scope, Link::transmitted_bytes)? / 1024)
        }
        id::NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX | id::NVML_FI_DEV_NVLINK_THROUGHPUT_RAW_RX => {
            Value::Wide(total(device, scope, Link::received_bytes)? / 1024)
        }
        _ => return Err(code::NOT_SUPPORTED),
    })
}

/// The bytes of one link, or of all.
fn total(device: Device, scope: c_uint, bytes: impl Fn(&Link) -> u64) -> Result<u64, c_uint> {
    if scope != ALL_LINKS {
        return Ok(bytes(&Link::on(device, scope)?));
    }
    let links = u32::try_from(device.gpu().nvlink_peers.len()).unwrap_or(0);
    let Device { machine, index } = device;
    (0..links)
        .map(|link| Link::on(Device { machine: Arc::clone(&machine), index }, link).map(|link| bytes(&link)))
        .sum()
}

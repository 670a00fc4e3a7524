//! What `nvml-wrapper` cannot do: field values with a scope (a link's number), and the kind of a link's far end, which it
//! always reports as unknown.

use nvml_wrapper::error::{NvmlError, nvml_sym, nvml_try};
use nvml_wrapper::{Device, Nvml};
use nvml_wrapper_sys::bindings::{
    nvmlFieldValue_t, nvmlIntNvLinkDeviceType_enum_NVML_NVLINK_DEVICE_TYPE_SWITCH as DEVICE_TYPE_SWITCH,
    nvmlValue_t, nvmlValueType_enum_NVML_VALUE_TYPE_SIGNED_INT as SIGNED_INT,
    nvmlValueType_enum_NVML_VALUE_TYPE_SIGNED_LONG_LONG as SIGNED_LONG_LONG,
    nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_INT as UNSIGNED_INT,
    nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_LONG as UNSIGNED_LONG,
    nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_LONG_LONG as UNSIGNED_LONG_LONG,
    nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_SHORT as UNSIGNED_SHORT,
};

/// `NVML_FI_DEV_*`, and which part of the device it is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) id: u32,
    pub(super) scope: u32,
}

/// The fields' values in the order of `fields`; `None` for one that this GPU does not have.
pub(super) fn field_values(
    nvml: &Nvml,
    device: &Device<'_>,
    fields: &[Field],
) -> Result<Vec<Option<u64>>, NvmlError> {
    let function = nvml_sym(nvml.lib().nvmlDeviceGetFieldValues.as_ref())?;
    let mut raw: Vec<nvmlFieldValue_t> = fields
        .iter()
        .map(|field| nvmlFieldValue_t {
            fieldId: field.id,
            scopeId: field.scope,
            timestamp: 0,
            latencyUsec: 0,
            valueType: UNSIGNED_LONG_LONG,
            nvmlReturn: 0,
            value: nvmlValue_t { ullVal: 0 },
        })
        .collect();
    let count = i32::try_from(raw.len()).map_err(|_too_many| NvmlError::InvalidArg)?;
    // SAFETY: the handle is used at once and not kept, while `device` is borrowed.
    let handle = unsafe { device.handle() };
    // SAFETY: `raw` holds `count` initialised elements, which the library writes within this call only.
    nvml_try(unsafe { function(handle, count, raw.as_mut_ptr()) })?;
    Ok(raw.iter().map(value).collect())
}

/// Whether the far end of a link is an NVSwitch.
pub(super) fn leads_to_switch(nvml: &Nvml, device: &Device<'_>, link: u32) -> Result<bool, NvmlError> {
    let function = nvml_sym(nvml.lib().nvmlDeviceGetNvLinkRemoteDeviceType.as_ref())?;
    let mut kind = 0;
    // SAFETY: the handle is used at once and not kept, while `device` is borrowed.
    let handle = unsafe { device.handle() };
    // SAFETY: the library writes `kind` within this call only.
    nvml_try(unsafe { function(handle, link, &raw mut kind) })?;
    Ok(kind == DEVICE_TYPE_SWITCH)
}

fn value(field: &nvmlFieldValue_t) -> Option<u64> {
    if field.nvmlReturn != 0 {
        return None;
    }
    // SAFETY: every member of the union is an integer or a float for which all bit patterns are valid, and all 8 bytes
    // were initialised by `field_values` before the library wrote the member that `valueType` names.
    unsafe {
        match field.valueType {
            UNSIGNED_LONG_LONG => Some(field.value.ullVal),
            UNSIGNED_INT => Some(u64::from(field.value.uiVal)),
            UNSIGNED_LONG => Some(field.value.ulVal),
            UNSIGNED_SHORT => Some(u64::from(field.value.usVal)),
            SIGNED_INT => u64::try_from(field.value.siVal).ok(),
            SIGNED_LONG_LONG => u64::try_from(field.value.sllVal).ok(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(value_type: u32, nvml_return: u32, value: nvmlValue_t) -> nvmlFieldValue_t {
        nvmlFieldValue_t {
            fieldId: 1,
            scopeId: 0,
            timestamp: 0,
            latencyUsec: 0,
            valueType: value_type,
            nvmlReturn: nvml_return,
            value,
        }
    }

    #[test]
    fn the_named_member_of_the_union_is_read() {
        let mut narrow = nvmlValue_t { ullVal: u64::MAX };
        narrow.uiVal = 7;
        assert_eq!(value(&field(UNSIGNED_INT, 0, narrow)), Some(7), "the upper half is not part of it");
        assert_eq!(value(&field(UNSIGNED_LONG_LONG, 0, nvmlValue_t { ullVal: 1 << 40 })), Some(1 << 40));
        assert_eq!(value(&field(SIGNED_LONG_LONG, 0, nvmlValue_t { sllVal: -1 })), None);
        assert_eq!(
            value(&field(77, 0, nvmlValue_t { ullVal: 1 })),
            None,
            "a type that this agent does not know"
        );
    }

    #[test]
    fn a_field_that_failed_has_no_value() {
        assert_eq!(value(&field(UNSIGNED_LONG_LONG, 3, nvmlValue_t { ullVal: 5 })), None);
    }
}

//! Whether what an earlier agent left can be taken over.

use std::{collections::BTreeMap, os::fd::AsFd as _};

use gpu_ebpf::abi;

use super::{
    loader::{KernelError, PINNED_MAPS},
    pins::Pins,
    syscall,
};

/// Removes pinned maps whose layout is not this object's: an agent of a development version that changed
/// the ABI without its version, or a map that was made by hand.
pub(super) fn discard_unusable(pins: &Pins, object: &[u8]) -> Result<(), KernelError> {
    let Ok(object) = aya_obj::Object::parse(object) else { return Ok(()) };
    let usable = PINNED_MAPS.iter().all(|name| {
        let (Ok(map), Some(definition)) = (syscall::open_pinned(&pins.map(name)), object.maps.get(*name))
        else {
            return true;
        };
        syscall::map_shape(map.as_fd()).is_ok_and(|shape| {
            shape.map_type == definition.map_type()
                && shape.key_bytes == definition.key_size()
                && shape.value_bytes == definition.value_size()
        })
    });
    if usable {
        return Ok(());
    }
    tracing::warn!(
        version = abi::VERSION,
        "the pinned maps have another layout than this agent's; what they hold is discarded"
    );
    pins.remove().map_err(KernelError::Pins)?;
    pins.make().map_err(KernelError::Pins)
}

/// Says where a configured size has no effect because the map exists.
pub(super) fn warn_of_other_sizes(pins: &Pins, configured: &BTreeMap<&'static str, u32>) {
    for (map, entries) in configured {
        let shape =
            syscall::open_pinned(&pins.map(map)).and_then(|pinned| syscall::map_shape(pinned.as_fd()));
        if let Ok(shape) = shape
            && shape.max_entries != *entries
        {
            tracing::warn!(
                map,
                entries = shape.max_entries,
                configured = entries,
                "an adopted map keeps its size: run `gpu-agent cleanup` to begin with the configured one"
            );
        }
    }
}

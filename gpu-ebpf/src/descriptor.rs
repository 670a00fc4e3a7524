//! Sizes and directions out of the driver API's descriptor structures.
//!
//! The offsets are those of `CUDA_MEMCPY2D`, `CUDA_MEMCPY3D`, `CUDA_MEMCPY3D_PEER`,
//! `CUDA_ARRAY_DESCRIPTOR`, `CUDA_ARRAY3D_DESCRIPTOR` and `CUDA_MEMCPY3D_BATCH_OP` in `cuda.h` on LP64
//! targets. The contents are written by the tenant: all arithmetic wraps, nothing indexes by them.

use crate::call::CopyDirection;

/// `CUDA_MEMCPY2D`.
pub mod copy_2d {
    pub const SOURCE_TYPE: usize = 16;
    pub const DESTINATION_TYPE: usize = 72;
    /// Width in bytes, height: two consecutive `size_t`.
    pub const EXTENT: usize = 112;
}

/// `CUDA_MEMCPY3D` and `CUDA_MEMCPY3D_PEER`, whose extents lie at the same place.
pub mod copy_3d {
    pub const SOURCE_TYPE: usize = 32;
    pub const DESTINATION_TYPE: usize = 120;
    /// Width in bytes, height, depth: three consecutive `size_t`.
    pub const EXTENT: usize = 176;
}

/// `CUDA_MEMCPY3D_BATCH_OP`: two operands of 40 bytes, then the extent, then order and flags.
pub mod batch_3d {
    pub const EXTENT: usize = 80;
    pub const SIZE: usize = 112;
}

/// `CUDA_ARRAY_DESCRIPTOR`: width, height, format, channels.
pub mod array {
    pub const EXTENT: usize = 0;
    pub const FORMAT: usize = 16;
    pub const CHANNELS: usize = 20;
}

/// `CUDA_ARRAY3D_DESCRIPTOR`: width, height, depth, format, channels, flags.
pub mod array_3d {
    pub const EXTENT: usize = 0;
    pub const FORMAT: usize = 24;
    pub const CHANNELS: usize = 28;
}

/// The direction that the two `CUmemorytype` values of a descriptor describe
/// (1 host, 2 device, 3 array, 4 unified).
#[inline(always)]
pub const fn direction(source: u32, destination: u32) -> CopyDirection {
    const HOST: u32 = 1;
    const DEVICE: u32 = 2;
    const ARRAY: u32 = 3;
    if source == ARRAY || destination == ARRAY {
        CopyDirection::Array
    } else if source == HOST && destination == DEVICE {
        CopyDirection::HostToDevice
    } else if source == DEVICE && destination == HOST {
        CopyDirection::DeviceToHost
    } else if source == DEVICE && destination == DEVICE {
        CopyDirection::DeviceToDevice
    } else if source == HOST && destination == HOST {
        CopyDirection::HostToHost
    } else {
        CopyDirection::Unified
    }
}

/// Bytes of one channel of a `CUarray_format`; `None` for packed, planar and compressed formats, whose
/// size does not follow from the descriptor alone.
#[inline(always)]
pub const fn channel_bytes(format: u32) -> Option<u64> {
    match format {
        0x01 | 0x08 => Some(1),
        0x02 | 0x09 | 0x10 => Some(2),
        0x03 | 0x0a | 0x20 => Some(4),
        _ => None,
    }
}

/// Bytes of an array; a height or depth of 0 means that the dimension is absent.
#[inline(always)]
pub const fn array_bytes(width: u64, height: u64, depth: u64, channels: u32, channel_bytes: u64) -> u64 {
    let height = if height == 0 { 1 } else { height };
    let depth = if depth == 0 { 1 } else { depth };
    width.wrapping_mul(height).wrapping_mul(depth).wrapping_mul(channels as u64).wrapping_mul(channel_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directions_by_memory_type() {
        assert_eq!(direction(1, 2), CopyDirection::HostToDevice);
        assert_eq!(direction(2, 1), CopyDirection::DeviceToHost);
        assert_eq!(direction(2, 2), CopyDirection::DeviceToDevice);
        assert_eq!(direction(1, 1), CopyDirection::HostToHost);
        assert_eq!(direction(3, 1), CopyDirection::Array);
        assert_eq!(direction(4, 3), CopyDirection::Array);
        assert_eq!(direction(4, 2), CopyDirection::Unified);
        assert_eq!(direction(0, 77), CopyDirection::Unified, "a type that the driver will refuse");
    }

    #[test]
    fn array_sizes() {
        assert_eq!(array_bytes(256, 0, 0, 4, 1), 1024, "one-dimensional");
        assert_eq!(array_bytes(256, 16, 0, 1, 4), 16384);
        assert_eq!(array_bytes(8, 8, 8, 2, 2), 2048);
        assert_eq!(array_bytes(u64::MAX, u64::MAX, 2, 1, 1), 2, "hostile sizes wrap and do not trap");
    }

    #[test]
    fn only_plain_formats_have_a_size() {
        assert_eq!(channel_bytes(0x01), Some(1));
        assert_eq!(channel_bytes(0x10), Some(2));
        assert_eq!(channel_bytes(0x20), Some(4));
        assert_eq!(channel_bytes(0xb0), None);
    }
}

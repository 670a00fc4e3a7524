//! Types of the CUDA driver API as C lays them out (cuda.h, CUDA 13.0).
//!
//! Handles are opaque pointers in C. Here they are plain words, which a caller can only hand back and never follow.

use std::{ffi::c_void, ptr::NonNull};

use crate::error::{CudaError, Result};

pub(crate) type CUdevice = i32;
pub(crate) type CUdeviceptr = u64;
pub(crate) type CUcontext = u64;
pub(crate) type CUmodule = u64;
pub(crate) type CUfunction = u64;
pub(crate) type CUstream = u64;
pub(crate) type CUevent = u64;
pub(crate) type CUarray = u64;
pub(crate) type CUmipmappedArray = u64;
pub(crate) type CUmemoryPool = u64;
pub(crate) type CUmemGenericAllocationHandle = u64;
pub(crate) type CUgraph = u64;
pub(crate) type CUgraphNode = u64;
pub(crate) type CUgraphExec = u64;

/// `CUhostFn`.
pub(crate) type CUhostFn = Option<unsafe extern "C" fn(*mut c_void)>;

/// A place where the caller wants a result.
#[derive(Clone, Copy)]
pub(crate) struct Out<T>(NonNull<T>);

impl<T> Out<T> {
    /// `InvalidValue` for a null pointer.
    ///
    /// # Safety
    /// Unless null, the pointer is valid for writes of a `T` as long as the value is used.
    pub(crate) unsafe fn new(pointer: *mut T) -> Result<Self> {
        NonNull::new(pointer).map(Self).ok_or(CudaError::InvalidValue)
    }

    /// `None` for a null pointer, where the API lets the caller leave a result out.
    ///
    /// # Safety
    /// As for [`Out::new`].
    pub(crate) unsafe fn optional(pointer: *mut T) -> Option<Self> {
        NonNull::new(pointer).map(Self)
    }

    /// Stores the result.
    pub(crate) fn set(self, value: T) {
        // SAFETY: `new` and `optional` demand that the pointer is valid for writes. C does not promise more alignment
        // than it needs itself, hence the unaligned write.
        unsafe { self.0.write_unaligned(value) };
    }
}

/// Reads an argument structure; `InvalidValue` for a null pointer.
///
/// # Safety
/// Unless null, the pointer is valid for reads of a `T`, which any bit pattern is a valid value of.
pub(crate) unsafe fn read<T: Copy>(pointer: *const T) -> Result<T> {
    if pointer.is_null() {
        return Err(CudaError::InvalidValue);
    }
    // SAFETY: not null, hence valid for reads as the caller promises.
    Ok(unsafe { pointer.read_unaligned() })
}

/// Reads an argument array.
///
/// # Safety
/// Unless null, the pointer is valid for reads of `count` values.
pub(crate) unsafe fn read_array<T: Copy>(pointer: *const T, count: usize) -> Result<Vec<T>> {
    if count == 0 {
        return Ok(Vec::new());
    }
    if pointer.is_null() || count > MAX_ARRAY {
        return Err(CudaError::InvalidValue);
    }
    // SAFETY: `index` is below `count`, and the caller promises that many values.
    Ok((0..count).map(|index| unsafe { pointer.add(index).read_unaligned() }).collect())
}

/// The longest argument array that is read, so that a wrong count cannot take the process down at once.
const MAX_ARRAY: usize = 1 << 20;

/// CUmemorytype.
pub(crate) const MEMORY_TYPE_HOST: u32 = 1;
pub(crate) const MEMORY_TYPE_DEVICE: u32 = 2;
pub(crate) const MEMORY_TYPE_ARRAY: u32 = 3;
pub(crate) const MEMORY_TYPE_UNIFIED: u32 = 4;

/// `CUDA_MEMCPY2D_v2`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memcpy2D {
    pub(crate) src_x_bytes: usize,
    pub(crate) src_y: usize,
    pub(crate) src_memory_type: u32,
    pub(crate) src_host: u64,
    pub(crate) src_device: CUdeviceptr,
    pub(crate) src_array: CUarray,
    pub(crate) src_pitch: usize,
    pub(crate) dst_x_bytes: usize,
    pub(crate) dst_y: usize,
    pub(crate) dst_memory_type: u32,
    pub(crate) dst_host: u64,
    pub(crate) dst_device: CUdeviceptr,
    pub(crate) dst_array: CUarray,
    pub(crate) dst_pitch: usize,
    pub(crate) width_bytes: usize,
    pub(crate) height: usize,
}

/// `CUDA_MEMCPY3D_v2`; `CUDA_MEMCPY3D_PEER_v1` has contexts in place of the reserved words.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memcpy3D {
    pub(crate) src_x_bytes: usize,
    pub(crate) src_y: usize,
    pub(crate) src_z: usize,
    pub(crate) src_lod: usize,
    pub(crate) src_memory_type: u32,
    pub(crate) src_host: u64,
    pub(crate) src_device: CUdeviceptr,
    pub(crate) src_array: CUarray,
    pub(crate) src_context: CUcontext,
    pub(crate) src_pitch: usize,
    pub(crate) src_height: usize,
    pub(crate) dst_x_bytes: usize,
    pub(crate) dst_y: usize,
    pub(crate) dst_z: usize,
    pub(crate) dst_lod: usize,
    pub(crate) dst_memory_type: u32,
    pub(crate) dst_host: u64,
    pub(crate) dst_device: CUdeviceptr,
    pub(crate) dst_array: CUarray,
    pub(crate) dst_context: CUcontext,
    pub(crate) dst_pitch: usize,
    pub(crate) dst_height: usize,
    pub(crate) width_bytes: usize,
    pub(crate) height: usize,
    pub(crate) depth: usize,
}

/// `CUDA_MEMCPY3D_BATCH_OP` (CUDA 12.8): two operands of 40 bytes, an extent, order and flags.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memcpy3DBatchOp {
    pub(crate) src: [u64; 5],
    pub(crate) dst: [u64; 5],
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) depth: usize,
    pub(crate) src_access_order: u32,
    pub(crate) flags: u32,
}

/// `CUDA_ARRAY_DESCRIPTOR_v2`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct ArrayDescriptor {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) format: u32,
    pub(crate) channels: u32,
}

/// `CUDA_ARRAY3D_DESCRIPTOR_v2`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Array3DDescriptor {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) depth: usize,
    pub(crate) format: u32,
    pub(crate) channels: u32,
    pub(crate) flags: u32,
}

/// `CUlaunchConfig`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct LaunchConfig {
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) shared_bytes: u32,
    pub(crate) stream: CUstream,
    pub(crate) attributes: u64,
    pub(crate) attribute_count: u32,
}

/// `CUDA_LAUNCH_PARAMS_v1`, for the launch on several devices.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct LaunchParams {
    pub(crate) function: CUfunction,
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) shared_bytes: u32,
    pub(crate) stream: CUstream,
    pub(crate) kernel_params: u64,
}

/// `CUmemLocation`, passed by value by the CUDA 13 calls.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemLocation {
    pub(crate) kind: u32,
    pub(crate) id: i32,
}

/// CU_MEM_LOCATION_TYPE_DEVICE.
pub(crate) const LOCATION_DEVICE: u32 = 1;

/// `CUmemAllocationProp`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemAllocationProp {
    pub(crate) kind: u32,
    pub(crate) handle_types: u32,
    pub(crate) location: MemLocation,
    pub(crate) win32_handle_metadata: u64,
    pub(crate) flags: u64,
}

/// `CUmemPoolProps`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemPoolProps {
    pub(crate) kind: u32,
    pub(crate) handle_types: u32,
    pub(crate) location: MemLocation,
    pub(crate) win32_security_attributes: u64,
    pub(crate) max_bytes: usize,
    pub(crate) usage: u16,
    pub(crate) reserved: [u8; 54],
}

/// `CUmemAccessDesc`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemAccessDesc {
    pub(crate) location: MemLocation,
    pub(crate) flags: u32,
}

/// `CUuuid`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Uuid {
    pub(crate) bytes: [u8; 16],
}

/// `CUipcMemHandle` and `CUipcEventHandle`: 64 bytes that are passed by value, hence on the stack.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct IpcHandle {
    pub(crate) bytes: [u8; 64],
}

/// `CUDA_KERNEL_NODE_PARAMS_v2`; version 1 ends before `kernel`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct KernelNodeParams {
    pub(crate) function: CUfunction,
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) shared_bytes: u32,
    pub(crate) kernel_params: u64,
    pub(crate) extra: u64,
}

/// `CUDA_MEMSET_NODE_PARAMS`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemsetNodeParams {
    pub(crate) dst: CUdeviceptr,
    pub(crate) pitch: usize,
    pub(crate) value: u32,
    pub(crate) element_bytes: u32,
    pub(crate) width: usize,
    pub(crate) height: usize,
}

/// `CUDA_MEM_ALLOC_NODE_PARAMS_v1`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemAllocNodeParams {
    pub(crate) pool: MemPoolProps,
    pub(crate) access: u64,
    pub(crate) access_count: usize,
    pub(crate) bytes: usize,
    pub(crate) dptr: CUdeviceptr,
}

/// `CUDA_GRAPH_INSTANTIATE_PARAMS`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct GraphInstantiateParams {
    pub(crate) flags: u64,
    pub(crate) upload_stream: CUstream,
    pub(crate) error_node: CUgraphNode,
    pub(crate) result: u32,
}

// The sizes that a C compiler gives these types on 64-bit Linux.
const _: () = {
    assert!(size_of::<Memcpy2D>() == 128);
    assert!(size_of::<Memcpy3D>() == 200);
    assert!(size_of::<Memcpy3DBatchOp>() == 112);
    assert!(size_of::<ArrayDescriptor>() == 24);
    assert!(size_of::<Array3DDescriptor>() == 40);
    assert!(size_of::<LaunchConfig>() == 56);
    assert!(std::mem::offset_of!(LaunchConfig, stream) == 32);
    assert!(std::mem::offset_of!(LaunchConfig, attribute_count) == 48);
    assert!(size_of::<LaunchParams>() == 56);
    assert!(size_of::<MemLocation>() == 8);
    assert!(size_of::<MemAllocationProp>() == 32);
    assert!(size_of::<MemPoolProps>() == 88);
    assert!(size_of::<MemAccessDesc>() == 12);
    assert!(size_of::<Uuid>() == 16);
    assert!(size_of::<IpcHandle>() == 64);
    assert!(size_of::<KernelNodeParams>() == 56);
    assert!(size_of::<MemsetNodeParams>() == 40);
    assert!(size_of::<MemAllocNodeParams>() == 120);
    assert!(size_of::<GraphInstantiateParams>() == 32);
};

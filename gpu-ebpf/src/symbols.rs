//! The exported functions of libcuda that are probed, and what each of them is.
//!
//! Source: the CUDA driver API reference and `cudaTypedefs.h`. A suffix `_ptsz` (calls with a stream) or
//! `_ptds` (synchronous calls) is the per-thread-default-stream variant of the same function. Each call of
//! a program enters exactly one variant, so all of them are probed. The 32-bit twins from before CUDA 3.2
//! (`cuMemAlloc` without `_v2`) take other arguments and are not in the list; older context functions take the
//! same ones and are.

use crate::call::Call;

/// The per-thread-default-stream variant that exists beside a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// None.
    Single,
    /// `_ptsz`.
    Stream,
    /// `_ptds`.
    Default,
}

impl Variant {
    /// The suffixes under which the function is exported.
    pub const fn suffixes(self) -> &'static [&'static str] {
        match self {
            Self::Single => &[""],
            Self::Stream => &["", "_ptsz"],
            Self::Default => &["", "_ptds"],
        }
    }
}

/// One function with its variants.
#[derive(Clone, Copy, Debug)]
pub struct Symbol {
    pub name: &'static str,
    pub variant: Variant,
    pub call: Call,
}

const fn symbol(name: &'static str, variant: Variant, call: Call) -> Symbol {
    Symbol { name, variant, call }
}

use Variant::{Default, Single, Stream};

/// Every probed function.
pub const SYMBOLS: &[Symbol] = &[
    symbol("cuLaunchKernel", Stream, Call::Launch),
    symbol("cuLaunchKernelEx", Stream, Call::Launch),
    symbol("cuLaunchCooperativeKernel", Stream, Call::Launch),
    symbol("cuLaunchCooperativeKernelMultiDevice", Single, Call::Launch),
    symbol("cuGraphLaunch", Stream, Call::GraphLaunch),
    symbol("cuStreamSynchronize", Stream, Call::Synchronize),
    symbol("cuCtxSynchronize", Single, Call::Synchronize),
    symbol("cuCtxSynchronize_v2", Single, Call::Synchronize),
    symbol("cuEventSynchronize", Single, Call::Synchronize),
    symbol("cuMemcpy", Default, Call::CopyUnified),
    symbol("cuMemcpyAsync", Stream, Call::CopyUnified),
    symbol("cuMemcpyHtoD_v2", Default, Call::CopyHostToDevice),
    symbol("cuMemcpyHtoDAsync_v2", Stream, Call::CopyHostToDevice),
    symbol("cuMemcpyDtoH_v2", Default, Call::CopyDeviceToHost),
    symbol("cuMemcpyDtoHAsync_v2", Stream, Call::CopyDeviceToHost),
    symbol("cuMemcpyDtoD_v2", Default, Call::CopyDeviceToDevice),
    symbol("cuMemcpyDtoDAsync_v2", Stream, Call::CopyDeviceToDevice),
    symbol("cuMemcpyPeer", Default, Call::CopyPeer),
    symbol("cuMemcpyPeerAsync", Stream, Call::CopyPeer),
    symbol("cuMemcpyAtoD_v2", Default, Call::CopyArrayLinear),
    symbol("cuMemcpyDtoA_v2", Default, Call::CopyArrayLinear),
    symbol("cuMemcpyHtoA_v2", Default, Call::CopyArrayLinear),
    symbol("cuMemcpyAtoH_v2", Default, Call::CopyArrayLinear),
    symbol("cuMemcpyHtoAAsync_v2", Stream, Call::CopyArrayLinear),
    symbol("cuMemcpyAtoHAsync_v2", Stream, Call::CopyArrayLinear),
    symbol("cuMemcpyAtoA_v2", Default, Call::CopyArrayToArray),
    symbol("cuMemcpy2D_v2", Default, Call::Copy2d),
    symbol("cuMemcpy2DUnaligned_v2", Default, Call::Copy2d),
    symbol("cuMemcpy2DAsync_v2", Stream, Call::Copy2d),
    symbol("cuMemcpy3D_v2", Default, Call::Copy3d),
    symbol("cuMemcpy3DAsync_v2", Stream, Call::Copy3d),
    symbol("cuMemcpy3DPeer", Default, Call::Copy3dPeer),
    symbol("cuMemcpy3DPeerAsync", Stream, Call::Copy3dPeer),
    symbol("cuMemcpyBatchAsync", Stream, Call::CopyBatch),
    symbol("cuMemcpyBatchAsync_v2", Stream, Call::CopyBatch),
    symbol("cuMemcpy3DBatchAsync", Stream, Call::Copy3dBatch),
    symbol("cuMemcpy3DBatchAsync_v2", Stream, Call::Copy3dBatch),
    symbol("cuMemsetD8_v2", Default, Call::Memset8),
    symbol("cuMemsetD8Async", Stream, Call::Memset8),
    symbol("cuMemsetD16_v2", Default, Call::Memset16),
    symbol("cuMemsetD16Async", Stream, Call::Memset16),
    symbol("cuMemsetD32_v2", Default, Call::Memset32),
    symbol("cuMemsetD32Async", Stream, Call::Memset32),
    symbol("cuMemsetD2D8_v2", Default, Call::Memset2d8),
    symbol("cuMemsetD2D8Async", Stream, Call::Memset2d8),
    symbol("cuMemsetD2D16_v2", Default, Call::Memset2d16),
    symbol("cuMemsetD2D16Async", Stream, Call::Memset2d16),
    symbol("cuMemsetD2D32_v2", Default, Call::Memset2d32),
    symbol("cuMemsetD2D32Async", Stream, Call::Memset2d32),
    symbol("cuMemAlloc_v2", Single, Call::Allocate),
    symbol("cuMemAllocPitch_v2", Single, Call::AllocatePitch),
    symbol("cuMemAllocManaged", Single, Call::AllocateManaged),
    symbol("cuMemAllocAsync", Stream, Call::AllocatePool),
    symbol("cuMemAllocFromPoolAsync", Stream, Call::AllocatePool),
    symbol("cuMemCreate", Single, Call::AllocatePhysical),
    symbol("cuMemImportFromShareableHandle", Single, Call::ImportPhysical),
    symbol("cuArrayCreate_v2", Single, Call::AllocateArray),
    symbol("cuArray3DCreate_v2", Single, Call::AllocateArray3d),
    symbol("cuMipmappedArrayCreate", Single, Call::AllocateMipmap),
    symbol("cuMemHostAlloc", Single, Call::AllocateHost),
    symbol("cuMemAllocHost_v2", Single, Call::AllocateHost),
    symbol("cuMemHostRegister_v2", Single, Call::RegisterHost),
    symbol("cuMemFree_v2", Single, Call::Free),
    symbol("cuMemFreeAsync", Stream, Call::Free),
    symbol("cuMemRelease", Single, Call::ReleasePhysical),
    symbol("cuMemMap", Single, Call::Map),
    symbol("cuMemUnmap", Single, Call::Unmap),
    symbol("cuMemRetainAllocationHandle", Single, Call::RetainPhysical),
    symbol("cuArrayDestroy", Single, Call::FreeArray),
    symbol("cuMipmappedArrayDestroy", Single, Call::FreeArray),
    symbol("cuMemFreeHost", Single, Call::FreeHost),
    symbol("cuMemHostUnregister", Single, Call::FreeHost),
    symbol("cuInit", Single, Call::Initialize),
    symbol("cuCtxCreate", Single, Call::ContextCreate),
    symbol("cuCtxCreate_v2", Single, Call::ContextCreate),
    symbol("cuCtxCreate_v3", Single, Call::ContextCreateAffinity),
    symbol("cuCtxCreate_v4", Single, Call::ContextCreateParameters),
    symbol("cuCtxDestroy", Single, Call::ContextDestroy),
    symbol("cuCtxDestroy_v2", Single, Call::ContextDestroy),
    symbol("cuCtxSetCurrent", Single, Call::ContextSetCurrent),
    symbol("cuCtxPushCurrent", Single, Call::ContextPush),
    symbol("cuCtxPushCurrent_v2", Single, Call::ContextPush),
    symbol("cuCtxPopCurrent", Single, Call::ContextPop),
    symbol("cuCtxPopCurrent_v2", Single, Call::ContextPop),
    symbol("cuDevicePrimaryCtxRetain", Single, Call::PrimaryRetain),
    symbol("cuDevicePrimaryCtxRelease", Single, Call::PrimaryRelease),
    symbol("cuDevicePrimaryCtxRelease_v2", Single, Call::PrimaryRelease),
    symbol("cuDevicePrimaryCtxReset", Single, Call::PrimaryReset),
    symbol("cuDevicePrimaryCtxReset_v2", Single, Call::PrimaryReset),
];

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_are_unique_over_all_variants() {
        let mut seen = HashSet::new();
        for symbol in SYMBOLS {
            for suffix in symbol.variant.suffixes() {
                assert!(seen.insert(format!("{}{suffix}", symbol.name)), "{} twice", symbol.name);
            }
        }
    }

    #[test]
    fn every_call_has_a_symbol() {
        for call in Call::ALL {
            assert!(SYMBOLS.iter().any(|symbol| symbol.call == *call), "no symbol for {call:?}");
        }
    }
}

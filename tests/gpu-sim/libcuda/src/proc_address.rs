//! cuGetProcAddress: from a base name, a version and flags to an exported entry point.

use crate::{
    entry::Export,
    error::{CudaError, Result},
    exports,
};

/// CU_GET_PROC_ADDRESS_LEGACY_STREAM and CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM.
const LEGACY_STREAM: u64 = 1;
const PER_THREAD_STREAM: u64 = 2;

/// CUdriverProcAddressQueryResult.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Query {
    Success = 0,
    SymbolNotFound = 1,
    VersionNotSufficient = 2,
}

/// CUDA versions from which on cuGetProcAddress hands out a numbered variant, where it is not 3.2 (`_v2`).
const VARIANTS_SINCE: &[(&str, i32)] = &[
    ("cuCtxCreate_v3", 11_040),
    ("cuCtxCreate_v4", 12_050),
    ("cuCtxDestroy_v2", 4_000),
    ("cuCtxPopCurrent_v2", 4_000),
    ("cuCtxPushCurrent_v2", 4_000),
    ("cuDevicePrimaryCtxRelease_v2", 11_000),
    ("cuDevicePrimaryCtxReset_v2", 11_000),
    ("cuDevicePrimaryCtxSetFlags_v2", 11_000),
    ("cuDeviceGetUuid_v2", 11_040),
    ("cuEventDestroy_v2", 4_000),
    ("cuEventElapsedTime_v2", 12_080),
    ("cuGetProcAddress_v2", 12_000),
    ("cuGraphAddKernelNode_v2", 12_000),
    ("cuGraphInstantiate_v2", 11_000),
    ("cuIpcOpenMemHandle_v2", 11_000),
    ("cuMemAdvise_v2", 12_020),
    ("cuMemHostRegister_v2", 6_050),
    ("cuMemPrefetchAsync_v2", 12_020),
    ("cuMemcpy3DBatchAsync_v2", 13_000),
    ("cuMemcpyBatchAsync_v2", 13_000),
    ("cuStreamBeginCapture_v2", 10_010),
    ("cuStreamDestroy_v2", 4_000),
];

/// First version that has `_v2` where the list above does not say.
const V2_SINCE: i32 = 3_020;

/// The entry point for a base name: the newest variant that `version` (1000 * major + 10 * minor) knows, in the form for
/// the default stream that the flags ask for.
pub(crate) fn find(symbol: &str, version: i32, flags: u64) -> Result<(usize, Query)> {
    if flags & !(LEGACY_STREAM | PER_THREAD_STREAM) != 0 || flags == LEGACY_STREAM | PER_THREAD_STREAM {
        return Err(CudaError::InvalidValue);
    }
    let per_thread = flags & PER_THREAD_STREAM != 0;
    let mut newest: Option<(u32, &Export)> = None;
    let mut known = false;
    for export in exports::all() {
        let variant = Variant::of(export.name);
        if variant.base != symbol || variant.per_thread {
            continue;
        }
        known = true;
        if variant.since(export.name) <= version && newest.is_none_or(|(number, _)| number < variant.number) {
            newest = Some((variant.number, export));
        }
    }
    let Some((_, export)) = newest else {
        return Ok((0, if known { Query::VersionNotSufficient } else { Query::SymbolNotFound }));
    };
    let own_stream = |suffix: &str| {
        let name = format!("{}{suffix}", export.name);
        exports::all().find(|other| other.name == name)
    };
    let chosen = if per_thread { own_stream("_ptsz").or_else(|| own_stream("_ptds")) } else { None };
    Ok(((chosen.unwrap_or(export).address)(), Query::Success))
}

/// The parts of an exported name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Variant<'a> {
    base: &'a str,
    /// 1 for a name without a number.
    number: u32,
    per_thread: bool,
}

impl<'a> Variant<'a> {
    fn of(name: &'a str) -> Self {
        let plain = name.strip_suffix("_ptsz").or_else(|| name.strip_suffix("_ptds"));
        let per_thread = plain.is_some();
        let plain = plain.unwrap_or(name);
        match plain.rsplit_once("_v").and_then(|(base, number)| Some((base, number.parse().ok()?))) {
            Some((base, number)) => Self { base, number, per_thread },
            None => Self { base: plain, number: 1, per_thread },
        }
    }

    fn since(self, name: &str) -> i32 {
        let listed = VARIANTS_SINCE.iter().find(|(listed, _)| *listed == name).map(|(_, version)| *version);
        listed.unwrap_or(if self.number > 1 { V2_SINCE } else { 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(symbol: &str, version: i32, flags: u64) -> Option<&'static str> {
        let (address, _) = find(symbol, version, flags).expect("valid flags");
        exports::all().find(|export| (export.address)() == address).map(|export| export.name)
    }

    #[test]
    fn names_have_parts() {
        let variant = |base, number, per_thread| Variant { base, number, per_thread };
        assert_eq!(Variant::of("cuMemcpyHtoDAsync_v2_ptsz"), variant("cuMemcpyHtoDAsync", 2, true));
        assert_eq!(Variant::of("cuMemcpy_ptds"), variant("cuMemcpy", 1, true));
        assert_eq!(Variant::of("cuCtxCreate_v4"), variant("cuCtxCreate", 4, false));
        assert_eq!(Variant::of("cuInit"), variant("cuInit", 1, false));
    }

    #[test]
    fn the_version_chooses_the_variant() {
        assert_eq!(name("cuMemAlloc", 11_040, 0), Some("cuMemAlloc_v2"));
        assert_eq!(name("cuMemcpyBatchAsync", 12_080, 0), Some("cuMemcpyBatchAsync"));
        assert_eq!(name("cuMemcpyBatchAsync", 13_000, 0), Some("cuMemcpyBatchAsync_v2"));
        assert_eq!(name("cuCtxCreate", 11_000, 0), Some("cuCtxCreate_v2"));
        assert_eq!(name("cuCtxCreate", 11_040, 0), Some("cuCtxCreate_v3"));
        assert_eq!(name("cuCtxCreate", 13_000, 0), Some("cuCtxCreate_v4"));
        assert_eq!(name("cuGetProcAddress", 11_030, 0), Some("cuGetProcAddress"));
        assert_eq!(name("cuGetProcAddress", 12_000, 0), Some("cuGetProcAddress_v2"));
    }

    #[test]
    fn the_flags_choose_the_default_stream() {
        assert_eq!(name("cuLaunchKernel", 12_000, 0), Some("cuLaunchKernel"));
        assert_eq!(name("cuLaunchKernel", 12_000, LEGACY_STREAM), Some("cuLaunchKernel"));
        assert_eq!(name("cuLaunchKernel", 12_000, PER_THREAD_STREAM), Some("cuLaunchKernel_ptsz"));
        assert_eq!(name("cuMemcpyHtoD", 12_000, PER_THREAD_STREAM), Some("cuMemcpyHtoD_v2_ptds"));
        assert_eq!(name("cuMemAlloc", 12_000, PER_THREAD_STREAM), Some("cuMemAlloc_v2"));
        assert_eq!(find("cuInit", 12_000, 4), Err(CudaError::InvalidValue));
    }

    #[test]
    fn what_is_not_there_says_why() {
        assert_eq!(find("cuNoSuchCall", 12_000, 0), Ok((0, Query::SymbolNotFound)));
        assert_eq!(find("cuMemGetAddressRange", 3_000, 0), Ok((0, Query::VersionNotSufficient)));
        // The caller passes base names only.
        assert_eq!(find("cuMemAlloc_v2", 12_000, 0), Ok((0, Query::SymbolNotFound)));
    }
}

//! NVML's return codes, sorted into the classes that the agent reacts to.

use nvml_wrapper::error::NvmlError;

use crate::device::error::{DeviceError, ErrorClass};

/// Codes of `nvmlReturn_t` that `nvml-wrapper` passes on as numbers (`nvml.h` of CUDA 13).
mod code {
    pub(super) const FREQ_NOT_SUPPORTED: u32 = 24;
    pub(super) const ARGUMENT_VERSION_MISMATCH: u32 = 25;
    pub(super) const DEPRECATED: u32 = 26;
    pub(super) const NOT_READY: u32 = 27;
    pub(super) const GPU_NOT_FOUND: u32 = 28;
    pub(super) const INVALID_STATE: u32 = 29;
}

/// The class of an error.
pub(super) fn class_of(error: &NvmlError) -> ErrorClass {
    match error {
        // An old library lacks a function, an old driver does not know an argument, a card has no such unit: in each
        // case the value does not exist here.
        NvmlError::NotSupported
        | NvmlError::NoData
        | NvmlError::NotFound
        | NvmlError::InvalidArg
        | NvmlError::FailedToLoadSymbol(_)
        | NvmlError::FunctionNotFound
        | NvmlError::VgpuEccNotSupported
        | NvmlError::UnexpectedVariant(
            code::FREQ_NOT_SUPPORTED | code::ARGUMENT_VERSION_MISMATCH | code::DEPRECATED,
        ) => ErrorClass::NotSupported,
        NvmlError::LibraryNotFound | NvmlError::LibloadingError(_) => ErrorClass::LibraryAbsent,
        NvmlError::DriverNotLoaded => ErrorClass::DriverNotLoaded,
        NvmlError::LibRmVersionMismatch => ErrorClass::VersionMismatch,
        NvmlError::Uninitialized => ErrorClass::Uninitialized,
        NvmlError::GpuLost
        | NvmlError::ResetRequired
        | NvmlError::InsufficientPower
        | NvmlError::UnexpectedVariant(code::GPU_NOT_FOUND) => ErrorClass::DeviceLost,
        NvmlError::InsufficientSize(_)
        | NvmlError::Timeout
        | NvmlError::InUse
        | NvmlError::InsufficientMemory
        | NvmlError::IrqIssue
        | NvmlError::UnexpectedVariant(code::NOT_READY | code::INVALID_STATE) => ErrorClass::Transient,
        NvmlError::NoPermission | NvmlError::OperatingSystem => ErrorClass::Denied,
        NvmlError::Unknown => ErrorClass::Unknown,
        _ => ErrorClass::Malformed,
    }
}

/// An error of a call whose result cannot be done without.
pub(super) fn failed(call: &'static str) -> impl FnOnce(NvmlError) -> DeviceError {
    move |error| DeviceError::new(call, class_of(&error), error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::error::Reaction;

    #[test]
    fn every_code_of_the_header_asks_for_the_right_thing() {
        let expected = [
            (1, Reaction::Reinitialise),
            (2, Reaction::OmitValue),
            (3, Reaction::OmitValue),
            (4, Reaction::SuspectAccess),
            (6, Reaction::OmitValue),
            (7, Reaction::Retry),
            (8, Reaction::LoseDevice),
            (9, Reaction::Reinitialise),
            (10, Reaction::Retry),
            (11, Reaction::Retry),
            (12, Reaction::Reinitialise),
            (13, Reaction::OmitValue),
            (14, Reaction::OmitValue),
            (15, Reaction::LoseDevice),
            (16, Reaction::LoseDevice),
            (17, Reaction::SuspectAccess),
            (18, Reaction::Reinitialise),
            (19, Reaction::Retry),
            (20, Reaction::Retry),
            (21, Reaction::OmitValue),
            (22, Reaction::OmitValue),
            (24, Reaction::OmitValue),
            (25, Reaction::OmitValue),
            (26, Reaction::OmitValue),
            (27, Reaction::Retry),
            (28, Reaction::LoseDevice),
            (29, Reaction::Retry),
            (999, Reaction::SuspectAccess),
        ];
        for (code, reaction) in expected {
            assert_eq!(class_of(&NvmlError::from(code)).reaction(), reaction, "code {code}");
        }
    }
}

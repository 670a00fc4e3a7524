//! What goes wrong between the agent and a vendor's library, sorted by what has to be done about it.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

/// The cause of a failed call. The text of each, [`ErrorClass::as_str`], is a metric attribute and stays as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ErrorClass {
    /// This GPU or this driver does not have the value.
    NotSupported,
    /// The library is not on this machine, or cannot be loaded.
    LibraryAbsent,
    /// The library is there, the kernel driver is not.
    DriverNotLoaded,
    /// The driver was upgraded under the library that this process has loaded.
    VersionMismatch,
    /// The library forgot its initialisation, as it does when the driver restarts.
    Uninitialized,
    /// The GPU fell off the bus or must be reset.
    DeviceLost,
    /// A condition that passes: a list that grew between two calls, a busy device, a driver's own time-out.
    Transient,
    /// The operating system refuses access to the device.
    Denied,
    /// The driver gives no reason. Within a container this is mostly a device rule of its cgroup, for example after
    /// `systemctl daemon-reload` re-applied rules that do not name the GPU.
    Unknown,
    /// The library answered with something that cannot be interpreted.
    Malformed,
    /// A call has not returned.
    Hung,
}

/// What an error asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reaction {
    /// Leave the value out; nothing is wrong.
    OmitValue,
    /// Close the library and open it again, with back-off.
    Reinitialise,
    /// This GPU is gone until a later opening finds it; the others go on.
    LoseDevice,
    /// Ask again at the next interval.
    Retry,
    /// Ask again, and open the library again with back-off, because access may have been taken away.
    SuspectAccess,
}

impl ErrorClass {
    /// Every class, for exporters that want a series for each.
    pub const ALL: [Self; 11] = [
        Self::NotSupported,
        Self::LibraryAbsent,
        Self::DriverNotLoaded,
        Self::VersionMismatch,
        Self::Uninitialized,
        Self::DeviceLost,
        Self::Transient,
        Self::Denied,
        Self::Unknown,
        Self::Malformed,
        Self::Hung,
    ];

    /// The value of the `error.type` attribute.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotSupported => "not_supported",
            Self::LibraryAbsent => "library_absent",
            Self::DriverNotLoaded => "driver_not_loaded",
            Self::VersionMismatch => "version_mismatch",
            Self::Uninitialized => "uninitialized",
            Self::DeviceLost => "device_lost",
            Self::Transient => "transient",
            Self::Denied => "denied",
            Self::Unknown => "unknown",
            Self::Malformed => "malformed",
            Self::Hung => "hung",
        }
    }

    /// What has to be done about it.
    pub fn reaction(self) -> Reaction {
        match self {
            Self::NotSupported | Self::Malformed => Reaction::OmitValue,
            Self::LibraryAbsent | Self::DriverNotLoaded | Self::VersionMismatch | Self::Uninitialized => {
                Reaction::Reinitialise
            }
            Self::DeviceLost => Reaction::LoseDevice,
            Self::Transient | Self::Hung => Reaction::Retry,
            Self::Denied | Self::Unknown => Reaction::SuspectAccess,
        }
    }
}

impl fmt::Display for ErrorClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A call to a vendor's library that failed.
#[derive(Debug, Clone, thiserror::Error)]
#[error("`{call}` failed ({class}){}", advice(*.class))]
pub struct DeviceError {
    /// The function of the library.
    pub call: &'static str,
    /// The cause.
    pub class: ErrorClass,
    #[source]
    source: Option<Arc<dyn Error + Send + Sync>>,
}

impl DeviceError {
    /// An error whose cause the library names itself.
    pub fn new(call: &'static str, class: ErrorClass, source: impl Error + Send + Sync + 'static) -> Self {
        Self { call, class, source: Some(Arc::new(source)) }
    }

    /// An error without a further cause.
    pub fn bare(call: &'static str, class: ErrorClass) -> Self {
        Self { call, class, source: None }
    }
}

/// Two errors are equal when an operator could not tell them apart: the same call failed for the same cause.
impl PartialEq for DeviceError {
    fn eq(&self, other: &Self) -> bool {
        self.call == other.call && self.class == other.class
    }
}

fn advice(class: ErrorClass) -> &'static str {
    match class {
        ErrorClass::LibraryAbsent => ": install the driver or set the path of its management library",
        ErrorClass::DriverNotLoaded => ": load the kernel module",
        ErrorClass::VersionMismatch => ": reload the kernel module or reboot after the driver upgrade",
        ErrorClass::DeviceLost => ": reset the GPU or reboot",
        ErrorClass::Denied | ErrorClass::Unknown => ": check the device rules of this process's cgroup",
        ErrorClass::NotSupported
        | ErrorClass::Uninitialized
        | ErrorClass::Transient
        | ErrorClass::Malformed
        | ErrorClass::Hung => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_names_call_class_and_way_out_but_not_the_source() {
        let error = DeviceError::new(
            "nvmlInit_v2",
            ErrorClass::VersionMismatch,
            std::io::Error::other("RM detects a driver/library version mismatch"),
        );
        assert_eq!(
            error.to_string(),
            "`nvmlInit_v2` failed (version_mismatch): reload the kernel module or reboot after the driver upgrade"
        );
        assert_eq!(error.source().unwrap().to_string(), "RM detects a driver/library version mismatch");
    }

    #[test]
    fn every_class_has_a_text_of_its_own() {
        let texts: std::collections::BTreeSet<_> =
            ErrorClass::ALL.iter().map(|class| class.as_str()).collect();
        assert_eq!(texts.len(), ErrorClass::ALL.len());
    }
}

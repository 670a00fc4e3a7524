//! NVIDIA's management library as a backend, through `nvml-wrapper`.

mod classify;
mod gather;
mod gpm;
mod inventory;
mod links;
mod processes;
mod raw;
mod readings;
mod session;

use std::ffi::{OsStr, OsString};

use nvml_wrapper::Nvml;

use self::session::NvmlSession;
use super::backend::{GpuBackend, Session};
use super::error::{DeviceError, ErrorClass};

/// The name by which the loader finds the library where the driver is installed as usual.
const LIBRARY: &str = "libnvidia-ml.so.1";

/// Where else it is: the driver container of NVIDIA's GPU operator, GKE's device plugin, and the NVIDIA container runtime of
/// old, none of which the loader searches.
const LIBRARY_ELSEWHERE: [&str; 5] = [
    "/run/nvidia/driver/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1",
    "/run/nvidia/driver/usr/lib/aarch64-linux-gnu/libnvidia-ml.so.1",
    "/run/nvidia/driver/usr/lib64/libnvidia-ml.so.1",
    "/home/kubernetes/bin/nvidia/lib64/libnvidia-ml.so.1",
    "/usr/local/nvidia/lib64/libnvidia-ml.so.1",
];

/// `libnvidia-ml.so.1`, or the library at a configured path.
#[derive(Debug, Clone)]
pub struct NvmlBackend {
    /// Tried in this order until one can be loaded.
    libraries: Vec<OsString>,
}

impl NvmlBackend {
    /// A backend for the library at this path and no other, or for the one that is found where drivers put it.
    pub fn new(library_path: Option<OsString>) -> Self {
        let libraries = match library_path {
            Some(path) => vec![path],
            None => std::iter::once(LIBRARY).chain(LIBRARY_ELSEWHERE).map(OsString::from).collect(),
        };
        Self { libraries }
    }

    /// Loads the first library that there is. The error is that of the first one: the others are guesses.
    fn load(&self) -> Result<Nvml, DeviceError> {
        let mut first = None;
        for library in &self.libraries {
            match initialise(library) {
                Ok(nvml) => return Ok(nvml),
                Err(error) if error.class == ErrorClass::LibraryAbsent => _ = first.get_or_insert(error),
                // It is there, and it says what is wrong.
                Err(error) => return Err(error),
            }
        }
        Err(first.unwrap_or(DeviceError::bare(INIT, ErrorClass::LibraryAbsent)))
    }
}

const INIT: &str = "nvmlInit_v2";

fn initialise(library: &OsStr) -> Result<Nvml, DeviceError> {
    Nvml::builder().lib_path(library).init().map_err(|error| {
        let class = match classify::class_of(&error) {
            // A file without NVML's entry points is not NVML.
            ErrorClass::NotSupported => ErrorClass::LibraryAbsent,
            class => class,
        };
        DeviceError::new(INIT, class, error)
    })
}

impl GpuBackend for NvmlBackend {
    fn name(&self) -> &'static str {
        "nvml"
    }

    fn with_session(&self, serve: &mut dyn FnMut(&mut dyn Session)) -> Result<(), DeviceError> {
        let nvml = self.load()?;
        // Dropping `Nvml` shuts the library down and unloads it, so that the next session loads what is installed then.
        serve(&mut NvmlSession::new(&nvml));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_is_not_there_is_absent() {
        let backend = NvmlBackend::new(Some("/nonexistent/libnvidia-ml.so.1".into()));
        let outcome = backend.with_session(&mut |_| unreachable!("there is no library"));
        assert_eq!(outcome, Err(DeviceError::bare(INIT, ErrorClass::LibraryAbsent)));
    }

    #[test]
    fn a_library_that_is_not_nvml_is_absent() {
        // The C library is at hand everywhere.
        let backend = NvmlBackend::new(Some("libc.so.6".into()));
        let outcome = backend.with_session(&mut |_| unreachable!("this is not NVML"));
        assert_eq!(outcome, Err(DeviceError::bare(INIT, ErrorClass::LibraryAbsent)));
    }

    #[test]
    fn a_configured_path_is_the_only_one() {
        assert_eq!(NvmlBackend::new(Some("/a".into())).libraries, ["/a"]);
        assert_eq!(NvmlBackend::new(None).libraries[0], LIBRARY);
    }
}

//! NVIDIA's management library as a backend, through `nvml-wrapper`.

mod classify;
mod fields;
mod gather;
mod gpm;
mod inventory;
mod links;
mod processes;
mod readings;
mod session;

use std::ffi::OsString;

use nvml_wrapper::Nvml;

use self::session::NvmlSession;
use super::backend::{GpuBackend, Session};
use super::error::{DeviceError, ErrorClass};

/// `libnvidia-ml.so.1`, or the library at a configured path.
#[derive(Debug, Clone, Default)]
pub struct NvmlBackend {
    /// Path of the library; the loader searches for `libnvidia-ml.so.1` where there is none.
    pub library_path: Option<OsString>,
}

impl NvmlBackend {
    /// A backend for the library at this path, or for the one that the loader finds.
    pub fn new(library_path: Option<OsString>) -> Self {
        Self { library_path }
    }
}

impl GpuBackend for NvmlBackend {
    fn name(&self) -> &'static str {
        "nvml"
    }

    fn with_session(&self, serve: &mut dyn FnMut(&mut dyn Session)) -> Result<(), DeviceError> {
        let mut builder = Nvml::builder();
        if let Some(path) = &self.library_path {
            builder.lib_path(path);
        }
        let nvml = builder.init().map_err(|error| {
            let class = match classify::class_of(&error) {
                // A file without NVML's entry points is not NVML.
                ErrorClass::NotSupported => ErrorClass::LibraryAbsent,
                class => class,
            };
            DeviceError::new("nvmlInit_v2", class, error)
        })?;
        // Dropping `Nvml` shuts the library down and unloads it, so that the next session loads what is installed then.
        serve(&mut NvmlSession::new(&nvml));
        Ok(())
    }
}

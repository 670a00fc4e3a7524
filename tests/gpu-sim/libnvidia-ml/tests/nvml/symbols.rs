//! The library's exported names.

use nvml_wrapper::Nvml;
use nvml_wrapper::error::NvmlError;

use crate::support::{install, soname};

/// Every function that `nvml-wrapper` 0.13 looks up.
const WANTED: &str = include_str!("symbols.txt");

#[test]
fn everything_that_the_binding_looks_up_is_exported() {
    let installation = install("1xT4");
    let nvml = installation.nvml();
    let missing: Vec<&str> = WANTED
        .lines()
        // SAFETY: the symbol is looked up and not called.
        .filter(|name| unsafe { nvml.lib().__library.get::<*const ()>(name.as_bytes()) }.is_err())
        .collect();
    assert_eq!(missing, Vec::<&str>::new());
    assert!(WANTED.lines().count() > 250, "the list is complete");
}

#[test]
fn the_library_has_the_name_that_programs_ask_for() {
    let installation = install("1xT4");
    // `readelf` is part of the tools that link this very test.
    assert_eq!(soname(&installation.library).as_deref(), Some("libnvidia-ml.so.1"));
}

#[test]
fn before_initialisation_and_after_shutdown_nothing_answers() {
    let installation = install("1xT4");
    let first = installation.nvml();
    let second = installation.nvml();
    first.shutdown().unwrap();
    assert_eq!(second.device_count().unwrap(), 1, "each initialisation needs its own shutdown");
    // SAFETY: the function has no arguments.
    unsafe { second.lib().nvmlShutdown() };
    assert!(matches!(second.device_count(), Err(NvmlError::Uninitialized)));
}

#[test]
fn a_machine_that_is_not_there_is_a_driver_that_is_not_loaded() {
    let installation = install("1xT4");
    std::fs::remove_file(installation.directory.path().join("machine")).unwrap();
    let error = Nvml::builder().lib_path(installation.library.as_os_str()).init().unwrap_err();
    assert!(matches!(error, NvmlError::DriverNotLoaded), "{error}");
}

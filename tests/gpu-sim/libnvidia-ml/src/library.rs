//! The library's own state: how often it was initialised, and the machine that it is attached to.

use std::ffi::{CStr, OsStr, c_void};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use gpu_sim::machine::{Fault, Machine, MachineFault};
use nvml_wrapper_sys::bindings::nvmlReturn_t;

use crate::abi::{Answer, code};
use crate::{events, gpm};

/// The folder of a machine's directory into which `gpu-sim install` copies the library. A library that was loaded from
/// there belongs to that machine; for any other one the environment says where the machine is.
///
/// Two copies of the library in one process are thereby two drivers, each with a machine of its own.
const INSTALLED_IN: &str = "lib";
/// A file that every machine's directory has.
const MACHINE_FILE: &str = "scenario.json";

/// How often a call that hangs looks whether it may return.
const HANG_POLL: Duration = Duration::from_millis(5);

static STATE: RwLock<State> = RwLock::new(State { initialisations: 0, machine: None });

struct State {
    initialisations: u32,
    machine: Option<Arc<Machine>>,
}

/// The machine, if the library is initialised and the driver answers.
pub(crate) fn machine() -> Result<Arc<Machine>, nvmlReturn_t> {
    let machine = {
        let state = STATE.read().unwrap_or_else(PoisonError::into_inner);
        state.machine.clone().ok_or(code::UNINITIALIZED)?
    };
    check_driver(&machine)?;
    Ok(machine)
}

/// Attaches to the machine; each call needs one of [`shut_down`].
pub(crate) fn initialise() -> Answer {
    let mut state = STATE.write().unwrap_or_else(PoisonError::into_inner);
    let machine = match &state.machine {
        Some(machine) => Arc::clone(machine),
        // A machine without a driver is one whose directory is not there.
        None => Arc::new(Machine::open(&directory()).map_err(|_no_machine| code::DRIVER_NOT_LOADED)?),
    };
    if machine.machine_fault(MachineFault::NvmlHang) != 0 {
        drop(state);
        while machine.machine_fault(MachineFault::NvmlHang) != 0 {
            std::thread::sleep(HANG_POLL);
        }
        state = STATE.write().unwrap_or_else(PoisonError::into_inner);
    }
    check_driver(&machine)?;
    state.machine.get_or_insert(machine);
    state.initialisations += 1;
    Ok(())
}

/// Takes back one initialisation; the last one detaches from the machine.
pub(crate) fn shut_down() -> Answer {
    let mut state = STATE.write().unwrap_or_else(PoisonError::into_inner);
    state.initialisations = state.initialisations.checked_sub(1).ok_or(code::UNINITIALIZED)?;
    if state.initialisations == 0 {
        state.machine = None;
        gpm::forget_all();
        events::forget_all();
    }
    Ok(())
}

/// Waits and fails as the faults of one GPU demand.
pub(crate) fn pass_faults(machine: &Machine, gpu: usize) -> Answer {
    let call_time = Duration::from_micros(machine.fault(gpu, Fault::NvmlCallTimeUs));
    if !call_time.is_zero() {
        std::thread::sleep(call_time);
    }
    while machine.fault(gpu, Fault::NvmlHang) != 0 {
        std::thread::sleep(HANG_POLL);
    }
    as_answer(machine.fault(gpu, Fault::NvmlReturn))
}

fn check_driver(machine: &Machine) -> Answer {
    as_answer(machine.machine_fault(MachineFault::NvmlReturn))
}

fn as_answer(word: u64) -> Answer {
    match nvmlReturn_t::try_from(word).unwrap_or(code::UNKNOWN) {
        code::SUCCESS => Ok(()),
        error => Err(error),
    }
}

fn directory() -> PathBuf {
    own_path()
        .as_deref()
        .and_then(Path::parent)
        .filter(|folder| folder.file_name() == Some(OsStr::new(INSTALLED_IN)))
        .and_then(Path::parent)
        .filter(|directory| directory.join(MACHINE_FILE).is_file())
        .map_or_else(Machine::directory_from_environment, Path::to_owned)
}

/// The file that this code was loaded from.
fn own_path() -> Option<PathBuf> {
    let mut info = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    let address = std::ptr::from_ref(&STATE).cast::<c_void>();
    // SAFETY: `dladdr` accepts any address and writes the structure only within the call.
    let found = unsafe { libc::dladdr(address, info.as_mut_ptr()) };
    if found == 0 {
        return None;
    }
    // SAFETY: all members are pointers, for which zeros are valid, and `dladdr` has succeeded.
    let name = unsafe { info.assume_init() }.dli_fname;
    if name.is_null() {
        return None;
    }
    // SAFETY: the loader's name of an object ends with a zero and lives as long as the object, which contains this code.
    let name = unsafe { CStr::from_ptr(name) };
    Some(Path::new(OsStr::from_bytes(name.to_bytes())).to_owned())
}

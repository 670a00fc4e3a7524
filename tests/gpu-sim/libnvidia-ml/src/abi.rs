//! The boundary to C: parameters as types that check for null, return codes, and a guard that no panic passes.
//!
//! Each parameter type has the representation of a pointer, so that functions take them directly in C's place. The one
//! promise that all `unsafe` here rests on is NVML's own: a pointer that a caller passes is null, or points to as many
//! elements as NVML's documentation says.

use std::ffi::{CStr, c_char, c_uint};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use gpu_sim::machine::{GpuState, Machine};
use gpu_sim::scenario::{Gpu, Model};
use nvml_wrapper_sys::bindings::nvmlReturn_t;

use crate::library;

/// NVML's return codes (`nvmlReturn_enum`).
pub(crate) mod code {
    pub(crate) use nvml_wrapper_sys::bindings::{
        nvmlReturn_enum_NVML_ERROR_ARGUMENT_VERSION_MISMATCH as ARGUMENT_VERSION_MISMATCH,
        nvmlReturn_enum_NVML_ERROR_DRIVER_NOT_LOADED as DRIVER_NOT_LOADED,
        nvmlReturn_enum_NVML_ERROR_INSUFFICIENT_SIZE as INSUFFICIENT_SIZE,
        nvmlReturn_enum_NVML_ERROR_INVALID_ARGUMENT as INVALID_ARGUMENT,
        nvmlReturn_enum_NVML_ERROR_NOT_FOUND as NOT_FOUND,
        nvmlReturn_enum_NVML_ERROR_NOT_SUPPORTED as NOT_SUPPORTED,
        nvmlReturn_enum_NVML_ERROR_TIMEOUT as TIMEOUT,
        nvmlReturn_enum_NVML_ERROR_UNINITIALIZED as UNINITIALIZED,
        nvmlReturn_enum_NVML_ERROR_UNKNOWN as UNKNOWN, nvmlReturn_enum_NVML_SUCCESS as SUCCESS,
    };
}

/// What a function answers: nothing, or an error code.
pub(crate) type Answer = Result<(), nvmlReturn_t>;

/// Runs the body of an exported function; a panic becomes `NVML_ERROR_UNKNOWN`.
pub(crate) fn guarded(body: impl FnOnce() -> Answer) -> nvmlReturn_t {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => code::SUCCESS,
        Ok(Err(error)) => error,
        Err(_panic) => code::UNKNOWN,
    }
}

/// Defines exported functions. A body returns an [`Answer`].
macro_rules! export {
    ($($(#[$meta:meta])* fn $name:ident($($argument:ident: $type:ty),* $(,)?) $body:block)*) => {$(
        $(#[$meta])*
        #[unsafe(no_mangle)]
        pub(crate) extern "C" fn $name($($argument: $type),*) -> nvml_wrapper_sys::bindings::nvmlReturn_t {
            $crate::abi::guarded(move || -> $crate::abi::Answer { $body })
        }
    )*};
}

/// A place for one value: `T *`.
#[repr(transparent)]
pub(crate) struct Out<T>(*mut T);

impl<T> Out<T> {
    /// Stores the value; a null pointer is an invalid argument.
    pub(crate) fn set(self, value: T) -> Answer {
        if self.0.is_null() {
            return Err(code::INVALID_ARGUMENT);
        }
        // SAFETY: the caller of NVML passed a pointer to a `T`, which is not null.
        unsafe { self.0.write(value) };
        Ok(())
    }
}

/// A value that the caller filled in and the library changes: `T *`.
#[repr(transparent)]
pub(crate) struct InOut<T>(*mut T);

impl<T: Copy> InOut<T> {
    /// The value that the caller passed.
    pub(crate) fn get(&self) -> Result<T, nvmlReturn_t> {
        if self.0.is_null() {
            return Err(code::INVALID_ARGUMENT);
        }
        // SAFETY: the caller of NVML passed a pointer to a valid `T`, which is not null.
        Ok(unsafe { self.0.read() })
    }

    /// Stores a value.
    pub(crate) fn set(&self, value: T) -> Answer {
        Out(self.0).set(value)
    }

    /// The pointer itself, for structures that an older caller knows only in part.
    pub(crate) fn as_ptr(&self) -> *mut T {
        self.0
    }
}

/// Room for several values: `T *`, with a length elsewhere.
#[repr(transparent)]
pub(crate) struct Items<T>(*mut T);

impl<T: Copy> Items<T> {
    /// Stores `values` as NVML's lists work: `count` is the room on entry and the number of values on return, and too little
    /// room is `NVML_ERROR_INSUFFICIENT_SIZE` with nothing stored.
    pub(crate) fn fill(self, count: &InOut<c_uint>, values: &[T]) -> Answer {
        let room = count.get()?;
        let number = c_uint::try_from(values.len()).map_err(|_too_many| code::UNKNOWN)?;
        count.set(number)?;
        if number > room {
            return Err(code::INSUFFICIENT_SIZE);
        }
        self.store(values)
    }

    /// Stores `values`; the caller has checked that there is room.
    pub(crate) fn store(self, values: &[T]) -> Answer {
        if values.is_empty() {
            return Ok(());
        }
        if self.0.is_null() {
            return Err(code::INVALID_ARGUMENT);
        }
        // SAFETY: the caller of NVML passed room for at least as many elements as it said, of which there are enough.
        unsafe { self.0.copy_from_nonoverlapping(values.as_ptr(), values.len()) };
        Ok(())
    }

    /// Whether the caller only asks for the number.
    pub(crate) fn is_null(&self) -> bool {
        self.0.is_null()
    }

    /// A mutable view of `length` elements that the caller filled in.
    pub(crate) fn as_mut_slice(&mut self, length: usize) -> Result<&mut [T], nvmlReturn_t> {
        if self.0.is_null() {
            return Err(code::INVALID_ARGUMENT);
        }
        // SAFETY: the caller of NVML passed `length` initialised elements and uses them only when the call has returned.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.0, length) })
    }
}

/// A buffer for a text: `char *`, with a length elsewhere.
#[repr(transparent)]
pub(crate) struct Text(*mut c_char);

impl Text {
    /// Stores the text and its terminating zero.
    pub(crate) fn set(self, length: c_uint, text: &str) -> Answer {
        if text.len() >= length as usize {
            return Err(code::INSUFFICIENT_SIZE);
        }
        let bytes: Vec<c_char> = text.bytes().chain([0]).map(u8::cast_signed).collect();
        Items(self.0).store(&bytes)
    }
}

/// A text that the caller passed: `const char *`.
#[repr(transparent)]
pub(crate) struct TextIn(*const c_char);

impl TextIn {
    /// The text.
    pub(crate) fn get(&self) -> Result<&str, nvmlReturn_t> {
        if self.0.is_null() {
            return Err(code::INVALID_ARGUMENT);
        }
        // SAFETY: the caller of NVML passed a text that ends with a zero and outlives the call.
        let text = unsafe { CStr::from_ptr(self.0) };
        text.to_str().map_err(|_not_utf8| code::INVALID_ARGUMENT)
    }
}

/// Stores a text in a fixed array of a structure, cut to its length less the terminating zero.
pub(crate) fn fixed_text<const LENGTH: usize>(text: &str) -> [c_char; LENGTH] {
    let mut array = [0; LENGTH];
    for (place, byte) in array.iter_mut().zip(text.bytes().take(LENGTH - 1)) {
        *place = byte.cast_signed();
    }
    array
}

/// `nvmlDevice_t`: an opaque number to callers.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Handle(usize);

/// Handles start here, so that neither null nor a small number is taken for one.
const HANDLE_BASE: usize = 0x4750_5500;

impl Handle {
    pub(crate) fn of(index: usize) -> Self {
        Self(HANDLE_BASE + index)
    }

    /// The GPU, as long as it answers: this is where injected faults show.
    pub(crate) fn device(self) -> Result<Device, nvmlReturn_t> {
        let machine = library::machine()?;
        let index = self.0.checked_sub(HANDLE_BASE).ok_or(code::INVALID_ARGUMENT)?;
        if index >= machine.scenario().gpus.len() {
            return Err(code::INVALID_ARGUMENT);
        }
        library::pass_faults(&machine, index)?;
        Ok(Device { machine, index })
    }
}

/// One GPU of the machine.
pub(crate) struct Device {
    pub(crate) machine: Arc<Machine>,
    pub(crate) index: usize,
}

impl Device {
    /// Static facts.
    pub(crate) fn gpu(&self) -> &Gpu {
        &self.machine.scenario().gpus[self.index]
    }

    /// Static facts of the model.
    pub(crate) fn model(&self) -> &Model {
        &self.gpu().model
    }

    /// What the daemon publishes.
    pub(crate) fn state(&self) -> &GpuState {
        &self.machine.shared().gpus[self.index]
    }

    /// Boards with stacked memory: servers' cards, which stay at full clocks and have a sensor in their memory.
    pub(crate) fn has_stacked_memory(&self) -> bool {
        self.model().memory.bus_width_bits >= 1024
    }

    pub(crate) fn fault(&self, fault: gpu_sim::machine::Fault) -> u64 {
        self.machine.fault(self.index, fault)
    }
}

/// `Ok` where the card has it.
pub(crate) fn supported(has: bool) -> Answer {
    if has { Ok(()) } else { Err(code::NOT_SUPPORTED) }
}

//! The built library, loaded as a C program loads it.

use std::ffi::{CString, c_void};

use super::support::libcuda;

pub(crate) struct Library(*mut c_void);

impl Library {
    pub(crate) fn load() -> Self {
        let path = CString::new(libcuda().to_str().expect("UTF-8")).expect("path");
        // SAFETY: the path is a terminated string; the library has no initialisers besides Rust's own.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        assert!(!handle.is_null(), "cannot load {}", libcuda().display());
        Self(handle)
    }

    /// Address of an exported function; null where there is none.
    pub(crate) fn address(&self, name: &str) -> *mut c_void {
        let name = CString::new(name).expect("name");
        // SAFETY: the handle is that of a loaded library, the name a terminated string.
        unsafe { libc::dlsym(self.0, name.as_ptr()) }
    }
}

/// Calls an exported function by name: `call!(library, "cuInit"(u32 = 0))` returns the CUresult.
macro_rules! call {
    ($library:expr, $name:literal ($($ty:ty = $value:expr),* $(,)?)) => {{
        let address = $library.address($name);
        assert!(!address.is_null(), "{} is not exported", $name);
        // SAFETY: the function of this name has these argument types, and pointers lead to variables of the test.
        unsafe {
            std::mem::transmute::<*mut std::ffi::c_void, unsafe extern "C" fn($($ty),*) -> u32>(address)($($value),*)
        }
    }};
}
pub(crate) use call;

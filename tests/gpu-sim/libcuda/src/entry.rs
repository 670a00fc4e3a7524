//! What every exported function has in common, and the table of all of them.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use crate::{
    context,
    error::{CudaError, Result},
};

/// Which default stream a call means by stream 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DefaultStream {
    /// The one that all threads of a context share.
    Legacy,
    /// The calling thread's own: the `_ptsz` and `_ptds` variants.
    PerThread,
}

/// An exported function.
#[derive(Debug)]
pub(crate) struct Export {
    pub(crate) name: &'static str,
    /// Address of the entry point.
    pub(crate) address: fn() -> usize,
}

/// Runs the body of an entry point: counts the call, keeps panics on this side, and turns the result into a CUresult.
///
/// `calls` is different for each entry point, which also keeps the linker from merging those with equal bodies.
pub(crate) fn enter(calls: &AtomicU64, body: impl FnOnce() -> Result) -> u32 {
    calls.fetch_add(1, Relaxed);
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => 0,
        Ok(Err(error)) => {
            // "Not yet" is an answer, not a failure.
            if error != CudaError::NotReady {
                context::count_error();
            }
            error.code()
        }
        Err(_) => CudaError::Unknown.code(),
    }
}

/// Defines entry points and a table of them.
///
/// `fn name(args) = body;` defines one. `fn name | name_ptsz[mode](args) = body;` defines two with one body, in which
/// `mode` says which default stream the call means. The body is an expression of type `Result` in an unsafe context,
/// because the arguments come from C: the caller keeps the contract of the driver API, by which each pointer is null or
/// points to what the call's documentation says.
macro_rules! exports {
    ($(
        $(#[$meta:meta])*
        fn $name:ident $(| $per_thread:ident [$mode:ident])? ($($arg:ident : $ty:ty),* $(,)?) = $body:expr;
    )*) => {
        $(exports! {
            @define $(#[$meta])* $name $(| $per_thread [$mode])? ($($arg: $ty),*) $body
        })*

        /// The entry points of this file.
        pub(crate) const TABLE: &[crate::entry::Export] = &[
            $(
                crate::entry::Export { name: stringify!($name), address: || $name as *const () as usize },
                $(crate::entry::Export {
                    name: stringify!($per_thread),
                    address: || $per_thread as *const () as usize,
                },)?
            )*
        ];
    };
    (@define $(#[$meta:meta])* $name:ident ($($arg:ident : $ty:ty),*) $body:expr) => {
        exports! { @one $(#[$meta])* $name () ($($arg: $ty),*) $body }
    };
    (@define $(#[$meta:meta])* $name:ident | $per_thread:ident [$mode:ident] ($($arg:ident : $ty:ty),*) $body:expr) => {
        exports! { @one $(#[$meta])* $name ($mode = Legacy) ($($arg: $ty),*) $body }
        exports! { @one $(#[$meta])* $per_thread ($mode = PerThread) ($($arg: $ty),*) $body }
    };
    (@one $(#[$meta:meta])* $name:ident ($($mode:ident = $value:ident)?) ($($arg:ident : $ty:ty),*) $body:expr) => {
        $(#[$meta])*
        #[unsafe(no_mangle)]
        #[inline(never)]
        unsafe extern "C" fn $name($($arg: $ty),*) -> u32 {
            static CALLS: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
            crate::entry::enter(&CALLS, || {
                $(let $mode = crate::entry::DefaultStream::$value;)?
                #[allow(unused_unsafe, reason = "not every body needs it")]
                // SAFETY: the caller keeps the contract of the driver API.
                unsafe { $body }
            })
        }
    };
}
pub(crate) use exports;

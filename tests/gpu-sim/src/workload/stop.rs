//! SIGTERM ends a workload as the end of its time does: the round is finished, memory is freed, the log is complete.

use std::{
    io,
    sync::atomic::{AtomicBool, Ordering},
};

/// Set by the signal handler.
static REQUESTED: AtomicBool = AtomicBool::new(false);

/// Takes SIGTERM as a request from now on.
pub(super) fn on_sigterm() -> io::Result<()> {
    let handler: extern "C" fn(libc::c_int) = request;
    // SAFETY: the handler only stores to an atomic, which is allowed in a signal handler.
    let previous = unsafe { libc::signal(libc::SIGTERM, handler as libc::sighandler_t) };
    if previous == libc::SIG_ERR { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Whether no new round is to begin.
pub(super) fn is_requested() -> bool {
    REQUESTED.load(Ordering::Relaxed)
}

extern "C" fn request(_signal: libc::c_int) {
    REQUESTED.store(true, Ordering::Relaxed);
}

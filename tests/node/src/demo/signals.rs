//! Ctrl-C and its relatives as requests.

use std::{
    io,
    sync::atomic::{AtomicU32, Ordering},
};

/// How often the demo was asked to end.
static REQUESTS: AtomicU32 = AtomicU32::new(0);

/// Takes SIGINT, SIGTERM and SIGHUP as requests from now on.
pub(super) fn catch() -> io::Result<()> {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        let handler: extern "C" fn(libc::c_int) = request;
        // SAFETY: the handler only changes an atomic, which is allowed in a signal handler.
        let previous = unsafe { libc::signal(signal, handler as libc::sighandler_t) };
        if previous == libc::SIG_ERR {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Whether the work is to end.
pub(super) fn end_is_requested() -> bool {
    REQUESTS.load(Ordering::Relaxed) > 0
}

/// Whether somebody has lost patience: everything is to end without waiting for what is still to be compared.
pub(super) fn haste_is_requested() -> bool {
    REQUESTS.load(Ordering::Relaxed) > 1
}

extern "C" fn request(_signal: libc::c_int) {
    REQUESTS.fetch_add(1, Ordering::Relaxed);
}

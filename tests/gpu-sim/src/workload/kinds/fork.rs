//! The workload that forks after cuInit.

use std::{io, path::PathBuf};

use super::Result;
use crate::{
    truth::CallClass,
    workload::{
        Options, WorkloadError,
        log::{Log, UNKNOWN},
        pace::Pace,
        session::{Process, Session},
    },
};

/// Works, forks a child in which every call must fail, and works on.
///
/// The child writes a log of its own next to the parent's, with `.child` at the end of its name.
pub(super) fn run(session: &Session<'_>, options: &Options) -> Result {
    session.alloc(10 << 20)?;
    let mut pace = Pace::new(options, 100, None);
    while pace.next() {
        session.launch(0)?;
    }
    session.synchronize()?;
    // SAFETY: the child only makes driver calls and writes its log, then ends without returning from here. The other
    // threads of the parent hold no lock of the allocator across a fork, which the C library provides for.
    match unsafe { libc::fork() } {
        -1 => return Err(WorkloadError::Fork(io::Error::last_os_error())),
        0 => {
            let status = i32::from(child(session).is_err());
            // SAFETY: ends the child without running what the parent registered for its own end.
            unsafe { libc::_exit(status) }
        }
        pid => wait(pid)?,
    }
    session.launch(0)?;
    session.synchronize()
}

/// Calls that a forked child may not make.
fn child(session: &Session<'_>) -> Result {
    let parent = session.process;
    let path = parent.log.path().map(|path| {
        let mut name = path.as_os_str().to_owned();
        name.push(".child");
        PathBuf::from(name)
    });
    let log = Log::new("fork-child".to_owned(), path);
    let api = &parent.api;
    let mut address = 0;
    // SAFETY: the calls take no pointers, or store to the variable.
    let results = unsafe {
        [
            (CallClass::Context, "cuInit", (api.init)(0)),
            (CallClass::Alloc, "cuMemAlloc", (api.mem_alloc)(&raw mut address, 4096)),
            (CallClass::Synchronize, "cuCtxSynchronize", (api.ctx_synchronize)()),
            (CallClass::Free, "cuMemFree", (api.mem_free)(4096)),
        ]
    };
    for (class, call, code) in results {
        if code == 0 {
            return Err(WorkloadError::UnexpectedSuccess { call, expected: "CUDA_ERROR_NOT_INITIALIZED" });
        }
        log.failed(UNKNOWN, class, &Process::error_name(api, code));
    }
    log.write(true)
}

fn wait(pid: i32) -> Result {
    let mut status = 0;
    // SAFETY: waits for the child that was just forked and stores its status to the variable.
    let result = unsafe { libc::waitpid(pid, &raw mut status, 0) };
    if result != pid {
        return Err(WorkloadError::Fork(io::Error::last_os_error()));
    }
    if status == 0 { Ok(()) } else { Err(WorkloadError::Child { status }) }
}

//! `gpu-sim serve` and `gpu-sim up`: the daemon.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use anyhow::Context as _;
use clap::Args;
use gpu_sim::{daemon::Daemon, machine::Machine};

use super::{Directory, create, say};

#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    directory: Directory,
}

#[derive(Debug, Args)]
pub(crate) struct UpOptions {
    #[command(flatten)]
    create: create::Options,
}

/// Set by the signal handler.
static STOP: AtomicBool = AtomicBool::new(false);

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    serve(Machine::open(&options.directory.path)?)
}

pub(crate) fn up(options: &UpOptions) -> anyhow::Result<()> {
    serve(create::make(&options.create)?)
}

fn serve(machine: Machine) -> anyhow::Result<()> {
    for signal in [libc::SIGTERM, libc::SIGINT] {
        let handler: extern "C" fn(libc::c_int) = request_stop;
        // SAFETY: the handler only stores to an atomic, which is allowed in a signal handler.
        let previous = unsafe { libc::signal(signal, handler as libc::sighandler_t) };
        anyhow::ensure!(previous != libc::SIG_ERR, "cannot handle signal {signal}");
    }
    // Waiting callers are to be woken at the time the model says, not up to 50 us later.
    // SAFETY: PR_SET_TIMERSLACK takes one integer and changes only the calling thread.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_u64) };
    let mut daemon = Daemon::start(Arc::new(machine))?;
    say("ready").context("cannot print `ready`")?;
    Ok(daemon.run(&STOP)?)
}

extern "C" fn request_stop(_signal: libc::c_int) {
    STOP.store(true, Ordering::Relaxed);
}

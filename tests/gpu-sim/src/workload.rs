//! Workloads: programs that use the driver API as real ones do, and log exactly what they did.

use std::{path::PathBuf, sync::Arc, time::Duration};

use clap::{Args, ValueEnum};

mod api;
mod calls;
mod error;
mod kinds;
mod log;
mod pace;
mod phase;
mod session;
mod stop;

pub use error::WorkloadError;

use api::{Api, Resolve};
use log::Log;
use phase::Phases;
use session::{Process, Session};

/// What to run, and how.
#[derive(Clone, Debug, Args)]
pub struct Options {
    /// The workload.
    #[arg(value_enum)]
    pub kind: Kind,
    /// Library to load.
    #[arg(long, default_value = "libcuda.so.1")]
    pub libcuda: PathBuf,
    /// How to find the driver's functions.
    #[arg(long, value_enum, default_value_t = Via::Dlsym)]
    pub via: Via,
    /// Use the variants for per-thread default streams (`_ptsz`, `_ptds`).
    #[arg(long)]
    pub per_thread_streams: bool,
    /// Threads that do the work. Thread i uses the (i modulo n)th of n devices.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub threads: u32,
    /// CUDA ordinal of a device; may be repeated. Without it device 0 is used.
    #[arg(long = "device")]
    pub devices: Vec<i32>,
    /// Rounds of the workload in each thread, where a duration does not end it first.
    #[arg(long)]
    pub iterations: Option<u64>,
    /// Time after which no new round begins, in milliseconds.
    #[arg(long)]
    pub duration_ms: Option<u64>,
    /// Rounds per second in each thread; as many as possible without it (infer: 40).
    #[arg(long)]
    pub rate: Option<f64>,
    /// Name of the kernel to launch, which says how long it runs: `sim_us_54`, `sim_heavy_tail`. The workload has a
    /// default.
    #[arg(long)]
    pub kernel: Option<String>,
    /// Bytes at which `leak` and `crash` stop allocating.
    #[arg(long, default_value_t = 1 << 30)]
    pub limit_bytes: u64,
    /// Seed of everything that is random.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Time before the library is loaded, in milliseconds.
    #[arg(long, default_value_t = 0)]
    pub start_delay_ms: u64,
    /// Time for which everything is kept after the work, in milliseconds.
    #[arg(long, default_value_t = 0)]
    pub hold_ms: u64,
    /// Wait until this file exists before the library is loaded.
    #[arg(long)]
    pub wait_before_load: Option<PathBuf>,
    /// Wait until this file exists before cuInit.
    #[arg(long)]
    pub wait_before_init: Option<PathBuf>,
    /// Wait until this file exists before the work, when contexts exist.
    #[arg(long)]
    pub wait_before_work: Option<PathBuf>,
    /// Wait until this file exists after the work, before anything is freed.
    #[arg(long)]
    pub wait_before_exit: Option<PathBuf>,
    /// File to which a line is appended for each phase reached: started, loaded, initialised, ready, worked, ended.
    #[arg(long)]
    pub phase_file: Option<PathBuf>,
    /// File for the truth log.
    #[arg(long)]
    pub log: Option<PathBuf>,
}

/// The workloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// Steps of 200 kernels with copies, a synchronisation and time on the host.
    Train,
    /// Requests of 20 kernels at random times.
    Infer,
    /// Launches without waiting, kernels of very different length.
    Saturate,
    /// Launches without waiting, kernels of 5 us.
    Flood,
    /// Allocates and frees memory of every kind.
    AllocLoop,
    /// Copies in every direction.
    Copy,
    /// Launches graphs, built and captured.
    Graph,
    /// Allocates without freeing.
    Leak,
    /// Forks after cuInit; the child finds the driver unusable.
    Fork,
    /// Aborts with memory held.
    Crash,
    /// Has a context and does nothing.
    Idle,
    /// Gets its contexts through private functions (cuGetExportTable).
    ExportTable,
    /// A bit of everything in random order, deliberate errors included.
    Mixed,
}

/// Ways to find the driver's functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Via {
    /// By their exported names.
    Dlsym,
    /// Through cuGetProcAddress_v2, as libcudart does.
    GetProcAddress,
}

/// Runs a workload; SIGTERM ends its work early, and everything that follows the work as usual.
pub fn run(options: &Options) -> Result<(), WorkloadError> {
    stop::on_sigterm().map_err(WorkloadError::Signal)?;
    let name = options.kind.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
    let log = Arc::new(Log::new(name, options.log.clone()));
    let mut phases = Phases::new(options.phase_file.as_deref(), Arc::clone(&log))?;
    phases.reach("started")?;
    std::thread::sleep(Duration::from_millis(options.start_delay_ms));
    phase::wait_for(options.wait_before_load.as_deref());
    let resolve = Resolve { via: options.via, per_thread: options.per_thread_streams };
    let api = Api::load(&options.libcuda, resolve)?;
    phases.reach("loaded")?;
    phase::wait_for(options.wait_before_init.as_deref());
    let process = Process::start(api, Arc::clone(&log))?;
    phases.reach("initialised")?;
    if options.kind == Kind::ExportTable {
        kinds::export_table::run(&process, options, &mut phases)?;
    } else {
        let sessions = process.open_sessions(options)?;
        phases.reach("ready")?;
        phase::wait_for(options.wait_before_work.as_deref());
        work(&sessions, options)?;
        phases.reach("worked")?;
        hold(options);
        if options.kind == Kind::Crash {
            log.write(true)?;
            std::process::abort();
        }
        if options.kind != Kind::Leak {
            process.clean_up(&sessions, kinds::ending(options.kind))?;
        }
    }
    log.write(true)?;
    phases.reach("ended")
}

/// Keeps everything as it is for as long as the options say.
fn hold(options: &Options) {
    std::thread::sleep(Duration::from_millis(options.hold_ms));
    phase::wait_for(options.wait_before_exit.as_deref());
}

/// Does the work in as many threads as there are sessions; the first one's on the calling thread.
fn work(sessions: &[Session<'_>], options: &Options) -> Result<(), WorkloadError> {
    let Some((first, others)) = sessions.split_first() else { return Ok(()) };
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            others.iter().map(|session| scope.spawn(|| kinds::run(session, options))).collect();
        let mut result = kinds::run(first, options);
        for thread in threads {
            result = result.and(thread.join().unwrap_or(Err(WorkloadError::ThreadPanicked)));
        }
        result
    })
}

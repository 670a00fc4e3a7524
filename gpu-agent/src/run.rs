//! `gpu-agent run`: puts the parts together, runs them, takes them apart.

pub mod client;
mod kernel;
mod otlp;
mod source;

use std::{
    net::SocketAddr,
    num::{NonZeroU64, NonZeroUsize},
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use anyhow::Context as _;
use tokio::{
    signal::unix::{SignalKind, signal},
    time::{MissedTickBehavior, interval},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{error, info, warn};

use self::source::AgentSource;
use crate::{
    collect::{
        Collector, Parts,
        processes::ProcessReader,
        store::{Restored, Store},
        view::Views,
    },
    config::{Config, Feature, Loaded},
    device::{self, nvml::NvmlBackend},
    export::{SnapshotSource, limit, otlp::Stats},
    http,
    ledger::Patience,
    report::tenants::Labels,
    tenant::{Host, Resolver, cgroup_id::Limits},
};

/// Longest time that tasks may take to end.
const DRAIN: Duration = Duration::from_secs(8);

/// Runs until a signal.
///
/// # Errors
/// Whatever prevents the agent from starting. What a node merely lacks is reported and done without.
pub async fn run(loaded: Loaded) -> anyhow::Result<()> {
    let config = loaded.config.clone();
    let start = SystemTime::now();
    let stop = CancellationToken::new();
    let tasks = TaskTracker::new();

    // A port in use is found before anything is loaded into the kernel.
    let server = http::Server::bind(http_config(config.listen)).await?;
    let devices = start_devices(&config, &tasks, &stop);
    let views = Arc::new(Views::default());
    let collector = collector(&config, devices.clone(), Arc::clone(&views))?;

    let stats = Arc::new(Stats::default());
    let labels = Labels { cgroup_path: config.metrics.cgroup_path_label };
    let limit = limit::Config {
        series_per_metric: usize::try_from(config.metrics.max_series_per_family)
            .ok()
            .and_then(NonZeroUsize::new)
            .unwrap_or(NonZeroUsize::MIN),
        ..limit::Config::default()
    };
    let source: Arc<dyn SnapshotSource> = Arc::new(AgentSource::new(
        Arc::clone(&views),
        devices,
        Arc::clone(&stats),
        limit,
        labels,
        config.interval,
        start,
    ));
    info!(address = %server.address(), "listening");
    announce(&config.state_dir, server.address());
    tasks.spawn(server.run(Arc::clone(&source), stop.clone()));
    if let Some(exporter) = otlp::exporter(&loaded, Arc::clone(&stats))? {
        tasks.spawn(exporter.run(source, stop.clone()));
    }

    if let Some(records) = collector.records() {
        tasks.spawn(records.run(stop.clone()));
    }
    let collecting = tasks.spawn(collect(collector, config.clone(), stop.clone()));
    tasks.close();
    wait_for_signal(collecting).await?;
    info!("stopping");
    stop.cancel();
    if tokio::time::timeout(DRAIN, tasks.wait()).await.is_err() {
        warn!("some tasks did not end in time");
    }
    Ok(())
}

fn http_config(listen: SocketAddr) -> http::Config {
    let default = http::Config::default();
    http::Config {
        listen,
        scrape_timeout_ms: NonZeroU64::new(8000).unwrap_or(default.scrape_timeout_ms),
        ..default
    }
}

/// Writes the bound address where `gpu-agent status` looks for it.
fn announce(state_dir: &std::path::Path, address: SocketAddr) {
    let path = address_file(state_dir);
    if let Err(error) = std::fs::write(&path, address.to_string()) {
        warn!(path = %path.display(), %error, "`gpu-agent status` will need `--listen`: the address cannot be written");
    }
}

/// Files that the agent writes into its state directory.
pub const STATE_FILES: [&str; 6] =
    ["address", "ledger.json", "ledger.json.unreadable", "ledger.tmp", "maps.bin", "maps.tmp"];

/// Where a running agent's address stands.
pub fn address_file(state_dir: &std::path::Path) -> PathBuf {
    state_dir.join("address")
}

fn start_devices(config: &Config, tasks: &TaskTracker, stop: &CancellationToken) -> Option<device::Handle> {
    if config.disable.contains(&Feature::Nvml) {
        info!("NVML is disabled by configuration");
        return None;
    }
    let library = config.nvml.library.clone().map(PathBuf::into_os_string);
    let device_config = device::DeviceConfig {
        reading_interval: config.nvml.interval,
        call_deadline: config.nvml.deadline,
        ..device::DeviceConfig::default()
    };
    let (handle, worker) = device::spawn(Arc::new(NvmlBackend::new(library)), device_config, stop.clone());
    tasks.spawn(worker);
    Some(handle)
}

fn collector(
    config: &Config,
    devices: Option<device::Handle>,
    views: Arc<Views>,
) -> anyhow::Result<Collector> {
    let now = Instant::now();
    let host = Host::open(config.cgroup_root.as_deref(), &config.proc_root)?;
    let resolver = Resolver::new(host, config.tenants.clone(), Limits::default());
    let processes = ProcessReader::new(config.proc_root.clone());
    let store = match Store::open(&config.state_dir, &config.proc_root) {
        Ok(store) => Some(store),
        Err(error) => {
            warn!(%error, "totals of ended processes will not survive a restart");
            None
        }
    };
    let Restored { saved, mut blind_ns, last_alive } = store.as_ref().map(Store::restore).unwrap_or_default();

    let mut kernel = match kernel::load(config) {
        Ok(kernel) => Some(kernel),
        Err(reason) => {
            warn!(reason = format!("{reason:#}"), "running without kernel probes: NVML only");
            None
        }
    };
    let mut late = Vec::new();
    if let Some(kernel) = &mut kernel {
        if !kernel.adopted()
            && let Some(last_alive) = last_alive
        {
            let gap = SystemTime::now().duration_since(last_alive).unwrap_or_default();
            blind_ns = blind_ns.saturating_add(u64::try_from(gap.as_nanos()).unwrap_or(u64::MAX));
        }
        late = kernel.start(store.as_ref(), &processes);
    }
    let parts = Parts {
        kernel,
        devices,
        resolver,
        processes,
        store,
        saved,
        blind_ns,
        patience: Patience { ended_tenant: config.metrics.ended_retention, ..Patience::default() },
    };
    let mut collector = Collector::new(parts, views, now);
    collector.adopt_processes(now).context("cannot take over the processes of an earlier agent")?;
    collector.take_late(late, now);
    Ok(collector)
}

/// The collecting task.
async fn collect(mut collector: Collector, config: Config, stop: CancellationToken) {
    let mut steps = interval(config.interval);
    steps.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut rescans = interval(config.probe.rescan_interval);
    rescans.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut failures: u64 = 0;
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            _ = steps.tick() => match collector.step(Instant::now()) {
                Ok(()) => failures = 0,
                Err(error) => {
                    failures += 1;
                    if failures.is_power_of_two() {
                        error!(error = &error as &dyn std::error::Error, failures, "the kernel's maps cannot be read");
                    }
                }
            },
            _ = rescans.tick() => collector.rescan(Instant::now()),
        }
    }
    collector.stop(Instant::now());
}

/// Waits for SIGTERM or SIGINT; a collecting task that ends by itself is an error.
async fn wait_for_signal(collecting: tokio::task::JoinHandle<()>) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot wait for SIGINT")?;
    tokio::select! {
        _ = terminate.recv() => Ok(()),
        _ = interrupt.recv() => Ok(()),
        ended = collecting => match ended {
            Ok(()) => anyhow::bail!("collecting has ended"),
            Err(error) => Err(error).context("collecting has failed"),
        },
    }
}

//! The typed settings and their defaults.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

use crate::tenant::rule::TenantRule;

/// The agent's whole configuration, validated.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// How often counters are read, the ledger advances and metrics are refreshed.
    pub interval: Duration,
    /// Address of `/metrics`, `/healthz`, `/readyz` and `/v1/status`; port 0 lets the kernel choose.
    pub listen: SocketAddr,
    /// The cgroup v2 mount; `None` means the one that `/proc/self/mountinfo` names.
    pub cgroup_root: Option<PathBuf>,
    /// Where the host's procfs is mounted.
    pub proc_root: PathBuf,
    /// Where bpffs is mounted; maps and links are pinned below it.
    pub bpffs: PathBuf,
    /// Directory for what the agent keeps between runs.
    pub state_dir: PathBuf,
    /// NVML.
    pub nvml: Nvml,
    /// Kernel probes.
    pub probe: Probe,
    /// Features that the agent must not use even where the node has them.
    pub disable: BTreeSet<Feature>,
    /// OTLP export.
    pub otlp: Otlp,
    /// What metrics carry.
    pub metrics: Metrics,
    /// The agent's own log.
    pub log: Log,
    /// Named tenants, in the order in which they are tried.
    pub tenants: Vec<TenantRule>,
}

/// How NVML is found and called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nvml {
    /// The library's path, or a file name for the dynamic loader; `None` tries the usual names.
    pub library: Option<PathBuf>,
    /// A call that takes longer is abandoned and its device reported as not answering.
    pub deadline: Duration,
    /// How often devices and their process lists are sampled.
    pub interval: Duration,
}

/// What is probed and how large its buffers are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Copies of libcuda to probe before any process has mapped them.
    pub library_paths: Vec<PathBuf>,
    /// How often the maps of all processes are searched for copies of libcuda.
    pub rescan_interval: Duration,
    /// Entries of the BPF maps.
    pub maps: MapSizes,
    /// Size of each record ring in bytes, a power of two.
    pub ring_bytes: u64,
}

/// Entries of each BPF map; `None` sizes it for the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MapSizes {
    /// Threads with a known current context or an open call.
    pub threads: Option<u32>,
    /// Processes that made a GPU call.
    pub processes: Option<u32>,
    /// CUDA contexts.
    pub contexts: Option<u32>,
    /// Allocations that are alive.
    pub allocations: Option<u32>,
    /// Rows of per-CPU counters, one for each cgroup, process and device ordinal.
    pub counters: Option<u32>,
    /// Rows of error counters, one for each counter row and CUDA error.
    pub errors: Option<u32>,
}

/// A feature that can be switched off, so that its fallback is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Feature {
    /// Reading maps with the kernel's batch operations.
    BatchRead,
    /// Every kernel probe.
    Bpf,
    /// Every NVML call.
    Nvml,
    /// Pinning maps and links under bpffs.
    Pinning,
    /// Tracepoints that tell of processes that end and of threads that change their cgroup.
    Tracepoints,
    /// One link over all uprobes of a library.
    UprobeMulti,
}

/// OTLP export; off while `endpoint` is absent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Otlp {
    /// `http://host:port` or `https://host:port`, with a path for HTTP collectors that need one.
    pub endpoint: Option<String>,
    /// The protocol that the endpoint speaks.
    pub protocol: OtlpProtocol,
    /// Sent with every request; values may be secrets and are never printed.
    pub headers: BTreeMap<String, String>,
    /// TLS material.
    pub tls: OtlpTls,
    /// Compresses requests.
    pub gzip: bool,
    /// A request that takes longer is given up and retried.
    pub timeout: Duration,
    /// How often metrics are pushed.
    pub interval: Duration,
    /// Bytes of requests kept while the collector is away; the oldest is dropped, and counted, beyond that.
    pub queue_bytes: u32,
}

/// TLS material for OTLP. There is deliberately no way to skip verification.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OtlpTls {
    /// PEM file with the authorities to trust in place of the system's.
    pub ca_file: Option<PathBuf>,
    /// PEM file with the client's certificate chain.
    pub cert_file: Option<PathBuf>,
    /// PEM file with the client's private key.
    pub key_file: Option<PathBuf>,
}

/// OTLP transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtlpProtocol {
    /// gRPC over HTTP/2.
    Grpc,
    /// Protobuf over HTTP/1.1.
    Http,
}

/// What metrics carry, and how many series there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metrics {
    /// Series of one family beyond this number are folded into one and counted.
    pub max_series_per_family: u32,
    /// Adds the cgroup path to tenant metrics.
    pub cgroup_path_label: bool,
    /// How long the series of an ended tenant stay after its last activity.
    pub ended_retention: Duration,
}

/// The agent's own log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Log {
    /// Least severe level that is written.
    pub level: LogLevel,
    /// Form of a line.
    pub format: LogFormat,
}

/// Log severity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    /// A human must act.
    Error,
    /// Degraded but working.
    Warn,
    /// A state changed.
    Info,
    /// For whoever looks for a fault.
    Debug,
    /// Every event.
    Trace,
}

/// Form of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(1),
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 9464)),
            cgroup_root: None,
            proc_root: PathBuf::from("/proc"),
            bpffs: PathBuf::from("/sys/fs/bpf"),
            state_dir: PathBuf::from("/run/gpu-agent"),
            nvml: Nvml { library: None, deadline: Duration::from_secs(2), interval: Duration::from_secs(1) },
            probe: Probe {
                library_paths: Vec::new(),
                rescan_interval: Duration::from_secs(1),
                maps: MapSizes::default(),
                ring_bytes: 256 << 10,
            },
            disable: BTreeSet::new(),
            otlp: Otlp {
                endpoint: None,
                protocol: OtlpProtocol::Grpc,
                headers: BTreeMap::new(),
                tls: OtlpTls::default(),
                gzip: true,
                timeout: Duration::from_secs(10),
                interval: Duration::from_secs(10),
                queue_bytes: 8 << 20,
            },
            metrics: Metrics {
                max_series_per_family: 10_000,
                cgroup_path_label: false,
                ended_retention: Duration::from_secs(60),
            },
            log: Log { level: LogLevel::Info, format: LogFormat::Text },
            tenants: Vec::new(),
        }
    }
}

//! Every key of the configuration, described once.

use std::time::Duration;

use super::{
    kind::{
        AbsolutePath, AutoCount, Bytes, Choice, Choices, Count, Endpoint, Headers, Kind, Length, LibraryPath,
        Listen, Many, Maybe, Switch,
    },
    settings::{Config, Feature, LogFormat, LogLevel, OtlpProtocol},
    tenants::Tenants,
};

const FEATURES: &[(&str, Feature)] = &[
    ("batch-read", Feature::BatchRead),
    ("bpf", Feature::Bpf),
    ("nvml", Feature::Nvml),
    ("pinning", Feature::Pinning),
    ("tracepoints", Feature::Tracepoints),
    ("uprobe-multi", Feature::UprobeMulti),
];
const PROTOCOLS: &[(&str, OtlpProtocol)] = &[("grpc", OtlpProtocol::Grpc), ("http", OtlpProtocol::Http)];
const LEVELS: &[(&str, LogLevel)] = &[
    ("error", LogLevel::Error),
    ("warn", LogLevel::Warn),
    ("info", LogLevel::Info),
    ("debug", LogLevel::Debug),
    ("trace", LogLevel::Trace),
];
const FORMATS: &[(&str, LogFormat)] = &[("text", LogFormat::Text), ("json", LogFormat::Json)];

/// Looks at each key in turn.
pub(super) trait Visitor {
    fn key<K: Kind>(&mut self, name: &'static str, help: &'static str, kind: K, field: &mut K::Target);
}

/// What a key is called, everywhere that it can be set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyInfo {
    /// Dotted name in the TOML file.
    pub name: &'static str,
    /// Command-line flag, with its dashes.
    pub flag: String,
    /// Environment variable.
    pub variable: String,
    /// What stands between several values in the variable; the flag may also be repeated.
    pub separator: Option<char>,
    /// What it does, with its unit and default effect.
    pub help: &'static str,
    /// What it accepts; completes "expected …".
    pub expected: String,
    /// The default as TOML; `None` when it is absent by default.
    pub default: Option<String>,
}

/// The keys, in the order in which they are documented.
pub fn keys() -> Vec<KeyInfo> {
    struct Describe(Vec<KeyInfo>);
    impl Visitor for Describe {
        fn key<K: Kind>(&mut self, name: &'static str, help: &'static str, kind: K, field: &mut K::Target) {
            self.0.push(KeyInfo {
                name,
                flag: flag_name(name),
                variable: variable_name(name),
                separator: kind.separator(),
                help,
                expected: kind.expected(),
                default: kind.render(field),
            });
        }
    }
    let mut describe = Describe(Vec::new());
    visit(&mut Config::default(), &mut describe);
    describe.0
}

/// The flag that sets a key.
pub(super) fn flag_name(key: &str) -> String {
    format!("--{}", key.replace(['.', '_'], "-"))
}

/// The environment variable that sets a key.
pub(super) fn variable_name(key: &str) -> String {
    format!("GPU_AGENT_{}", key.replace('.', "_").to_ascii_uppercase())
}

/// Shows every key to a visitor.
pub(super) fn visit(config: &mut Config, visitor: &mut impl Visitor) {
    visit_node(config, visitor);
    visit_devices_and_probes(config, visitor);
    visit_output(config, visitor);
    visitor.key(
        "tenant",
        "Names the calls of some cgroups or processes; tried in order, the first that matches wins, and equal \
         names add up.",
        Tenants,
        &mut config.tenants,
    );
}

fn visit_node(config: &mut Config, visitor: &mut impl Visitor) {
    visitor.key(
        "interval",
        "How often counters are read and metrics refreshed.",
        between(Duration::from_millis(100), Duration::from_secs(60)),
        &mut config.interval,
    );
    visitor.key(
        "listen",
        "Address of /metrics, /healthz, /readyz and /v1/status; port 0 lets the kernel choose.",
        Listen,
        &mut config.listen,
    );
    visitor.key(
        "cgroup_root",
        "The cgroup v2 mount; absent means the one that /proc/self/mountinfo names.",
        Maybe(AbsolutePath),
        &mut config.cgroup_root,
    );
    visitor.key("proc_root", "Where the host's procfs is mounted.", AbsolutePath, &mut config.proc_root);
    visitor.key(
        "bpffs",
        "Where bpffs is mounted; maps and links are pinned below it.",
        AbsolutePath,
        &mut config.bpffs,
    );
    visitor.key(
        "state_dir",
        "Directory for what the agent keeps between runs.",
        AbsolutePath,
        &mut config.state_dir,
    );
    visitor.key(
        "disable",
        "Features not to use even where the node has them; each has a fallback that `check` describes.",
        Choices(Choice(FEATURES)),
        &mut config.disable,
    );
}

fn visit_devices_and_probes(config: &mut Config, visitor: &mut impl Visitor) {
    visitor.key(
        "nvml.library",
        "The NVML library: a path, or a file name for the dynamic loader; absent tries the usual names.",
        Maybe(LibraryPath),
        &mut config.nvml.library,
    );
    visitor.key(
        "nvml.deadline",
        "An NVML call that takes longer is abandoned and its device reported as not answering.",
        between(Duration::from_millis(10), Duration::from_secs(60)),
        &mut config.nvml.deadline,
    );
    visitor.key(
        "nvml.interval",
        "How often NVML is sampled.",
        between(Duration::from_millis(100), Duration::from_secs(600)),
        &mut config.nvml.interval,
    );
    visitor.key(
        "probe.library_paths",
        "Copies of libcuda to probe before any process has mapped them.",
        Many(AbsolutePath),
        &mut config.probe.library_paths,
    );
    visitor.key(
        "probe.rescan_interval",
        "How often the maps of all processes are searched for copies of libcuda.",
        between(Duration::from_millis(100), Duration::from_secs(600)),
        &mut config.probe.rescan_interval,
    );
    let maps = &mut config.probe.maps;
    let entries = || AutoCount { min: 64, max: 1 << 24 };
    visitor.key("probe.maps.threads", "Threads that are tracked at once.", entries(), &mut maps.threads);
    visitor.key(
        "probe.maps.processes",
        "Processes that are tracked at once.",
        entries(),
        &mut maps.processes,
    );
    visitor.key(
        "probe.maps.contexts",
        "CUDA contexts that are tracked at once.",
        entries(),
        &mut maps.contexts,
    );
    visitor.key(
        "probe.maps.allocations",
        "Live allocations that are tracked at once.",
        entries(),
        &mut maps.allocations,
    );
    visitor.key(
        "probe.maps.counters",
        "Rows of counters: one for each cgroup, process and device ordinal.",
        entries(),
        &mut maps.counters,
    );
    visitor.key(
        "probe.maps.errors",
        "Rows of error counters: one for each row of counters and CUDA error.",
        entries(),
        &mut maps.errors,
    );
    visitor.key(
        "probe.ring_bytes",
        "Size of each of the two record rings; a larger one survives longer bursts of starting and ending processes.",
        Bytes { min: 4 << 10, max: 1 << 30 },
        &mut config.probe.ring_bytes,
    );
}

fn visit_output(config: &mut Config, visitor: &mut impl Visitor) {
    let otlp = &mut config.otlp;
    visitor.key(
        "otlp.endpoint",
        "Collector to push to; absent means no push.",
        Maybe(Endpoint),
        &mut otlp.endpoint,
    );
    visitor.key("otlp.protocol", "Protocol of the collector.", Choice(PROTOCOLS), &mut otlp.protocol);
    visitor.key(
        "otlp.headers",
        "Headers sent with every request; their values are never printed.",
        Headers,
        &mut otlp.headers,
    );
    visitor.key(
        "otlp.tls.ca_file",
        "PEM file with the authorities to trust in place of the system's.",
        Maybe(AbsolutePath),
        &mut otlp.tls.ca_file,
    );
    visitor.key(
        "otlp.tls.cert_file",
        "PEM file with the client certificate chain.",
        Maybe(AbsolutePath),
        &mut otlp.tls.cert_file,
    );
    visitor.key(
        "otlp.tls.key_file",
        "PEM file with the client's private key.",
        Maybe(AbsolutePath),
        &mut otlp.tls.key_file,
    );
    visitor.key("otlp.gzip", "Compresses requests.", Switch, &mut otlp.gzip);
    visitor.key(
        "otlp.timeout",
        "A request that takes longer is given up and retried.",
        between(Duration::from_millis(100), Duration::from_secs(120)),
        &mut otlp.timeout,
    );
    visitor.key(
        "otlp.interval",
        "How often metrics are pushed; not less than `interval`.",
        between(Duration::from_millis(100), Duration::from_secs(3600)),
        &mut otlp.interval,
    );
    visitor.key(
        "otlp.queue_bytes",
        "Bytes of requests kept while the collector is away; beyond that the oldest is dropped and counted.",
        Count { min: 65_536, max: 1 << 30 },
        &mut otlp.queue_bytes,
    );
    visitor.key(
        "metrics.max_series_per_family",
        "Series of one metric beyond this number are folded into one and counted.",
        Count { min: 16, max: 10_000_000 },
        &mut config.metrics.max_series_per_family,
    );
    visitor.key(
        "metrics.cgroup_path_label",
        "Adds the cgroup path to tenant metrics.",
        Switch,
        &mut config.metrics.cgroup_path_label,
    );
    visitor.key(
        "metrics.ended_retention",
        "How long the series of an ended tenant stay after its last activity; longer than the interval of scrapes \
         and pushes, so that its last values are read.",
        between(Duration::from_secs(1), Duration::from_secs(24 * 3600)),
        &mut config.metrics.ended_retention,
    );
    visitor.key("log.level", "Least severe level that is logged.", Choice(LEVELS), &mut config.log.level);
    visitor.key("log.format", "Form of a log line.", Choice(FORMATS), &mut config.log.format);
}

fn between(min: Duration, max: Duration) -> Length {
    Length { min, max }
}

//! An OpenTelemetry collector that prints what it receives.

use std::{fs, net::SocketAddr, path::Path, process::Command};

use anyhow::{Context as _, Result, ensure};
use tempfile::TempDir;

use super::{free_address, output_file};
use crate::{
    metrics::{Labels, Metrics},
    process::Process,
    wait,
};

/// A running collector.
#[derive(Debug)]
pub struct Rotel {
    grpc: SocketAddr,
    http: SocketAddr,
    _process: Process,
    folder: TempDir,
}

impl Rotel {
    /// Starts a collector and waits until both of its receivers take connections.
    ///
    /// # Errors
    /// When it does not come up.
    pub fn start(program: &Path) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("rotel-").tempdir()?;
        let (grpc, http) = (free_address()?, free_address()?);
        let mut command = Command::new(program);
        command
            .arg("start")
            .arg("--pid-file")
            .arg(folder.path().join("pid"))
            .args(["--otlp-grpc-endpoint", &grpc.to_string(), "--otlp-http-endpoint", &http.to_string()])
            .args(["--exporter", "blackhole", "--debug-log", "metrics", "--debug-log-verbosity", "detailed"])
            .stdout(output_file(folder.path(), "stdout")?)
            .stderr(output_file(folder.path(), "stderr")?);
        let mut process = Process::start("rotel", command, None)?;
        wait::until("receivers of rotel", || {
            let errors = || fs::read_to_string(folder.path().join("stderr")).unwrap_or_default();
            ensure!(!process.has_ended()?, "rotel has ended: {}", errors());
            Ok([grpc, http].iter().all(|address| std::net::TcpStream::connect(address).is_ok()).then_some(()))
        })?;
        Ok(Self { grpc, http, _process: process, folder })
    }

    /// What the agent's `otlp.endpoint` has to be for gRPC.
    pub fn grpc_endpoint(&self) -> String {
        format!("http://{}", self.grpc)
    }

    /// What the agent's `otlp.endpoint` has to be for HTTP.
    pub fn http_endpoint(&self) -> String {
        format!("http://{}", self.http)
    }

    /// Every push that has been printed completely, the oldest first, under the names that Prometheus has for the
    /// metrics.
    ///
    /// # Errors
    /// When something is printed that is not understood.
    pub fn pushes(&self) -> Result<Vec<Metrics>> {
        let text =
            fs::read_to_string(self.folder.path().join("stdout")).context("rotel has printed nothing")?;
        // Whether the last one is complete shows only when another one follows.
        let mut pushes: Vec<&str> = text.split("ResourceMetrics #0\n").skip(1).collect();
        pushes.pop();
        pushes.into_iter().map(push).collect()
    }
}

/// A metric as far as it has been printed.
#[derive(Default)]
struct Metric {
    name: String,
    unit: String,
    kind: String,
    monotonic: bool,
}

impl Metric {
    /// The name that Prometheus gives an OTLP metric.
    fn prometheus_name(&self) -> Result<String> {
        let Self { name, unit, kind, monotonic } = self;
        let unit = match (unit.as_str(), kind.as_str()) {
            ("By", _) => "_bytes",
            ("By/s", _) => "_bytes_per_second",
            ("s", _) => "_seconds",
            ("J", _) => "_joules",
            ("W", _) => "_watts",
            ("Hz", _) => "_hertz",
            ("Cel", _) => "_celsius",
            ("1", "Gauge") => "_ratio",
            ("" | "1", _) => "",
            (annotation, _) if annotation.starts_with('{') => "",
            (other, _) => {
                anyhow::bail!("`{name}` has unit `{other}`, whose name in Prometheus is not known here")
            }
        };
        let total = if *monotonic { "_total" } else { "" };
        Ok(format!("{}{unit}{total}", name.replace('.', "_")))
    }
}

/// Reads one push of the detailed debug log.
fn push(text: &str) -> Result<Metrics> {
    let mut samples = Vec::new();
    let (mut metric, mut labels) = (Metric::default(), Labels::new());
    for line in text.lines() {
        if line.starts_with("Metric #") {
            metric = Metric::default();
        } else if line.starts_with("NumberDataPoints #") || line.starts_with("HistogramDataPoints #") {
            labels.clear();
        } else if let Some((key, value)) =
            line.strip_prefix("     -> ").and_then(|rest| rest.split_once(": "))
        {
            match (key, value.strip_prefix("Str(").and_then(|value| value.strip_suffix(')'))) {
                ("Name", None) => value.clone_into(&mut metric.name),
                ("Unit", None) => value.clone_into(&mut metric.unit),
                ("DataType", None) => value.clone_into(&mut metric.kind),
                ("IsMonotonic", None) => metric.monotonic = value == "true",
                (key, Some(value)) => drop(labels.insert(key.replace('.', "_"), value.to_owned())),
                _ => {}
            }
        } else if let Some((suffix, value)) = [("", "Value: "), ("_count", "Count: "), ("_sum", "Sum: ")]
            .into_iter()
            .find_map(|(suffix, prefix)| Some((suffix, line.strip_prefix(prefix)?)))
        {
            let value = value.parse().with_context(|| format!("not a number: `{line}`"))?;
            samples.push((metric.prometheus_name()? + suffix, labels.clone(), value));
        }
    }
    Ok(samples.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PUSH: &str = "\
Resource attributes:
     -> service.name: Str(agent)
Metric #0
Descriptor:
     -> Name: a.bytes.sent
     -> Unit: By
     -> DataType: Sum
     -> IsMonotonic: true
NumberDataPoints #0
Data point attributes:
     -> x.y: Str(1)
Timestamp: 5
Value: 7
NumberDataPoints #1
Value: 8
Metric #1
Descriptor:
     -> Name: b
     -> Unit: s
     -> DataType: Histogram
HistogramDataPoints #0
Data point attributes:
     -> x.y: Str(2)
Count: 3
Sum: 0.5
";

    #[test]
    fn pushes_are_read_under_the_names_of_prometheus() {
        let metrics = push(PUSH).unwrap();
        assert_eq!(metrics.sum("a_bytes_sent_bytes_total", &[("x_y", "1")]), Some(7.0));
        assert_eq!(metrics.sum("a_bytes_sent_bytes_total", &[]), Some(15.0));
        assert_eq!(metrics.sum("b_seconds_count", &[("x_y", "2")]), Some(3.0));
        assert_eq!(metrics.sum("b_seconds_sum", &[]), Some(0.5));
        assert!(!metrics.mention("service_name", "agent"));
        assert!(push("Metric #0\n     -> Unit: parsec\nNumberDataPoints #0\nValue: 1\n").is_err());
    }
}

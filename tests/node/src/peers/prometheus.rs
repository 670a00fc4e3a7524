//! A Prometheus server of a test's own.

use std::{fs, net::SocketAddr, path::Path, process::Command};

use anyhow::{Context as _, Result, ensure};
use rustix::process::Signal;
use serde::Deserialize;
use tempfile::TempDir;

use super::{free_address, output_file};
use crate::{
    http,
    metrics::{Labels, Metrics},
    process::Process,
    wait,
};

/// A running server that takes remote writes and scrapes what [`Prometheus::scrape`] names.
#[derive(Debug)]
pub struct Prometheus {
    process: Process,
    address: SocketAddr,
    folder: TempDir,
}

impl Prometheus {
    /// Starts a server with nothing to scrape and waits until it is ready.
    ///
    /// # Errors
    /// When it does not come up.
    pub fn start(program: &Path) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("prometheus-").tempdir()?;
        let address = free_address()?;
        let configuration = folder.path().join("prometheus.yml");
        fs::write(&configuration, "scrape_configs: []\n")?;
        let mut command = Command::new(program);
        command
            .arg(format!("--config.file={}", configuration.display()))
            .arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()))
            .arg(format!("--web.listen-address={address}"))
            .arg("--web.enable-remote-write-receiver")
            .stdout(output_file(folder.path(), "stdout")?)
            .stderr(output_file(folder.path(), "stderr")?);
        let mut process = Process::start("prometheus", command, None)?;
        wait::until("ready Prometheus", || {
            ensure!(!process.has_ended()?, "Prometheus has ended: {}", printed(folder.path()));
            Ok(http::get(address, "/-/ready").ok())
        })?;
        Ok(Self { process, address, folder })
    }

    /// Lets it scrape one target each second as job `job`.
    ///
    /// # Errors
    /// When it cannot be told so.
    pub fn scrape(&self, job: &str, target: SocketAddr) -> Result<()> {
        let text = format!(
            "global: {{ scrape_interval: 1s, scrape_timeout: 1s }}\n\
             scrape_configs: [{{ job_name: {job}, static_configs: [{{ targets: ['{target}'] }}] }}]\n"
        );
        fs::write(self.folder.path().join("prometheus.yml"), text)?;
        self.process.signal(Signal::HUP)
    }

    /// Where it takes remote writes.
    pub fn remote_write_url(&self) -> String {
        format!("http://{}/api/v1/write", self.address)
    }

    /// The series that a PromQL expression gives now; a series that has ended gives nothing.
    ///
    /// # Errors
    /// When the expression is refused or the result is not a vector of numbers.
    pub fn query(&self, expression: &str) -> Result<Metrics> {
        let path = format!("/api/v1/query?query={}", percent_encoded(expression));
        let answer = http::get(self.address, &path)?;
        vector(&answer).with_context(|| format!("`{expression}` gives `{answer}`"))
    }
}

/// What the server logged, for messages.
fn printed(folder: &Path) -> String {
    fs::read_to_string(folder.join("stderr")).unwrap_or_default()
}

#[derive(Deserialize)]
struct Answer {
    data: Data,
}

#[derive(Deserialize)]
#[serde(tag = "resultType", content = "result", rename_all = "lowercase")]
enum Data {
    Vector(Vec<Sample>),
}

#[derive(Deserialize)]
struct Sample {
    metric: Labels,
    /// Time and value, as text because JSON has no infinities.
    value: (f64, String),
}

fn vector(answer: &str) -> Result<Metrics> {
    let Answer { data: Data::Vector(samples) } = serde_json::from_str(answer)?;
    samples
        .into_iter()
        .map(|Sample { mut metric, value: (_, value) }| {
            let name = metric.remove("__name__").unwrap_or_default();
            let value = value.parse().with_context(|| format!("`{name}` is not a number: `{value}`"))?;
            Ok((name, metric, value))
        })
        .collect()
}

fn percent_encoded(text: &str) -> String {
    let encoded = |byte: u8| match byte {
        byte if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    text.bytes().map(encoded).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_are_read_and_other_answers_refused() {
        let answer = r#"{"status":"success","data":{"resultType":"vector","result":[
            {"metric":{"__name__":"a_total","x":"1"},"value":[1.5,"7"]},{"metric":{},"value":[1.5,"+Inf"]}]}}"#;
        let metrics = vector(answer).unwrap();
        assert_eq!(metrics.sum("a_total", &[("x", "1")]), Some(7.0));
        assert_eq!(metrics.sum("", &[]), Some(f64::INFINITY));
        assert!(vector(r#"{"status":"success","data":{"resultType":"scalar","result":[1,"2"]}}"#).is_err());
        assert!(vector(r#"{"status":"error"}"#).is_err());
    }

    #[test]
    fn everything_but_letters_and_digits_is_encoded() {
        assert_eq!(percent_encoded("up{a=~\".+\"}"), "up%7Ba%3D%7E%22%2E%2B%22%7D");
    }
}

//! A relay from OTLP/HTTP to Prometheus' remote-write protocol.
//!
//! Prometheus 3.x takes OTLP itself, but builds without that receiver are common: distributions that do not package
//! the OpenTelemetry collector's libraries leave it out. The relay (vmagent) is a reading of OTLP that shares no code
//! with the agent, names metrics by the rules that Prometheus has for OTLP, and hands them to a real Prometheus.

use std::{net::SocketAddr, path::Path, process::Command};

use anyhow::{Result, ensure};
use tempfile::TempDir;

use super::{free_address, output_file, prometheus::Prometheus};
use crate::{http, process::Process, wait};

/// A running relay.
#[derive(Debug)]
pub struct OtlpRelay {
    address: SocketAddr,
    _process: Process,
    _folder: TempDir,
}

impl OtlpRelay {
    /// Starts a relay to a Prometheus and waits until it takes requests.
    ///
    /// # Errors
    /// When it does not come up.
    pub fn start(program: &Path, prometheus: &Prometheus) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("otlp-relay-").tempdir()?;
        let address = free_address()?;
        let mut command = Command::new(program);
        command
            .arg(format!("-httpListenAddr={address}"))
            .arg(format!("-remoteWrite.url={}", prometheus.remote_write_url()))
            .arg(format!("-remoteWrite.tmpDataPath={}", folder.path().join("queue").display()))
            .args(["-remoteWrite.forcePromProto", "-opentelemetry.usePrometheusNaming"])
            .stdout(output_file(folder.path(), "stdout")?)
            .stderr(output_file(folder.path(), "stderr")?);
        let mut process = Process::start("vmagent", command, None)?;
        wait::until("ready OTLP relay", || {
            let errors = || std::fs::read_to_string(folder.path().join("stderr")).unwrap_or_default();
            ensure!(!process.has_ended()?, "the OTLP relay has ended: {}", errors());
            Ok(http::get(address, "/health").ok())
        })?;
        Ok(Self { address, _process: process, _folder: folder })
    }

    /// What the agent's `otlp.endpoint` has to be.
    pub fn endpoint(&self) -> String {
        format!("http://{}/opentelemetry/v1/metrics", self.address)
    }
}

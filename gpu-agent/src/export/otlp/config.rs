//! Configuration of the push, and the settings that it amounts to.

use std::collections::BTreeMap;
use std::fmt;
use std::num::{NonZeroU64, NonZeroUsize};
use std::path::PathBuf;
use std::time::Duration;

use http::uri::{PathAndQuery, Scheme};
use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use serde::Deserialize;

use super::environment::{self, EnvironmentError};

/// How metrics are pushed by OTLP.
///
/// Where a key is absent, the standard `OTEL_*` environment variable decides if it is set, then the default.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// `http://host:port` or `https://host:port` of the receiver; with `http/protobuf` the path may be given and is
    /// otherwise `/v1/metrics`. Default: none, nothing is pushed.
    pub endpoint: Option<String>,
    /// `grpc` or `http/protobuf`. Default: `grpc`.
    pub protocol: Option<Protocol>,
    /// Milliseconds from one push to the next. Default: 10 000.
    pub interval_ms: Option<NonZeroU64>,
    /// Milliseconds after which one attempt is given up. Default: 10 000.
    pub timeout_ms: Option<NonZeroU64>,
    /// Headers (gRPC metadata) of each request, such as `authorization`. Values never appear in logs. Default: none.
    pub headers: Headers,
    /// `gzip` or `none`. Default: `gzip`.
    pub compression: Option<Compression>,
    /// Resource attributes beside, or instead of, those that the agent finds. Default: none.
    pub resource_attributes: BTreeMap<String, String>,
    /// Bytes of requests, not compressed, that may wait while the receiver is away; beyond it the oldest are dropped
    /// and counted. Default: 8 388 608.
    pub queue_bytes: NonZeroUsize,
    /// Points in one request at most; receivers commonly refuse messages over 4 MiB. Default: 8000.
    pub points_per_request: NonZeroUsize,
    /// What happens after an attempt failed that may be repeated.
    pub retry: RetryConfig,
    /// Milliseconds that the agent waits for the last push when it stops. Default: 5000.
    pub shutdown_timeout_ms: u64,
    /// Certificates for `https`.
    pub tls: TlsConfig,
}

impl Default for Config {
    fn default() -> Self {
        const QUEUE: NonZeroUsize = NonZeroUsize::new(8 << 20).expect("8 MiB is not zero");
        const POINTS: NonZeroUsize = NonZeroUsize::new(8000).expect("8000 is not zero");
        Self {
            endpoint: None,
            protocol: None,
            interval_ms: None,
            timeout_ms: None,
            headers: Headers::default(),
            compression: None,
            resource_attributes: BTreeMap::new(),
            queue_bytes: QUEUE,
            points_per_request: POINTS,
            retry: RetryConfig::default(),
            shutdown_timeout_ms: 5000,
            tls: TlsConfig::default(),
        }
    }
}

/// Exponential back-off between attempts.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RetryConfig {
    /// Milliseconds before the second attempt, on average. Each further wait is twice as long. Default: 1000.
    pub initial_backoff_ms: NonZeroU64,
    /// Milliseconds that a wait has at most, on average. Default: 30 000.
    pub max_backoff_ms: NonZeroU64,
    /// Milliseconds after its first attempt when a request is given up. Default: 300 000.
    pub max_elapsed_ms: u64,
}

impl Default for RetryConfig {
    fn default() -> Self {
        const INITIAL: NonZeroU64 = NonZeroU64::new(1000).expect("1000 is not zero");
        const MAX: NonZeroU64 = NonZeroU64::new(30_000).expect("30 000 is not zero");
        Self { initial_backoff_ms: INITIAL, max_backoff_ms: MAX, max_elapsed_ms: 300_000 }
    }
}

/// Certificates, all in PEM.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TlsConfig {
    /// Certificates of the authorities that are trusted. Default: those of the system.
    pub ca_file: Option<PathBuf>,
    /// The agent's own certificate, with its chain. Default: none.
    pub client_certificate_file: Option<PathBuf>,
    /// The key of the agent's own certificate. Default: none.
    pub client_key_file: Option<PathBuf>,
    /// The name that the receiver's certificate must have. Default: the host of the endpoint.
    pub server_name: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Protocol {
    #[serde(rename = "grpc")]
    Grpc,
    #[serde(rename = "http/protobuf")]
    HttpProtobuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    Gzip,
    None,
}

/// Header names and values; the values are kept out of debug output because they are mostly credentials.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Headers(pub BTreeMap<String, String>);

impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// The configuration cannot be used. Values of headers are never in the text.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The endpoint is no URI with scheme and host.
    #[error("`endpoint` is `{endpoint}`: expected `http://host:port` or `https://host:port`")]
    Endpoint { endpoint: String },
    /// The endpoint has a path although gRPC has its own.
    #[error(
        "`endpoint` is `{endpoint}`: `grpc` takes no path; remove it, or set `protocol` to `http/protobuf`"
    )]
    GrpcPath { endpoint: String },
    /// A header's name or value has characters that HTTP does not allow.
    #[error("`headers.{name}`: name or value has characters that HTTP does not allow")]
    Header { name: String },
    /// A header that the exporter sets itself.
    #[error("`headers.{name}`: the exporter sets this header itself; remove it")]
    ReservedHeader { name: String },
    /// A client certificate without its key, or the reverse.
    #[error("`tls.client_certificate_file` and `tls.client_key_file`: give both or neither")]
    HalfIdentity,
    /// A standard environment variable has a value that is not understood.
    #[error(transparent)]
    Environment(#[from] EnvironmentError),
}

/// The configuration, checked, with everything decided.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where requests go, with the path for `http/protobuf`.
    pub endpoint: Uri,
    pub protocol: Protocol,
    pub interval: Duration,
    /// Of one attempt.
    pub timeout: Duration,
    pub headers: HeaderMap,
    pub compression: Compression,
    pub resource_attributes: BTreeMap<String, String>,
    pub queue_bytes: usize,
    pub points_per_request: usize,
    pub initial_backoff: Duration,
    pub max_backoff: Duration,
    pub max_elapsed: Duration,
    pub shutdown_timeout: Duration,
    pub tls: TlsConfig,
}

impl Settings {
    /// Decides between the configuration and the environment, which `env` reads, and checks the result.
    ///
    /// `None` where there is no endpoint: nothing is to be pushed.
    pub fn resolve(
        config: Config,
        env: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Self>, ConfigError> {
        let env = environment::read(env)?;
        let protocol = config.protocol.or(env.protocol).unwrap_or(Protocol::Grpc);
        let Some(endpoint) = config.endpoint.or_else(|| env.endpoint(protocol)) else { return Ok(None) };
        let tls = TlsConfig {
            ca_file: config.tls.ca_file.or(env.tls.ca_file),
            client_certificate_file: config.tls.client_certificate_file.or(env.tls.client_certificate_file),
            client_key_file: config.tls.client_key_file.or(env.tls.client_key_file),
            server_name: config.tls.server_name,
        };
        if tls.client_certificate_file.is_some() != tls.client_key_file.is_some() {
            return Err(ConfigError::HalfIdentity);
        }
        let mut resource_attributes = env.resource_attributes;
        resource_attributes.extend(config.resource_attributes);
        let mut header_texts = env.headers.0;
        header_texts.extend(config.headers.0);

        Ok(Some(Self {
            endpoint: endpoint_uri(&endpoint, protocol)?,
            protocol,
            interval: millis(config.interval_ms.or(env.interval_ms), 10_000),
            timeout: millis(config.timeout_ms.or(env.timeout_ms), 10_000),
            headers: headers(&header_texts)?,
            compression: config.compression.or(env.compression).unwrap_or(Compression::Gzip),
            resource_attributes,
            queue_bytes: config.queue_bytes.get(),
            points_per_request: config.points_per_request.get(),
            initial_backoff: Duration::from_millis(config.retry.initial_backoff_ms.get()),
            max_backoff: Duration::from_millis(config.retry.max_backoff_ms.get()),
            max_elapsed: Duration::from_millis(config.retry.max_elapsed_ms),
            shutdown_timeout: Duration::from_millis(config.shutdown_timeout_ms),
            tls,
        }))
    }
}

fn millis(configured: Option<NonZeroU64>, default: u64) -> Duration {
    Duration::from_millis(configured.map_or(default, NonZeroU64::get))
}

fn endpoint_uri(endpoint: &str, protocol: Protocol) -> Result<Uri, ConfigError> {
    let invalid = || ConfigError::Endpoint { endpoint: endpoint.to_owned() };
    let Ok(uri) = endpoint.parse::<Uri>() else { return Err(invalid()) };
    let mut parts = uri.into_parts();
    let known_scheme =
        parts.scheme.as_ref().is_some_and(|scheme| *scheme == Scheme::HTTP || *scheme == Scheme::HTTPS);
    if !known_scheme || parts.authority.is_none() {
        return Err(invalid());
    }
    let has_path =
        parts.path_and_query.as_ref().is_some_and(|path| path.as_str() != "/" && !path.as_str().is_empty());
    match (protocol, has_path) {
        (Protocol::Grpc, true) => return Err(ConfigError::GrpcPath { endpoint: endpoint.to_owned() }),
        (Protocol::HttpProtobuf, true) => {}
        (Protocol::Grpc, false) => parts.path_and_query = Some(PathAndQuery::from_static("/")),
        (Protocol::HttpProtobuf, false) => {
            parts.path_and_query = Some(PathAndQuery::from_static("/v1/metrics"));
        }
    }
    Uri::from_parts(parts).map_err(|_invalid_parts| invalid())
}

fn headers(texts: &BTreeMap<String, String>) -> Result<HeaderMap, ConfigError> {
    const RESERVED: [&str; 7] = [
        "connection",
        "content-encoding",
        "content-length",
        "content-type",
        "host",
        "te",
        "transfer-encoding",
    ];
    let mut headers = HeaderMap::new();
    for (name, value) in texts {
        let (Ok(header), Ok(mut value)) = (name.parse::<HeaderName>(), value.parse::<HeaderValue>()) else {
            return Err(ConfigError::Header { name: name.clone() });
        };
        if RESERVED.contains(&header.as_str()) || header.as_str().starts_with("grpc-") {
            return Err(ConfigError::ReservedHeader { name: name.clone() });
        }
        value.set_sensitive(true);
        headers.insert(header, value);
    }
    Ok(headers)
}

#[cfg(test)]
mod tests;

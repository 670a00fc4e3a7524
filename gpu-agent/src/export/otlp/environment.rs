//! The standard `OTEL_*` environment variables that concern the push.
//!
//! <https://opentelemetry.io/docs/specs/otel/protocol/exporter/>: the variable for metrics wins over the general
//! one, and a variable that is empty counts as absent.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::path::PathBuf;

use super::config::{Compression, Headers, Protocol, TlsConfig};

/// A variable has a value that is not understood. The values of header variables are not in the text.
#[derive(Debug, thiserror::Error)]
#[error("environment variable `{variable}`{}: expected {expected}", found.as_ref().map_or(String::new(), |found| format!(" is `{found}`")))]
pub struct EnvironmentError {
    variable: String,
    found: Option<String>,
    expected: &'static str,
}

/// What the environment says.
#[derive(Debug, Default)]
pub(super) struct Environment {
    /// For metrics alone, used as it is.
    metrics_endpoint: Option<String>,
    /// For all signals, to which HTTP adds the signal's path.
    base_endpoint: Option<String>,
    pub(super) protocol: Option<Protocol>,
    pub(super) interval_ms: Option<NonZeroU64>,
    pub(super) timeout_ms: Option<NonZeroU64>,
    pub(super) headers: Headers,
    pub(super) compression: Option<Compression>,
    pub(super) resource_attributes: BTreeMap<String, String>,
    pub(super) tls: TlsConfig,
}

impl Environment {
    pub(super) fn endpoint(&self, protocol: Protocol) -> Option<String> {
        match (&self.metrics_endpoint, &self.base_endpoint, protocol) {
            (Some(endpoint), _, _) | (None, Some(endpoint), Protocol::Grpc) => Some(endpoint.clone()),
            (None, Some(base), Protocol::HttpProtobuf) => {
                Some(format!("{}/v1/metrics", base.trim_end_matches('/')))
            }
            (None, None, _) => None,
        }
    }
}

pub(super) fn read(env: impl Fn(&str) -> Option<String>) -> Result<Environment, EnvironmentError> {
    let get = |name: &str| env(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
    // The name is returned with the value so that an error names the variable that decided.
    let exporter = |suffix: &str| {
        [format!("OTEL_EXPORTER_OTLP_METRICS_{suffix}"), format!("OTEL_EXPORTER_OTLP_{suffix}")]
            .into_iter()
            .find_map(|name| get(&name).map(|value| (name, value)))
    };
    let insecure = exporter("INSECURE").is_some_and(|(_, value)| value.eq_ignore_ascii_case("true"));
    let with_scheme = |endpoint: String| match endpoint.contains("://") {
        true => endpoint,
        false if insecure => format!("http://{endpoint}"),
        false => format!("https://{endpoint}"),
    };
    let file = |suffix: &str| exporter(suffix).map(|(_, path)| PathBuf::from(path));

    let mut resource_attributes = match get("OTEL_RESOURCE_ATTRIBUTES") {
        Some(list) => pairs("OTEL_RESOURCE_ATTRIBUTES", &list)?,
        None => BTreeMap::new(),
    };
    if let Some(name) = get("OTEL_SERVICE_NAME") {
        resource_attributes.insert("service.name".to_owned(), name);
    }
    Ok(Environment {
        metrics_endpoint: get("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT").map(with_scheme),
        base_endpoint: get("OTEL_EXPORTER_OTLP_ENDPOINT").map(with_scheme),
        protocol: exporter("PROTOCOL").map(protocol).transpose()?,
        interval_ms: get("OTEL_METRIC_EXPORT_INTERVAL")
            .map(|value| millis("OTEL_METRIC_EXPORT_INTERVAL".to_owned(), value))
            .transpose()?,
        timeout_ms: exporter("TIMEOUT").map(|(name, value)| millis(name, value)).transpose()?,
        headers: Headers(
            exporter("HEADERS").map(|(name, list)| pairs(&name, &list)).transpose()?.unwrap_or_default(),
        ),
        compression: exporter("COMPRESSION").map(compression).transpose()?,
        resource_attributes,
        tls: TlsConfig {
            ca_file: file("CERTIFICATE"),
            client_certificate_file: file("CLIENT_CERTIFICATE"),
            client_key_file: file("CLIENT_KEY"),
            server_name: None,
        },
    })
}

fn protocol((variable, value): (String, String)) -> Result<Protocol, EnvironmentError> {
    match value.as_str() {
        "grpc" => Ok(Protocol::Grpc),
        "http/protobuf" => Ok(Protocol::HttpProtobuf),
        _ => Err(EnvironmentError { variable, found: Some(value), expected: "`grpc` or `http/protobuf`" }),
    }
}

fn compression((variable, value): (String, String)) -> Result<Compression, EnvironmentError> {
    match value.as_str() {
        "gzip" => Ok(Compression::Gzip),
        "none" => Ok(Compression::None),
        _ => Err(EnvironmentError { variable, found: Some(value), expected: "`gzip` or `none`" }),
    }
}

fn millis(variable: String, value: String) -> Result<NonZeroU64, EnvironmentError> {
    value.parse().map_err(|_not_a_number| EnvironmentError {
        variable,
        found: Some(value),
        expected: "a number of milliseconds above 0",
    })
}

/// Splits `key=value,key=value`, in which values are percent-encoded as in W3C baggage.
fn pairs(variable: &str, list: &str) -> Result<BTreeMap<String, String>, EnvironmentError> {
    let invalid = || EnvironmentError {
        variable: variable.to_owned(),
        found: None,
        expected: "`key=value,key=value` with percent-encoded values",
    };
    list.split(',')
        .map(str::trim)
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (key, value) = pair.split_once('=').ok_or_else(invalid)?;
            match (key.trim(), percent_decode(value.trim())) {
                ("", _) | (_, None) => Err(invalid()),
                (key, Some(value)) => Ok((key.to_owned(), value)),
            }
        })
        .collect()
}

fn percent_decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let (digits, tail) = rest.split_at_checked(2)?;
        rest = tail;
        let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        bytes.push(digit(digits[0])? << 4 | digit(digits[1])?);
    }
    String::from_utf8(bytes).ok()
}

//! What a receiver's answer means: taken, to be repeated, or refused.
//!
//! The rules are those of <https://opentelemetry.io/docs/specs/otlp/>, "Failures" of both protocols.

use std::time::{Duration, SystemTime};

use http::StatusCode;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceResponse;
use prost::Message;
use tonic::Code;

/// A request that the receiver took, perhaps without some of its points.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Delivery {
    pub(super) rejected_points: u64,
    /// The receiver's own words; they may warn although nothing was rejected.
    pub(super) message: String,
}

impl From<ExportMetricsServiceResponse> for Delivery {
    fn from(response: ExportMetricsServiceResponse) -> Self {
        let partial = response.partial_success.unwrap_or_default();
        Self {
            rejected_points: u64::try_from(partial.rejected_data_points).unwrap_or(0),
            message: shortened(&partial.error_message),
        }
    }
}

/// One attempt failed.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) error: SendError,
    pub(super) retry: Retry,
}

/// Whether an attempt may be repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Retry {
    Never,
    /// After the back-off.
    Yes,
    /// When the receiver says.
    After(Duration),
}

/// Why an attempt failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum SendError {
    /// The connection could not be made or broke.
    #[error("no answer from the receiver")]
    Connection(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The attempt took longer than `timeout_ms`.
    #[error("no answer from the receiver within {timeout:?}")]
    Timeout { timeout: Duration },
    /// The receiver answered with a gRPC status other than OK.
    #[error("the receiver answered {code:?}: {message}")]
    Grpc { code: Code, message: String },
    /// The receiver answered with an HTTP status other than 2xx.
    #[error("the receiver answered {status}: {message}")]
    Http { status: StatusCode, message: String },
}

impl Failure {
    /// The connection failed: nothing says that the request itself is at fault.
    pub(super) fn connection(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self { error: SendError::Connection(source.into()), retry: Retry::Yes }
    }

    pub(super) fn timeout(timeout: Duration) -> Self {
        Self { error: SendError::Timeout { timeout }, retry: Retry::Yes }
    }

    pub(super) fn grpc(status: tonic::Status) -> Self {
        // Only a status that was made on this side has a source; then there was no answer.
        if std::error::Error::source(&status).is_some() {
            return Self::connection(status);
        }
        let delay = retry_info(status.details());
        let retry = match (status.code(), delay) {
            (
                Code::Cancelled
                | Code::DeadlineExceeded
                | Code::Aborted
                | Code::OutOfRange
                | Code::Unavailable
                | Code::DataLoss
                | Code::ResourceExhausted,
                Some(delay),
            ) => Retry::After(delay),
            (
                Code::Cancelled
                | Code::DeadlineExceeded
                | Code::Aborted
                | Code::OutOfRange
                | Code::Unavailable
                | Code::DataLoss,
                None,
            ) => Retry::Yes,
            _ => Retry::Never,
        };
        Self { error: SendError::Grpc { code: status.code(), message: shortened(status.message()) }, retry }
    }

    /// `retry_after` is the value of the `Retry-After` header, `body` the answer's body or its beginning.
    pub(super) fn http(status: StatusCode, retry_after: Option<&str>, body: &[u8], now: SystemTime) -> Self {
        let retry = match status {
            StatusCode::TOO_MANY_REQUESTS
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT => {
                retry_after.and_then(|text| retry_after_delay(text, now)).map_or(Retry::Yes, Retry::After)
            }
            _ => Retry::Never,
        };
        let message = match RpcStatus::decode(body) {
            Ok(status) if !status.message.is_empty() => shortened(&status.message),
            _ => shortened(&String::from_utf8_lossy(body)),
        };
        Self { error: SendError::Http { status, message }, retry }
    }
}

/// At most 200 characters of the receiver's text, in one line: it goes into the log.
fn shortened(text: &str) -> String {
    text.chars().take(200).map(|c| if c.is_control() { ' ' } else { c }).collect::<String>().trim().to_owned()
}

/// The header's delay: a number of seconds or a date.
fn retry_after_delay(text: &str, now: SystemTime) -> Option<Duration> {
    match text.trim().parse() {
        Ok(seconds) => Some(Duration::from_secs(seconds)),
        Err(_) => Some(httpdate::parse_http_date(text).ok()?.duration_since(now).unwrap_or_default()),
    }
}

/// The delay of `google.rpc.RetryInfo` in the details of a gRPC status.
fn retry_info(details: &[u8]) -> Option<Duration> {
    let status = RpcStatus::decode(details).ok()?;
    let info = status.details.iter().find(|any| any.type_url.ends_with("/google.rpc.RetryInfo"))?;
    let delay = RetryInfo::decode(info.value.as_slice()).ok()?.retry_delay?;
    Some(Duration::new(u64::try_from(delay.seconds).ok()?, u32::try_from(delay.nanos).ok()?))
}

/// `google.rpc.Status` of googleapis, `google/rpc/status.proto`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct RpcStatus {
    #[prost(int32, tag = "1")]
    pub(super) code: i32,
    #[prost(string, tag = "2")]
    pub(super) message: String,
    #[prost(message, repeated, tag = "3")]
    pub(super) details: Vec<RpcAny>,
}

/// `google.protobuf.Any`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct RpcAny {
    #[prost(string, tag = "1")]
    pub(super) type_url: String,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) value: Vec<u8>,
}

/// `google.rpc.RetryInfo` of googleapis, `google/rpc/error_details.proto`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct RetryInfo {
    #[prost(message, optional, tag = "1")]
    pub(super) retry_delay: Option<RpcDuration>,
}

/// `google.protobuf.Duration`.
#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct RpcDuration {
    #[prost(int64, tag = "1")]
    pub(super) seconds: i64,
    #[prost(int32, tag = "2")]
    pub(super) nanos: i32,
}

#[cfg(test)]
mod tests;

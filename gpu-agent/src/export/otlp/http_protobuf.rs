//! OTLP over HTTP with protobuf bodies.

use std::io::Write as _;
use std::time::SystemTime;

use bytes::Bytes;
use flate2::write::GzEncoder;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, Request, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceResponse;
use prost::Message as _;

use super::config::{Compression, Settings};
use super::connect::{self, ConnectError, HyperClient};
use super::response::{Delivery, Failure};
use super::retry::Transport;

/// The answers of receivers are small; what is longer is not read.
const ANSWER_LIMIT_BYTES: usize = 64 << 10;

#[derive(Debug)]
pub(super) struct HttpProtobuf {
    client: HyperClient<Full<Bytes>>,
    endpoint: Uri,
    headers: HeaderMap,
    gzip: bool,
}

impl HttpProtobuf {
    pub(super) fn new(settings: &Settings) -> Result<Self, ConnectError> {
        let mut headers = settings.headers.clone();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"));
        let agent = concat!(env!("CARGO_PKG_NAME"), "/", env!("CARGO_PKG_VERSION"));
        headers.entry(USER_AGENT).or_insert(HeaderValue::from_static(agent));
        Ok(Self {
            client: connect::client(settings)?,
            endpoint: settings.endpoint.clone(),
            headers,
            gzip: settings.compression == Compression::Gzip,
        })
    }

    fn request(&self, payload: Bytes) -> Request<Full<Bytes>> {
        let compressed = if self.gzip { gzip(&payload).ok() } else { None };
        let encoded = compressed.is_some();
        let mut request = Request::new(Full::new(compressed.map_or(payload, Bytes::from)));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.endpoint.clone();
        *request.headers_mut() = self.headers.clone();
        if encoded {
            request.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        request
    }
}

fn gzip(bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes)?;
    encoder.finish()
}

impl Transport for HttpProtobuf {
    async fn send(&self, payload: Bytes) -> Result<Delivery, Failure> {
        let answer = self.client.request(self.request(payload)).await.map_err(Failure::connection)?;
        let (head, body) = answer.into_parts();
        let body = Limited::new(body, ANSWER_LIMIT_BYTES).collect().await;
        if head.status.is_success() {
            // The receiver took the request; an answer that cannot be read does not change that.
            let body = body.map(http_body_util::Collected::to_bytes).unwrap_or_default();
            return Ok(ExportMetricsServiceResponse::decode(body).unwrap_or_default().into());
        }
        let body = body.map(http_body_util::Collected::to_bytes).unwrap_or_default();
        let retry_after = head.headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok());
        Err(Failure::http(head.status, retry_after, &body, SystemTime::now()))
    }
}

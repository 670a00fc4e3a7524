//! OTLP over gRPC.

use bytes::{Buf as _, BufMut as _, Bytes};
use http::Uri;
use http::uri::PathAndQuery;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceResponse;
use prost::Message as _;
use tonic::codec::{Codec, CompressionEncoding, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::metadata::MetadataMap;
use tonic::{Request, Status};

use super::config::{Compression, Settings};
use super::connect::{self, ConnectError, HyperClient};
use super::response::{Delivery, Failure};
use super::retry::Transport;

const EXPORT: PathAndQuery =
    PathAndQuery::from_static("/opentelemetry.proto.collector.metrics.v1.MetricsService/Export");

#[derive(Debug)]
pub(super) struct Grpc {
    client: HyperClient<tonic::body::Body>,
    origin: Uri,
    metadata: MetadataMap,
    gzip: bool,
}

impl Grpc {
    pub(super) fn new(settings: &Settings) -> Result<Self, ConnectError> {
        Ok(Self {
            client: connect::client(settings)?,
            origin: settings.endpoint.clone(),
            metadata: MetadataMap::from_headers(settings.headers.clone()),
            gzip: settings.compression == Compression::Gzip,
        })
    }
}

impl Transport for Grpc {
    async fn send(&self, payload: Bytes) -> Result<Delivery, Failure> {
        let mut grpc = tonic::client::Grpc::with_origin(self.client.clone(), self.origin.clone());
        if self.gzip {
            grpc =
                grpc.send_compressed(CompressionEncoding::Gzip).accept_compressed(CompressionEncoding::Gzip);
        }
        grpc.ready().await.map_err(Failure::connection)?;
        let mut request = Request::new(payload);
        *request.metadata_mut() = self.metadata.clone();
        let response = grpc.unary(request, EXPORT, EncodedCodec).await.map_err(Failure::grpc)?;
        Ok(response.into_inner().into())
    }
}

/// Sends a message that is encoded already, so that it need not be decoded or cloned for each attempt.
#[derive(Clone, Copy, Debug)]
struct EncodedCodec;

impl Codec for EncodedCodec {
    type Encode = Bytes;
    type Decode = ExportMetricsServiceResponse;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for EncodedCodec {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, message: Bytes, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put(message);
        Ok(())
    }
}

impl Decoder for EncodedCodec {
    type Item = ExportMetricsServiceResponse;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Self::Item>, Status> {
        let message = buffer.copy_to_bytes(buffer.remaining());
        // The receiver took the request; an answer that cannot be read does not change that.
        Ok(Some(ExportMetricsServiceResponse::decode(message).unwrap_or_default()))
    }
}

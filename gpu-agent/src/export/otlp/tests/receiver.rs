//! Receivers in this process: what they got comes out of a channel.

use std::collections::VecDeque;
use std::io::Read as _;
use std::sync::{Arc, Mutex};

use axum::body::to_bytes;
use axum::extract::{Request, State};
use http::{HeaderMap, StatusCode};
use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_server::{
    MetricsService, MetricsServiceServer,
};
use opentelemetry_proto::tonic::collector::metrics::v1::{
    ExportMetricsPartialSuccess, ExportMetricsServiceRequest, ExportMetricsServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value;
use opentelemetry_proto::tonic::metrics::v1::{metric, number_data_point};
use prost::Message as _;
use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tonic::codec::CompressionEncoding;
use tonic::transport::server::{Server, ServerTlsConfig, TcpIncoming};

/// One request as the receiver got it.
#[derive(Debug)]
pub(super) struct Received {
    pub(super) headers: HeaderMap,
    pub(super) path: String,
    request: ExportMetricsServiceRequest,
}

impl Received {
    /// The value of the one point.
    pub(super) fn value(&self) -> i64 {
        let metric = &self.request.resource_metrics[0].scope_metrics[0].metrics[0];
        let Some(metric::Data::Sum(sum)) = &metric.data else { panic!("{metric:?} is no sum") };
        match sum.data_points[0].value {
            Some(number_data_point::Value::AsInt(value)) => value,
            other => panic!("{other:?} is no integer"),
        }
    }

    pub(super) fn resource(&self, key: &str) -> Option<String> {
        let resource = self.request.resource_metrics[0].resource.as_ref()?;
        let attribute = resource.attributes.iter().find(|attribute| attribute.key == key)?;
        match attribute.value.clone()?.value? {
            any_value::Value::StringValue(text) => Some(text),
            _ => None,
        }
    }
}

pub(super) fn partial_success(rejected: i64, message: &str) -> Vec<u8> {
    let partial =
        ExportMetricsPartialSuccess { rejected_data_points: rejected, error_message: message.to_owned() };
    ExportMetricsServiceResponse { partial_success: Some(partial) }.encode_to_vec()
}

pub(super) struct GrpcReceiver {
    pub(super) endpoint: String,
    received: UnboundedReceiver<Received>,
    failure: Arc<Mutex<Option<tonic::Status>>>,
}

struct Service {
    received: UnboundedSender<Received>,
    failure: Arc<Mutex<Option<tonic::Status>>>,
}

#[tonic::async_trait]
impl MetricsService for Service {
    async fn export(
        &self,
        request: tonic::Request<ExportMetricsServiceRequest>,
    ) -> Result<tonic::Response<ExportMetricsServiceResponse>, tonic::Status> {
        let headers = request.metadata().clone().into_headers();
        let received = Received { headers, path: String::new(), request: request.into_inner() };
        self.received.send(received).ok();
        match self.failure.lock().unwrap().take() {
            Some(status) => Err(status),
            None => Ok(tonic::Response::new(ExportMetricsServiceResponse::default())),
        }
    }
}

impl GrpcReceiver {
    pub(super) async fn start() -> Self {
        Self::start_with(None).await
    }

    pub(super) async fn start_with(tls: Option<ServerTlsConfig>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let scheme = if tls.is_some() { "https" } else { "http" };
        let endpoint = format!("{scheme}://localhost:{}", listener.local_addr().unwrap().port());
        let (sender, received) = unbounded_channel();
        let failure = Arc::new(Mutex::new(None));
        let service = Service { received: sender, failure: Arc::clone(&failure) };
        let service = MetricsServiceServer::new(service).accept_compressed(CompressionEncoding::Gzip);
        let mut server = Server::builder();
        if let Some(tls) = tls {
            server = server.tls_config(tls).unwrap();
        }
        tokio::spawn(server.add_service(service).serve_with_incoming(TcpIncoming::from(listener)));
        Self { endpoint, received, failure }
    }

    /// Answers the next request with `status`.
    pub(super) fn fail_with(&self, status: tonic::Status) {
        *self.failure.lock().unwrap() = Some(status);
    }

    pub(super) fn got_nothing(&mut self) -> bool {
        self.received.try_recv().is_err()
    }

    pub(super) async fn next(&mut self) -> Received {
        self.received.recv().await.unwrap()
    }
}

pub(super) struct HttpReceiver {
    pub(super) endpoint: String,
    received: UnboundedReceiver<Received>,
}

/// Status and body.
pub(super) type Answer = (u16, Vec<u8>);
type HttpState = (UnboundedSender<Received>, Arc<Mutex<VecDeque<Answer>>>);

impl HttpReceiver {
    /// Answers in turn, then with an empty success.
    pub(super) async fn start(answers: Vec<Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://localhost:{}", listener.local_addr().unwrap().port());
        Self::start_on(listener, endpoint, answers)
    }

    pub(super) fn start_on<L>(listener: L, endpoint: String, answers: Vec<Answer>) -> Self
    where
        L: axum::serve::Listener,
        L::Addr: std::fmt::Debug,
    {
        let (sender, received) = unbounded_channel();
        let state: HttpState = (sender, Arc::new(Mutex::new(answers.into())));
        let router = axum::Router::new().fallback(take).with_state(state);
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { endpoint, received }
    }

    pub(super) async fn next(&mut self) -> Received {
        self.received.recv().await.unwrap()
    }
}

async fn take(State((sender, answers)): State<HttpState>, request: Request) -> (StatusCode, Vec<u8>) {
    let (head, body) = request.into_parts();
    let mut body = to_bytes(body, usize::MAX).await.unwrap().to_vec();
    if head.headers.get("content-encoding").is_some_and(|encoding| encoding == "gzip") {
        let mut decoded = Vec::new();
        flate2::read::GzDecoder::new(body.as_slice()).read_to_end(&mut decoded).unwrap();
        body = decoded;
    }
    let received = Received {
        headers: head.headers,
        path: head.uri.path().to_owned(),
        request: ExportMetricsServiceRequest::decode(body.as_slice()).unwrap(),
    };
    sender.send(received).ok();
    let (status, body) = answers.lock().unwrap().pop_front().unwrap_or((200, Vec::new()));
    (StatusCode::from_u16(status).unwrap(), body)
}

use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Empty};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{Config, Server};
use crate::export::snapshot::Snapshot;
use crate::export::{SnapshotSource, sample};

/// A source that answers at once.
struct Plain(Result<(), String>);

impl SnapshotSource for Plain {
    fn snapshot(&self) -> Snapshot {
        sample::snapshot()
    }

    fn ready(&self) -> Result<(), String> {
        self.0.clone()
    }

    fn status(&self) -> serde_json::Value {
        serde_json::json!({ "gpus": 2 })
    }
}

struct Running {
    address: SocketAddr,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

async fn start(source: impl SnapshotSource, config: &str) -> Running {
    let config = Config { listen: "127.0.0.1:0".parse().unwrap(), ..toml::from_str(config).unwrap() };
    let server = Server::bind(config).await.unwrap();
    let (address, stop) = (server.address(), CancellationToken::new());
    let task = tokio::spawn(server.run(Arc::new(source), stop.clone()));
    Running { address, stop, task }
}

impl Running {
    async fn get(&self, path: &str, headers: &[(&str, &str)]) -> (Response<()>, String) {
        let mut request = Request::get(format!("http://{}{path}", self.address));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        // A client for each request: a connection that is kept would outlive the test's stop.
        let client = Client::builder(TokioExecutor::new()).build_http();
        let answer = client.request(request.body(Empty::<Bytes>::new()).unwrap()).await.unwrap();
        let (head, body) = answer.into_parts();
        let text = body.collect().await.unwrap().to_bytes();
        (Response::from_parts(head, ()), String::from_utf8(text.to_vec()).unwrap())
    }
}

#[tokio::test]
async fn every_endpoint_answers() {
    let server = start(Plain(Ok(())), "").await;
    assert_ne!(server.address.port(), 0);

    let (answer, text) = server.get("/metrics", &[]).await;
    assert_eq!(answer.headers()["content-type"], "text/plain; version=0.0.4; charset=utf-8");
    assert!(text.contains("\nhw_gpu_memory_limit_bytes{"), "{text}");

    let (answer, text) = server.get("/metrics", &[("accept", "application/openmetrics-text")]).await;
    assert_eq!(
        answer.headers()["content-type"],
        "application/openmetrics-text; version=1.0.0; charset=utf-8"
    );
    assert!(text.ends_with("# EOF\n"), "{text}");

    assert_eq!(server.get("/healthz", &[]).await.1, "ok\n");
    assert_eq!(server.get("/readyz", &[]).await.1, "ready\n");
    let (answer, text) = server.get("/v1/status", &[]).await;
    assert_eq!(answer.headers()["content-type"], "application/json");
    assert_eq!(text, r#"{"gpus":2}"#);
    assert_eq!(server.get("/else", &[]).await.0.status(), StatusCode::NOT_FOUND);

    server.stop.cancel();
    server.task.await.unwrap();
    assert!(TcpStream::connect(server.address).await.is_err(), "nothing listens after the stop");
}

#[tokio::test]
async fn an_agent_that_is_not_ready_says_why() {
    let server = start(Plain(Err("no driver".to_owned())), "").await;
    let (answer, text) = server.get("/readyz", &[]).await;
    assert_eq!((answer.status(), text.as_str()), (StatusCode::SERVICE_UNAVAILABLE, "no driver\n"));
    assert_eq!(server.get("/healthz", &[]).await.0.status(), StatusCode::OK);
}

/// A source whose snapshot says that it began, and waits for a release.
struct Held {
    began: UnboundedSender<()>,
    release: Mutex<Receiver<()>>,
}

impl Held {
    fn new() -> (Self, UnboundedReceiver<()>, Sender<()>) {
        let (began, snapshots) = unbounded_channel();
        let (release, held) = channel();
        (Self { began, release: Mutex::new(held) }, snapshots, release)
    }
}

impl SnapshotSource for Held {
    fn snapshot(&self) -> Snapshot {
        self.began.send(()).ok();
        self.release.lock().unwrap().recv().ok();
        sample::snapshot()
    }

    fn ready(&self) -> Result<(), String> {
        Ok(())
    }

    fn status(&self) -> serde_json::Value {
        serde_json::Value::Null
    }
}

#[tokio::test]
async fn a_snapshot_that_hangs_is_answered_for_and_holds_nothing_else_up() {
    let (source, _snapshots, release) = Held::new();
    let server = start(source, "scrape_timeout_ms = 50").await;
    let (answer, text) = server.get("/metrics", &[]).await;
    assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(text, "no answer in time; the agent is busy or a driver call hangs\n");
    assert_eq!(server.get("/readyz", &[]).await.0.status(), StatusCode::OK);
    drop(release);
    assert_eq!(server.get("/metrics", &[]).await.0.status(), StatusCode::OK, "it recovers");
}

#[tokio::test]
async fn an_answer_under_way_ends_before_the_server_does() {
    let (source, mut snapshots, release) = Held::new();
    let server = start(source, "").await;
    let scrape = server.get("/metrics", &[]);
    let stopping = async {
        snapshots.recv().await.unwrap();
        server.stop.cancel();
        // The server has seen the stop when it listens no more.
        while TcpStream::connect(server.address).await.is_ok() {
            tokio::task::yield_now().await;
        }
        release.send(()).unwrap();
    };
    let ((answer, _text), ()) = tokio::join!(scrape, stopping);
    assert_eq!(answer.status(), StatusCode::OK);
    server.task.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_takes_nothing_loses_its_slot() {
    let server = start(Plain(Ok(())), "max_connections = 1").await;
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut greedy = socket.connect(server.address).await.unwrap();
    // More answers than both sides' buffers hold, and none of them is read.
    let requests = "GET /metrics HTTP/1.1\r\nhost: agent\r\n\r\n".repeat(1 << 14);
    let asking = tokio::spawn(async move {
        greedy.write_all(requests.as_bytes()).await.ok();
        // Held open: only the server ends the connection.
        std::future::pending::<()>().await;
        drop(greedy);
    });
    assert_eq!(server.get("/healthz", &[]).await.1, "ok\n");
    asking.abort();
}

#[tokio::test]
async fn a_port_in_use_is_an_error_that_names_it() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = taken.local_addr().unwrap();
    let error = Server::bind(Config { listen, ..Config::default() }).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("cannot listen on `{listen}`; give another address or port in `listen`")
    );
    assert!(std::error::Error::source(&error).is_some());
}

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use gpu_api::metric::attribute::HW_ID;
use gpu_api::metric::device;
use gpu_api::metric::value::{ExportDropReason, ExportOutcome};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::response::{Delivery, Failure};
use super::retry::Transport;
use super::{Config, Exporter, HostFacts, Settings, Stats, push};
use crate::export::SnapshotSource;
use crate::export::sample;
use crate::export::snapshot::{Snapshot, Value};

mod receiver;
mod tls;

use receiver::{GrpcReceiver, HttpReceiver};

/// Each snapshot has one point, whose value is the number of the snapshot from 1 on.
#[derive(Default)]
struct Numbered(AtomicU64);

impl SnapshotSource for Numbered {
    fn snapshot(&self) -> Snapshot {
        let number = self.0.fetch_add(1, Ordering::Relaxed) + 1;
        let mut builder = Snapshot::builder(sample::time(number));
        builder.point(&device::MEMORY_USAGE, vec![(&HW_ID, "GPU-0".into())], Value::U64(number));
        builder.build()
    }

    fn ready(&self) -> Result<(), String> {
        Ok(())
    }

    fn status(&self) -> serde_json::Value {
        serde_json::Value::Null
    }
}

/// Settings with which only the first push and the last one happen, and a retry comes at once.
fn settings(endpoint: &str, more: &str) -> Settings {
    let retry = if more.contains("retry") { "" } else { "retry = { initial_backoff_ms = 1 }" };
    let text = format!("endpoint = '{endpoint}'\ninterval_ms = 3600000\n{retry}\n{more}");
    Settings::resolve(toml::from_str::<Config>(&text).unwrap(), |_| None).unwrap().unwrap()
}

struct Running {
    stats: Arc<Stats>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

fn start(settings: Settings) -> Running {
    let (stats, stop) = (Arc::new(Stats::default()), CancellationToken::new());
    let exporter = Exporter::new(settings, &HostFacts::default(), Arc::clone(&stats)).unwrap();
    let task = tokio::spawn(exporter.run(Arc::new(Numbered::default()), stop.clone()));
    Running { stats, stop, task }
}

impl Running {
    async fn stop(self) -> Arc<Stats> {
        self.stop.cancel();
        self.task.await.unwrap();
        self.stats
    }
}

/// The counters that are not zero.
fn counted(stats: &Stats) -> Vec<(&'static str, u64)> {
    let exports = ExportOutcome::ALL.iter().map(|outcome| (outcome.as_str(), stats.exports(*outcome)));
    let dropped = ExportDropReason::ALL.iter().map(|reason| (reason.as_str(), stats.points_dropped(*reason)));
    exports.chain(dropped).filter(|(_, count)| *count > 0).collect()
}

#[tokio::test]
async fn grpc_carries_every_snapshot_and_the_last_one_at_the_stop() {
    let mut receiver = GrpcReceiver::start().await;
    let running = start(settings(&receiver.endpoint, "headers = { authorization = 'Bearer x' }"));
    let first = receiver.next().await;
    assert_eq!(first.value(), 1);
    assert_eq!(first.headers["authorization"], "Bearer x");
    assert_eq!(first.headers["grpc-encoding"], "gzip");
    assert_eq!(first.resource("service.name").as_deref(), Some("gpu-agent"));

    let stats = running.stop().await;
    assert_eq!(receiver.next().await.value(), 2);
    assert_eq!(counted(&stats), [("success", 2)]);
}

#[tokio::test]
async fn http_carries_every_snapshot_and_the_last_one_at_the_stop() {
    let mut receiver = HttpReceiver::start(vec![]).await;
    let more = "protocol = 'http/protobuf'\nheaders = { X-Scope-OrgID = 'a' }";
    let running = start(settings(&receiver.endpoint, more));
    let first = receiver.next().await;
    assert_eq!(first.value(), 1);
    assert_eq!(first.path, "/v1/metrics");
    assert_eq!(first.headers["content-type"], "application/x-protobuf");
    assert_eq!(first.headers["content-encoding"], "gzip");
    assert_eq!(first.headers["x-scope-orgid"], "a");

    let stats = running.stop().await;
    assert_eq!(receiver.next().await.value(), 2);
    assert_eq!(counted(&stats), [("success", 2)]);
}

#[tokio::test]
async fn without_compression_nothing_says_gzip() {
    let mut receiver = HttpReceiver::start(vec![]).await;
    let running = start(settings(&receiver.endpoint, "protocol = 'http/protobuf'\ncompression = 'none'"));
    let first = receiver.next().await;
    assert_eq!(first.value(), 1);
    assert!(!first.headers.contains_key("content-encoding"));
    running.stop().await;

    let mut receiver = GrpcReceiver::start().await;
    let running = start(settings(&receiver.endpoint, "compression = 'none'"));
    assert!(!receiver.next().await.headers.contains_key("grpc-encoding"));
    running.stop().await;
}

#[tokio::test]
async fn what_may_pass_is_repeated_and_counts_once() {
    let mut receiver = HttpReceiver::start(vec![(503, vec![]), (429, vec![]), (200, vec![])]).await;
    let running = start(settings(&receiver.endpoint, "protocol = 'http/protobuf'"));
    for _attempt in 0..3 {
        assert_eq!(receiver.next().await.value(), 1);
    }
    let stats = running.stop().await;
    assert_eq!(receiver.next().await.value(), 2);
    assert_eq!(counted(&stats), [("success", 2)]);

    let mut receiver = GrpcReceiver::start().await;
    receiver.fail_with(tonic::Status::unavailable("later"));
    let running = start(settings(&receiver.endpoint, ""));
    assert_eq!(receiver.next().await.value(), 1);
    assert_eq!(receiver.next().await.value(), 1);
    assert_eq!(counted(&*running.stop().await), [("success", 2)]);
}

#[tokio::test]
async fn a_refusal_drops_the_points_and_counts_them() {
    let mut receiver = HttpReceiver::start(vec![(400, b"no".to_vec()), (200, vec![])]).await;
    let running = start(settings(&receiver.endpoint, "protocol = 'http/protobuf'"));
    assert_eq!(receiver.next().await.value(), 1);
    let stats = running.stop().await;
    assert_eq!(receiver.next().await.value(), 2);
    assert_eq!(counted(&stats), [("success", 1), ("rejected", 1), ("rejected", 1)]);

    let mut receiver = GrpcReceiver::start().await;
    receiver.fail_with(tonic::Status::permission_denied("no"));
    let running = start(settings(&receiver.endpoint, ""));
    assert_eq!(receiver.next().await.value(), 1);
    assert_eq!(counted(&*running.stop().await), [("success", 1), ("rejected", 1), ("rejected", 1)]);
}

#[tokio::test]
async fn points_that_a_receiver_rejects_from_a_request_are_counted() {
    let answer = receiver::partial_success(1, "too old");
    let mut receiver = HttpReceiver::start(vec![(200, answer), (200, vec![])]).await;
    let running = start(settings(&receiver.endpoint, "protocol = 'http/protobuf'"));
    receiver.next().await;
    assert_eq!(counted(&*running.stop().await), [("success", 1), ("partial", 1), ("rejected", 1)]);

    // It may only warn, and it cannot have rejected more than there was.
    let answers = vec![(200, receiver::partial_success(0, "old")), (200, receiver::partial_success(99, "x"))];
    let mut receiver = HttpReceiver::start(answers).await;
    let running = start(settings(&receiver.endpoint, "protocol = 'http/protobuf'"));
    receiver.next().await;
    assert_eq!(counted(&*running.stop().await), [("success", 1), ("partial", 1), ("rejected", 1)]);
}

#[tokio::test]
async fn a_connection_that_is_refused_is_no_refusal_of_the_points() {
    for protocol in ["grpc", "http/protobuf"] {
        // Bound and dropped: nothing listens there.
        let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let more = format!("protocol = '{protocol}'\nretry = {{ max_elapsed_ms = 0 }}");
        let running = start(settings(&format!("http://{address}"), &more));
        // Stopped before its first interval, it makes the last push only.
        assert_eq!(counted(&*running.stop().await), [("failed", 1), ("retries_exhausted", 1)], "{protocol}");
    }
}

/// Never answers.
struct Away;

impl Transport for Away {
    async fn send(&self, _request: Bytes) -> Result<Delivery, Failure> {
        std::future::pending().await
    }
}

#[tokio::test(start_paused = true)]
async fn while_the_receiver_is_away_the_newest_snapshots_wait_and_the_rest_is_counted() {
    let settings =
        settings("http://away", "timeout_ms = 10000\nqueue_bytes = 1000\nshutdown_timeout_ms = 1000");
    let settings = Settings { interval: Duration::from_secs(10), ..settings };
    let one = super::payload::encode(&Numbered::default().snapshot(), &[].into(), 10).remove(0).bytes.len();
    let room = 1000 / one;
    let stats = Stats::default();
    let stop = CancellationToken::new();
    let stopping = async {
        tokio::time::sleep(Duration::from_secs(95)).await;
        stop.cancel();
    };
    let resource = [].into();
    let pushing = push(&settings, &resource, &stats, &Away, Arc::new(Numbered::default()), stop.clone());
    tokio::join!(pushing, stopping);

    // Ten snapshots from second 0 to 90 and the last one; one is in flight and `room` wait.
    let dropped = 11 - 1 - u64::try_from(room).unwrap();
    assert_eq!(counted(&stats), [("queue_full", dropped), ("shutdown", 11 - dropped)]);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_given_up_makes_way_for_the_next() {
    let settings = settings("http://away", "timeout_ms = 1000\nshutdown_timeout_ms = 20000");
    let settings =
        Settings { max_elapsed: Duration::from_secs(5), initial_backoff: Duration::from_secs(1), ..settings };
    let stats = Stats::default();
    let stop = CancellationToken::new();
    let stopping = async {
        tokio::time::sleep(Duration::from_secs(60)).await;
        stop.cancel();
    };
    let resource = [].into();
    let pushing = push(&settings, &resource, &stats, &Away, Arc::new(Numbered::default()), stop.clone());
    tokio::join!(pushing, stopping);
    // Whatever the jitter, each is given up within its time and the last attempt's.
    assert_eq!(counted(&stats), [("failed", 2), ("retries_exhausted", 2)]);
}

#[test]
fn the_counters_are_series_of_the_agent() {
    let stats = Stats::default();
    stats.count(ExportOutcome::Partial);
    stats.drop_points(ExportDropReason::QueueFull, 7);
    let mut builder = Snapshot::builder(sample::time(1));
    stats.add_to(&mut builder, sample::time(0));
    let snapshot = builder.build();
    let values = |descriptor| -> Vec<_> {
        let family = snapshot.family(descriptor).unwrap();
        family.points.iter().map(|point| (point.attributes[0].1.as_str(), point.value.clone())).collect()
    };
    assert_eq!(
        values(&gpu_api::metric::agent::OTLP_EXPORTS),
        [
            ("success", Value::U64(0)),
            ("partial", Value::U64(1)),
            ("rejected", Value::U64(0)),
            ("failed", Value::U64(0))
        ]
    );
    assert!(values(&gpu_api::metric::agent::OTLP_POINTS_DROPPED).contains(&("queue_full", Value::U64(7))));
}

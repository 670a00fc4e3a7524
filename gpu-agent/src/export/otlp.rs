//! Push of snapshots by OTLP, over gRPC or HTTP.
//!
//! Each interval makes one snapshot and queues it; a receiver that is slow or away delays neither the next snapshot
//! nor the agent. `docs/decisions/0002-otlp-from-the-snapshot.md` says why this does not use the OpenTelemetry SDK.

use std::error::Error as _;
use std::sync::Arc;

use gpu_api::metric::value::{ExportDropReason, ExportOutcome};
use tokio::time::{MissedTickBehavior, interval, sleep};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::SnapshotSource;

pub mod config;
mod connect;
mod environment;
mod grpc;
mod http_protobuf;
mod payload;
mod queue;
pub mod resource;
mod response;
mod retry;
mod stats;

pub use config::{Config, ConfigError, Settings};
pub use connect::ConnectError;
pub use environment::EnvironmentError;
pub use resource::{HostFacts, ResourceAttributes};
pub use stats::Stats;

use self::grpc::Grpc;
use self::http_protobuf::HttpProtobuf;
use self::payload::Payload;
use self::queue::Queue;
use self::response::{Delivery, SendError};
use self::retry::{GivenUp, Policy, Transport};

/// Pushes snapshots until it is stopped.
#[derive(Debug)]
pub struct Exporter {
    settings: Settings,
    resource: ResourceAttributes,
    stats: Arc<Stats>,
    transport: Either,
}

#[derive(Debug)]
enum Either {
    Grpc(Grpc),
    HttpProtobuf(HttpProtobuf),
}

impl Exporter {
    /// Reads the certificates. Nothing is connected before [`Exporter::run`].
    ///
    /// `facts` and the configured attributes make the resource; `stats` is what the agent exports about the push.
    pub fn new(settings: Settings, facts: &HostFacts, stats: Arc<Stats>) -> Result<Self, ConnectError> {
        let transport = match settings.protocol {
            config::Protocol::Grpc => Either::Grpc(Grpc::new(&settings)?),
            config::Protocol::HttpProtobuf => Either::HttpProtobuf(HttpProtobuf::new(&settings)?),
        };
        let resource = resource::attributes(facts, &settings.resource_attributes);
        Ok(Self { settings, resource, stats, transport })
    }

    /// Pushes a snapshot of `source` at once and at each interval, and a last one after `stop`.
    ///
    /// Returns when that is delivered, or `shutdown_timeout` after `stop`; points that are then left are counted.
    pub async fn run(self, source: Arc<dyn SnapshotSource>, stop: CancellationToken) {
        let Self { settings, resource, stats, transport } = self;
        match transport {
            Either::Grpc(transport) => push(&settings, &resource, &stats, &transport, source, stop).await,
            Either::HttpProtobuf(transport) => {
                push(&settings, &resource, &stats, &transport, source, stop).await;
            }
        }
    }
}

async fn push(
    settings: &Settings,
    resource: &ResourceAttributes,
    stats: &Stats,
    transport: &impl Transport,
    source: Arc<dyn SnapshotSource>,
    stop: CancellationToken,
) {
    let queue = Queue::new(settings.queue_bytes);
    let enqueue = async || {
        for payload in encoded(&source, resource, settings.points_per_request).await {
            stats.drop_points(ExportDropReason::QueueFull, queue.push(payload));
        }
    };
    let snapshots = async {
        let mut ticks = interval(settings.interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while stop.run_until_cancelled(ticks.tick()).await.is_some() {
            enqueue().await;
        }
        enqueue().await;
        queue.close();
    };
    let deliveries = async {
        let mut receiver =
            Receiver { stats, policy: Policy::from(settings), transport, trouble: Trouble::default() };
        while let Some(payload) = queue.next().await {
            receiver.deliver(payload).await;
            queue.done();
        }
    };
    let deadline = async {
        stop.cancelled().await;
        sleep(settings.shutdown_timeout).await;
    };
    tokio::select! {
        ((), ()) = async { tokio::join!(snapshots, deliveries) } => {}
        () = deadline => {
            let points = queue.abandon();
            stats.drop_points(ExportDropReason::Shutdown, points);
            warn!(points, "The receiver did not take the last points before the agent had to stop.");
        }
    }
}

/// Takes and encodes a snapshot on a thread that may block, since the source takes locks and encoding takes time.
async fn encoded(
    source: &Arc<dyn SnapshotSource>,
    resource: &ResourceAttributes,
    points_per_request: usize,
) -> Vec<Payload> {
    let source = Arc::clone(source);
    let resource = resource.clone();
    let task = tokio::task::spawn_blocking(move || {
        payload::encode(&source.snapshot(), &resource, points_per_request)
    });
    task.await.unwrap_or_else(|error| {
        warn!(error = &error as &dyn std::error::Error, "No snapshot could be made; this push is left out.");
        Vec::new()
    })
}

struct Receiver<'a, T> {
    stats: &'a Stats,
    policy: Policy,
    transport: &'a T,
    trouble: Trouble,
}

impl<T: Transport> Receiver<'_, T> {
    async fn deliver(&mut self, payload: Payload) {
        let Payload { bytes, points } = payload;
        let trouble = &mut self.trouble;
        let failed = |error: &SendError| trouble.report(points, chain(error));
        let result = self.policy.deliver(self.transport, bytes, fastrand::f64, failed).await;
        let (outcome, why) = match result {
            Ok(Delivery { rejected_points: 0, message }) => (ExportOutcome::Success, message),
            Ok(Delivery { rejected_points, message }) => {
                // A receiver may not claim to have rejected more than there was.
                self.stats.drop_points(ExportDropReason::Rejected, rejected_points.min(points));
                (ExportOutcome::Partial, format!("{rejected_points} points were rejected: {message}"))
            }
            Err(GivenUp::Refused(error)) => {
                self.stats.drop_points(ExportDropReason::Rejected, points);
                (ExportOutcome::Rejected, chain(&error))
            }
            Err(GivenUp::RetriesExhausted(error)) => {
                self.stats.drop_points(ExportDropReason::RetriesExhausted, points);
                (ExportOutcome::Failed, chain(&error))
            }
        };
        self.stats.count(outcome);
        if why.is_empty() {
            self.trouble.end();
        } else {
            self.trouble.report(points, why);
        }
    }
}

/// What is wrong with the receiver; it is logged when it begins, changes or ends, not at each push.
#[derive(Debug, Default)]
struct Trouble(Option<String>);

impl Trouble {
    fn report(&mut self, points: u64, why: String) {
        if self.0.as_ref() == Some(&why) {
            debug!(points, why, "The receiver still does not take all points.");
            return;
        }
        warn!(points, why, "The receiver does not take all points.");
        self.0 = Some(why);
    }

    fn end(&mut self) {
        if self.0.take().is_some() {
            info!("The receiver takes all points again.");
        }
    }
}

/// The error with its causes, in one line.
fn chain(error: &SendError) -> String {
    let causes = std::iter::successors(error.source(), |cause| (*cause).source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

#[cfg(test)]
mod tests;

//! The HTTP endpoints of the agent: `/metrics`, `/healthz`, `/readyz`, `/v1/status`.
//!
//! All of them only read, none of them reads a request body, and none of them can hold the agent up: snapshots are
//! made on threads that may block, under a deadline and in a bounded number.

use std::io;
use std::net::SocketAddr;
use std::num::{NonZeroU64, NonZeroUsize};
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use serde::Deserialize;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_io_timeout::TimeoutStream;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use crate::export::SnapshotSource;

mod endpoints;

/// The HTTP server.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Address and port to listen on; port 0 takes a free one. Default: `127.0.0.1:9464`.
    pub listen: SocketAddr,
    /// Milliseconds after which a scrape is answered with an error; a scraper that says that it waits for less gets
    /// its answer by then. Default: 8000.
    pub scrape_timeout_ms: NonZeroU64,
    /// Connections at one time; further ones wait. Default: 64.
    pub max_connections: NonZeroUsize,
}

impl Default for Config {
    fn default() -> Self {
        const SCRAPE: NonZeroU64 = NonZeroU64::new(8000).expect("8000 is not zero");
        const CONNECTIONS: NonZeroUsize = NonZeroUsize::new(64).expect("64 is not zero");
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 9464)),
            scrape_timeout_ms: SCRAPE,
            max_connections: CONNECTIONS,
        }
    }
}

/// The address cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on `{listen}`; give another address or port in `listen`")]
pub struct BindError {
    listen: SocketAddr,
    #[source]
    source: io::Error,
}

/// A bound server that does not answer yet.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    config: Config,
}

/// From the first byte of a request, or from the last answer, to the end of the next request's headers.
const HEADERS_WITHIN: Duration = Duration::from_secs(30);
/// A reader that takes nothing of its answer for so long gives its slot to others.
const PROGRESS_WITHIN: Duration = Duration::from_secs(10);
/// Requests have a line and a few headers.
const READ_BUFFER_BYTES: usize = 16 << 10;
/// Answers that are under way when the agent stops.
const DRAIN_WITHIN: Duration = Duration::from_secs(2);
/// After a failure to accept, which mostly means that there are no file descriptors left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

impl Server {
    /// Binds the address, so that a port in use is an error at start and clients can connect from then on.
    pub async fn bind(config: Config) -> Result<Self, BindError> {
        let failed = |source| BindError { listen: config.listen, source };
        let listener = TcpListener::bind(config.listen).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self { listener, address, config })
    }

    /// The address with the port that was bound.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers until `stop`, then lets the answers under way end.
    pub async fn run(self, source: Arc<dyn SnapshotSource>, stop: CancellationToken) {
        let router = endpoints::router(source, Duration::from_millis(self.config.scrape_timeout_ms.get()));
        let service = TowerToHyperService::new(router);
        let slots = Arc::new(Semaphore::new(self.config.max_connections.get()));
        let graceful = GracefulShutdown::new();
        let mut connections = JoinSet::new();

        while let Some(stream) = stop.run_until_cancelled(self.accept(&slots)).await {
            let (stream, slot) = stream;
            let mut stream = TimeoutStream::new(stream);
            stream.set_write_timeout(Some(PROGRESS_WITHIN));
            let connection = hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEADERS_WITHIN)
                .max_buf_size(READ_BUFFER_BYTES)
                .serve_connection(TokioIo::new(Box::pin(stream)), service.clone());
            let connection = graceful.watch(connection);
            connections.spawn(async move {
                if let Err(error) = connection.await {
                    debug!(error = &error as &dyn std::error::Error, "A connection ended early.");
                }
                drop(slot);
            });
            while connections.try_join_next().is_some() {}
        }
        drop(self.listener);
        if timeout(DRAIN_WITHIN, graceful.shutdown()).await.is_err() {
            warn!(connections = connections.len(), "Connections were cut because the agent stops.");
        }
        connections.shutdown().await;
    }

    /// The next connection, with the slot that it occupies.
    async fn accept(&self, slots: &Arc<Semaphore>) -> (TcpStream, Option<tokio::sync::OwnedSemaphorePermit>) {
        // The semaphore is never closed, so there is always a slot in the end.
        let slot = Arc::clone(slots).acquire_owned().await.ok();
        loop {
            match self.listener.accept().await {
                Ok((stream, _peer)) => return (stream, slot),
                Err(error) => {
                    warn!(error = &error as &dyn std::error::Error, "A connection could not be accepted.");
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;

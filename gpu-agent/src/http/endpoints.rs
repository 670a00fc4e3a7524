//! What the endpoints answer.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, StatusCode};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::export::SnapshotSource;
use crate::export::prometheus::{self, Format};

const INDEX: &str = "gpu-agent\n\n/metrics    Prometheus text or OpenMetrics\n/healthz    the process answers\n\
                     /readyz     the agent does its work\n/v1/status  what it sees, as JSON\n";

/// Calls into the source at one time. One that hangs holds one; the others answer.
const CALLS: usize = 4;

#[derive(Clone)]
struct Endpoints {
    source: Arc<dyn SnapshotSource>,
    calls: Arc<Semaphore>,
    scrape_timeout: Duration,
}

pub(super) fn router(source: Arc<dyn SnapshotSource>, scrape_timeout: Duration) -> Router {
    let endpoints = Endpoints { source, calls: Arc::new(Semaphore::new(CALLS)), scrape_timeout };
    Router::new()
        .route("/", get(async || INDEX))
        .route("/metrics", get(metrics))
        // Says only that the process answers: restarting an agent because a GPU hangs would not help.
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(ready))
        .route("/v1/status", get(status))
        .with_state(endpoints)
}

async fn metrics(State(endpoints): State<Endpoints>, headers: HeaderMap) -> Response {
    let format = Format::from_accept(headers.get(ACCEPT).and_then(|value| value.to_str().ok()));
    let within = scrape_timeout(&headers, endpoints.scrape_timeout);
    let rendered = endpoints.call(within, move |source| prometheus::render(source.snapshot(), format)).await;
    match rendered {
        Ok(Ok(text)) => ([(CONTENT_TYPE, format.content_type())], text).into_response(),
        Ok(Err(std::fmt::Error)) => unavailable("the metrics could not be rendered"),
        Err(unanswered) => unanswered,
    }
}

async fn ready(State(endpoints): State<Endpoints>) -> Response {
    match endpoints.call(endpoints.scrape_timeout, SnapshotSource::ready).await {
        Ok(Ok(())) => "ready\n".into_response(),
        Ok(Err(reason)) => unavailable(&reason),
        Err(unanswered) => unanswered,
    }
}

async fn status(State(endpoints): State<Endpoints>) -> Response {
    match endpoints.call(endpoints.scrape_timeout, SnapshotSource::status).await {
        Ok(status) => axum::Json(status).into_response(),
        Err(unanswered) => unanswered,
    }
}

impl Endpoints {
    /// Runs `call` on a thread that may block, and answers in its place when it is late.
    async fn call<R: Send + 'static>(
        &self,
        within: Duration,
        call: impl FnOnce(&dyn SnapshotSource) -> R + Send + 'static,
    ) -> Result<R, Response> {
        let source = Arc::clone(&self.source);
        let calls = Arc::clone(&self.calls);
        let answer = timeout(within, async move {
            // The permit goes with the call, not with the request: a call that hangs goes on when the client left.
            let permit = calls.acquire_owned().await;
            tokio::task::spawn_blocking(move || {
                let result = call(source.as_ref());
                drop(permit);
                result
            })
            .await
        });
        match answer.await {
            Ok(Ok(result)) => Ok(result),
            Ok(Err(_panicked)) => Err(unavailable("the agent failed to answer; its log says why")),
            Err(_elapsed) => Err(unavailable("no answer in time; the agent is busy or a driver call hangs")),
        }
    }
}

fn unavailable(reason: &str) -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n")).into_response()
}

/// The configured timeout, or less where Prometheus says that it waits for less; a tenth is left for the way back.
fn scrape_timeout(headers: &HeaderMap, configured: Duration) -> Duration {
    let announced = headers.get("x-prometheus-scrape-timeout-seconds");
    let seconds = announced.and_then(|value| value.to_str().ok()).and_then(|text| text.parse::<f64>().ok());
    match seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds * 0.9).ok()) {
        Some(announced) if !announced.is_zero() => configured.min(announced),
        _ => configured,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::{HeaderMap, HeaderValue};

    use super::scrape_timeout;

    #[test]
    fn a_scraper_that_waits_for_less_is_answered_by_then() {
        let configured = Duration::from_secs(8);
        for (header, expected_ms) in
            [("5", 4500), ("0.5", 450), ("60", 8000), ("0", 8000), ("-1", 8000), ("NaN", 8000), ("x", 8000)]
        {
            let mut headers = HeaderMap::new();
            headers.insert("x-prometheus-scrape-timeout-seconds", HeaderValue::from_static(header));
            assert_eq!(scrape_timeout(&headers, configured), Duration::from_millis(expected_ms), "{header}");
        }
        assert_eq!(scrape_timeout(&HeaderMap::new(), configured), configured);
    }
}

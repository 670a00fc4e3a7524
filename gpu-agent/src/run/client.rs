//! Asking a running agent.

use anyhow::Context as _;
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::body::Bytes;
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};

use super::address_file;
use crate::config::Loaded;

/// No status is longer.
const MAX_ANSWER_BYTES: usize = 64 << 20;
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(10);

/// The running agent's `/v1/status`.
///
/// # Errors
/// When no agent answers, or not with a status.
pub async fn status(loaded: &Loaded) -> anyhow::Result<serde_json::Value> {
    let config = &loaded.config;
    let address = std::fs::read_to_string(address_file(&config.state_dir))
        .ok()
        .filter(|_| !loaded.is_set("listen"))
        .unwrap_or_else(|| config.listen.to_string());
    let url = format!("http://{}/v1/status", address.trim());
    let uri = url.parse().with_context(|| format!("`{url}` is not an address"))?;
    let client: Client<HttpConnector, Empty<Bytes>> = Client::builder(TokioExecutor::new()).build_http();
    let answer = tokio::time::timeout(PATIENCE, async {
        let response = client.get(uri).await.with_context(|| {
            format!("no agent answers at `{address}`: is `gpu-agent run` running on this node?")
        })?;
        anyhow::ensure!(response.status().is_success(), "the agent answers {}", response.status());
        let body = Limited::new(response.into_body(), MAX_ANSWER_BYTES).collect().await;
        body.map(http_body_util::Collected::to_bytes).map_err(|error| anyhow::anyhow!("{error}"))
    })
    .await
    .with_context(|| format!("the agent at `{address}` does not answer"))??;
    serde_json::from_slice(&answer).context("the agent's answer is not JSON")
}

//! The OTLP push as the configuration and the standard environment variables want it.

use std::{collections::BTreeMap, fs, num::NonZeroU64, sync::Arc, time::Duration};

use crate::{
    config::{self, Loaded, Otlp, OtlpProtocol, OtlpTls},
    export::otlp::{
        Config, Exporter, HostFacts, Settings, Stats,
        config::{Compression, Headers, Protocol, TlsConfig},
    },
};

/// The exporter, where there is an endpoint.
///
/// # Errors
/// An endpoint, header, certificate or environment variable that cannot be used.
pub(super) fn exporter(loaded: &Loaded, stats: Arc<Stats>) -> anyhow::Result<Option<Exporter>> {
    let config = converted(&loaded.config.otlp, |key| loaded.is_set(key));
    let Some(settings) = Settings::resolve(config, config::process_environment)? else { return Ok(None) };
    tracing::info!(endpoint = %settings.endpoint, "pushing by OTLP");
    Ok(Some(Exporter::new(settings, &host_facts(), stats)?))
}

/// The exporter's form of the agent's configuration. A key that is nowhere set leaves the choice to the standard
/// environment variables.
fn converted(otlp: &Otlp, is_set: impl Fn(&str) -> bool) -> Config {
    let Otlp { endpoint, protocol, headers, tls, gzip, timeout, interval, queue_bytes } = otlp;
    let OtlpTls { ca_file, cert_file, key_file } = tls;
    let milliseconds =
        |duration: Duration| u64::try_from(duration.as_millis()).ok().and_then(NonZeroU64::new);
    let default = Config::default();
    Config {
        endpoint: endpoint.clone(),
        protocol: is_set("otlp.protocol").then_some(match protocol {
            OtlpProtocol::Grpc => Protocol::Grpc,
            OtlpProtocol::Http => Protocol::HttpProtobuf,
        }),
        interval_ms: is_set("otlp.interval").then(|| milliseconds(*interval)).flatten(),
        timeout_ms: is_set("otlp.timeout").then(|| milliseconds(*timeout)).flatten(),
        headers: Headers(headers.clone()),
        compression: is_set("otlp.gzip").then_some(if *gzip { Compression::Gzip } else { Compression::None }),
        resource_attributes: BTreeMap::new(),
        queue_bytes: usize::try_from(*queue_bytes)
            .ok()
            .and_then(std::num::NonZeroUsize::new)
            .unwrap_or(default.queue_bytes),
        tls: TlsConfig {
            ca_file: ca_file.clone(),
            client_certificate_file: cert_file.clone(),
            client_key_file: key_file.clone(),
            server_name: None,
        },
        ..default
    }
}

fn host_facts() -> HostFacts {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let machine_id = fs::read_to_string("/etc/machine-id").ok().map(|id| id.trim().to_owned());
    HostFacts {
        host_name: Some(name),
        host_id: machine_id,
        node_name: config::process_environment("NODE_NAME"),
    }
}

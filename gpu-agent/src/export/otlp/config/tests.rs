use std::time::Duration;

use super::{Compression, Config, Protocol, Settings};

fn config(text: &str) -> Config {
    toml::from_str(text).unwrap()
}

fn resolve(text: &str, env: &[(&str, &str)]) -> Settings {
    try_resolve(text, env).unwrap().expect("there is an endpoint")
}

fn try_resolve(text: &str, env: &[(&str, &str)]) -> Result<Option<Settings>, String> {
    let env = |name: &str| env.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
    Settings::resolve(config(text), env).map_err(|error| error.to_string())
}

#[test]
fn without_an_endpoint_nothing_is_pushed() {
    assert!(try_resolve("", &[("OTEL_EXPORTER_OTLP_ENDPOINT", "")]).unwrap().is_none());
}

#[test]
fn defaults() {
    let settings = resolve("endpoint = 'http://collector:4317'", &[]);
    assert_eq!(settings.endpoint, "http://collector:4317/");
    assert_eq!(settings.protocol, Protocol::Grpc);
    assert_eq!(settings.compression, Compression::Gzip);
    assert_eq!(settings.interval, Duration::from_secs(10));
    assert_eq!(settings.timeout, Duration::from_secs(10));
    assert!(settings.headers.is_empty());
}

#[test]
fn the_path_of_http_is_that_of_the_signal_unless_one_is_given() {
    for (endpoint, expected) in [
        ("http://c:4318", "http://c:4318/v1/metrics"),
        ("http://c:4318/", "http://c:4318/v1/metrics"),
        ("https://p:9090/api/v1/otlp/v1/metrics", "https://p:9090/api/v1/otlp/v1/metrics"),
    ] {
        let settings = resolve(&format!("protocol = 'http/protobuf'\nendpoint = '{endpoint}'"), &[]);
        assert_eq!(settings.endpoint, expected);
    }
}

#[test]
fn the_environment_fills_what_the_configuration_leaves_open() {
    let env = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://general:4318/prefix/"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "2500"),
        ("OTEL_EXPORTER_OTLP_METRICS_TIMEOUT", "1500"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20x,tenant=a"),
        ("OTEL_EXPORTER_OTLP_COMPRESSION", "none"),
        ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/ca.pem"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "60000"),
        ("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=prod,service.name=x"),
        ("OTEL_SERVICE_NAME", "agent"),
    ];
    let settings = resolve("", &env);
    assert_eq!(settings.endpoint, "http://general:4318/prefix/v1/metrics");
    assert_eq!(settings.timeout, Duration::from_millis(1500));
    assert_eq!(settings.interval, Duration::from_secs(60));
    assert_eq!(settings.compression, Compression::None);
    assert_eq!(settings.headers["authorization"], "Bearer x");
    assert_eq!(settings.tls.ca_file.unwrap().to_str(), Some("/ca.pem"));
    assert_eq!(settings.resource_attributes["service.name"], "agent");
    assert_eq!(settings.resource_attributes["deployment.environment.name"], "prod");

    let settings = resolve(
        "endpoint = 'http://mine'\nprotocol = 'grpc'\ncompression = 'gzip'\nheaders = { tenant = 'b' }\n\
         resource_attributes = { 'service.name' = 'mine' }",
        &env,
    );
    assert_eq!(settings.endpoint, "http://mine/");
    assert_eq!(settings.protocol, Protocol::Grpc);
    assert_eq!(settings.compression, Compression::Gzip);
    assert_eq!(settings.headers["tenant"], "b");
    assert_eq!(settings.headers["authorization"], "Bearer x");
    assert_eq!(settings.resource_attributes["service.name"], "mine");
}

#[test]
fn the_endpoint_for_metrics_is_taken_as_it_is_and_may_lack_a_scheme() {
    let env =
        [("OTEL_EXPORTER_OTLP_ENDPOINT", "http://x"), ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "c:4317")];
    assert_eq!(resolve("", &env).endpoint, "https://c:4317/");
    let env = [("OTEL_EXPORTER_OTLP_ENDPOINT", "c:4317"), ("OTEL_EXPORTER_OTLP_INSECURE", "true")];
    assert_eq!(resolve("", &env).endpoint, "http://c:4317/");
    let env = [
        ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://p/api/v1/otlp/v1/metrics"),
        ("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "http/protobuf"),
    ];
    assert_eq!(resolve("", &env).endpoint, "http://p/api/v1/otlp/v1/metrics");
}

#[test]
fn what_is_wrong_is_named_with_what_was_expected() {
    let error = |text, env| try_resolve(text, env).unwrap_err();
    assert_eq!(
        error("endpoint = 'collector:4317'", &[]),
        "`endpoint` is `collector:4317`: expected `http://host:port` or `https://host:port`"
    );
    assert_eq!(
        error("endpoint = 'http://p:9090/api'", &[]),
        "`endpoint` is `http://p:9090/api`: `grpc` takes no path; remove it, or set `protocol` to `http/protobuf`"
    );
    assert_eq!(
        error("endpoint = 'http://c'\nheaders = { 'a b' = 'c' }", &[]),
        "`headers.a b`: name or value has characters that HTTP does not allow"
    );
    assert_eq!(
        error("endpoint = 'http://c'\nheaders = { Content-Type = 'c' }", &[]),
        "`headers.Content-Type`: the exporter sets this header itself; remove it"
    );
    assert_eq!(
        error("endpoint = 'https://c'\ntls.client_key_file = '/k'", &[]),
        "`tls.client_certificate_file` and `tls.client_key_file`: give both or neither"
    );
    assert_eq!(
        error("", &[("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "http/json")]),
        "environment variable `OTEL_EXPORTER_OTLP_METRICS_PROTOCOL` is `http/json`: expected `grpc` or `http/protobuf`"
    );
    assert_eq!(
        error("", &[("OTEL_EXPORTER_OTLP_TIMEOUT", "10s")]),
        "environment variable `OTEL_EXPORTER_OTLP_TIMEOUT` is `10s`: expected a number of milliseconds above 0"
    );
    assert_eq!(
        error("", &[("OTEL_EXPORTER_OTLP_HEADERS", "authorization")]),
        "environment variable `OTEL_EXPORTER_OTLP_HEADERS`: expected `key=value,key=value` with percent-encoded values"
    );
    assert!(error("", &[("OTEL_EXPORTER_OTLP_HEADERS", "a=%2")]).contains("percent-encoded"));
    assert!(toml::from_str::<Config>("endpont = 'x'").unwrap_err().to_string().contains("endpont"));
}

#[test]
fn credentials_do_not_reach_debug_output() {
    let text = "endpoint = 'http://c'\nheaders = { authorization = 'hunter2' }";
    assert!(!format!("{:?}", config(text)).contains("hunter2"));
    assert!(!format!("{:?}", resolve(text, &[])).contains("hunter2"));
}

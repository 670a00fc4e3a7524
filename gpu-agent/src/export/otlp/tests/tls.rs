//! TLS with an authority made for the test.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tonic::transport::server::ServerTlsConfig;
use tonic::transport::{Certificate, Identity};

use super::receiver::{GrpcReceiver, HttpReceiver};
use super::{HostFacts, Stats, counted, settings, start};
use crate::export::otlp::Exporter;

/// An authority, the receiver's certificate and the agent's.
struct Pki {
    dir: TempDir,
    authority_pem: String,
    receiver: (String, String),
}

impl Pki {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let signed = |name: &str| {
            let key = KeyPair::generate().unwrap();
            let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
            (params.signed_by(&key, &authority).unwrap().pem(), key.serialize_pem())
        };
        let dir = tempfile::tempdir().unwrap();
        let agent = signed("agent");
        std::fs::write(dir.path().join("ca.pem"), authority.pem()).unwrap();
        std::fs::write(dir.path().join("agent.pem"), &agent.0).unwrap();
        std::fs::write(dir.path().join("agent.key"), &agent.1).unwrap();
        Self { dir, authority_pem: authority.pem(), receiver: signed("receiver.test") }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn grpc(&self) -> ServerTlsConfig {
        ServerTlsConfig::new()
            .identity(Identity::from_pem(&self.receiver.0, &self.receiver.1))
            .client_ca_root(Certificate::from_pem(&self.authority_pem))
    }

    fn toml(&self, server_name: &str) -> String {
        format!(
            "tls = {{ ca_file = '{}', client_certificate_file = '{}', client_key_file = '{}', \
             server_name = '{server_name}' }}",
            self.file("ca.pem").display(),
            self.file("agent.pem").display(),
            self.file("agent.key").display(),
        )
    }
}

#[tokio::test]
async fn grpc_with_certificates_on_both_sides() {
    let pki = Pki::new();
    let mut receiver = GrpcReceiver::start_with(Some(pki.grpc())).await;
    let running = start(settings(&receiver.endpoint, &pki.toml("receiver.test")));
    assert_eq!(receiver.next().await.value(), 1);
    assert_eq!(counted(&*running.stop().await), [("success", 2)]);
}

#[tokio::test]
async fn http_with_a_private_authority() {
    let pki = Pki::new();
    let listener = TlsListener::bind(&pki).await;
    let endpoint = format!("https://localhost:{}", listener.tcp.local_addr().unwrap().port());
    let mut receiver = HttpReceiver::start_on(listener, endpoint.clone(), vec![]);
    let more = format!("protocol = 'http/protobuf'\n{}", pki.toml("receiver.test"));
    let running = start(settings(&endpoint, &more));
    assert_eq!(receiver.next().await.value(), 1);
    assert_eq!(counted(&*running.stop().await), [("success", 2)]);
}

#[tokio::test]
async fn a_receiver_with_another_name_or_authority_gets_nothing() {
    let (pki, other) = (Pki::new(), Pki::new());
    let mut receiver = GrpcReceiver::start_with(Some(pki.grpc())).await;
    for tls in [pki.toml("else.test"), other.toml("receiver.test")] {
        let running =
            start(settings(&receiver.endpoint, &format!("retry = {{ max_elapsed_ms = 0 }}\n{tls}")));
        // Stopped before its first interval, it makes the last push only.
        assert_eq!(counted(&*running.stop().await), [("failed", 1), ("retries_exhausted", 1)]);
        assert!(receiver.got_nothing());
    }
}

#[test]
fn certificates_that_cannot_be_used_are_named() {
    let pki = Pki::new();
    let error = |tls: &str| {
        let settings = settings("https://c", tls);
        Exporter::new(settings, &HostFacts::default(), Arc::new(Stats::default())).unwrap_err().to_string()
    };
    let key = pki.file("agent.key");
    assert_eq!(
        error("tls = { ca_file = '/nowhere/ca.pem' }"),
        "`tls.ca_file`: cannot read certificates in PEM from `/nowhere/ca.pem`"
    );
    assert_eq!(
        error(&format!("tls = {{ ca_file = '{}' }}", key.display())),
        format!("`tls.ca_file`: `{}` holds no certificate in PEM", key.display())
    );
    assert_eq!(error(&pki.toml("a b")), "`tls.server_name` is `a b`: expected a DNS name or an IP address");
    std::fs::write(&key, "nonsense").unwrap();
    assert_eq!(
        error(&pki.toml("receiver.test")),
        format!("`tls.client_key_file`: cannot read a private key in PEM from `{}`", key.display())
    );
}

/// Hands out connections on which TLS is established.
struct TlsListener {
    tcp: TcpListener,
    acceptor: TlsAcceptor,
}

impl TlsListener {
    async fn bind(pki: &Pki) -> Self {
        let write = |name: &str, text: &str| -> PathBuf {
            std::fs::write(pki.file(name), text).unwrap();
            pki.file(name)
        };
        let chain = chain(&write("receiver.pem", &pki.receiver.0));
        let key = PrivateKeyDer::from_pem_file(write("receiver.key", &pki.receiver.1)).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .unwrap();
        Self {
            tcp: TcpListener::bind("127.0.0.1:0").await.unwrap(),
            acceptor: TlsAcceptor::from(Arc::new(config)),
        }
    }
}

fn chain(path: &Path) -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_file_iter(path).unwrap().collect::<Result<_, _>>().unwrap()
}

impl axum::serve::Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        let (stream, peer) = self.tcp.accept().await.unwrap();
        (self.acceptor.accept(stream).await.unwrap(), peer)
    }

    fn local_addr(&self) -> std::io::Result<SocketAddr> {
        self.tcp.local_addr()
    }
}

//! The connection to the receiver, for both protocols.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use http::uri::Scheme;
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, InvalidDnsNameError, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};

use super::config::{Protocol, Settings, TlsConfig};

/// A client that keeps its connection and makes a new one when that broke.
pub(super) type HyperClient<B> = Client<HttpsConnector<HttpConnector>, B>;

/// The certificates cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// A file cannot be read or holds no PEM of the expected kind.
    #[error("`tls.{key}`: cannot read {expected} from `{}`", path.display())]
    File {
        key: &'static str,
        path: PathBuf,
        expected: &'static str,
        #[source]
        source: pem::Error,
    },
    /// A file holds no certificate at all.
    #[error("`tls.{key}`: `{}` holds no certificate in PEM", path.display())]
    NoCertificate { key: &'static str, path: PathBuf },
    /// The system has no trusted certificates.
    #[error(
        "the system has no trusted certificates; set `tls.ca_file`, or install them (Debian: ca-certificates)"
    )]
    NoSystemRoots,
    /// `tls.server_name` is neither a DNS name nor an IP address.
    #[error("`tls.server_name` is `{name}`: expected a DNS name or an IP address")]
    ServerName {
        name: String,
        #[source]
        source: InvalidDnsNameError,
    },
    /// The TLS library refuses a certificate or key.
    #[error("the certificates of `tls` cannot be used")]
    Tls(#[from] rustls::Error),
}

/// Makes a client for the endpoint of `settings`. Certificates are read here, once; no connection is made yet.
pub(super) fn client<B>(settings: &Settings) -> Result<HyperClient<B>, ConnectError>
where
    B: http_body::Body + Send,
    B::Data: Send,
{
    let https = settings.endpoint.scheme() == Some(&Scheme::HTTPS);
    let mut builder =
        HttpsConnectorBuilder::new().with_tls_config(tls_config(&settings.tls, https)?).https_or_http();
    if let Some(name) = &settings.tls.server_name {
        let invalid = |source| ConnectError::ServerName { name: name.clone(), source };
        let name = ServerName::try_from(name.clone()).map_err(invalid)?;
        builder = builder.with_server_name_resolver(FixedServerNameResolver::new(name));
    }
    let mut http = HttpConnector::new();
    http.enforce_http(false);
    http.set_nodelay(true);
    http.set_connect_timeout(Some(settings.timeout));
    let grpc = settings.protocol == Protocol::Grpc;
    let connector = if grpc {
        builder.enable_http2().wrap_connector(http)
    } else {
        builder.enable_http1().wrap_connector(http)
    };
    Ok(Client::builder(TokioExecutor::new()).http2_only(grpc).build(connector))
}

fn tls_config(tls: &TlsConfig, https: bool) -> Result<ClientConfig, ConnectError> {
    let mut roots = RootCertStore::empty();
    match &tls.ca_file {
        _ if !https => {}
        Some(path) => {
            for certificate in certificates("ca_file", path)? {
                roots.add(certificate)?;
            }
        }
        None => {
            // Single certificates of the system that cannot be read or used do not matter as long as others can.
            let (usable, _unusable) =
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            if usable == 0 {
                return Err(ConnectError::NoSystemRoots);
            }
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots);
    match (&tls.client_certificate_file, &tls.client_key_file) {
        (Some(certificate), Some(key)) if https => {
            let chain = certificates("client_certificate_file", certificate)?;
            let key = PrivateKeyDer::from_pem_file(key).map_err(|source| ConnectError::File {
                key: "client_key_file",
                path: key.clone(),
                expected: "a private key in PEM",
                source,
            })?;
            Ok(config.with_client_auth_cert(chain, key)?)
        }
        _ => Ok(config.with_no_client_auth()),
    }
}

fn certificates(key: &'static str, path: &Path) -> Result<Vec<CertificateDer<'static>>, ConnectError> {
    let unreadable =
        |source| ConnectError::File { key, path: path.to_owned(), expected: "certificates in PEM", source };
    let certificates: Vec<_> = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<_, _>>)
        .map_err(unreadable)?;
    if certificates.is_empty() {
        return Err(ConnectError::NoCertificate { key, path: path.to_owned() });
    }
    Ok(certificates)
}

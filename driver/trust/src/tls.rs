//! Mutual TLS 1.3 only: each side shows a certificate of an authority that the other trusts.

use crate::Now;
use crate::error::Error;
use crate::gate::{Domain, TrustGate};
use crate::pem;
use crate::source::{CertificateSource, DiskSource};
use rustls::client::Resumption;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::UnixTime;
use rustls::server::NoServerSessionStorage;
use rustls::time_provider::TimeProvider;
use rustls::{ClientConfig, ServerConfig};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The files with which a program proves its identity and verifies its peers.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct Files {
    /// The certificate of our own domain's authority.
    pub ca: PathBuf,
    /// Our own certificate; intermediate certificates may follow it.
    pub certificate: PathBuf,
    /// The key of our certificate.
    pub key: PathBuf,
    /// The list of revoked certificates of our domain; read again whenever it changes.
    pub revoked: Option<PathBuf>,
    /// Partner domains whose certificates are accepted, each for its own names only.
    #[serde(default)]
    pub partners: Vec<Domain>,
}

impl Files {
    /// The paths of all these files.
    pub fn paths(&self) -> Vec<&Path> {
        let fixed = [&self.ca, &self.certificate, &self.key];
        let theirs = self.partners.iter().flat_map(|one| std::iter::once(&one.ca).chain(&one.revoked));
        fixed.into_iter().chain(&self.revoked).chain(theirs).map(PathBuf::as_path).collect()
    }
}

/// The application protocol (ALPN, RFC 7301): a caller that mistakes an agent for a broker, or the reverse,
/// learns it in the handshake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Speaks {
    /// The broker's HTTP/1.1.
    Http,
    /// The agent's JSON lines.
    Agent,
}

impl Speaks {
    fn names(self) -> Vec<Vec<u8>> {
        match self {
            Speaks::Http => vec![b"http/1.1".to_vec()],
            Speaks::Agent => vec![b"sluice-agent/1".to_vec()],
        }
    }
}

/// The configuration of a listener. Each connection shows its certificate anew: sessions are not resumed, so
/// a revocation holds at once.
///
/// # Errors
/// A file is missing or has the wrong content.
pub fn server(files: &Files, now: Now, speaks: Speaks) -> Result<(Arc<ServerConfig>, Arc<TrustGate>), Error> {
    server_from(files, Arc::new(DiskSource), now, speaks)
}

/// Like [`server`], with files from another source.
///
/// # Errors
/// As [`server`].
pub fn server_from(
    files: &Files,
    source: Arc<dyn CertificateSource>,
    now: Now,
    speaks: Speaks,
) -> Result<(Arc<ServerConfig>, Arc<TrustGate>), Error> {
    let gate = Arc::new(TrustGate::open(files, source.clone(), now.clone())?);
    let mut config = ServerConfig::builder_with_details(provider(), Arc::new(Clock(now)))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|error| Error::Misuse(error.to_string()))?
        .with_client_cert_verifier(gate.clone())
        .with_single_cert(pem::certificates(&*source, &files.certificate)?, pem::key(&*source, &files.key)?)
        .map_err(|error| Error::content(&files.certificate, error))?;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    config.alpn_protocols = speaks.names();
    Ok((Arc::new(config), gate))
}

/// The configuration of an HTTP server whose callers show no certificate, such as browsers.
///
/// # Errors
/// A file is missing or has the wrong content.
pub fn server_for_all(files: &Files, now: Now) -> Result<Arc<ServerConfig>, Error> {
    let mut config = ServerConfig::builder_with_details(provider(), Arc::new(Clock(now)))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|error| Error::Misuse(error.to_string()))?
        .with_no_client_auth()
        .with_single_cert(pem::certificates(&DiskSource, &files.certificate)?, pem::key(&DiskSource, &files.key)?)
        .map_err(|error| Error::content(&files.certificate, error))?;
    config.alpn_protocols = Speaks::Http.names();
    Ok(Arc::new(config))
}

/// The configuration of a caller: the peer must be a broker or an agent of a trusted authority, under the
/// name that was called.
///
/// # Errors
/// A file is missing or has the wrong content.
pub fn client(files: &Files, now: Now, speaks: Speaks) -> Result<Arc<ClientConfig>, Error> {
    client_from(files, Arc::new(DiskSource), now, speaks)
}

/// Like [`client`], with files from another source.
///
/// # Errors
/// As [`client`].
pub fn client_from(
    files: &Files,
    source: Arc<dyn CertificateSource>,
    now: Now,
    speaks: Speaks,
) -> Result<Arc<ClientConfig>, Error> {
    let gate = Arc::new(TrustGate::open(files, source.clone(), now.clone())?);
    let mut config = ClientConfig::builder_with_details(provider(), Arc::new(Clock(now)))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|error| Error::Misuse(error.to_string()))?
        .dangerous()
        .with_custom_certificate_verifier(gate)
        .with_client_auth_cert(pem::certificates(&*source, &files.certificate)?, pem::key(&*source, &files.key)?)
        .map_err(|error| Error::content(&files.certificate, error))?;
    config.resumption = Resumption::disabled();
    config.alpn_protocols = speaks.names();
    Ok(Arc::new(config))
}

/// The one set of algorithms: that of ring.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// Our clock for rustls.
pub(crate) struct Clock(pub(crate) Now);

impl std::fmt::Debug for Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Clock")
    }
}

impl TimeProvider for Clock {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(Duration::from_nanos((self.0)().as_nanos())))
    }
}

//! The gate: a chain that is too long, has run out, was revoked or was signed by somebody else does not pass.
//!
//! It wraps the path validation of rustls (webpki) with what that leaves to us: the length of the chain is checked
//! before any signature is, so that a chain made to cost time (RUSTSEC-2023-0052) costs none; the name must be one of
//! ours; and the revocation list is read again whenever its file changes. A list that cannot be read leaves the one before in place, and says so.

use crate::Now;
use crate::error::Error;
use crate::identity::Identity;
use crate::pem;
use crate::source::{Source, Stamp};
use crate::tls::provider;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, OtherError, RootCertStore, SignatureScheme};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use x509_parser::prelude::{CertificateRevocationList, FromDer};

/// Most certificates in a chain, from the peer's own to the last that it sends.
pub const MAX_CHAIN: usize = 4;

/// Who passes.
pub struct Gate {
    roots: Arc<RootCertStore>,
    hints: Vec<DistinguishedName>,
    revoked: Option<PathBuf>,
    source: Arc<dyn Source>,
    now: Now,
    seen: Mutex<Seen>,
}

/// What is in force, from the revocation list as it was when it was last read.
struct Seen {
    stamp: Stamp,
    clients: Arc<dyn ClientCertVerifier>,
    servers: Arc<WebPkiServerVerifier>,
    serials: Arc<BTreeSet<Vec<u8>>>,
    complaint: Option<String>,
}

impl std::fmt::Debug for Gate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gate").field("roots", &self.roots.len()).field("revoked", &self.revoked).finish()
    }
}

impl Gate {
    /// For what the authority in `ca` signed, less what the list in `revoked` names.
    ///
    /// # Errors
    /// A file is missing, or does not hold what it should.
    pub fn open(ca: &Path, revoked: Option<&Path>, source: Arc<dyn Source>, now: Now) -> Result<Gate, Error> {
        let mut roots = RootCertStore::empty();
        for certificate in pem::certificates(&*source, ca)? {
            roots.add(certificate).map_err(|error| Error::content(ca, error))?;
        }
        let roots = Arc::new(roots);
        let seen = Mutex::new(Seen::read(&roots, &*source, revoked)?);
        let hints = roots.subjects();
        Ok(Gate { roots, hints, revoked: revoked.map(Path::to_owned), source, now, seen })
    }

    /// Who a peer is, whose chain has passed the handshake; asked again at every request, since a connection may outlive its
    /// certificate's good name.
    ///
    /// # Errors
    /// [`Error::Refused`], with the reason.
    pub fn admit(&self, identity: &Identity) -> Result<(), Error> {
        let now = (self.now)();
        if now < identity.not_before || now >= identity.not_after {
            return Err(Error::Refused(format!("the certificate of {identity} is not good at this time")));
        }
        if self.current().serials.contains(&identity.serial) {
            return Err(Error::Refused(format!("the certificate of {identity} has been revoked")));
        }
        Ok(())
    }

    /// What is wrong with the revocation list, if it could not be read when it last changed.
    pub fn complaint(&self) -> Option<String> {
        self.current().complaint.clone()
    }

    /// What is in force, read anew if the file has changed.
    fn current(&self) -> MutexGuard<'_, Seen> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(path) = &self.revoked else { return seen };
        let stamp = self.source.stamp(path);
        if stamp != seen.stamp {
            match Seen::read(&self.roots, &*self.source, Some(path)) {
                Ok(new) => *seen = new,
                Err(error) => {
                    seen.stamp = stamp;
                    seen.complaint = Some(error.to_string());
                }
            }
        }
        seen
    }

    /// What needs no signature to be wrong.
    fn look(end: &CertificateDer<'_>, others: &[CertificateDer<'_>]) -> Result<Identity, rustls::Error> {
        if others.len() + 1 > MAX_CHAIN {
            let what = format!("a chain of {} certificates; at most {MAX_CHAIN}", others.len() + 1);
            return Err(refusal(Error::Refused(what)));
        }
        Identity::of(end).map_err(refusal)
    }
}

fn refusal(error: Error) -> rustls::Error {
    rustls::Error::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(error))))
}

impl Seen {
    fn read(roots: &Arc<RootCertStore>, source: &dyn Source, revoked: Option<&Path>) -> Result<Seen, Error> {
        let stamp = revoked.and_then(|path| source.stamp(path));
        let lists = revoked.map_or(Ok(Vec::new()), |path| pem::revoked(source, path))?;
        let wrong = |error: rustls::server::VerifierBuilderError| match revoked {
            Some(path) => Error::content(path, error),
            None => Error::Misuse(error.to_string()),
        };
        let clients = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider())
            .with_crls(lists.iter().cloned())
            .build()
            .map_err(wrong)?;
        let servers = WebPkiServerVerifier::builder_with_provider(roots.clone(), provider())
            .with_crls(lists.iter().cloned())
            .build()
            .map_err(wrong)?;
        let mut serials = BTreeSet::new();
        for list in &lists {
            let path = revoked.unwrap_or(Path::new(""));
            serials.extend(revoked_serials(list).map_err(|what| Error::content(path, what))?);
        }
        Ok(Seen { stamp, clients, servers, serials: Arc::new(serials), complaint: None })
    }
}

/// The serial numbers that a list names.
pub(crate) fn revoked_serials(list: &CertificateRevocationListDer<'_>) -> Result<Vec<Vec<u8>>, String> {
    let (_, list) = CertificateRevocationList::from_der(list).map_err(|_| "the revocation list is malformed")?;
    Ok(list.iter_revoked_certificates().map(|one| one.raw_serial().to_vec()).collect())
}

impl ClientCertVerifier for Gate {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.hints
    }

    fn verify_client_cert(
        &self,
        end: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Gate::look(end, others)?;
        let clients = self.current().clients.clone();
        clients.verify_client_cert(end, others, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = provider().signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, cert, dss, &algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = provider().signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, cert, dss, &algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        provider().signature_verification_algorithms.supported_schemes()
    }
}

impl ServerCertVerifier for Gate {
    fn verify_server_cert(
        &self,
        end: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let identity = Gate::look(end, others)?;
        if !identity.role.serves() {
            return Err(refusal(Error::Refused(format!("{identity} is neither a broker nor an agent"))));
        }
        let servers = self.current().servers.clone();
        servers.verify_server_cert(end, others, name, ocsp, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        ClientCertVerifier::verify_tls12_signature(self, message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        ClientCertVerifier::verify_tls13_signature(self, message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        ClientCertVerifier::supported_verify_schemes(self)
    }
}

//! The gate: it refuses a chain that is too long, has expired, was revoked or was signed by an unknown
//! authority.
//!
//! It adds to the path validation of rustls (webpki). The length of the chain is checked before any
//! signature, so that a chain made to cost time (RUSTSEC-2023-0052) costs none. The name must be one of ours.
//! The revocation lists are read again whenever their files change; if a list cannot be read, the previous
//! one stays in force and the fault is reported.
//!
//! Each domain has its own authority, roots and list, and they never mix: a certificate belongs to the domain
//! under whose authority it verifies. So a partner issues names of its own domain only, in the roles that it
//! was given.

use crate::Now;
use crate::error::Error;
use crate::identity::{CertificateRole, Identity, check_name};
use crate::pem;
use crate::source::{CertificateSource, Stamp};
use crate::tls::{Files, provider};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, OtherError, RootCertStore, SignatureScheme};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use x509_parser::prelude::{CertificateRevocationList, FromDer};

/// The most certificates in a chain, from the peer's own to the last that it sends.
pub const MAX_CHAIN: usize = 4;
/// The name of our own domain in messages; no partner may have it.
pub const HOME: &str = "home";
/// The most partners.
const MAX_PARTNERS: usize = 64;

/// A partner's domain: its authority is trusted for its own names in these roles only.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct Domain {
    /// The partner's name here; it is put before the names of its certificates.
    pub name: String,
    /// The certificate of its authority.
    pub ca: PathBuf,
    /// The list of its revoked certificates; read again whenever it changes.
    pub revoked: Option<PathBuf>,
    /// The roles that its certificates may have here.
    pub roles: Vec<CertificateRole>,
}

/// The check that peers' certificates must pass.
pub struct TrustGate {
    /// The domains, our own first.
    domains: Vec<Trusted>,
    /// Our own identity.
    own: Option<Identity>,
    hints: Vec<DistinguishedName>,
    now: Now,
}

/// A domain as the gate knows it.
struct Trusted {
    /// The partner's name; `None`: our own domain.
    name: Option<String>,
    /// The accepted roles; `None`: all.
    roles: Option<Vec<CertificateRole>>,
    roots: Arc<RootCertStore>,
    revoked: Option<PathBuf>,
    source: Arc<dyn CertificateSource>,
    seen: Mutex<Seen>,
}

/// The verifiers in force, with the revocation list as last read.
struct Seen {
    stamp: Stamp,
    clients: Arc<dyn ClientCertVerifier>,
    servers: Arc<WebPkiServerVerifier>,
    serials: Arc<BTreeSet<Vec<u8>>>,
    complaint: Option<String>,
}

impl std::fmt::Debug for TrustGate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = self.domains.iter().map(|domain| domain.name.as_deref().unwrap_or(HOME));
        f.debug_list().entries(names).finish()
    }
}

impl TrustGate {
    /// A gate for certificates of our authority and our partners', except those that the list of their own
    /// domain revokes.
    ///
    /// # Errors
    /// A file is missing or has the wrong content; two domains have one name or one authority.
    pub fn open(files: &Files, source: Arc<dyn CertificateSource>, now: Now) -> Result<TrustGate, Error> {
        if files.partners.len() > MAX_PARTNERS {
            return Err(Error::Misuse(format!("more than {MAX_PARTNERS} partners' domains")));
        }
        let mut domains = vec![Trusted::open(None, &files.ca, files.revoked.as_deref(), source.clone())?];
        for partner in &files.partners {
            check_name(&partner.name)?;
            let taken = |known: &Trusted| known.name.as_deref().unwrap_or(HOME) == partner.name;
            if domains.iter().any(taken) {
                let name = &partner.name;
                return Err(Error::Misuse(format!("two domains are called {name:?}; our own is called {HOME:?}")));
            }
            let new = Trusted::open(Some(partner), &partner.ca, partner.revoked.as_deref(), source.clone())?;
            if domains.iter().any(|known| known.shares_key(&new)) {
                let what = "this authority is another domain's too: whose its certificates are could not be told";
                return Err(Error::content(&partner.ca, what));
            }
            domains.push(new);
        }
        let hints = domains.iter().flat_map(|domain| domain.roots.subjects()).collect();
        let own = pem::certificates(&*source, &files.certificate)?;
        let own = own.first().and_then(|certificate| Identity::of(certificate).ok());
        Ok(TrustGate { domains, own, hints, now })
    }

    /// The identity of a caller whose chain has passed the handshake; the domain is that of the authority
    /// that signed.
    ///
    /// # Errors
    /// [`Error::Refused`], with the reason.
    pub fn client(&self, chain: Option<&[CertificateDer<'_>]>) -> Result<Identity, Error> {
        let (end, others) = first(chain)?;
        let identity = self.caller(end, others, self.unix()).map_err(|error| Error::Refused(error.to_string()))?;
        self.admit(&identity)?;
        Ok(identity)
    }

    /// The identity of the broker or agent that was called by this name and whose chain has passed the
    /// handshake.
    ///
    /// # Errors
    /// [`Error::Refused`], with the reason.
    pub fn server(&self, chain: Option<&[CertificateDer<'_>]>, name: &ServerName<'_>) -> Result<Identity, Error> {
        let (end, others) = first(chain)?;
        let identity = self.called(end, others, name, &[], self.unix());
        let identity = identity.map_err(|error| Error::Refused(error.to_string()))?;
        self.admit(&identity)?;
        Ok(identity)
    }

    /// Checks that an identity is still valid; asked again at every request, since a connection may outlive
    /// its certificate.
    ///
    /// # Errors
    /// [`Error::Refused`], with the reason.
    pub fn admit(&self, identity: &Identity) -> Result<(), Error> {
        let now = (self.now)();
        let Some(domain) = self.domains.iter().find(|domain| domain.name == identity.domain) else {
            return Err(Error::Refused(format!("{identity} is of a domain that is not trusted here")));
        };
        domain.takes(identity)?;
        if now < identity.not_before || now >= identity.not_after {
            return Err(Error::Refused(format!("the certificate of {identity} is not good at this time")));
        }
        if domain.current().serials.contains(&identity.serial) {
            return Err(Error::Refused(format!("the certificate of {identity} has been revoked")));
        }
        Ok(())
    }

    /// The identity in our own certificate; `None`: it has none of ours.
    pub fn own(&self) -> Option<&Identity> {
        self.own.as_ref()
    }

    /// The fault of a revocation list that could not be read when it last changed.
    pub fn complaint(&self) -> Option<String> {
        self.domains.iter().find_map(|domain| domain.current().complaint.clone())
    }

    fn unix(&self) -> UnixTime {
        UnixTime::since_unix_epoch(Duration::from_nanos((self.now)().as_nanos()))
    }

    /// The checks that need no signature: the chain's length, and the name.
    fn look(end: &CertificateDer<'_>, others: &[CertificateDer<'_>]) -> Result<Identity, rustls::Error> {
        if others.len() + 1 > MAX_CHAIN {
            let what = format!("a chain of {} certificates; at most {MAX_CHAIN}", others.len() + 1);
            return Err(refusal(Error::Refused(what)));
        }
        Identity::of(end).map_err(refusal)
    }

    fn caller(
        &self,
        end: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<Identity, rustls::Error> {
        let identity = TrustGate::look(end, others)?;
        self.whose(identity, |seen| seen.clients.verify_client_cert(end, others, now).map(|_| ()))
    }

    fn called(
        &self,
        end: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<Identity, rustls::Error> {
        let identity = TrustGate::look(end, others)?;
        if !identity.role.serves() {
            return Err(refusal(Error::Refused(format!("{identity} is neither a broker nor an agent"))));
        }
        self.whose(identity, |seen| seen.servers.verify_server_cert(end, others, name, ocsp, now).map(|_| ()))
    }

    /// Finds the domain under whose authority the chain verifies; our own is tried first. The error is that
    /// of the domain that knows the authority.
    fn whose(
        &self,
        identity: Identity,
        verify: impl Fn(&Verifiers) -> Result<(), rustls::Error>,
    ) -> Result<Identity, rustls::Error> {
        let mut worst = rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer);
        for domain in &self.domains {
            let verifiers = domain.verifiers();
            match verify(&verifiers) {
                Ok(()) => {
                    let identity = Identity { domain: domain.name.clone(), ..identity };
                    return domain.takes(&identity).map(|()| identity).map_err(refusal);
                }
                Err(rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer)) => {}
                Err(error) => worst = error,
            }
        }
        Err(worst)
    }
}

/// The verifiers of one domain; cloned out of the lock, because verifying takes time.
struct Verifiers {
    clients: Arc<dyn ClientCertVerifier>,
    servers: Arc<WebPkiServerVerifier>,
}

impl Trusted {
    fn open(
        partner: Option<&Domain>,
        ca: &Path,
        revoked: Option<&Path>,
        source: Arc<dyn CertificateSource>,
    ) -> Result<Trusted, Error> {
        let mut roots = RootCertStore::empty();
        for certificate in pem::certificates(&*source, ca)? {
            roots.add(certificate).map_err(|error| Error::content(ca, error))?;
        }
        let roots = Arc::new(roots);
        let seen = Mutex::new(Seen::read(&roots, &*source, revoked)?);
        let (name, roles) = (partner.map(|one| one.name.clone()), partner.map(|one| one.roles.clone()));
        Ok(Trusted { name, roles, roots, revoked: revoked.map(Path::to_owned), source, seen })
    }

    fn shares_key(&self, other: &Trusted) -> bool {
        let keys = |roots: &RootCertStore| -> BTreeSet<Vec<u8>> {
            roots.roots.iter().map(|root| root.subject_public_key_info.as_ref().to_vec()).collect()
        };
        !keys(&self.roots).is_disjoint(&keys(&other.roots))
    }

    /// Checks that certificates of this domain may have this role here.
    fn takes(&self, identity: &Identity) -> Result<(), Error> {
        match &self.roles {
            Some(roles) if !roles.contains(&identity.role) => {
                let (role, domain) = (identity.role, self.name.as_deref().unwrap_or(HOME));
                Err(Error::Refused(format!(
                    "{identity}: certificates of {domain} with the role {role} are not taken here"
                )))
            }
            _ => Ok(()),
        }
    }

    fn verifiers(&self) -> Verifiers {
        let seen = self.current();
        Verifiers { clients: seen.clients.clone(), servers: seen.servers.clone() }
    }

    /// The verifiers in force, read anew if the file has changed.
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
}

/// The peer's own certificate, and the rest of the chain.
fn first<'a, 'b>(
    chain: Option<&'a [CertificateDer<'b>]>,
) -> Result<(&'a CertificateDer<'b>, &'a [CertificateDer<'b>]), Error> {
    chain.and_then(<[_]>::split_first).ok_or_else(|| Error::Refused("it shows no certificate".to_owned()))
}

fn refusal(error: Error) -> rustls::Error {
    rustls::Error::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(error))))
}

impl Seen {
    fn read(roots: &Arc<RootCertStore>, source: &dyn CertificateSource, revoked: Option<&Path>) -> Result<Seen, Error> {
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

/// The serial numbers in a revocation list.
pub(crate) fn revoked_serials(list: &CertificateRevocationListDer<'_>) -> Result<Vec<Vec<u8>>, String> {
    let (_, list) = CertificateRevocationList::from_der(list).map_err(|_| "the revocation list is malformed")?;
    Ok(list.iter_revoked_certificates().map(|one| one.raw_serial().to_vec()).collect())
}

impl ClientCertVerifier for TrustGate {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.hints
    }

    fn verify_client_cert(
        &self,
        end: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        self.caller(end, others, now).map(|_| ClientCertVerified::assertion())
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

impl ServerCertVerifier for TrustGate {
    fn verify_server_cert(
        &self,
        end: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        self.called(end, others, name, ocsp, now).map(|_| ServerCertVerified::assertion())
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

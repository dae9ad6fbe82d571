//! The gate: a chain that is too long, has run out, was revoked or was signed by somebody else does not pass.
//!
//! It wraps the path validation of rustls (webpki) with what that leaves to us: the length of the chain is checked
//! before any signature is, so that a chain made to cost time (RUSTSEC-2023-0052) costs none; the name must be one of
//! ours; and the revocation lists are read again whenever their files change. A list that cannot be read leaves the one before in place,
//! and says so.
//!
//! Each domain has its own authority, roots and list, and they never meet: whose a certificate is, is under whose authority
//! it verifies. So a partner mints names of its own domain, in the roles that it was given, and no others.

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

/// Most certificates in a chain, from the peer's own to the last that it sends.
pub const MAX_CHAIN: usize = 4;
/// What our own domain is called where it must be said: no partner may be called so.
pub const HOME: &str = "home";
/// Most partners.
const MAX_PARTNERS: usize = 64;

/// A partner's domain: its authority is trusted for its own names, in these roles, and for nothing of ours.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct Domain {
    /// What it is called here; it stands before its names.
    pub name: String,
    /// Its authority's certificate.
    pub ca: PathBuf,
    /// Which of its certificates are good no more; read again whenever it changes.
    pub revoked: Option<PathBuf>,
    /// The roles that its certificates may have here.
    pub roles: Vec<CertificateRole>,
}

/// Who passes.
pub struct TrustGate {
    /// Our own first.
    domains: Vec<Trusted>,
    /// Who we are.
    own: Option<Identity>,
    hints: Vec<DistinguishedName>,
    now: Now,
}

/// A domain as the gate knows it.
struct Trusted {
    /// `None`: our own.
    name: Option<String>,
    /// `None`: all.
    roles: Option<Vec<CertificateRole>>,
    roots: Arc<RootCertStore>,
    revoked: Option<PathBuf>,
    source: Arc<dyn CertificateSource>,
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

impl std::fmt::Debug for TrustGate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = self.domains.iter().map(|domain| domain.name.as_deref().unwrap_or(HOME));
        f.debug_list().entries(names).finish()
    }
}

impl TrustGate {
    /// For what our authority and our partners' signed, each less what its own list of revocations names.
    ///
    /// # Errors
    /// A file is missing, or does not hold what it should; two domains have one name or one authority.
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

    /// Who a caller is whose chain has passed the handshake: the domain is the one whose authority signed.
    ///
    /// # Errors
    /// [`Error::Refused`], with the reason.
    pub fn client(&self, chain: Option<&[CertificateDer<'_>]>) -> Result<Identity, Error> {
        let (end, others) = first(chain)?;
        let identity = self.caller(end, others, self.unix()).map_err(|error| Error::Refused(error.to_string()))?;
        self.admit(&identity)?;
        Ok(identity)
    }

    /// Who the broker or agent is that was called by this name, and whose chain has passed the handshake.
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

    /// Whether somebody is still good; asked again at every request, since a connection may outlive its certificate's good name.
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

    /// Who our own certificate says that we are; `None`: nobody of ours.
    pub fn own(&self) -> Option<&Identity> {
        self.own.as_ref()
    }

    /// What is wrong with a revocation list, if one could not be read when it last changed.
    pub fn complaint(&self) -> Option<String> {
        self.domains.iter().find_map(|domain| domain.current().complaint.clone())
    }

    fn unix(&self) -> UnixTime {
        UnixTime::since_unix_epoch(Duration::from_nanos((self.now)().as_nanos()))
    }

    /// What needs no signature to be wrong.
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

    /// The domain under whose authority it verifies; our own is asked first. What several say against it, the one says that
    /// knows the authority.
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

/// What checks chains of one domain; cloned out of its lock, for it takes its time.
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

    /// Whether certificates of this domain may have this role here.
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
}

/// The peer's own certificate, and the rest.
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

/// The serial numbers that a list names.
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

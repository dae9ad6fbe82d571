//! Who passes the gate and who does not: real handshakes between a broker and callers, in memory.

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    SanType,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, ServerConnection};
use std::fs;
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use terms::{Span, Time};
use trust::{Authority, CertificateRequest, CertificateRole, Files, Identity, Now, Speaks};

/// 2026-11-21, as good a day as any.
const TODAY: u64 = 1_795_219_200;
const YEAR: Span = Span::from_secs(365 * 86_400);

/// A site with its own clock.
struct Site {
    dir: PathBuf,
    clock: Arc<AtomicU64>,
}

impl Site {
    fn new(name: &str) -> Site {
        let dir = std::env::temp_dir().join(format!("sluice-trust-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        let site = Site { dir, clock: Arc::new(AtomicU64::new(TODAY)) };
        let (authority, made) = Authority::open_or_make(&site.dir, "site", site.now()).unwrap();
        assert!(made);
        let hosts = vec!["broker.example".to_owned(), "127.0.0.1".to_owned()];
        authority
            .issue(
                &CertificateRequest {
                    role: CertificateRole::Broker,
                    name: "b".into(),
                    hosts,
                    groups: Vec::new(),
                    life: YEAR,
                },
                site.now(),
            )
            .unwrap();
        site.issue(CertificateRole::Requester, "alice");
        site
    }

    fn now(&self) -> Time {
        Time::from_nanos(self.clock.load(Ordering::Relaxed) * 1_000_000_000)
    }

    fn clock(&self) -> Now {
        let clock = self.clock.clone();
        Arc::new(move || Time::from_nanos(clock.load(Ordering::Relaxed) * 1_000_000_000))
    }

    fn issue(&self, role: CertificateRole, name: &str) {
        let hosts = vec!["elsewhere.example".to_owned()];
        let request = CertificateRequest { role, name: name.into(), hosts, groups: Vec::new(), life: YEAR };
        Authority::open(&self.dir).unwrap().issue(&request, self.now()).unwrap();
    }

    fn files(&self, who: &str) -> Files {
        let file = |name: String| self.dir.join(name);
        Files {
            ca: file("ca.pem".into()),
            certificate: file(format!("{who}.pem")),
            key: file(format!("{who}.key")),
            revoked: Some(file("revoked.pem".into())),
            partners: Vec::new(),
        }
    }

    /// What the broker says of a caller with this configuration.
    fn meets(&self, client: Arc<ClientConfig>) -> Result<Identity, String> {
        self.meets_as("broker-b", "broker.example", client)
    }

    fn meets_as(&self, server: &str, called: &str, client: Arc<ClientConfig>) -> Result<Identity, String> {
        let (config, gate) = trust::server(&self.files(server), self.clock(), Speaks::Http).unwrap();
        let name = ServerName::try_from(called.to_owned()).unwrap();
        let mut server = ServerConnection::new(config).unwrap();
        let mut client = ClientConnection::new(client, name).unwrap();
        for _ in 0..8 {
            let mut wire = Vec::new();
            while client.wants_write() {
                client.write_tls(&mut wire).unwrap();
            }
            let mut from = Cursor::new(wire);
            while server.read_tls(&mut from).unwrap() > 0 {
                server.process_new_packets().map_err(|error| format!("broker: {error}"))?;
            }
            let mut wire = Vec::new();
            while server.wants_write() {
                server.write_tls(&mut wire).unwrap();
            }
            let mut from = Cursor::new(wire);
            while client.read_tls(&mut from).unwrap() > 0 {
                client.process_new_packets().map_err(|error| format!("caller: {error}"))?;
            }
        }
        assert!(!server.is_handshaking(), "the handshake ended");
        gate.client(server.peer_certificates()).map_err(|error| error.to_string())
    }

    fn caller(&self, who: &str) -> Arc<ClientConfig> {
        trust::client(&self.files(who), self.clock(), Speaks::Http).unwrap()
    }

    /// A caller that shows whatever chain it likes, and takes any broker.
    fn shows(&self, chain: Vec<CertificateDer<'static>>, key: &KeyPair) -> Arc<ClientConfig> {
        let mut config = (*self.caller("requester-alice")).clone();
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let provider = rustls::crypto::ring::default_provider();
        let signer = provider.key_provider.load_private_key(key).unwrap();
        let certified = Arc::new(rustls::sign::CertifiedKey::new(chain, signer));
        config.client_auth_cert_resolver = Arc::new(rustls::sign::SingleCertAndKey::from(certified));
        Arc::new(config)
    }

    fn authority(&self) -> Issuer<'static, KeyPair> {
        issuer(&self.dir)
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

fn issuer(dir: &Path) -> Issuer<'static, KeyPair> {
    let key = KeyPair::from_pem(&fs::read_to_string(dir.join("ca.key")).unwrap()).unwrap();
    Issuer::from_ca_cert_pem(&fs::read_to_string(dir.join("ca.pem")).unwrap(), key).unwrap()
}

/// A certificate for a caller with these URIs, good around `TODAY`.
fn certificate(uris: &[&str]) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.subject_alt_names = uris.iter().map(|uri| SanType::URI((*uri).try_into().unwrap())).collect();
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    params.use_authority_key_identifier_extension = true;
    params
}

fn refused(result: Result<Identity, String>, why: &str) {
    match result {
        Ok(identity) => panic!("{identity} passed; expected a refusal for {why:?}"),
        Err(said) => assert!(said.contains(why), "refused for another reason: {said}"),
    }
}

#[test]
fn a_good_certificate_passes_and_says_who_it_is() {
    let site = Site::new("good");
    let who = site.meets(site.caller("requester-alice")).unwrap();
    assert_eq!((who.role, who.name.as_str()), (CertificateRole::Requester, "alice"));
    assert_eq!(who.to_string(), "requester/alice");
    site.issue(CertificateRole::Operator, "root");
    assert_eq!(site.meets(site.caller("operator-root")).unwrap().role, CertificateRole::Operator);
}

#[test]
fn no_certificate() {
    let site = Site::new("none");
    let mut config = (*site.caller("requester-alice")).clone();
    config.client_auth_cert_resolver = Arc::new(NoCertificate);
    refused(site.meets(Arc::new(config)), "peer sent no certificates");
}

#[derive(Debug)]
struct NoCertificate;

impl rustls::client::ResolvesClientCert for NoCertificate {
    fn resolve(&self, _: &[&[u8]], _: &[rustls::SignatureScheme]) -> Option<Arc<rustls::sign::CertifiedKey>> {
        None
    }
    fn has_certs(&self) -> bool {
        false
    }
}

#[test]
fn expired_and_not_yet_good() {
    let site = Site::new("dates");
    let caller = site.caller("requester-alice");
    // The broker's own certificate would have run out as well: it gets a longer one.
    let hosts = vec!["broker.example".to_owned()];
    let request = CertificateRequest {
        role: CertificateRole::Broker,
        name: "old".into(),
        hosts,
        groups: Vec::new(),
        life: Span::from_secs(3 * 365 * 86_400),
    };
    Authority::open(&site.dir).unwrap().issue(&request, site.now()).unwrap();
    site.clock.store(TODAY + 366 * 86_400, Ordering::Relaxed);
    refused(site.meets_as("broker-old", "broker.example", caller.clone()), "xpired");
    site.clock.store(TODAY - 86_400, Ordering::Relaxed);
    refused(site.meets(caller), "not valid yet");
}

#[test]
fn a_certificate_that_runs_out_while_the_connection_is_open() {
    let site = Site::new("open");
    let (_, gate) = trust::server(&site.files("broker-b"), site.clock(), Speaks::Http).unwrap();
    let alice = site.meets(site.caller("requester-alice")).unwrap();
    gate.admit(&alice).unwrap();
    site.clock.store(TODAY + 366 * 86_400, Ordering::Relaxed);
    assert!(gate.admit(&alice).unwrap_err().to_string().contains("not good at this time"));
}

#[test]
fn another_authority() {
    let (site, other) = (Site::new("ours"), Site::new("theirs"));
    // Its caller trusts our broker, so the refusal is the broker's own.
    let key = KeyPair::from_pem(&fs::read_to_string(other.dir.join("requester-alice.key")).unwrap()).unwrap();
    let pem = fs::read(other.dir.join("requester-alice.pem")).unwrap();
    let chain = vec![rustls::pki_types::pem::PemObject::from_pem_slice(&pem).unwrap()];
    refused(site.meets(site.shows(chain, &key)), "broker: invalid peer certificate");
    refused(site.meets(other.caller("requester-alice")), "caller: invalid peer certificate");
}

#[test]
fn signed_by_ours_but_named_wrongly() {
    let site = Site::new("names");
    let wrong: [(&[&str], &str); 7] = [
        (&[], "exactly one alternative name"),
        (&["https://alice.example"], "exactly one alternative name"),
        (&["sluice://requester/alice", "sluice://operator/alice"], "exactly one alternative name"),
        (&["sluice://emperor/alice"], "its role is none of ours"),
        (&["sluice://requester"], "comes ROLE/NAME"),
        (&["sluice://requester/"], "is no name"),
        (&["sluice://requester/alice%0aroot"], "is no name"),
    ];
    for (uris, why) in wrong {
        let key = KeyPair::generate().unwrap();
        let signed = certificate(uris).signed_by(&key, &site.authority()).unwrap();
        refused(site.meets(site.shows(vec![signed.der().clone()], &key)), why);
    }
    let key = KeyPair::generate().unwrap();
    let signed = certificate(&["sluice://requester/carol"]).signed_by(&key, &site.authority()).unwrap();
    assert_eq!(
        site.meets(site.shows(vec![signed.der().clone()], &key)).unwrap().name,
        "carol",
        "the same with a right name"
    );
}

#[test]
fn not_meant_for_callers() {
    let site = Site::new("purpose");
    let key = KeyPair::generate().unwrap();
    let mut params = certificate(&["sluice://requester/alice"]);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let signed = params.signed_by(&key, &site.authority()).unwrap();
    refused(site.meets(site.shows(vec![signed.der().clone()], &key)), "broker: invalid peer certificate");
}

#[test]
fn revoked_also_while_the_broker_runs_and_a_broken_list_leaves_the_old_one() {
    let site = Site::new("revoked");
    site.issue(CertificateRole::Requester, "bob");
    let (_, gate) = trust::server(&site.files("broker-b"), site.clock(), Speaks::Http).unwrap();
    let alice = site.meets(site.caller("requester-alice")).unwrap();
    gate.admit(&alice).unwrap();
    let authority = Authority::open(&site.dir).unwrap();
    assert!(authority.revoke(CertificateRole::Requester, "alice", site.now()).unwrap());
    assert!(!authority.revoke(CertificateRole::Requester, "alice", site.now()).unwrap(), "once is enough");
    assert!(gate.admit(&alice).unwrap_err().to_string().contains("has been revoked"), "on an open connection too");
    refused(site.meets(site.caller("requester-alice")), "Revoked");
    let bob = site.meets(site.caller("requester-bob")).unwrap();

    fs::write(site.dir.join("revoked.pem"), "-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n").unwrap();
    assert!(gate.admit(&alice).is_err(), "what was revoked stays so");
    gate.admit(&bob).unwrap();
    assert!(gate.complaint().unwrap().contains("revoked.pem"));
}

#[test]
fn long_chains_are_refused_before_any_signature_is_checked() {
    let site = Site::new("chains");
    // Two authorities below ours, made by hand: ours does not allow any (path length 0), so they fail for that; the
    // hundred fail for their number, though the last link is missing and no signature could be right.
    for (links, why) in
        [(2, "broker: invalid peer certificate"), (3, "broker: invalid"), (4, "a chain of 5"), (99, "a chain of 100")]
    {
        let mut above = site.authority();
        let mut chain = Vec::new();
        for number in 0..links {
            let key = KeyPair::generate().unwrap();
            let mut params = CertificateParams::default();
            params.distinguished_name.push(DnType::CommonName, format!("link {number}"));
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
            let signed = params.signed_by(&key, &above).unwrap();
            chain.insert(0, signed.der().clone());
            above = Issuer::new(params, key);
        }
        let key = KeyPair::generate().unwrap();
        let last = certificate(&["sluice://requester/alice"]).signed_by(&key, &above).unwrap();
        chain.insert(0, last.der().clone());
        refused(site.meets(site.shows(chain, &key)), why);
    }
}

#[test]
fn a_caller_knows_whom_it_called() {
    let site = Site::new("called");
    let alice = || site.caller("requester-alice");
    site.meets_as("broker-b", "127.0.0.1", alice()).unwrap();
    refused(site.meets_as("broker-b", "other.example", alice()), "caller: invalid peer certificate");
    site.issue(CertificateRole::Agent, "maui");
    site.meets_as("agent-maui", "elsewhere.example", alice()).unwrap();
    // A requester that plays the broker.
    site.issue(CertificateRole::Requester, "mallory");
    refused(site.meets_as("requester-mallory", "broker.example", alice()), "neither a broker nor an agent");
    // A broker that was revoked.
    Authority::open(&site.dir).unwrap().revoke(CertificateRole::Broker, "b", site.now()).unwrap();
    refused(site.meets(alice()), "caller: invalid peer certificate: Revoked");
}

//! Two authorities at one gate: each speaks for its own names, in the roles it was given, and revokes its own certificates.

use rustls::pki_types::ServerName;
use rustls::{ClientConnection, ServerConnection};
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use terms::{Span, Time};
use trust::{
    Authority, CertificateRequest, CertificateRole, DiskSource, Domain, Files, Identity, Now, Speaks, TrustGate,
};

/// 2026-11-23.
pub(super) const TODAY: Time = Time::from_nanos(1_795_392_000 * 1_000_000_000);
/// Both authorities have the same name in their certificates, as two sites that never spoke to each other may.
const SITE: &str = "site";

fn now() -> Now {
    Arc::new(|| TODAY)
}

/// A folder with two authorities, `home` and `anl`; it goes with the test.
pub(super) struct Sites(pub(super) PathBuf);

impl Sites {
    pub(super) fn new(name: &str) -> Sites {
        let dir = std::env::temp_dir().join(format!("sluice-partners-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        let sites = Sites(dir);
        for site in ["home", "anl"] {
            Authority::open_or_make(&sites.0.join(site), SITE, TODAY).unwrap();
            for (role, name) in [
                (CertificateRole::Broker, "main"),
                (CertificateRole::Requester, "alice"),
                (CertificateRole::Operator, "root"),
                (CertificateRole::Agent, "maui"),
            ] {
                sites.issue(site, role, name);
            }
        }
        sites
    }

    pub(super) fn authority(&self, site: &str) -> Authority {
        Authority::open(&self.0.join(site)).unwrap()
    }

    pub(super) fn issue(&self, site: &str, role: CertificateRole, name: &str) {
        let request = CertificateRequest {
            role,
            name: name.into(),
            hosts: vec!["b.example".into()],
            groups: vec!["physics".into()],
            life: Span::from_secs(86_400),
        };
        self.authority(site).issue(&request, TODAY).unwrap();
    }

    /// What somebody of a site shows, and whom they trust: our own authority.
    pub(super) fn files(&self, site: &str, who: &str) -> Files {
        let dir = self.0.join(site);
        Files {
            ca: self.0.join("home/ca.pem"),
            certificate: dir.join(format!("{who}.pem")),
            key: dir.join(format!("{who}.key")),
            revoked: Some(self.0.join("home/revoked.pem")),
            partners: Vec::new(),
        }
    }

    /// Our broker, with `anl` as a partner in these roles.
    pub(super) fn broker(&self, roles: &[CertificateRole]) -> Files {
        let anl = self.0.join("anl");
        let (ca, revoked) = (anl.join("ca.pem"), Some(anl.join("revoked.pem")));
        let partners = vec![Domain { name: "anl".into(), ca, revoked, roles: roles.to_vec() }];
        Files { partners, ..self.files("home", "broker-main") }
    }
}

impl Drop for Sites {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A real handshake in memory: what the server's gate makes of the caller.
fn meet(server: &Files, caller: &Files) -> Result<Identity, String> {
    let (config, gate) = trust::server(server, now(), Speaks::Http).map_err(|error| error.to_string())?;
    let client = trust::client(caller, now(), Speaks::Http).map_err(|error| error.to_string())?;
    let mut server = ServerConnection::new(config).unwrap();
    let mut client = ClientConnection::new(client, ServerName::try_from("b.example").unwrap()).unwrap();
    for _ in 0..8 {
        let mut wire = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut wire).unwrap();
        }
        let mut from = Cursor::new(wire);
        while server.read_tls(&mut from).unwrap() > 0 {
            server.process_new_packets().map_err(|error| error.to_string())?;
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
    gate.client(server.peer_certificates()).map_err(|error| error.to_string())
}

#[test]
fn a_name_is_of_whoever_signed_it() {
    let sites = Sites::new("names");
    let broker = sites.broker(&[CertificateRole::Requester]);
    let ours = meet(&broker, &sites.files("home", "requester-alice")).unwrap();
    let theirs = meet(&broker, &sites.files("anl", "requester-alice")).unwrap();
    assert_eq!((ours.known_as(), theirs.known_as()), ("alice".to_owned(), "anl/alice".to_owned()));
    assert_eq!((ours.groups(), theirs.groups()), (vec!["physics".to_owned()], vec!["anl/physics".to_owned()]));
    assert_eq!(
        (ours.to_string(), theirs.to_string()),
        ("requester/alice".to_owned(), "anl/requester/alice".to_owned())
    );
    // Without a partner it is a stranger.
    assert!(meet(&sites.files("home", "broker-main"), &sites.files("anl", "requester-alice")).is_err());
}

#[test]
fn a_partner_mints_no_role_that_it_was_not_given() {
    let sites = Sites::new("roles");
    let broker = sites.broker(&[CertificateRole::Requester]);
    for who in ["broker-main", "operator-root", "agent-maui"] {
        let said = meet(&broker, &sites.files("anl", who)).unwrap_err();
        assert!(said.contains("not taken here"), "{who}: {said}");
        assert_eq!(meet(&broker, &sites.files("home", who)).unwrap().domain, None);
    }
    // Where it was given one, it is still its own.
    let broker = sites.broker(&[CertificateRole::Requester, CertificateRole::Broker]);
    assert_eq!(meet(&broker, &sites.files("anl", "broker-main")).unwrap().known_as(), "anl/main");
    assert!(meet(&broker, &sites.files("anl", "operator-root")).is_err());
}

#[test]
fn a_list_of_revocations_counts_for_its_own_certificates() {
    let sites = Sites::new("revoked");
    let broker = sites.broker(&[CertificateRole::Requester]);
    let gate = TrustGate::open(&broker, Arc::new(DiskSource), now()).unwrap();
    let ours = meet(&broker, &sites.files("home", "requester-alice")).unwrap();
    let theirs = meet(&broker, &sites.files("anl", "requester-alice")).unwrap();
    // A serial number says nothing beyond the authority that gave it.
    gate.admit(&Identity { serial: theirs.serial.clone(), ..ours.clone() }).unwrap();
    sites.authority("anl").revoke(CertificateRole::Requester, "alice", TODAY).unwrap();
    gate.admit(&ours).unwrap();
    gate.admit(&Identity { serial: theirs.serial.clone(), ..ours.clone() }).unwrap();
    assert!(gate.admit(&theirs).unwrap_err().to_string().contains("anl/requester/alice has been revoked"));
    assert!(meet(&broker, &sites.files("anl", "requester-alice")).is_err());
    meet(&broker, &sites.files("home", "requester-alice")).unwrap();
    sites.authority("home").revoke(CertificateRole::Requester, "alice", TODAY).unwrap();
    assert!(gate.admit(&ours).is_err());
    assert!(gate.admit(&Identity { domain: Some("bnl".into()), ..ours }).is_err(), "a domain that is not there");
}

#[test]
fn domains_that_could_not_be_told_apart_are_refused() {
    let sites = Sites::new("apart");
    let opened = |change: &dyn Fn(&mut Files)| {
        let mut files = sites.broker(&[CertificateRole::Requester]);
        change(&mut files);
        TrustGate::open(&files, Arc::new(DiskSource), now()).map(|_| ()).map_err(|error| error.to_string())
    };
    opened(&|_| ()).unwrap();
    let same: &dyn Fn(&mut Files) = &|files| {
        files.partners[0].ca = files.ca.clone();
        files.partners[0].revoked = None;
    };
    assert!(opened(same).unwrap_err().contains("another domain's"));
    assert!(opened(&|files| files.partners[0].name = trust::HOME.into()).unwrap_err().contains("two domains"));
    assert!(opened(&|files| files.partners[0].name = "a/b".into()).unwrap_err().contains("is no name"));
    assert!(opened(&|files| files.partners[0].ca = Path::new("/nowhere").into()).unwrap_err().contains("/nowhere"));
    assert!(opened(&|files| files.partners.push(files.partners[0].clone())).is_err());
}

#[test]
fn a_brokers_or_agents_domain_is_known_to_who_calls_it() {
    let sites = Sites::new("servers");
    let gate = TrustGate::open(&sites.broker(&[CertificateRole::Agent]), Arc::new(DiskSource), now()).unwrap();
    let shown = |site: &str, who: &str| {
        let text = std::fs::read(sites.0.join(site).join(format!("{who}.pem"))).unwrap();
        use rustls::pki_types::pem::PemObject;
        rustls::pki_types::CertificateDer::from_pem_slice(&text).unwrap()
    };
    let called = |site: &str, who: &str, name: &str| {
        gate.server(Some(&[shown(site, who)]), &ServerName::try_from(name.to_owned()).unwrap())
            .map(|identity| identity.to_string())
            .map_err(|error| error.to_string())
    };
    assert_eq!(called("home", "agent-maui", "b.example").unwrap(), "agent/maui");
    assert_eq!(called("anl", "agent-maui", "b.example").unwrap(), "anl/agent/maui");
    assert!(called("anl", "agent-maui", "c.example").is_err());
    assert!(called("anl", "broker-main", "b.example").unwrap_err().contains("not taken here"));
    assert!(called("anl", "requester-alice", "b.example").unwrap_err().contains("neither"));
    assert!(gate.server(None, &ServerName::try_from("b.example").unwrap()).is_err());
}

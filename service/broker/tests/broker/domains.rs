//! Advertisements of domains, signed by real authorities: what is believed, and what changes nothing.

use broker_service::BrokerConfig;
use broker_service::domains::KnownDomains;
use broker_service::domains::own::OwnDomain;
use broker_service::neighbours::{NeighbourDomain, NeighbourDomains};
use broker_service::shelf::Shelf;
use documents::topology::{AdvertisementDoc, StatementDoc};
use linux::clock::Clock;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use terms::{Rate, Span, Time};
use topology::{Border, BorderPair, DomainPort, FreeStep, Network};
use trust::{
    Authority, CertificateRequest, CertificateRole, Domain, Files, Now, SignedStatement, Speaks, StatementSigner,
};

/// A domain's place: its authority, and its broker's state.
struct Site {
    dir: PathBuf,
    name: &'static str,
    domains: KnownDomains,
}

struct Sites {
    dir: PathBuf,
    clock: Clock,
}

impl Drop for Sites {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

fn now() -> Now {
    let clock = Clock::start();
    Arc::new(move || clock.now())
}

impl Sites {
    /// An authority for each of these, and a broker's certificate.
    fn new(test: &str, names: &[&str]) -> Sites {
        let dir = std::env::temp_dir().join(format!("sluice-domains-{test}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).unwrap();
        for name in names {
            let (authority, _) = Authority::open_or_make(&dir.join(name), name, now()()).unwrap();
            for (role, who) in [(CertificateRole::Broker, "main"), (CertificateRole::Requester, "eve")] {
                let hosts = vec!["127.0.0.1".to_owned()];
                let life = Span::from_secs(3600);
                let request = CertificateRequest { role, name: who.into(), hosts, groups: Vec::new(), life };
                authority.issue(&request, now()()).unwrap();
            }
        }
        Sites { dir, clock: Clock::start() }
    }

    fn files(&self, name: &str, who: &str, partners: &[&str]) -> Files {
        let at = |file: &str| self.dir.join(name).join(file);
        let partner = |other: &&str| Domain {
            name: (*other).to_owned(),
            ca: self.dir.join(other).join("ca.pem"),
            revoked: Some(self.dir.join(other).join("revoked.pem")),
            roles: vec![CertificateRole::Broker],
        };
        Files {
            ca: at("ca.pem"),
            certificate: at(&format!("{who}.pem")),
            key: at(&format!("{who}.key")),
            revoked: Some(at("revoked.pem")),
            partners: partners.iter().map(partner).collect(),
        }
    }

    /// The broker of a domain that trusts these others, and has these neighbours.
    fn site(&self, name: &'static str, trusted: &[&str], neighbours: &[&str]) -> Site {
        let dir = self.dir.join(name);
        let files = self.files(name, "broker-main", trusted);
        let (_, gate) = trust::server(&files, now(), Speaks::Http).unwrap();
        let neighbour = |other: &&str| NeighbourDomain {
            name: (*other).to_owned(),
            host: "127.0.0.1".into(),
            port: 1,
            links: vec!["x/net/x".into()],
            networks: Vec::new(),
            distant: false,
            may_ask: false,
        };
        let neighbours = NeighbourDomains { own: Some(name.into()), all: neighbours.iter().map(neighbour).collect() };
        let config = BrokerConfig { state: dir.join("state"), tls: Some(files), neighbours, ..BrokerConfig::default() };
        Site {
            dir,
            name,
            domains: KnownDomains::open(&config, Some(gate), Shelf::Folder(config.state.clone())).unwrap(),
        }
    }

    fn now(&self) -> Time {
        self.clock.today()
    }

    /// Signs a text with the key of a domain's broker, or of somebody else there.
    fn sign(&self, name: &str, who: &str, purpose: &str, text: &str) -> StatementDoc {
        let signed = StatementSigner::open(&self.files(name, who, &[])).unwrap().sign(purpose, text).unwrap();
        doc(&signed)
    }
}

fn doc(one: &SignedStatement) -> StatementDoc {
    broker_service::domains::text::statement_doc(one)
}

/// A border, named by the last octet but one of its link.
fn border(neighbour: &str, third: u8) -> DomainPort {
    DomainPort::At(Border { neighbour: neighbour.into(), link: Network::of([10, 0, third, 0].into(), 30) })
}

fn pair(from: &DomainPort, to: &DomainPort, mbps: u64) -> BorderPair {
    let free = vec![FreeStep { start: Time::ZERO, rate: Rate::from_mbps(mbps) }];
    BorderPair { from: from.clone(), to: to.clone(), rate: Rate::from_mbps(mbps), cost: 1, free }
}

/// A domain with a network, and ways between its ports in both directions.
fn content(inside: u8, ports: &[DomainPort], mbps: u64) -> OwnDomain {
    let all: Vec<DomainPort> = [DomainPort::Inside].iter().chain(ports).cloned().collect();
    let both = all.iter().flat_map(|from| all.iter().map(move |to| (from, to)));
    let pairs = both.filter(|(from, to)| from != to).map(|(from, to)| pair(from, to, mbps)).collect();
    OwnDomain { networks: vec![Network::of([10, inside, 0, 0].into(), 16)], pairs }
}

impl Site {
    fn statements(&self, now: Time) -> Vec<StatementDoc> {
        self.domains.statements(now, &BTreeMap::new())
    }

    fn known(&self, now: Time) -> Vec<String> {
        self.domains.doc(now).domains.into_iter().map(|row| row.advertisement.domain).collect()
    }

    fn numbers(&self) -> String {
        std::fs::read_to_string(self.dir.join("state/topology.json")).unwrap_or_default()
    }

    /// The number of refusals of a neighbour, and the last reason.
    fn refused(&self, now: Time, neighbour: &str) -> (u64, String) {
        let doc = self.domains.doc(now);
        let row = doc.neighbours.into_iter().find(|row| row.neighbour == neighbour).unwrap();
        (row.refused, row.why.unwrap_or_default())
    }
}

fn host(second: u8) -> std::net::IpAddr {
    [10, second, 0, 9].into()
}

#[test]
fn what_a_domain_behind_the_neighbour_signed_is_believed_and_paths_lead_over_it() {
    let sites = Sites::new("chain", &["anl", "esnet", "lbnl"]);
    let anl = sites.site("anl", &["esnet", "lbnl"], &["esnet"]);
    let esnet = sites.site("esnet", &["anl", "lbnl"], &["anl", "lbnl"]);
    let lbnl = sites.site("lbnl", &["esnet", "anl"], &["esnet"]);
    let now = sites.now();
    anl.domains.publish(now, Ok(content(1, &[border("esnet", 3)], 50)));
    esnet.domains.publish(now, Ok(content(2, &[border("anl", 3), border("lbnl", 8)], 20)));
    lbnl.domains.publish(now, Ok(content(3, &[border("esnet", 8)], 50)));
    esnet.domains.heard(now, "lbnl", Ok(lbnl.statements(now)));
    anl.domains.heard(now, "esnet", Ok(esnet.statements(now)));
    assert_eq!(anl.known(now), ["anl", "esnet", "lbnl"]);
    let hour = [(now, now.saturating_add(Span::from_secs(3600)))];
    let paths = |mbps| anl.domains.paths(now, (host(1), host(3)), Rate::from_mbps(mbps), &hour);
    let hops: Vec<String> = paths(20)[0].hops.iter().map(|hop| hop.domain.clone()).collect();
    assert_eq!(hops, ["anl", "esnet", "lbnl"]);
    assert!(paths(21).is_empty(), "esnet publishes 20 Mb/s");
    assert_eq!(anl.domains.path_rows(now, (host(1), host(3)), Rate::ZERO, &hour)[0].free, Some(20_000_000));
    assert_eq!(anl.domains.home(now, host(3)).as_deref(), Some("lbnl"));
    // It asks for newer ones only, and silence is no refusal.
    let seen = anl.domains.doc(now).domains.into_iter().map(|row| (row.advertisement.domain, row.advertisement.number));
    assert!(esnet.domains.statements(now, &seen.collect()).is_empty());
    // Nothing new is published while nothing has changed, and the number rises when it has.
    let before = anl.domains.doc(now).domains[1].advertisement.number;
    esnet.domains.publish(now, Ok(content(2, &[border("anl", 3), border("lbnl", 8)], 20)));
    assert_eq!(esnet.domains.doc(now).domains[0].advertisement.number, before);
    esnet.domains.publish(now, Ok(content(2, &[border("anl", 3), border("lbnl", 8)], 40)));
    anl.domains.heard(now, "esnet", Ok(esnet.statements(now)));
    assert!(anl.domains.doc(now).domains[1].advertisement.number > before && !paths(40).is_empty());
    // The neighbour does not answer: what is known stays, until it is over.
    anl.domains.heard(now, "esnet", Err("gone".into()));
    assert_eq!(anl.domains.doc(now).neighbours[0].away.as_deref(), Some("gone"));
    assert!(!paths(40).is_empty());
    let late = now.saturating_add(Span::from_secs(3600));
    anl.domains.pass(late);
    assert!(anl.known(late).is_empty() && anl.statements(late).is_empty());
}

#[test]
fn what_is_forged_old_of_another_or_too_large_changes_nothing() {
    let sites = Sites::new("bad", &["anl", "esnet", "lbnl", "mallory"]);
    let anl = sites.site("anl", &["esnet", "lbnl"], &["esnet"]);
    let esnet = sites.site("esnet", &["anl", "lbnl"], &["anl", "lbnl"]);
    let now = sites.now();
    esnet.domains.publish(now, Ok(content(2, &[border("anl", 3)], 20)));
    let good = esnet.statements(now).remove(0);
    anl.domains.heard(now, "esnet", Ok(vec![good.clone()]));
    let number = |text: &str| serde_json::from_str::<AdvertisementDoc>(text).unwrap().number;
    let first = number(&good.text);
    let changed = |change: &dyn Fn(&mut AdvertisementDoc)| {
        let mut doc: AdvertisementDoc = serde_json::from_str(&good.text).unwrap();
        doc.number += 1;
        change(&mut doc);
        serde_json::to_string(&doc).unwrap()
    };
    let signed =
        |change: &dyn Fn(&mut AdvertisementDoc)| sites.sign("esnet", "broker-main", "topology", &changed(change));
    let span = Span::from_secs;
    let way = |doc: &AdvertisementDoc| doc.ways[0].clone();
    let long = " ".repeat(300 << 10);
    let cases: Vec<(&str, StatementDoc)> = vec![
        ("not that of", StatementDoc { text: changed(&|_| {}), ..good.clone() }),
        ("another domain signed it", signed(&|doc| doc.domain = "lbnl".into())),
        ("another domain signed it", sites.sign("lbnl", "broker-main", "topology", &changed(&|_| {}))),
        ("UnknownIssuer", sites.sign("mallory", "broker-main", "topology", &changed(&|_| {}))),
        ("our own authority", sites.sign("anl", "broker-main", "topology", &changed(&|doc| doc.domain = "anl".into()))),
        ("not taken here", sites.sign("esnet", "requester-eve", "topology", &changed(&|_| {}))),
        ("not that of", sites.sign("esnet", "broker-main", "acceptance", &changed(&|_| {}))),
        ("not newer", good.clone()),
        ("not newer", signed(&|doc| doc.number = first - 1)),
        ("valid for too long", signed(&|doc| doc.until.0 = now.saturating_sub(span(1)))),
        ("valid for too long", signed(&|doc| doc.until.0 = now.saturating_add(span(4_000)))),
        ("longer than", sites.sign("esnet", "broker-main", "topology", &(long + &good.text))),
        ("more networks", signed(&|doc| doc.networks = vec!["10.2.0.0/16".into(); 5_000])),
        ("no network", signed(&|doc| doc.networks = vec!["10.2.0.0/99".into()])),
        ("is there twice", signed(&|doc| doc.ways.push(way(doc)))),
        ("unknown field", sites.sign("esnet", "broker-main", "topology", "{\"domain\":\"esnet\",\"more\":1}")),
        ("hexadecimal", StatementDoc { signature: "xy".into(), ..signed(&|_| {}) }),
        ("a signed statement", StatementDoc { chain: vec![good.chain[0].clone(); 5], ..signed(&|_| {}) }),
    ];
    let (before, numbers) = (anl.domains.doc(now).domains, anl.numbers());
    for (number, (why, statement)) in cases.into_iter().enumerate() {
        anl.domains.heard(now, "esnet", Ok(vec![statement]));
        let (count, said) = anl.refused(now, "esnet");
        assert_eq!(count, number as u64 + 1, "{why}: {said}");
        assert!(said.contains(why), "{why}: {said}");
        assert_eq!((&anl.domains.doc(now).domains, &anl.numbers()), (&before, &numbers), "{why}");
    }
    // A bad one does not keep a good one out.
    let mixed = vec![good.clone(), signed(&|_| {}), sites.sign("mallory", "broker-main", "topology", "{}")];
    anl.domains.heard(now, "esnet", Ok(mixed));
    assert_eq!(anl.domains.doc(now).domains[0].advertisement.number, first + 1);
}

#[test]
fn numbers_outlive_the_broker() {
    let sites = Sites::new("numbers", &["anl", "esnet"]);
    let now = sites.now();
    let (first, old) = {
        let anl = sites.site("anl", &["esnet"], &["esnet"]);
        let esnet = sites.site("esnet", &["anl"], &["anl"]);
        anl.domains.publish(now, Ok(content(1, &[border("esnet", 3)], 20)));
        esnet.domains.publish(now, Ok(content(2, &[border("anl", 3)], 20)));
        let old = esnet.statements(now);
        esnet.domains.publish(now, Ok(content(2, &[border("anl", 3)], 10)));
        anl.domains.heard(now, "esnet", Ok(esnet.statements(now)));
        (anl.domains.doc(now).domains[0].advertisement.number, old)
    };
    let anl = sites.site("anl", &["esnet"], &["esnet"]);
    assert_eq!(anl.name, "anl");
    anl.domains.heard(now, "esnet", Ok(old.clone()));
    assert!(anl.known(now).is_empty() && anl.refused(now, "esnet").1.contains("not newer"));
    // Ours goes on above, even where the clock went back.
    let earlier = now.saturating_sub(Span::from_secs(10));
    anl.domains.publish(earlier, Ok(content(1, &[border("esnet", 3)], 20)));
    assert!(anl.domains.doc(earlier).domains[0].advertisement.number > first);
    // What cannot be written down is neither published nor believed.
    let kept = anl.numbers();
    block(&anl.dir);
    anl.domains.publish(now, Ok(content(1, &[border("esnet", 3)], 5)));
    assert!(anl.domains.doc(now).unpublished.unwrap().contains("cannot be kept"));
    let esnet = sites.site("esnet", &["anl"], &["anl"]);
    esnet.domains.publish(now, Ok(content(2, &[border("anl", 3)], 5)));
    anl.domains.heard(now, "esnet", Ok(esnet.statements(now)));
    assert!(anl.refused(now, "esnet").1.contains("cannot be kept"), "{:?}", anl.refused(now, "esnet"));
    unblock(&anl.dir);
    assert_eq!((anl.known(now), anl.numbers()), (vec!["anl".to_owned()], kept));
    // The agents do not answer: what was published holds until it is over, and it is said.
    anl.domains.publish(now, Err("no agent answers".into()));
    assert_eq!(anl.domains.doc(now).unpublished.as_deref(), Some("no agent answers"));
}

/// Something is in the way of the state folder: no file can be written there.
fn block(dir: &Path) {
    std::fs::rename(dir.join("state"), dir.join("state-aside")).unwrap();
    std::fs::write(dir.join("state"), "").unwrap();
}

fn unblock(dir: &Path) {
    std::fs::remove_file(dir.join("state")).unwrap();
    std::fs::rename(dir.join("state-aside"), dir.join("state")).unwrap();
}

//! Reservations across three real domains: over all of them or none, whoever dies and whoever lies.

use crate::agents::crossing_change::{a_day_less, changed, ended_in_the_middle};
use crate::agents::domains::{Domains, said};
use crate::bed::{SLUICE, detached, wait_at_most, wait_for};
use crate::remote::now;
use broker_service::id::{GroupId, ReservationId};
use documents::book::ReservationDoc;
use linux::netns::Namespace;
use linux::process::ProcessId;
use rpc::client::Client;
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};
use trust::{CertificateRole, Domain, Files, Speaks};

/// From alpha to bravo; the ends are in ANL and LBNL.
pub const ENDS: [&str; 4] = ["--from", "10.0.0.1", "--to", "10.0.10.2"];
/// Agents on the way, by domain.
pub const WAY: [(&str, &[&str]); 3] = [
    ("anl", &["alpha", "anl-edge", "anl-border"]),
    ("esnet", &["esnet-west", "esnet-north", "esnet-south", "esnet-east"]),
    ("lbnl", &["lbnl-border", "lbnl-edge", "bravo"]),
];
pub const DOMAINS: [&str; 3] = ["anl", "esnet", "lbnl"];

pub struct Crossing(pub Domains);

/// A broker that was started again is not in the testbed's record.
impl Drop for Crossing {
    fn drop(&mut self) {
        for domain in DOMAINS {
            let text = std::fs::read_to_string(self.folder(domain).join("broker.pid")).unwrap_or_default();
            let pid = text.split_whitespace().next().and_then(|pid| pid.parse().ok());
            if let Some(broker) = pid.and_then(ProcessId::of) {
                let _ = broker.signal(15);
            }
        }
    }
}

impl Crossing {
    pub fn up() -> Option<Crossing> {
        Domains::up().map(Crossing)
    }

    /// Asks ANL's broker for alice.
    pub fn alice(&self, words: &[&str]) -> std::process::Output {
        self.0.ask("alpha", "anl", "requester-alice", words)
    }

    pub fn reserve(&self, more: &[&str]) -> Result<Value, String> {
        let words: Vec<&str> =
            ["reserve"].into_iter().chain(ENDS).chain(["--for", "1h", "--json"]).chain(more.iter().copied()).collect();
        let made = self.alice(&words);
        match made.status.success() {
            true => Ok(serde_json::from_slice(&made.stdout).unwrap()),
            false => Err(said(&made)),
        }
    }

    /// What an operator of a domain sees in its broker's list.
    pub fn list(&self, domain: &str) -> Vec<Value> {
        let node = WAY.iter().find(|(name, _)| *name == domain).unwrap().1[0];
        let seen = self.0.ask(node, domain, "operator-root", &["list", "--json"]);
        assert!(seen.status.success(), "{}", said(&seen));
        let text = String::from_utf8(seen.stdout).unwrap();
        let doc: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}"));
        doc["reservations"].as_array().or(doc.as_array()).unwrap_or_else(|| panic!("{text}")).clone()
    }

    /// What the agents of a domain have that is not over, as `NODE STATE AMOUNT OWNER`.
    pub fn agents(&self, domain: &str) -> Vec<String> {
        let line = |(node, row): (&str, ReservationDoc)| {
            format!("{node} {} {} {}", row.state, row.parts[0].steps[0].amount, row.owner)
        };
        self.rows(domain).into_iter().map(line).collect()
    }

    /// The same as the agents say it.
    pub fn rows(&self, domain: &str) -> Vec<(&'static str, ReservationDoc)> {
        let (_, nodes) = WAY.iter().find(|(name, _)| *name == domain).unwrap();
        let mut all = Vec::new();
        for node in *nodes {
            let socket = self.0.place.join(&self.0.name).join(node).join("agent.sock");
            let mut client = Client::connect(&socket).unwrap();
            let show = documents::agent::Request::BookShow { handle: None, filter: Default::default() };
            let documents::agent::Answer::Book(documents::book::BookAnswer::Reservations { rows, .. }) =
                client.call(show).unwrap()
            else {
                panic!("no list")
            };
            all.extend(rows.into_iter().map(|row| (*node, row)));
        }
        all
    }

    /// Waits until nothing of any reservation is left at any agent.
    pub fn nothing_left(&self, what: &str) {
        wait_at_most(Duration::from_secs(60), what, || {
            DOMAINS.iter().all(|domain| self.agents(domain).is_empty()).then_some(())
        });
    }

    pub fn folder(&self, domain: &str) -> PathBuf {
        self.0.place.join(&self.0.name).join("domains").join(domain)
    }

    fn broker(&self, domain: &str) -> ProcessId {
        let text = std::fs::read_to_string(self.folder(domain).join("broker.pid")).unwrap();
        ProcessId::of(text.split_whitespace().next().unwrap().parse().unwrap()).unwrap()
    }

    pub fn kill(&self, domain: &str) {
        let broker = self.broker(domain);
        broker.signal(9).unwrap();
        wait_for("the broker is gone", || {
            broker.reap();
            (!broker.is_running()).then_some(())
        });
    }

    pub fn start(&self, domain: &str) {
        self.start_with(domain, &[]);
    }

    pub fn start_with(&self, domain: &str, words: &[&str]) {
        let (folder, up) = (self.folder(domain), self.0.domain(domain));
        let mut command = Command::new(SLUICE);
        command.arg("broker").args(words).arg("--config").arg(folder.join("broker.toml")).current_dir("/");
        let netns = Namespace::open(&format!("{}-{}", self.0.name, up.broker)).unwrap();
        netns.enter_at_exec(&mut command);
        let id = detached(&mut command, &folder.join("broker.log"));
        std::fs::write(folder.join("broker.pid"), format!("{id}\n")).unwrap();
        wait_for("the broker answers", || std::os::unix::net::UnixStream::connect(&up.socket).ok());
    }

    /// Sends a signal to an agent.
    pub fn agent(&self, node: &str, signal: i32) {
        let file = self.0.place.join(&self.0.name).join(node).join("agent.pid");
        let text = std::fs::read_to_string(file).unwrap();
        ProcessId::of(text.split_whitespace().next().unwrap().parse().unwrap()).unwrap().signal(signal).unwrap();
    }

    /// The files of somebody in a domain, who calls another.
    pub fn files(&self, own: &str, who: &str, called: &str) -> Files {
        let trust = &self.0.domain(own).trust;
        let partner = |name: &str| Domain {
            name: name.to_owned(),
            ca: self.0.domain(name).trust.join("ca.pem"),
            revoked: None,
            roles: vec![CertificateRole::Broker],
        };
        Files {
            ca: trust.join("ca.pem"),
            certificate: trust.join(format!("{who}.pem")),
            key: trust.join(format!("{who}.key")),
            revoked: None,
            partners: (called != own).then(|| partner(called)).into_iter().collect(),
        }
    }

    /// A request of a domain's broker to another domain's: status and document.
    pub fn between(&self, own: &str, called: &str, method: &str, path: &str, body: &Value) -> (u16, Value) {
        self.try_between(own, called, method, path, body).unwrap()
    }

    /// The same with a broker that may be starting, and end the connection.
    pub fn try_between(
        &self,
        own: &str,
        called: &str,
        method: &str,
        path: &str,
        body: &Value,
    ) -> std::io::Result<(u16, Value)> {
        let files = self.files(own, "broker-main", called);
        let address = self.0.domain(called).address.clone();
        let node = self.0.domain(own).broker.clone();
        let netns = Namespace::open(&format!("{}-{node}", self.0.name)).unwrap();
        let stream = netns.run(|| TcpStream::connect(&address)).unwrap()?;
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let config = trust::client(&files, now(), Speaks::Http).unwrap();
        let host = ServerName::try_from(address.split(':').next().unwrap().to_owned()).unwrap();
        let mut stream = StreamOwned::new(ClientConnection::new(config, host).unwrap(), stream);
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(head.as_bytes())?;
        let mut all = Vec::new();
        let _ = stream.read_to_end(&mut all);
        let all = String::from_utf8(all).unwrap();
        let (head, body) = all.split_once("\r\n\r\n").ok_or_else(|| std::io::Error::other(all.clone()))?;
        Ok((head.split(' ').nth(1).unwrap().parse().unwrap(), serde_json::from_str(body).unwrap_or(Value::Null)))
    }
}

#[test]
fn a_reservation_goes_over_three_domains_and_ends_in_all() {
    let Some(bed) = Crossing::up() else { return };
    let id = made_and_shown(&bed);
    changed(&bed, &id);
    let over = bed.alice(&["cancel", &id]);
    assert!(over.status.success(), "{}", said(&over));
    bed.nothing_left("it has ended in all domains");
    ended_in_the_middle(&bed);
    a_day_less(&bed);
    // What does not fit in one is made in none; ESnet does not say where.
    let refused = bed.reserve(&["--forward", "44mbit"]).map(|doc| doc["id"].as_str().unwrap().to_owned());
    let second = bed.reserve(&["--forward", "44mbit"]);
    assert!(second.is_err(), "{second:?}");
    if let Ok(id) = refused {
        assert!(bed.alice(&["cancel", &id]).status.success());
    }
    bed.nothing_left("the refused one leaves nothing");
    strangers(&bed);
}

/// Reserves over all three domains; the name of the reservation.
fn made_and_shown(bed: &Crossing) -> String {
    let made = bed.reserve(&["--forward", "6mbit", "--reverse", "500kbit"]).unwrap();
    let id = made["id"].as_str().unwrap().to_owned();
    // Signed by each domain after ours, and shown.
    let legs: Vec<String> = made["legs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|leg| format!("{} {} {} {} {}", leg["domain"], leg["entry"], leg["exit"], leg["forward"], leg["reverse"]))
        .collect();
    assert_eq!(legs, [r#""esnet" "anl" "lbnl" 6000000 500000"#, r#""lbnl" "esnet" null 6000000 500000"#,]);
    let both =
        |node: &str, owner: &str| [format!("{node} active 6000000 {owner}"), format!("{node} active 500000 {owner}")];
    let sorted = |mut all: Vec<String>| {
        all.sort_unstable();
        all
    };
    wait_for("everybody has it", || {
        let esnet = bed.agents("esnet");
        let lbnl = bed.agents("lbnl");
        (esnet.len() >= 4 && lbnl.len() >= 3 && esnet.iter().chain(&lbnl).all(|one| one.contains(" active ")))
            .then_some(())
    });
    // The owner is who the domain before says: the names tell by whose word.
    let lbnl = sorted(bed.agents("lbnl"));
    let mut expected: Vec<String> =
        ["lbnl-border", "lbnl-edge"].iter().flat_map(|node| both(node, "esnet/anl/alice")).collect();
    expected.push("bravo active 500000 esnet/anl/alice".to_owned());
    expected.sort_unstable();
    // Packets to bravo leave lbnl-border and lbnl-edge; those back leave lbnl-edge and lbnl-border.
    assert_eq!(lbnl, expected);
    assert!(bed.agents("esnet").iter().all(|one| one.ends_with(" anl/alice")), "{:?}", bed.agents("esnet"));
    let of = |domain: &str| {
        bed.list(domain)
            .iter()
            .map(|one| format!("{} {} {}", one["owner"], one["state"], one["above"]))
            .collect::<Vec<_>>()
    };
    assert_eq!(of("anl"), [r#""alice" "active" null"#]);
    assert_eq!(of("esnet"), [r#""anl/alice" "active" "anl""#]);
    assert_eq!(of("lbnl"), [r#""esnet/anl/alice" "active" "esnet""#]);
    // Each domain's acceptance is the same wherever it is shown.
    assert_eq!(bed.list("esnet")[0]["legs"], made["legs"]);
    assert_eq!(bed.list("lbnl")[0]["legs"][0], made["legs"][1]);
    id
}

/// A neighbour's broker asks for what is not its own.
fn strangers(bed: &Crossing) {
    let ends = Some(("10.0.0.1".parse().unwrap(), "10.0.10.2".parse().unwrap()));
    let name = ReservationId::Group(GroupId { number: [1; 16], ends }).to_string();
    let ask = |via: Value, owner: &str| {
        json!({
            "transaction": "00112233445566778899aabbccddeeff", "member": 0,
            "epoch": {"number": 1, "decisions": 0, "nonce": 7}, "serial": 1, "floor": 1,
            "origin": "00112233445566778899aabbccddeeff", "via": via, "reservation": name, "owner": owner,
            "border": "10.0.3.0/30", "change": "create",
            "leg": {"from": "10.0.0.1", "to": "10.0.10.2", "forward": 1000, "reverse": 0,
                    "windows": [{"start": "2030-01-01T00:00:00Z", "end": "2030-01-01T01:00:00Z"}]},
        })
    };
    for (via, owner, status, word) in [
        (json!(["anl"]), "esnet/erin", 403, "cannot speak for"),
        (json!(["anl"]), "lbnl/bob", 403, "cannot speak for"),
        (json!(["anl"]), "uid:0", 403, "cannot speak for"),
        (json!(["lbnl"]), "alice", 422, "yours last"),
        (json!(["esnet", "anl"]), "alice", 422, "circle"),
        (json!([]), "alice", 422, "yours last"),
    ] {
        let (came, doc) = bed.between("anl", "esnet", "POST", "/v1/legs", &ask(via, owner));
        assert!(came == status && doc["detail"].as_str().unwrap_or_default().contains(word), "{owner}: {came} {doc}");
    }
    // There is no way to say a role, and a broker is nobody's requester here.
    let mut operator = ask(json!(["anl"]), "root");
    operator["role"] = "operator".into();
    assert_eq!(bed.between("anl", "esnet", "POST", "/v1/legs", &operator).0, 400);
    for (method, path) in [("GET", "/v1/reservations"), ("GET", "/v1/resources"), ("POST", "/v1/reservations")] {
        assert_eq!(bed.between("anl", "esnet", method, path, &json!({})).0, 403, "{method} {path}");
    }
    assert!(DOMAINS.iter().all(|domain| bed.agents(domain).is_empty()), "nothing has changed");
}

/// Both borders are 50 ms long, each way: what a set-up takes is counted in journeys from end to end and back.
#[test]
fn a_long_way_takes_few_round_trips() {
    const BORDER_S: f64 = 0.05;
    let long = |text: &str| {
        let delayed = |text: String, ends: &str| {
            let line = format!("between = [{ends}]");
            assert!(text.contains(&line), "{ends}");
            text.replace(&line, &format!("{line}\ndelay = \"50ms\""))
        };
        delayed(delayed(text.to_owned(), "\"anl-border\", \"esnet-west\""), "\"esnet-east\", \"lbnl-border\"")
    };
    let Some(bed) = Domains::up_with(long).map(Crossing) else { return };
    let round_trip = 2.0 * 2.0 * BORDER_S;
    let mut took = Vec::new();
    for _ in 0..3 {
        let began = Instant::now();
        let made = bed.reserve(&["--forward", "1mbit"]).unwrap();
        took.push(began.elapsed().as_secs_f64() / round_trip);
        assert!(bed.alice(&["cancel", made["id"].as_str().unwrap()]).status.success());
    }
    let (first, least) = (took[0], took.iter().copied().fold(f64::MAX, f64::min));
    println!(
        "{{\"bench\":\"crossing_round_trips\",\"value\":{least:.2},\"first\":{first:.2},\"unit\":\"rtt\",\"n\":3}}"
    );
    assert!(least < 10.0, "{took:?} round trips");
}

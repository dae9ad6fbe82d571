//! A broker on one machine, agents on three others: a path reserved both ways, end to end, while an agent goes and comes.

use super::{Far, Running, now, papers, wait_for_words};
use crate::bed::{Bed, SLUICE, wait_for};
use documents::agent::{Answer, Request};
use documents::book::{BookAnswer, BookFilter, ReservationDoc};
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use trust::{Files, Speaks};

const AGENTS: [(&str, &str); 3] = [("yosemite", "10.0.0.2"), ("maui", "10.0.1.2"), ("glenwood", "10.0.2.2")];
const RULES: &str =
    "[[rule]]\nname = \"films\"\nwho = [\"alice\"]\nresource = [\"net/*\"]\nmost = \"8mbit\"\nahead = \"30d\"\n";

/// The agents, and a broker on the host before them which knows their addresses.
pub struct Site {
    pub far: Far,
    broker: Option<Running>,
}

impl Site {
    pub fn up() -> Option<Site> {
        let far = Far::up(Bed::up("30s"), &AGENTS, &["--requester", "alice", "--requester", "bob"], RULES)?;
        let place = &far.bed.place;
        let agents: String = AGENTS
            .iter()
            .map(|(name, address)| format!("[[agent]]\nname = \"{name}\"\naddress = \"{address}:4711\"\n"))
            .collect();
        let file = place.join("broker.toml");
        let text = format!(
            "socket = \"{0}/broker.sock\"\nstate = \"{0}/broker\"\nlisten = [\"10.0.0.1:8443\"]\n[tls]\nca = \"trust/ca.pem\"\n\
             certificate = \"trust/broker-main.pem\"\nkey = \"trust/broker-main.key\"\nrevoked = \"trust/revoked.pem\"\n\
             [webhooks]\nallow = [\"https://hooks.example.org/sluice/\"]\n{agents}",
            place.display()
        );
        std::fs::write(&file, text).unwrap();
        let mut site = Site { far, broker: None };
        site.start_broker();
        Some(site)
    }

    pub fn start_broker(&mut self) {
        let place = &self.far.bed.place;
        let mut command = Command::new(SLUICE);
        command.arg("broker").arg("--config").arg(place.join("broker.toml"));
        let netns = self.far.bed.netns("swissvale");
        netns.enter_at_exec(&mut command);
        let log = place.join("broker.log");
        self.broker = Some(Running::start(&mut command, &log));
        wait_for_words(&log, "10.0.0.1:8443");
    }

    pub fn stop_broker(&mut self) {
        self.broker = None;
        let _ = std::fs::remove_file(self.far.bed.place.join("broker.log"));
    }

    /// Takes a certificate's good name.
    pub fn revoke(&self, who: &str) {
        let done = Command::new(SLUICE).args(["ca", "revoke", who, "--dir"]).arg(&self.far.trust).output().unwrap();
        assert!(done.status.success(), "{done:?}");
    }

    /// A request to the broker over mutual TLS, from a node.
    pub fn ask(&self, who: &str, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let papers = papers(&self.far.trust, who);
        let files = Files {
            ca: papers.ca.unwrap(),
            certificate: papers.certificate.unwrap(),
            key: papers.key.unwrap(),
            revoked: None,
            partners: Vec::new(),
        };
        let config = trust::client(&files, now(), Speaks::Http).unwrap();
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: broker\r\nConnection: close\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let all = self.far.bed.netns("glenwood").run(|| {
            let stream = TcpStream::connect("10.0.0.1:8443").unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
            let name = ServerName::try_from("10.0.0.1").unwrap();
            let mut stream = StreamOwned::new(ClientConnection::new(config, name).unwrap(), stream);
            stream.write_all(request.as_bytes()).unwrap();
            let mut all = Vec::new();
            let _ = stream.read_to_end(&mut all);
            all
        });
        let text = String::from_utf8(all.unwrap()).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}"));
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, serde_json::from_str(body).unwrap_or(Value::Null))
    }

    fn ok(&self, method: &str, path: &str, body: &Value) -> Value {
        let (status, doc) = self.ask("requester-alice", method, path, body);
        assert!(status < 300, "{method} {path}: {status} {doc}");
        doc
    }

    /// What an agent's book has that is not over, as its operator sees it.
    fn kept(&self, node: &str) -> Vec<ReservationDoc> {
        match self.far.bed.client(node).call(Request::BookShow { handle: None, filter: BookFilter::default() }).unwrap()
        {
            Answer::Book(BookAnswer::Reservations { rows, .. }) => rows,
            other => panic!("{other:?}"),
        }
    }

    /// What is in force at the agents, as lines of owner, state, and each part with its amount.
    pub fn footprint(&self) -> Vec<String> {
        let row = |node: &str, doc: &ReservationDoc| {
            let part = |part: &documents::book::PartRow| format!("{} {} {}", part.resource, part.now, part.enforced);
            let parts: Vec<String> = doc.parts.iter().map(part).collect();
            format!("{node}: {} {} {}", doc.owner, doc.state, parts.join(", "))
        };
        let mut all: Vec<String> = AGENTS
            .iter()
            .flat_map(|(node, _)| self.kept(node).iter().map(|doc| row(node, doc)).collect::<Vec<_>>())
            .collect();
        all.sort();
        all
    }
}

#[test]
fn a_path_over_three_machines_while_an_agent_goes_and_comes() {
    let Some(site) = Site::up() else { return };
    let ends = json!({"from": "10.0.0.1", "to": "10.0.2.2"});
    let most = site.ok("POST", "/v1/enquiries", &json!({"path": ends, "duration_s": 3600}));
    assert_eq!(most["accepted"], true, "{most}");
    assert!(most["forward"].as_u64().unwrap() > 6_000_000 && most["reverse"].as_u64().unwrap() > 500_000, "{most}");

    let wish = json!({"path": {"from": "10.0.0.1", "to": "10.0.2.2", "forward": 6_000_000, "reverse": 500_000}, "duration_s": 3600});
    let made = site.ok("POST", "/v1/reservations", &wish);
    assert_eq!((made["owner"].as_str(), made["path"]["forward"].as_u64()), (Some("alice"), Some(6_000_000)), "{made}");
    let at = format!("/v1/reservations/{}", made["id"].as_str().unwrap());
    let flow = json!({"flow": {"protocol": 17, "from_port": 4000, "to_port": 5004}});
    site.ok("POST", &format!("{at}/bind"), &flow);
    let bound = [
        "glenwood: alice active net/to-maui 500000 in_force",
        "maui: alice active net/to-glenwood 6000000 in_force",
        "maui: alice active net/to-yosemite 500000 in_force",
        "yosemite: alice active net/to-maui 6000000 in_force",
        "yosemite: alice active net/to-swissvale 500000 in_force",
    ];
    wait_for("all of it is in force", || (site.footprint() == bound).then_some(()));
    // Nobody else sees it, and the policy of the agents decides what else may be had.
    assert_eq!(site.ask("requester-bob", "GET", &at, &Value::Null).0, 404);
    assert_eq!(site.ask("requester-bob", "POST", "/v1/reservations", &wish).0, 403);
    let (status, no) = site.ask("requester-alice", "PATCH", &at, &json!({"forward": 9_000_000}));
    assert_eq!(status, 403, "{no}");
    assert_eq!(site.footprint(), bound, "what was refused changes nothing");
    site.ok("PATCH", &at, &json!({"forward": 7_000_000}));
    let changed: Vec<String> = bound.iter().map(|line| line.replace("6000000", "7000000")).collect();
    wait_for("the new rate is in force", || (site.footprint() == changed).then_some(()));

    site.far.bed.kill("maui");
    let before = [site.kept("yosemite"), site.kept("glenwood")];
    for (method, path, body) in [
        ("PATCH", at.as_str(), json!({"forward": 2_000_000})),
        (
            "POST",
            "/v1/reservations",
            json!({"path": {"from": "10.0.0.1", "to": "10.0.2.2", "forward": 1_000_000}, "end": "forever"}),
        ),
        ("POST", "/v1/enquiries", json!({"path": ends, "duration_s": 3600})),
    ] {
        let (status, no) = site.ask("requester-alice", method, path, &body);
        let detail = no["detail"].as_str().unwrap_or_default();
        assert!(status == 503 && detail.contains("maui"), "{method} {path}: {status} {no}");
    }
    assert_eq!([site.kept("yosemite"), site.kept("glenwood")], before, "what was refused changes nothing");

    let away = || {
        let ways = site.ok("GET", "/v1/paths?from=10.0.0.1&to=10.0.2.2", &Value::Null);
        (ways["away"] == json!(["maui"])).then_some(())
    };
    wait_for("paths say who is away", away);
    site.far.bed.start("maui");
    let again = || {
        let (status, _) =
            site.ask("requester-alice", "PATCH", &at, &json!({"forward": 2_000_000, "reverse": 1_000_000}));
        (status == 200).then_some(())
    };
    wait_for("the broker finds the agent again", again);
    let changed: Vec<String> =
        bound.iter().map(|line| line.replace("6000000", "2000000").replace("500000", "1000000")).collect();
    wait_for("the new rates are in force", || (site.footprint() == changed).then_some(()));
    assert_eq!(site.ok("DELETE", &at, &Value::Null)["state"], "cancelled");
    assert_eq!(site.footprint(), Vec::<String>::new());
    // The agents know whom they served, and not only their broker.
    assert!(site.far.bed.log("maui").contains("who=broker/main from=10.0.0.1"), "{}", site.far.bed.log("maui"));
}

/// The Python package, every call of the book in it, over the same machines.
#[test]
fn python_over_three_machines() {
    if Command::new("python3").arg("--version").output().is_err() {
        bench::skipped("python3 is not installed");
        return;
    }
    let Some(site) = Site::up() else { return };
    let folder = |path: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    let papers = site.far.papers("requester-alice");
    let mut command = Command::new("timeout");
    command
        .args(["60", "python3", "-W", "error"])
        .arg(folder("client/python/tests/live.py"))
        .arg("https://10.0.0.1:8443");
    command.args([papers.ca.unwrap(), papers.certificate.unwrap(), papers.key.unwrap()]).args(["10.0.0.1", "10.0.2.2"]);
    let netns = site.far.bed.netns("swissvale");
    netns.enter_at_exec(command.env("PYTHONPATH", folder("client/python")));
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("all calls answered"), "{said}");
    assert_eq!(site.footprint(), Vec::<String>::new());
}

//! Two domains, each with an authority of its own: real agents that trust both, certificates with groups, and a broker that
//! reserves over its own agent and a partner's.
//!
//! Host `a` (the broker's) - router `b` (an agent of ours) - host `c` (an agent of the partner `anl`). To `c`, we are the partner `gw`.

use super::{PORT, Running, now, papers, wait_for_words};
use crate::bed::{Bed, SLUICE, skipped, wait_for};
use api::agent::{Answer, Request};
use api::book::{BookAnswer, BookFilter};
use api::client::{Client, Error};
use api::place::Place;
use daemon::topology::TestbedFile;
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use trust::{Files, Speaks};

/// Where the agents listen, and the broker.
const B: &str = "10.0.0.2";
const C: &str = "10.0.1.2";
const BROKER: &str = "10.0.0.1:8443";

/// The house: the testbed, and the folders of the authorities.
struct Two {
    bed: Bed,
    ours: PathBuf,
    anl: PathBuf,
}

/// `sluice ca` in a folder.
fn ca(dir: &Path, args: &[&str]) {
    let mut command = Command::new(SLUICE);
    command.arg("ca").args(args).arg("--dir").arg(dir);
    let done = command.output().unwrap();
    assert!(done.status.success(), "{done:?}");
}

/// Both agents are up, each with its own authority, the other's as a partner's, and this policy.
fn two(rate: &str, partners_at_b: &str, policy_of_b: &str, policy_of_c: &str) -> Option<Two> {
    if skipped() {
        return None;
    }
    let bed = Bed::of(|name| {
        let text = format!(
            "name = \"{name}\"\nauth = \"none\"\n[[node]]\nname = \"a\"\nkind = \"host\"\n[[node]]\nname = \"b\"\nkind = \"router\"\n\
             [[node]]\nname = \"c\"\nkind = \"host\"\n[[link]]\nbetween = [\"a\", \"b\"]\nrate = \"{rate}\"\n\
             [[link]]\nbetween = [\"b\", \"c\"]\nrate = \"{rate}\"\n"
        );
        TestbedFile::parse(Path::new("three.toml"), &text).unwrap()
    })?;
    let (ours, anl) = (bed.place.join("ours"), bed.place.join("anl"));
    let people = ["--requester", "alice", "--requester", "bob", "--group", "alice=staff"];
    ca(&ours, &[&["--broker", "10.0.0.1", "--agent", "b=10.0.0.2"][..], &people].concat());
    let people = ["--requester", "alice", "--requester", "bob", "--group", "alice=physics", "--group", "bob=staff"];
    ca(&anl, &[&["--broker", "10.0.0.1", "--agent", "c=10.0.1.2"][..], &people].concat());
    let two = Two { bed, ours, anl };
    let at = |dir: &Path| dir.display().to_string();
    let (ours, anl) = (at(&two.ours), at(&two.anl));
    let partner = |name: &str, dir: &str, roles: &str| {
        format!(
            "[[listen.domain]]\nname = \"{name}\"\nca = \"{dir}/ca.pem\"\nrevoked = \"{dir}/revoked.pem\"\nroles = {roles}\n"
        )
    };
    two.listen("b", B, &ours, &partner("anl", &anl, partners_at_b), policy_of_b);
    two.listen("c", C, &anl, &partner("gw", &ours, "[\"broker\"]"), policy_of_c);
    Some(two)
}

impl Two {
    /// The agent of a node listens from now on.
    fn listen(&self, node: &str, address: &str, own: &str, partner: &str, policy: &str) {
        let file = self.bed.home(node).join("agent.toml");
        let text = std::fs::read_to_string(&file).unwrap();
        let listen = format!(
            "\n[listen]\naddress = \"{address}:{PORT}\"\nca = \"{own}/ca.pem\"\ncertificate = \"{own}/agent-{node}.pem\"\n\
             key = \"{own}/agent-{node}.key\"\nrevoked = \"{own}/revoked.pem\"\n{partner}"
        );
        std::fs::write(&file, format!("policy = \"policy.toml\"\n{text}{listen}")).unwrap();
        std::fs::write(self.bed.home(node).join("policy.toml"), policy).unwrap();
        self.bed.kill(node);
        self.bed.start(node);
    }

    /// Calls an agent from `a`, with a certificate of one of the authorities; the agent is known by its own domain's.
    fn reach(&self, address: &str, dir: &Path, who: &str) -> Result<Client, Error> {
        let home = if address == B { &self.ours } else { &self.anl };
        let mut papers = papers(dir, who);
        papers.ca = Some(home.join("ca.pem"));
        let place = Place::parse(&format!("tls://{address}:{PORT}"), &papers, now()).unwrap();
        self.bed.netns("a").run(|| Client::reach(&place)).unwrap()
    }

    /// Our broker, over both agents.
    fn broker(&self) -> Running {
        let place = &self.bed.place;
        let text = format!(
            "socket = \"{0}/broker.sock\"\nstate = \"{0}/broker\"\nlisten = [\"{BROKER}\"]\n[tls]\n\
             ca = \"ours/ca.pem\"\ncertificate = \"ours/broker-main.pem\"\nkey = \"ours/broker-main.key\"\n\
             revoked = \"ours/revoked.pem\"\n[[tls.domain]]\nname = \"anl\"\nca = \"anl/ca.pem\"\nroles = [\"agent\", \"requester\"]\n\
             [[agent]]\nname = \"b\"\naddress = \"{B}:{PORT}\"\n\
             [[agent]]\nname = \"c\"\naddress = \"{C}:{PORT}\"\ndomain = \"anl\"\n",
            place.display()
        );
        std::fs::write(place.join("broker.toml"), text).unwrap();
        let mut command = Command::new(SLUICE);
        command.arg("broker").arg("--config").arg(place.join("broker.toml"));
        let netns = self.bed.netns("a");
        netns.enter_at_exec(&mut command);
        let log = place.join("broker.log");
        let broker = Running::start(&mut command, &log);
        wait_for_words(&log, BROKER);
        broker
    }

    /// A request to our broker over mutual TLS, from `c`.
    fn ask(&self, dir: &Path, who: &str, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let papers = papers(dir, who);
        let files = Files {
            ca: self.ours.join("ca.pem"),
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
        let all = self.bed.netns("c").run(|| {
            let stream = TcpStream::connect(BROKER).unwrap();
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

    /// What would be reserved from `c` to `a`, as our broker knows it.
    fn way_back(&self) -> Vec<String> {
        let target = format!("/v1/paths?from={C}&to=10.0.0.1");
        let (status, ways) = self.ask(&self.ours, "requester-alice", "GET", &target, &Value::Null);
        assert_eq!(status, 200, "{ways}");
        let hops = ways["forward"][0]["hops"].as_array().cloned().unwrap_or_default();
        hops.iter().filter_map(|hop| hop["resource"].as_str().map(str::to_owned)).collect()
    }

    /// Who owns what at an agent, and what of it is reserved.
    fn owners(&self, node: &str) -> Vec<String> {
        let filter = BookFilter::default();
        match self.bed.client(node).call(Request::BookShow { handle: None, filter }).unwrap() {
            Answer::Book(BookAnswer::Reservations { rows, .. }) => {
                let row = |doc: &api::book::ReservationDoc| {
                    let parts: Vec<&str> = doc.parts.iter().map(|part| part.resource.as_str()).collect();
                    format!("{} {}", doc.owner, parts.join(" "))
                };
                let mut all: Vec<String> = rows.iter().map(row).collect();
                all.sort();
                all
            }
            other => panic!("{other:?}"),
        }
    }
}

const OURS: &str = "brokers = [\"main\"]\n[[rule]]\nname = \"ours\"\nwho = [\"alice\"]\nresource = [\"net/*\"]\n";
const THEIRS: &str =
    "brokers = [\"gw/main\"]\n[[rule]]\nname = \"guests\"\nwho = [\"gw/alice\"]\nresource = [\"net/*\"]\n";

/// A partner's agent takes our broker's word for those who reserve, not for operators. What links it has the broker asks as
/// itself, so that ways over it are known and can be reserved.
#[test]
fn a_way_over_a_partners_agent() {
    let Some(two) = two("10mbit", "[\"requester\"]", OURS, THEIRS) else { return };
    let _broker = two.broker();
    assert_eq!(two.way_back(), ["c/net/to-b", "b/net/to-a"]);
    let path = json!({"from": "10.0.0.1", "to": C, "forward": 2_000_000, "reverse": 1_000_000});
    let wish = json!({"path": path, "duration_s": 600});
    let (status, made) = two.ask(&two.ours, "requester-alice", "POST", "/v1/reservations", &wish);
    assert_eq!(status, 201, "{made}");
    assert_eq!(two.owners("b"), ["alice net/to-a", "alice net/to-c"]);
    assert_eq!(two.owners("c"), ["gw/alice net/to-b"]);
    let at = format!("/v1/reservations/{}", made["id"].as_str().unwrap());
    assert_eq!(two.ask(&two.ours, "requester-alice", "GET", &at, &Value::Null).1["state"], "active");
    assert_eq!(two.ask(&two.ours, "requester-bob", "GET", &at, &Value::Null).0, 404);
    assert_eq!(two.ask(&two.ours, "requester-alice", "DELETE", &at, &Value::Null).0, 200);
    assert_eq!((two.owners("b"), two.owners("c")), (Vec::new(), Vec::new()));
    // A broker that the policy of the partner's agent does not name is told nothing of its links.
    let policy = two.bed.home("c").join("policy.toml");
    std::fs::write(&policy, THEIRS.replace("gw/main", "gw/other")).unwrap();
    two.bed.agent("c").signal(1).unwrap();
    wait_for("the partner's agent tells no more", || (two.way_back() == ["b/net/to-a"]).then_some(()));
    let said = two.reach(C, &two.ours, "broker-main").unwrap().call(Request::Links).unwrap_err().to_string();
    assert!(said.contains("only for brokers that this agent's policy names"), "{said}");
}

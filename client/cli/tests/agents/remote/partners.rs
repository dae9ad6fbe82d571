//! Several domains, each with an authority of its own: real agents that trust them, certificates with groups, and a broker that
//! reserves over its own agent and a partner's.
//!
//! Host `a` (the broker's) - router `b` (an agent of ours) - host `c` (an agent of the partner `anl`). To `c`, we are the partner `gw`. The
//! partner `hep` has people and no machines.

use super::{PORT, Running, now, papers, wait_for_words};
use crate::bed::{Bed, SLUICE, skipped, wait_for};
use ::bed::file::TestbedFile;
use documents::agent::{Answer, CallerDoc, Request};
use documents::book::{AskDoc, BookAnswer, BookFilter, Instant, PartDoc, WhenDoc};
use rpc::client::{Client, Error};
use rpc::place::Endpoint;
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use terms::{Span, Time};
use trust::{Files, Speaks};

/// Where the agents listen, and the broker.
pub(super) const B: &str = "10.0.0.2";
pub(super) const C: &str = "10.0.1.2";
pub(super) const BROKER: &str = "10.0.0.1:8443";

/// The testbed, and the folders of the authorities in its place.
pub(super) struct Two {
    pub(super) bed: Bed,
}

/// `sluice ca` in a folder.
pub(super) fn ca(dir: &Path, args: &[&str]) {
    let mut command = Command::new(SLUICE);
    command.arg("ca").args(args).arg("--dir").arg(dir);
    let done = command.output().unwrap();
    assert!(done.status.success(), "{done:?}");
}

/// Both agents are up, each with its own authority and these policies; `b` trusts partners in these roles, and `c` our brokers.
fn two(rate: &str, partners: &[(&str, &str)], policy_of_b: &str, policy_of_c: &str) -> Option<Two> {
    Two::up(rate, partners, &[("gw", "ours", "[\"broker\"]")], policy_of_b, policy_of_c)
}

impl Two {
    /// The same, and `c` trusts these: a name, whose authority, in which roles.
    pub(super) fn up(
        rate: &str,
        partners: &[(&str, &str)],
        partners_of_c: &[(&str, &str, &str)],
        policy_of_b: &str,
        policy_of_c: &str,
    ) -> Option<Two> {
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
        for (domain, people) in [
            ("ours", "--agent b=10.0.0.2 --requester alice --requester bob --group alice=staff"),
            ("anl", "--agent c=10.0.1.2 --agent c=10.0.0.1 --requester alice --requester bob --group alice=cms"),
            (
                "hep",
                "--requester carol --requester dora --requester emil --requester pia --group carol=cms --group dora=cms --group emil=atlas",
            ),
        ] {
            let people: Vec<&str> = people.split(' ').collect();
            ca(&bed.place.join(domain), &[&["--broker", "10.0.0.1"][..], &people].concat());
        }
        let two = Two { bed };
        let partner = |name: &str, dir: &str, roles: &str| {
            let dir = two.dir(dir).display().to_string();
            format!(
                "[[listen.domain]]\nname = \"{name}\"\nca = \"{dir}/ca.pem\"\nrevoked = \"{dir}/revoked.pem\"\nroles = {roles}\n"
            )
        };
        let partners: String = partners.iter().map(|(name, roles)| partner(name, name, roles)).collect();
        two.listen("b", B, "ours", &partners, policy_of_b);
        let partners: String = partners_of_c.iter().map(|(name, dir, roles)| partner(name, dir, roles)).collect();
        two.listen("c", C, "anl", &partners, policy_of_c);
        Some(two)
    }

    /// The folder of a domain's authority.
    pub(super) fn dir(&self, domain: &str) -> PathBuf {
        self.bed.place.join(domain)
    }

    /// The agent of a node listens from now on.
    fn listen(&self, node: &str, address: &str, domain: &str, partner: &str, policy: &str) {
        let own = self.dir(domain).display().to_string();
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

    /// Calls an agent from `a`, as `DOMAIN/ROLE-NAME`; the agent is known by its own domain's authority.
    pub(super) fn reach(&self, address: &str, who: &str) -> Result<Client, Error> {
        let (domain, who) = who.split_once('/').unwrap();
        let mut papers = papers(&self.dir(domain), who);
        papers.ca = Some(self.dir(if address == B { "ours" } else { "anl" }).join("ca.pem"));
        let place = Endpoint::parse(&format!("tls://{address}:{PORT}"), &papers, now()).unwrap();
        self.bed.netns("a").run(|| Client::reach(&place)).unwrap()
    }

    /// Whether the agent at `b` lets somebody in.
    fn lets_in(&self, who: &str) -> bool {
        self.reach(B, who).and_then(|mut client| client.call(Request::Hello)).is_ok()
    }

    /// Our broker, over both agents.
    fn broker(&self) -> Running {
        self.broker_over(&format!("{C}:{PORT}"))
    }

    /// Our broker, which calls the agent at `c` by this address.
    pub(super) fn broker_over(&self, c: &str) -> Running {
        let place = &self.bed.place;
        let text = format!(
            "socket = \"{0}/broker.sock\"\nstate = \"{0}/broker\"\nlisten = [\"{BROKER}\"]\n[tls]\n\
             ca = \"ours/ca.pem\"\ncertificate = \"ours/broker-main.pem\"\nkey = \"ours/broker-main.key\"\n\
             revoked = \"ours/revoked.pem\"\n[[tls.domain]]\nname = \"anl\"\nca = \"anl/ca.pem\"\nroles = [\"agent\", \"requester\"]\n\
             [[agent]]\nname = \"b\"\naddress = \"{B}:{PORT}\"\n\
             [[agent]]\nname = \"c\"\naddress = \"{c}\"\ndomain = \"anl\"\n",
            place.display()
        );
        std::fs::write(place.join("broker.toml"), text).unwrap();
        let mut command = Command::new(SLUICE);
        command.arg("broker").arg("--config").arg(place.join("broker.toml"));
        let netns = self.bed.netns("a");
        netns.enter_at_exec(&mut command);
        let log = place.join("broker.log");
        let _ = std::fs::remove_file(&log);
        let broker = Running::start(&mut command, &log);
        wait_for_words(&log, BROKER);
        broker
    }

    /// A request to our broker over mutual TLS, from `c`, as somebody of ours.
    pub(super) fn ask(&self, who: &str, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let papers = papers(&self.dir("ours"), who);
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
        let (status, ways) = self.ask("requester-alice", "GET", &target, &Value::Null);
        assert_eq!(status, 200, "{ways}");
        let hops = ways["forward"][0]["hops"].as_array().cloned().unwrap_or_default();
        hops.iter().filter_map(|hop| hop["resource"].as_str().map(str::to_owned)).collect()
    }

    /// Who owns what at an agent, and what of it is reserved.
    fn owners(&self, node: &str) -> Vec<String> {
        let filter = BookFilter::default();
        match self.bed.client(node).call(Request::BookShow { handle: None, filter }).unwrap() {
            Answer::Book(BookAnswer::Reservations { rows, .. }) => {
                let row = |doc: &documents::book::ReservationDoc| {
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

pub(super) const OURS: &str =
    "brokers = [\"main\"]\n[[rule]]\nname = \"ours\"\nwho = [\"alice\"]\nresource = [\"net/*\"]\n";
pub(super) const THEIRS: &str =
    "brokers = [\"gw/main\"]\n[[rule]]\nname = \"guests\"\nwho = [\"gw/alice\"]\nresource = [\"net/*\"]\n";

/// A partner's agent takes our broker's word for those who reserve, not for operators. What links it has the broker asks as
/// itself, so that ways over it are known and can be reserved.
#[test]
fn a_way_over_a_partners_agent() {
    let Some(two) = two("10mbit", &[("anl", "[\"requester\"]")], OURS, THEIRS) else { return };
    let _broker = two.broker();
    assert_eq!(two.way_back(), ["c/net/to-b", "b/net/to-a"]);
    let path = json!({"from": "10.0.0.1", "to": C, "forward": 2_000_000, "reverse": 1_000_000});
    let wish = json!({"path": path, "duration_s": 600});
    let (status, made) = two.ask("requester-alice", "POST", "/v1/reservations", &wish);
    assert_eq!(status, 201, "{made}");
    assert_eq!(two.owners("b"), ["alice net/to-a", "alice net/to-c"]);
    assert_eq!(two.owners("c"), ["gw/alice net/to-b"]);
    let at = format!("/v1/reservations/{}", made["id"].as_str().unwrap());
    assert_eq!(two.ask("requester-alice", "GET", &at, &Value::Null).1["state"], "active");
    assert_eq!(two.ask("requester-bob", "GET", &at, &Value::Null).0, 404);
    assert_eq!(two.ask("requester-alice", "DELETE", &at, &Value::Null).0, 200);
    assert_eq!((two.owners("b"), two.owners("c")), (Vec::new(), Vec::new()));
    an_operator_of_ours(&two, &wish);
    // A broker that the policy of the partner's agent does not name is told nothing of its links.
    let policy = two.bed.home("c").join("policy.toml");
    std::fs::write(&policy, THEIRS.replace("gw/main", "gw/other")).unwrap();
    two.bed.agent("c").signal(1).unwrap();
    wait_for("the partner's agent tells no more", || (two.way_back() == ["b/net/to-a"]).then_some(()));
    let said = two.reach(C, "ours/broker-main").unwrap().call(Request::Links).unwrap_err().to_string();
    assert!(said.contains("only for brokers that this agent's policy names"), "{said}");
}

/// An operator of our domain sees what our people have at a partner's agent too, and gives it back there.
fn an_operator_of_ours(two: &Two, wish: &Value) {
    let (status, made) = two.ask("requester-alice", "POST", "/v1/reservations", wish);
    assert_eq!(status, 201, "{made}");
    let (status, listed) = two.ask("operator-root", "GET", "/v1/reservations", &Value::Null);
    assert_eq!((status, &listed["reservations"][0]["id"]), (200, &made["id"]), "{listed}");
    let at = format!("/v1/reservations/{}", made["id"].as_str().unwrap());
    let (status, shown) = two.ask("operator-root", "GET", &at, &Value::Null);
    assert_eq!((status, &shown["state"]), (200, &json!("active")), "{shown}");
    assert_eq!(two.ask("operator-root", "DELETE", &at, &Value::Null).0, 200);
    assert_eq!((two.owners("b"), two.owners("c")), (Vec::new(), Vec::new()));
}

pub(super) fn speak_for(client: &mut Client, name: &str) -> Result<Answer, Error> {
    let who = CallerDoc { name: name.to_owned(), groups: Vec::new(), role: "owner".to_owned(), token: None };
    client.call(Request::SpeakFor { who: Some(who) })
}

/// So many Mbit/s towards `c` for ten minutes, from now on or later: the handle, or why not.
fn book(client: &mut Client, mbit: u64, label: &str, start: Option<Time>) -> Result<String, String> {
    let part = PartDoc { resource: "net/to-c".into(), rate: Some(mbit * 1_000_000), ..PartDoc::default() };
    let ask = AskDoc {
        parts: vec![part],
        label: label.to_owned(),
        when: WhenDoc { start: start.map(Instant), ..WhenDoc::lasting(600.0) },
        ..AskDoc::default()
    };
    match client.call(Request::BookCreate(ask)) {
        Ok(Answer::Book(BookAnswer::Reservation(doc))) => Ok(doc.handle),
        Err(Error::Agent(problem)) => Err(problem.message),
        other => panic!("{other:?}"),
    }
}

fn no(said: Result<String, String>, why: &[&str]) {
    let said = said.expect_err("it is refused");
    assert!(why.iter().all(|words| said.contains(words)), "{said}\nis to say {why:?}");
}

/// What an authority signs is of its own domain and of the roles that it was given; what it takes back is its own.
#[test]
fn an_authority_speaks_for_its_own_domain_alone() {
    let rules =
        "brokers = [\"main\"]\n[[rule]]\nname = \"all\"\nwho = [\"*\", \"anl/*\", \"hep/*\"]\nresource = [\"net/*\"]\n";
    let Some(two) = two("10mbit", &[("anl", "[\"requester\", \"broker\"]"), ("hep", "[\"requester\"]")], rules, THEIRS)
    else {
        return;
    };
    // Its broker `main` is not ours, nor its operator anybody.
    let mut main = two.reach(B, "ours/broker-main").unwrap();
    speak_for(&mut main, "alice").unwrap();
    let mut theirs = two.reach(B, "anl/broker-main").unwrap();
    for name in ["alice", "root", "home/alice", "anl/alice"] {
        let said = speak_for(&mut theirs, name).unwrap_err().to_string();
        assert!(said.contains("only for brokers that this agent's policy names"), "{name}: {said}");
    }
    assert!(theirs.call(Request::Links).is_err());
    for (who, comes_in) in [
        ("anl/broker-main", true),
        ("hep/broker-main", false),
        ("ours/operator-root", true),
        ("anl/operator-root", false),
        ("hep/operator-root", false),
        ("hep/requester-carol", true),
    ] {
        assert_eq!(two.lets_in(who), comes_in, "{who}");
    }
    // Both have an alice: each has what is hers, and neither sees the other's.
    let (mut ours, mut theirs) =
        (two.reach(B, "ours/requester-alice").unwrap(), two.reach(B, "anl/requester-alice").unwrap());
    let (one, other) = (book(&mut ours, 1, "", None).unwrap(), book(&mut theirs, 1, "", None).unwrap());
    assert_eq!(two.owners("b"), ["alice net/to-c", "anl/alice net/to-c"]);
    for (client, handle) in [(&mut ours, other), (&mut theirs, one)] {
        let said = client.call(Request::BookCancel { handle }).unwrap_err().to_string();
        assert!(said.contains("no such reservation") || said.contains("unknown"), "{said}");
    }
    // Both have a bob: who is taken back is the one whose authority says so, also on an open connection.
    let mut bobs = [two.reach(B, "ours/requester-bob").unwrap(), two.reach(B, "anl/requester-bob").unwrap()];
    ca(&two.dir("anl"), &["revoke", "requester/bob"]);
    wait_for("the partner's bob is put out", || bobs[1].call(Request::Hello).is_err().then_some(()));
    assert!(
        !two.lets_in("anl/requester-bob") && bobs[0].call(Request::Hello).is_ok() && two.lets_in("ours/requester-bob")
    );
    ca(&two.dir("ours"), &["revoke", "requester/bob"]);
    wait_for("our bob is put out", || bobs[0].call(Request::Hello).is_err().then_some(()));
    assert!(
        !two.lets_in("ours/requester-bob") && two.lets_in("anl/requester-alice") && two.lets_in("ours/requester-alice")
    );
}

/// The policy of a transit domain of Foster, Roy, Sander, Winkler, section 6, as it lies in `examples/`.
#[test]
fn the_policies_of_a_transit_domain() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/transit-policy.toml");
    let rules = std::fs::read_to_string(file).unwrap();
    let partners = [("anl", "[\"requester\", \"broker\"]"), ("hep", "[\"requester\"]")];
    let Some(two) = two("1gbit", &partners, &rules, THEIRS) else { return };
    let client = |who: &str| two.reach(B, who).unwrap();
    let day = Span::from_secs(86_400);
    let today = now()().as_nanos() / day.as_nanos() * day.as_nanos();
    let at = |days: u64, hour: u64| Some(Time::from_nanos(today) + Span::from_secs(days * 86_400 + hour * 3_600));

    // From a domain with an agreement: immediately, no more than 100 Mbit/s at once, no more than it agreed upon together.
    let (mut alice, mut bob) = (client("anl/requester-alice"), client("anl/requester-bob"));
    no(book(&mut alice, 101, "", None), &["anl-sla", "100mbit at once"]);
    let first = book(&mut alice, 100, "", None).unwrap();
    book(&mut bob, 55, "", None).unwrap();
    no(book(&mut bob, 1, "", None), &["anl-sla"]);
    no(book(&mut alice, 1, "", at(2, 20)), &["anl-sla", "ahead"]);
    // Its broker forwards for its people, whom nobody here knows; the agreement is the domain's.
    let mut broker = client("anl/broker-main");
    speak_for(&mut broker, "carl").unwrap();
    no(book(&mut broker, 1, "", None), &["anl-sla"]);
    alice.call(Request::BookCancel { handle: first }).unwrap();
    book(&mut broker, 100, "", None).unwrap();
    no(book(&mut broker, 1, "", None), &["anl-sla"]);
    // Without an agreement there is nothing, not even for our own.
    no(book(&mut client("hep/requester-pia"), 1, "", None), &["no rule"]);
    no(book(&mut client("ours/requester-alice"), 1, "", None), &["no rule"]);

    // What its community approved of, by a group in a certificate that the community signed: also ahead, at night, within its limits.
    let (mut carol, mut dora, mut emil) =
        (client("hep/requester-carol"), client("hep/requester-dora"), client("hep/requester-emil"));
    book(&mut carol, 200, "HEP", at(2, 20)).unwrap();
    no(book(&mut dora, 1, "HEP", at(2, 20)), &["hep"]);
    book(&mut emil, 100, "HEP", at(2, 20)).unwrap();
    no(book(&mut emil, 1, "HEP", at(2, 20)), &["hep"]);
    book(&mut dora, 200, "HEP", at(3, 20)).unwrap();
    no(book(&mut carol, 1, "HEP", at(4, 12)), &["hep", "not the hours", "mon-sun 18:00-08:00 UTC"]);
    no(book(&mut carol, 1, "film", at(4, 20)), &["no rule"]);
    no(book(&mut client("hep/requester-pia"), 1, "HEP", at(4, 20)), &["no rule"]);
    // A partner's group of the same name is the partner's.
    no(book(&mut alice, 1, "HEP", at(4, 20)), &["anl-sla", "ahead"]);
    let mut owners = two.owners("b");
    owners.dedup();
    let all = ["anl/bob", "anl/carl", "hep/carol", "hep/dora", "hep/emil"].map(|owner| format!("{owner} net/to-c"));
    assert_eq!(owners, all);
}

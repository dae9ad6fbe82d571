//! `sluice up` of several domains: each has its own authority and broker, and all of it goes again.

use crate::bed::{PATIENCE, Place, SLUICE, detached, place, skipped, wait_at_most, wait_for};
use ::bed::domain_up::DomainUp;
use ::bed::file::TestbedFile;
use ::bed::patience::Patience;
use ::bed::testbed::{self, UpOptions};
use linux::netns::Namespace;
use linux::process::ProcessId;
use std::path::Path;
use std::process::{Command, Output};

/// The topology of the example under another name, and with other lines.
fn three(name: &str, change: impl Fn(&str) -> String) -> TestbedFile {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/three-domains.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    let text = change(&text.replace("name = \"three-domains\"", &format!("name = \"{name}\"")));
    TestbedFile::parse(&path, &text).unwrap()
}

pub struct Domains {
    pub all: Vec<DomainUp>,
    pub name: String,
    pub place: Place,
}

impl Domains {
    pub fn up() -> Option<Domains> {
        Domains::up_with(str::to_owned)
    }

    pub fn up_with(change: impl Fn(&str) -> String) -> Option<Domains> {
        if skipped() {
            return None;
        }
        let (name, place) = place();
        let options = UpOptions { program: SLUICE.into(), testbeds: place.to_path_buf() };
        let up = testbed::up_until(&three(&name, change), &options, &Patience::endless()).unwrap();
        Some(Domains { all: up.domains, name, place })
    }

    pub fn domain(&self, name: &str) -> &DomainUp {
        self.all.iter().find(|domain| domain.name == name).unwrap()
    }

    /// Runs a command of a requester from a node, over mutual TLS.
    pub fn ask(&self, node: &str, domain: &str, who: &str, words: &[&str]) -> Output {
        let (own, broker) = (self.domain(domain), &self.domain(domain).address);
        self.ask_with(node, &own.trust, who, broker, words)
    }

    pub fn ask_with(&self, node: &str, trust: &Path, who: &str, broker: &str, words: &[&str]) -> Output {
        let mut command = Command::new(SLUICE);
        command.args(words).args(["--broker", &format!("https://{broker}")]).arg("--ca").arg(trust.join("ca.pem"));
        command.arg("--certificate").arg(trust.join(format!("{who}.pem")));
        command.arg("--certificate-key").arg(trust.join(format!("{who}.key")));
        let netns = Namespace::open(&format!("{}-{node}", self.name)).unwrap();
        netns.enter_at_exec(&mut command);
        command.output().unwrap()
    }
}

pub fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn three_domains_come_up_reserve_each_within_itself_and_go() {
    let Some(domains) = Domains::up() else { return };
    let names: Vec<(&str, &str, usize)> =
        domains.all.iter().map(|one| (one.name.as_str(), one.address.as_str(), one.nodes.len())).collect();
    let there = [("anl", "10.0.2.2:8443", 4), ("esnet", "10.0.3.2:8443", 4), ("lbnl", "10.0.8.2:8443", 4)];
    assert_eq!(names, there);
    assert_eq!(domains.domain("esnet").neighbours, ["anl", "lbnl"]);
    // Inside one domain: from alpha to the border, over anl-edge and back.
    let reserve = ["reserve", "--from", "10.0.0.1", "--to", "10.0.2.2", "--forward", "6mbit", "--for", "1h", "--json"];
    let made = domains.ask("alpha", "anl", "requester-alice", &reserve);
    assert!(made.status.success(), "{}", said(&made));
    let doc: serde_json::Value = serde_json::from_slice(&made.stdout).unwrap();
    let parts: Vec<&str> =
        doc["parts"].as_array().unwrap().iter().filter_map(|part| part["resource"].as_str()).collect();
    assert_eq!(
        (doc["owner"].as_str(), &parts[..]),
        (Some("alice"), &["alpha/net/to-anl-edge", "anl-edge/net/to-anl-border"][..])
    );
    // Another domain's people, whose authority is a neighbour's, are not let in; nor do they see anything.
    let trust = &domains.domain("esnet").trust;
    let stranger = domains.ask_with("esnet-west", trust, "requester-erin", "10.0.2.2:8443", &["list"]);
    assert!(!stranger.status.success(), "{}", said(&stranger));
    let own = domains.ask("esnet-west", "esnet", "requester-erin", &["list", "--json"]);
    assert!(own.status.success() && !said(&own).contains("alice"), "{}", said(&own));
    // A neighbour's broker is known by its own authority only.
    let broker = std::fs::read_to_string(trust.with_file_name("broker.toml")).unwrap();
    assert!(broker.contains("name = \"anl\"\naddress = \"10.0.2.2:8443\""), "{broker}");
    let ours = |name: &str| std::fs::read(trust.join(name)).unwrap();
    assert_eq!(ours("lbnl.pem"), std::fs::read(domains.domain("lbnl").trust.join("ca.pem")).unwrap());
    assert_ne!(ours("lbnl.pem"), ours("ca.pem"));

    let done = testbed::down(&domains.place, &domains.name).unwrap().unwrap();
    assert_eq!((done.stopped, done.killed, done.namespaces), (15, 0, 12));
    assert!(!Namespace::exists(&format!("{}-alpha", domains.name)));
    assert!(!domains.place.join(&domains.name).exists());
}

/// Asks a domain's broker from the node on which it runs, as one of its people; the exit status, and the document.
fn asked(domains: &Domains, node: &str, domain: &str, who: &str, words: &[&str]) -> (Option<i32>, serde_json::Value) {
    let output = domains.ask(node, domain, who, &[words, &["--json"]].concat());
    let doc = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{words:?}: {}", said(&output)));
    (output.status.code(), doc)
}

const ALPHA: &str = "10.0.0.1";
const BRAVO: &str = "10.0.10.2";

/// True if ANL knows a path to LBNL with so much free.
fn has_path(domains: &Domains, rate: &str) -> bool {
    let words = ["topology", "--from", ALPHA, "--to", BRAVO, "--rate", rate];
    let (status, doc) = asked(domains, "alpha", "anl", "requester-alice", &words);
    let paths = doc["paths"].as_array().unwrap();
    assert_eq!(status, Some(i32::from(paths.is_empty())), "{doc}");
    !paths.is_empty()
}

/// Erin of ESnet reserves from its border with ANL to that with LBNL; the agents on the way, or why not.
fn asked_of_esnet(domains: &Domains, rate: &str) -> Result<Vec<String>, String> {
    let words = ["reserve", "--from", "10.0.3.2", "--to", "10.0.8.1", "--forward", rate, "--for", "1h"];
    let (status, doc) = asked(domains, "esnet-west", "esnet", "requester-erin", &words);
    if status != Some(0) {
        return Err(doc.to_string());
    }
    Ok(doc["parts"].as_array().unwrap().iter().map(|part| part["resource"].as_str().unwrap().to_owned()).collect())
}

fn through_esnet(domains: &Domains, rate: &str) -> Vec<String> {
    asked_of_esnet(domains, rate).unwrap()
}

impl Domains {
    /// Stops the broker of a domain, and starts it with these lines first in its file.
    fn broker_again(&self, domain: &str, node: &str, lines: &str) -> Again {
        let home = self.domain(domain).trust.parent().unwrap();
        let broker = running(&home.join("broker.pid"));
        broker.signal(15).unwrap();
        wait_for("the broker ends", || (!broker.is_running()).then_some(()));
        let file = home.join("broker.toml");
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, format!("{lines}{text}")).unwrap();
        let mut command = Command::new(SLUICE);
        command.arg("broker").arg("--config").arg(&file);
        let netns = Namespace::open(&format!("{}-{node}", self.name)).unwrap();
        netns.enter_at_exec(&mut command);
        Again(detached(&mut command, &home.join("broker.log")))
    }
}

/// A broker that the test started: it is not in the testbed's record.
struct Again(ProcessId);

impl Drop for Again {
    fn drop(&mut self) {
        let _ = self.0.signal(15);
    }
}

fn running(file: &Path) -> ProcessId {
    std::fs::read_to_string(file).unwrap().trim().parse().unwrap()
}

/// Figure 3: ESnet has two ways, north and south. What it publishes of them is what packets get; and a border that is away
/// is not there.
#[test]
fn paths_over_domains_follow_cost_room_routes_and_what_is_away() {
    let Some(domains) = Domains::up() else { return };
    wait_at_most(2 * PATIENCE, "lbnl is known at anl", || has_path(&domains, "40mbit").then_some(()));
    let (_, doc) = asked(&domains, "alpha", "anl", "requester-alice", &["topology"]);
    let from = |row: &serde_json::Value| row["learnt_from"].as_str().map(str::to_owned);
    let known: Vec<_> = doc["domains"].as_array().unwrap().iter().map(from).collect();
    assert_eq!(known, [None, Some("esnet".into()), Some("esnet".into())]);
    // The interior of others is private.
    let foreign = doc["domains"][1].to_string();
    assert!(!foreign.contains("north") && !foreign.contains("net/"), "{foreign}");
    let words = ["topology", "--from", ALPHA, "--to", BRAVO];
    let (_, doc) = asked(&domains, "alpha", "anl", "requester-alice", &words);
    let hops: Vec<&str> =
        doc["paths"][0]["hops"].as_array().unwrap().iter().filter_map(|hop| hop["domain"].as_str()).collect();
    assert_eq!(hops, ["anl", "esnet", "lbnl"]);
    let table = said(&domains.ask("alpha", "anl", "requester-alice", &words));
    assert!(table.contains("anl -[10.0.3.0/30]-> esnet -[10.0.8.0/30]-> lbnl"), "{table}");

    // The kernels' routes go by way of north: that is what is reserved, and no other way counts.
    assert!(through_esnet(&domains, "50mbit").contains(&"esnet-north/net/to-esnet-east".to_owned()));
    wait_for("north is full", || (!has_path(&domains, "40mbit")).then_some(()));
    assert!(has_path(&domains, "4mbit"), "the rest of it");
    // An administrator routes by way of south: the broker follows.
    let west = Namespace::open(&format!("{}-esnet-west", domains.name)).unwrap();
    let mut route = Command::new("ip");
    route.args(["route", "replace", "10.0.8.0/30", "via", "10.0.6.2"]);
    west.enter_at_exec(&mut route);
    assert!(route.status().unwrap().success());
    wait_for("south has room", || has_path(&domains, "40mbit").then_some(()));
    wait_for("the broker asks again", || {
        let made = through_esnet(&domains, "10kbit");
        made.contains(&"esnet-south/net/to-esnet-east".to_owned()).then_some(())
    });

    // Where the operator steers packets, the way with room is taken wherever routes lead.
    let mut back = Command::new("ip");
    back.args(["route", "replace", "10.0.8.0/30", "via", "10.0.4.2"]);
    west.enter_at_exec(&mut back);
    assert!(back.status().unwrap().success());
    wait_for("north is full again", || (!has_path(&domains, "40mbit")).then_some(()));
    let _again = domains.broker_again("esnet", "esnet-west", "routes = \"configured\"\n");
    wait_at_most(2 * PATIENCE, "any way counts", || has_path(&domains, "40mbit").then_some(()));
    // A broker that has just started may not have heard of all its agents.
    let mut last = String::new();
    let made =
        wait_at_most(2 * PATIENCE, "it is taken", || asked_of_esnet(&domains, "30mbit").map_err(|why| last = why).ok());
    assert!(made.contains(&"esnet-south/net/to-esnet-east".to_owned()), "{made:?}; before: {last}");

    // A border of ESnet is away: so is every path over it, and what is left is said.
    running(&domains.place.join(&domains.name).join("esnet-east/agent.pid")).signal(9).unwrap();
    wait_at_most(2 * PATIENCE, "no room", || (!has_path(&domains, "1kbit")).then_some(()));
    // At first it may be published as a border with nothing free.
    wait_at_most(2 * PATIENCE, "no path", || {
        let none = domains.ask("alpha", "anl", "requester-alice", &words);
        (none.status.code() == Some(1) && said(&none).contains("no path is known")).then_some(())
    });
    testbed::down(&domains.place, &domains.name).unwrap();
}

/// A user who stops `sluice up` half way: whatever was there at that moment is gone.
#[test]
fn an_interrupt_leaves_nothing() {
    if skipped() {
        return;
    }
    // The command uses the usual folder, so the name must be nobody else's.
    let (name, place) = place();
    let path = place.join("three.toml");
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/three-domains.toml");
    let text = std::fs::read_to_string(example).unwrap();
    std::fs::write(&path, text.replace("name = \"three-domains\"", &format!("name = \"{name}\""))).unwrap();
    let home = Path::new(rpc::places::TESTBEDS).join(&name);
    for seen in ["made", "alpha", "bravo/agent.pid", "domains/anl/broker.pid"] {
        let mut up = Command::new(SLUICE).arg("up").arg(&path).stderr(std::process::Stdio::null()).spawn().unwrap();
        wait_for(seen, || home.join(seen).exists().then_some(()));
        ProcessId::of(up.id()).unwrap().signal(2).unwrap();
        let status = wait_at_most(3 * PATIENCE, "sluice up ends", || up.try_wait().unwrap());
        if status.success() {
            // It was done before the signal came.
            testbed::down(Path::new(rpc::places::TESTBEDS), &name).unwrap();
            continue;
        }
        assert_eq!(status.code(), Some(130), "{seen}");
        assert!(!home.exists() && !Namespace::exists(&format!("{name}-alpha")), "{seen}");
    }
}

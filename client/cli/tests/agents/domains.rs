//! `sluice up` of several domains: each has its own authority and broker, and all of it goes again.

use crate::bed::{PATIENCE, Place, SLUICE, place, skipped, wait_at_most, wait_for};
use ::bed::domain_up::DomainUp;
use ::bed::file::TestbedFile;
use ::bed::patience::Patience;
use ::bed::testbed::{self, UpOptions};
use linux::netns::Namespace;
use linux::process::ProcessId;
use std::path::Path;
use std::process::{Command, Output};

/// The topology of the example under another name.
fn three(name: &str) -> TestbedFile {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/three-domains.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    TestbedFile::parse(&path, &text.replace("name = \"three-domains\"", &format!("name = \"{name}\""))).unwrap()
}

struct Domains {
    all: Vec<DomainUp>,
    name: String,
    place: Place,
}

impl Domains {
    fn up() -> Option<Domains> {
        if skipped() {
            return None;
        }
        let (name, place) = place();
        let options = UpOptions { program: SLUICE.into(), testbeds: place.to_path_buf() };
        let up = testbed::up_until(&three(&name), &options, &Patience::endless()).unwrap();
        Some(Domains { all: up.domains, name, place })
    }

    fn domain(&self, name: &str) -> &DomainUp {
        self.all.iter().find(|domain| domain.name == name).unwrap()
    }

    /// Runs a command of a requester from a node, over mutual TLS.
    fn ask(&self, node: &str, domain: &str, who: &str, words: &[&str]) -> Output {
        let (own, broker) = (self.domain(domain), &self.domain(domain).address);
        self.ask_with(node, &own.trust, who, broker, words)
    }

    fn ask_with(&self, node: &str, trust: &Path, who: &str, broker: &str, words: &[&str]) -> Output {
        let mut command = Command::new(SLUICE);
        command.args(words).args(["--broker", &format!("https://{broker}")]).arg("--ca").arg(trust.join("ca.pem"));
        command.arg("--certificate").arg(trust.join(format!("{who}.pem")));
        command.arg("--certificate-key").arg(trust.join(format!("{who}.key")));
        let netns = Namespace::open(&format!("{}-{node}", self.name)).unwrap();
        netns.enter_at_exec(&mut command);
        command.output().unwrap()
    }
}

fn said(output: &Output) -> String {
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

//! Agents on other machines: mutual TLS between network namespaces, real processes, certificates by `sluice ca`.
//! No Unix socket is used across machines; those of the agents are looked at only to see what became of things.

mod asking;
mod command;
mod door;
mod faults;
mod front;
mod halves;
mod kept;
mod login;
mod partner_halves;
mod partners;
mod path;

use crate::bed::{Bed, PATIENCE, SLUICE, detached, wait_for};
use linux::clock::Clock;
use linux::process::ProcessId;
use rpc::client::{Client, Error};
use rpc::place::Endpoint;
use rpc::tls::Papers;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use trust::Now;

/// Where agents listen.
pub const PORT: u16 = 4711;

pub fn now() -> Now {
    let clock = Clock::start();
    Arc::new(move || clock.now())
}

/// Agents of a testbed that listen for other machines, and the site's authority.
pub struct Far {
    pub bed: Bed,
    pub trust: PathBuf,
}

impl Far {
    /// Up; agents listen at these addresses, with these rules of policy behind `brokers = ["main"]`.
    pub fn up(bed: Option<Bed>, agents: &[(&str, &str)], people: &[&str], rules: &str) -> Option<Far> {
        let bed = bed?;
        let trust = bed.place.join("trust");
        let mut command = Command::new(SLUICE);
        command.arg("ca").arg("--dir").arg(&trust).args(["--broker", "10.0.0.1"]).args(people);
        for (node, address) in agents {
            command.arg("--agent").arg(format!("{node}={address}"));
        }
        assert!(command.output().unwrap().status.success());
        for (node, address) in agents {
            let file = bed.home(node).join("agent.toml");
            let text = std::fs::read_to_string(&file).unwrap();
            let trust = trust.display();
            let listen = format!(
                "\n[listen]\naddress = \"{address}:{PORT}\"\nca = \"{trust}/ca.pem\"\ncertificate = \"{trust}/agent-{node}.pem\"\n\
                 key = \"{trust}/agent-{node}.key\"\nrevoked = \"{trust}/revoked.pem\"\n"
            );
            std::fs::write(&file, format!("policy = \"policy.toml\"\n{text}{listen}")).unwrap();
            std::fs::write(bed.home(node).join("policy.toml"), format!("brokers = [\"main\"]\n{rules}")).unwrap();
            bed.kill(node);
            bed.start(node);
        }
        Some(Far { bed, trust })
    }

    pub fn papers(&self, who: &str) -> Papers {
        papers(&self.trust, who)
    }

    /// Calls an agent from a node, as somebody.
    pub fn reach(&self, from: &str, address: &str, who: &str) -> Result<Client, Error> {
        self.reach_with(from, address, &self.papers(who))
    }

    pub fn reach_with(&self, from: &str, address: &str, papers: &Papers) -> Result<Client, Error> {
        let place = Endpoint::parse(&format!("tls://{address}:{PORT}"), papers, now()).unwrap();
        self.bed.netns(from).run(|| Client::reach(&place)).unwrap()
    }
}

pub fn papers(trust: &Path, who: &str) -> Papers {
    let file = |name: String| Some(trust.join(name));
    Papers { ca: file("ca.pem".into()), certificate: file(format!("{who}.pem")), key: file(format!("{who}.key")) }
}

/// A process that this test started; it ends with the test.
pub struct Running(ProcessId);

impl Running {
    pub fn start(command: &mut Command, log: &Path) -> Running {
        Running(detached(command, log))
    }

    /// At once, as by a power cut.
    pub fn kill(self) {
        let _ = self.0.signal(9);
        wait_for("it is gone", || (!self.0.is_running()).then_some(()));
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.signal(15);
        let end = std::time::Instant::now() + PATIENCE;
        while self.0.is_running() && std::time::Instant::now() < end {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        let _ = self.0.signal(9);
        self.0.reap();
    }
}

/// Waits until a file of a log says something.
pub fn wait_for_words(log: &Path, words: &str) {
    wait_for(words, || std::fs::read_to_string(log).ok()?.contains(words).then_some(()));
}

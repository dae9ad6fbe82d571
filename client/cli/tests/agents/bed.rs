//! A testbed of its own for each test, in a folder of its own, removed whatever happens.

pub use crate::place::{Place, SLUICE, detached, place, skipped, wait_at_most};
use ::bed::file::TestbedFile;
use ::bed::testbed::{self, UpOptions};
use documents::agent::{
    Answer, EventDoc, FlowSpecDoc, Request, ReservationRow, SenderId, SessionId, Status, StyleDoc, TspecDoc,
};
use linux::netns::Namespace;
use linux::process::ProcessId;
use rpc::client::{Client, Error};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// How long anything may take that is not itself a time of the protocol; the machine may be busy.
pub const PATIENCE: Duration = Duration::from_secs(20);

pub const SESSION: SessionId = SessionId { dst: ip([10, 0, 2, 2]), protocol: 17, dst_port: 5004 };
pub const SENDER: SenderId = SenderId { src: ip([10, 0, 0, 1]), src_port: 5004 };
pub const NODES: [&str; 4] = ["swissvale", "yosemite", "maui", "glenwood"];

const fn ip(v4: [u8; 4]) -> std::net::IpAddr {
    std::net::IpAddr::V4(std::net::Ipv4Addr::new(v4[0], v4[1], v4[2], v4[3]))
}

/// A testbed that is up: the four nodes of the seed, or others.
pub struct Bed {
    pub name: String,
    pub place: Place,
    pub nodes: Vec<String>,
}

/// The seed's topology under another name, with this refresh period.
pub fn seed(name: &str, refresh: &str) -> TestbedFile {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/seed.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    let text = text.replace("name = \"seed\"", &format!("name = \"{name}\""));
    TestbedFile::parse(&path, &format!("{text}\n[rsvp]\nrefresh = \"{refresh}\"\nrefresh_reduction = true\n")).unwrap()
}

/// The same without keys, refresh reduction and Hello: nothing but the protocol's own messages.
pub fn unsigned(name: &str, refresh: &str) -> TestbedFile {
    let mut file = TestbedFile { keys: false, ..seed(name, refresh) };
    (file.rsvp.refresh_reduction, file.rsvp.hello) = (false, None);
    file
}

impl Bed {
    /// Up with this refresh period, or `None` where it must be skipped.
    pub fn up(refresh: &str) -> Option<Bed> {
        Bed::of(|name| seed(name, refresh))
    }

    /// Up with another topology, which gets its name.
    pub fn of(file: impl FnOnce(&str) -> TestbedFile) -> Option<Bed> {
        if skipped() {
            return None;
        }
        let (name, place) = place();
        let file = file(&name);
        let nodes = file.topology.nodes.iter().map(|node| node.name.clone()).collect();
        let options = UpOptions { program: SLUICE.into(), testbeds: place.to_path_buf() };
        let bed = Bed { name, place, nodes };
        let up = testbed::up(&file, &options).unwrap();
        assert_eq!(up.len(), bed.nodes.len());
        Some(bed)
    }

    pub fn home(&self, node: &str) -> PathBuf {
        self.place.join(&self.name).join(node)
    }

    pub fn client(&self, node: &str) -> Client {
        Client::connect(&self.home(node).join("agent.sock")).unwrap()
    }

    pub fn netns(&self, node: &str) -> Namespace {
        Namespace::open(&format!("{}-{node}", self.name)).unwrap()
    }

    pub fn status(&self, node: &str) -> Status {
        match self.client(node).call(Request::Status).unwrap() {
            Answer::Status(status) => status,
            other => panic!("{other:?}"),
        }
    }

    pub fn reservations(&self, node: &str) -> Vec<ReservationRow> {
        self.status(node).reservations
    }

    /// The agent's process, as its pid file names it.
    pub fn agent(&self, node: &str) -> ProcessId {
        std::fs::read_to_string(self.home(node).join("agent.pid")).unwrap().parse().unwrap()
    }

    /// Kills an agent without warning and waits until it is gone.
    pub fn kill(&self, node: &str) {
        let agent = self.agent(node);
        agent.signal(9).unwrap();
        wait_for("the agent is gone", || (!agent.is_running()).then_some(()));
    }

    /// Starts an agent again with the same configuration; its pid file is written as `up` does.
    pub fn start(&self, node: &str) {
        let home = self.home(node);
        let mut command = Command::new(SLUICE);
        command.arg("agent").arg("--config").arg(home.join("agent.toml"));
        let netns = self.netns(node);
        netns.enter_at_exec(&mut command);
        let id = detached(&mut command, &home.join("agent.log"));
        std::fs::write(home.join("agent.pid"), format!("{id}\n")).unwrap();
        wait_for("the agent answers", || Client::connect(&home.join("agent.sock")).ok()?.call(Request::Hello).ok());
    }

    /// An application that sends the session at `rate`.
    pub fn sender(&self, rate: u64) -> Client {
        let mut client = self.client("swissvale");
        client.call(Request::Sender { session: SESSION, sender: SENDER, tspec: tspec(rate), ttl: 64 }).unwrap();
        client
    }

    /// An application that receives the session, with path state present.
    pub fn receiver(&self) -> Client {
        let mut client = self.client("glenwood");
        client.call(Request::Receiver { session: SESSION }).unwrap();
        expect(&mut client, "a path", |event| matches!(event, EventDoc::Path { .. }));
        client
    }

    /// What an operator sees of every ledger and kernel class, without counters.
    pub fn footprint(&self) -> Vec<String> {
        let mut all = Vec::new();
        for node in NODES {
            let status = self.status(node);
            for i in status.interfaces {
                all.push(format!(
                    "{node} {} reserved {} free {} slots {}",
                    i.name, i.reserved_wire_bps, i.free_wire_bps, i.slots
                ));
                all.extend(
                    i.classes
                        .iter()
                        .map(|c| format!("{node} {} {} {} {}", i.name, c.class, c.rate_wire_bps, c.ceil_wire_bps)),
                );
            }
            all.extend(
                status.reservations.iter().map(|r| format!("{node} {:?} {:?} {:?}", r.oif, r.asked, r.installed)),
            );
        }
        all
    }

    /// Waits until the footprint is `before` again; says what differs if it never is.
    pub fn returns_to(&self, before: &[String]) {
        let until = Instant::now() + PATIENCE;
        let mut now = self.footprint();
        while now != before {
            assert!(
                Instant::now() < until,
                "left after {PATIENCE:?}: {:#?}; gone: {:#?}",
                now.iter().filter(|line| !before.contains(line)).collect::<Vec<_>>(),
                before.iter().filter(|line| !now.contains(line)).collect::<Vec<_>>(),
            );
            std::thread::sleep(Duration::from_millis(10));
            now = self.footprint();
        }
    }

    /// What an agent logged.
    pub fn log(&self, node: &str) -> String {
        std::fs::read_to_string(self.home(node).join("agent.log")).unwrap()
    }

    /// Runs a command inside a node and gives what it printed.
    pub fn run(&self, node: &str, program: &str, arguments: &[&str]) -> String {
        let mut command = Command::new(program);
        command.args(arguments);
        let netns = self.netns(node);
        netns.enter_at_exec(&mut command);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// `tc class show` of an interface: the kernel's own words, not ours.
    pub fn tc(&self, node: &str, interface: &str) -> String {
        self.run(node, "tc", &["class", "show", "dev", interface])
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        // Agents that a test started itself are not in the record.
        for node in &self.nodes {
            if let Ok(text) = std::fs::read_to_string(self.home(node).join("agent.pid"))
                && let Ok(id) = text.parse::<ProcessId>()
            {
                let _ = id.signal(15);
                let until = Instant::now() + Duration::from_secs(5);
                while id.is_running() && Instant::now() < until {
                    std::thread::sleep(Duration::from_millis(5));
                }
            }
        }
    }
}

pub fn tspec(rate: u64) -> TspecDoc {
    TspecDoc { r_bps: rate, b_bytes: 64_000, p_bps: None, m_bytes: 64, max_bytes: 1500 }
}

/// Asks for a reservation of `rate` with confirmation.
pub fn reserve(client: &mut Client, rate: u64) {
    let flowspec = FlowSpecDoc::ControlledLoad { tspec: tspec(rate) };
    let (senders, flowspecs) = (vec![SENDER], vec![flowspec]);
    let request = Request::Reserve { session: SESSION, style: StyleDoc::Ff, senders, flowspecs, confirm: true };
    assert_eq!(client.call(request).unwrap(), Answer::Done);
}

/// Waits for the first event that is `wanted`.
pub fn expect(client: &mut Client, what: &str, wanted: impl Fn(&EventDoc) -> bool) -> (u64, EventDoc) {
    let until = Instant::now() + PATIENCE;
    let mut others = Vec::new();
    while let Some(left) = until.checked_duration_since(Instant::now()) {
        match client.event(left) {
            Ok(Some((at, event))) if wanted(&event) => return (at, event),
            Ok(Some((_, event))) => others.push(event),
            Ok(None) => break,
            Err(error) => panic!("waiting for {what}: {error}; came: {others:#?}"),
        }
    }
    panic!("{what} did not come within {PATIENCE:?}; came: {others:#?}");
}

/// Waits until `there` gives something.
pub fn wait_for<T>(what: &str, there: impl FnMut() -> Option<T>) -> T {
    wait_at_most(PATIENCE, what, there)
}

/// A refusal's problem.
pub fn refused(result: Result<Answer, Error>) -> documents::agent::Problem {
    match result {
        Err(Error::Agent(problem)) => problem,
        other => panic!("expected a refusal, got {other:?}"),
    }
}

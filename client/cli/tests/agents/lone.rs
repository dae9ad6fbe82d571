//! One agent by itself, in a namespace with one link and in a folder of its own.

use crate::bed::{PATIENCE, Place, SLUICE, detached, place, skipped, wait_for};
use documents::agent::{Answer, BookAnswer, Request};
use documents::book::{AskDoc, PartDoc, ReservationDoc, WhenDoc};
use linux::netlink::Socket;
use linux::netns::Guarded;
use linux::process::ProcessId;
use rpc::client::{Client, Error};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::Instant;

/// What is counted, and how many there are.
pub const LICENCE: &str = "licence/solver";
pub const LICENCES: u64 = 1_000_000;

pub struct Lone {
    pub place: Place,
    netns: Guarded,
    agent: Option<ProcessId>,
}

impl Lone {
    /// With more in its file; it does not run yet. `None` where it must be skipped.
    pub fn new(more: &str) -> Option<Lone> {
        if skipped() {
            return None;
        }
        let (name, place) = place();
        let netns = Guarded::create(&name).unwrap();
        netns.run(|| Socket::open().unwrap().add_veth("near", "far", None).unwrap()).unwrap();
        let lone = Lone { place, netns, agent: None };
        let text = format!(
            "name = \"lone\"\nauth = \"none\"\nsocket = {:?}\nstate = {:?}\n{more}\n[store]\nany_filesystem = true\n\
             [[interface]]\nname = \"near\"\nrate = \"100mbit\"\n[[resource]]\nname = \"{LICENCE}\"\ncapacity = {LICENCES}\n",
            lone.socket(),
            lone.state()
        );
        std::fs::write(lone.place.join("agent.toml"), text).unwrap();
        Some(lone)
    }

    /// Its link is up, so that signalling is spoken there.
    pub fn link_up(&self) {
        let up = || {
            let mut socket = Socket::open().unwrap();
            for name in ["near", "far"] {
                let index = socket.link_by_name(name).unwrap().index;
                socket.set_link_up(index, true).unwrap();
            }
        };
        self.netns.run(up).unwrap();
    }

    pub fn socket(&self) -> PathBuf {
        self.place.join("agent.sock")
    }

    pub fn state(&self) -> PathBuf {
        self.place.join("state")
    }

    /// Starts it and waits until it answers.
    pub fn start(&mut self) -> ProcessId {
        self.start_with("exec \"$@\"")
    }

    /// The same by a line of shell, which has to end by becoming the program.
    pub fn start_with(&mut self, line: &str) -> ProcessId {
        let agent = self.spawn(line);
        wait_for("the agent answers", || Client::connect(&self.socket()).ok()?.call(Request::Hello).ok());
        agent
    }

    /// Starts it, and looks at its namespace as soon as its socket takes connections.
    pub fn start_and_look<T: Send>(&mut self, look: impl FnOnce() -> T + Send) -> T {
        self.spawn("exec \"$@\"");
        let until = Instant::now() + PATIENCE;
        while std::os::unix::net::UnixStream::connect(self.socket()).is_err() {
            assert!(Instant::now() < until, "the agent never listened: {}", self.log());
        }
        self.netns.run(look).unwrap()
    }

    /// Starts it by a line of shell as a child that its caller ends and waits for.
    pub fn child(&self, line: &str) -> Child {
        let mut command = Command::new("sh");
        command.args(["-c", line, "sh", SLUICE, "agent", "--config"]).arg(self.place.join("agent.toml"));
        self.netns.enter_at_exec(&mut command);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    /// Starts it by a line of shell, and does not wait.
    pub fn spawn(&mut self, line: &str) -> ProcessId {
        let mut command = Command::new("sh");
        command.args(["-c", line, "sh", SLUICE, "agent", "--config"]).arg(self.place.join("agent.toml"));
        self.netns.enter_at_exec(&mut command);
        let agent = detached(&mut command, &self.place.join("agent.log"));
        self.agent = Some(agent);
        agent
    }

    /// Stops it in good order and waits until it is gone.
    pub fn stop(&mut self) {
        let Some(agent) = self.agent.take() else { return };
        agent.signal(15).unwrap();
        wait_for("the agent has stopped", || (!agent.is_running()).then_some(()));
    }

    /// Kills it.
    pub fn kill(&mut self) {
        let Some(agent) = self.agent.take() else { return };
        agent.signal(9).unwrap();
        agent.reap();
        wait_for("the agent is gone", || (!agent.is_running()).then_some(()));
    }

    /// A program with its arguments where it runs.
    pub fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null());
        self.netns.enter_at_exec(&mut command);
        command
    }

    /// `tc ...` where it runs: the kernel's own words.
    pub fn tc(&self, arguments: &[&str]) -> String {
        let mut command = Command::new("tc");
        self.netns.enter_at_exec(command.args(arguments));
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    }

    pub fn client(&self) -> Client {
        Client::connect(&self.socket()).unwrap()
    }

    /// What it logged.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.place.join("agent.log")).unwrap()
    }

    /// `sluice ...` against it.
    pub fn sluice(&self, arguments: &[&str]) -> Output {
        Command::new(SLUICE).args(arguments).env("SLUICE_SOCKET", self.socket()).output().unwrap()
    }

    /// The same, which must succeed; what it printed.
    pub fn printed(&self, arguments: &[&str]) -> String {
        let output = self.sluice(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }
}

impl Drop for Lone {
    fn drop(&mut self) {
        let Some(agent) = self.agent else { return };
        let _ = agent.signal(15);
        let until = Instant::now() + PATIENCE;
        while agent.is_running() && Instant::now() < until {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let _ = agent.signal(9);
        agent.reap();
    }
}

/// So many licences, a day from now.
pub fn licences(count: u64) -> AskDoc {
    let part = PartDoc { resource: LICENCE.to_owned(), count: Some(count), ..PartDoc::default() };
    let now = linux::clock::Clock::start().now();
    let start = documents::book::Instant(now + terms::Span::from_secs(86_400));
    let when = WhenDoc { start: Some(start), ..WhenDoc::lasting(3_600.0) };
    AskDoc { parts: vec![part], when, ..AskDoc::default() }
}

/// One call whose answer is a reservation.
pub fn booked(client: &mut Client, request: Request) -> Result<ReservationDoc, Error> {
    match client.call(request)? {
        Answer::Book(BookAnswer::Reservation(doc)) => Ok(doc),
        other => panic!("{other:?}"),
    }
}

//! The testbed of seed 002 with its programs: the bulk transfer, foreground flows, the flood.

use super::booking::Book;
use super::meter::ClassMeter;
use super::tcp_flow::{TcpFlow, TcpOffer};
use bed::Bed;
use bed::cbr::Cbr;
use bed::error::Error;
use bed::program::{self, RunningProgram};
use bed::scratch::{self, Scratch};
use bed::testbed::UpOptions;
use linux::clock::Clock;
use linux::process::ProcessId;
use std::fs::File;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use terms::Rate;

/// A testbed with the hosts of the experiments.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// The file of its topology, for messages.
    pub file: &'static str,
    /// The topology.
    pub text: &'static str,
    /// The router whose agent keeps the bookings.
    pub edge: &'static str,
    /// The router behind the edge's premium interface.
    pub behind: &'static str,
    /// The router at whose interface the classes are counted, and the one behind that.
    pub counted: [&'static str; 2],
    /// The length of the flood's packets, bytes of IP.
    pub flood_packet: u32,
}

/// The testbed of Figures 4 and 6. The flood has packets of 1,000 bytes each 100 microseconds (section 5.2).
pub const LOCAL: Layout = Layout {
    file: "examples/garnet.toml",
    text: include_str!("../../../../examples/garnet.toml"),
    edge: EDGE,
    behind: CORE,
    counted: [EDGE, CORE],
    flood_packet: 1_000,
};
/// The source and the sink of the premium flows.
pub const PREMIUM: [&str; 2] = ["alpha", "bravo"];
/// The source and the sink of the competing flows.
pub const OTHERS: [&str; 2] = ["charlie", "delta"];
/// The router whose agent keeps the bookings.
pub const EDGE: &str = "edge";
/// The router behind the premium interface.
pub const CORE: &str = "core";
const FLOOD_PORT: u16 = 9_000;
const COPY_PORT: u16 = 5_300;
const SIGINT: i32 = 2;
/// The time limit for a program to end after SIGINT.
const END: Duration = Duration::from_secs(10);

/// The running testbed.
pub struct Garnet {
    bed: Bed,
    scratch: Scratch,
    program: PathBuf,
    layout: Layout,
    /// The edge's premium interface.
    pub interface: String,
    clock: Clock,
}

impl Garnet {
    /// Brings the testbed up under its own name.
    ///
    /// # Errors
    /// Missing privileges, or a node does not start.
    pub fn up() -> Result<Garnet, Error> {
        Garnet::up_at(LOCAL, LOCAL.text)
    }

    /// As [`Garnet::up`], with another testbed; `text` is its topology.
    ///
    /// # Errors
    /// As [`Garnet::up`].
    pub fn up_at(layout: Layout, text: &str) -> Result<Garnet, Error> {
        let options = UpOptions::usual()?;
        // Without the right to it the machine's other work may hold senders up.
        let _ = linux::process::go_first();
        scratch::sweep(&options.testbeds);
        let scratch = Scratch::create()?;
        let bed = Bed::of(layout.file, text, scratch.name(), None, &options)?;
        let interface = bed.interface(layout.edge, layout.behind)?;
        Ok(Garnet { bed, scratch, program: options.program, layout, interface, clock: Clock::start() })
    }

    /// Returns the agent's name for the premium interface.
    pub fn resource(&self) -> String {
        format!("net/{}", self.interface)
    }

    /// Connects to the bookings of the edge's agent.
    ///
    /// # Errors
    /// The agent does not answer.
    pub fn book(&self) -> Result<Book, Error> {
        Book::open(&self.bed.node(self.layout.edge)?.socket)
    }

    /// Opens the meter of the interface where the classes are counted.
    ///
    /// # Errors
    /// The interface does not exist.
    pub fn meter(&self) -> Result<ClassMeter, Error> {
        let [node, behind] = self.layout.counted;
        self.meter_at(node, behind)
    }

    /// Opens the meter of a node's interface towards a neighbour.
    ///
    /// # Errors
    /// The interface does not exist.
    pub fn meter_at(&self, node: &str, behind: &str) -> Result<ClassMeter, Error> {
        let namespace = linux::netns::Namespace::open(&self.bed.node(node)?.namespace)?;
        ClassMeter::open(&namespace, &self.bed.interface(node, behind)?)
    }

    /// Connects to the bookings of a node's agent; with the resource towards a neighbour.
    ///
    /// # Errors
    /// The agent does not answer, or the two are not neighbours.
    pub fn book_at(&self, node: &str, towards: &str) -> Result<(Book, String), Error> {
        Ok((self.book_of(node)?, format!("net/{}", self.bed.interface(node, towards)?)))
    }

    /// Connects to the bookings of a node's agent.
    ///
    /// # Errors
    /// The agent does not answer.
    pub fn book_of(&self, node: &str) -> Result<Book, Error> {
        Book::open(&self.bed.node(node)?.socket)
    }

    /// Prepares a premium flow with packets of this length. It sends nothing yet.
    ///
    /// # Errors
    /// A socket cannot be made.
    pub fn flow(&self, port: u16, packet: u32) -> Result<Cbr, Error> {
        let [from, to] = PREMIUM.map(|name| self.bed.host(name));
        Ok(Cbr::start_of(packet, &from?, &to?, port, self.clock)?)
    }

    /// Connects a premium flow of greedy TCP. It sends nothing yet.
    ///
    /// # Errors
    /// The connection cannot be made.
    pub fn greedy(&self, port: u16) -> Result<TcpFlow, Error> {
        let [from, to] = PREMIUM.map(|name| self.bed.host(name));
        Ok(TcpFlow::connect(&from?, &to?, port, TcpOffer::Greedy, None)?)
    }

    /// Returns the addresses of the premium source and sink.
    ///
    /// # Errors
    /// A host does not exist.
    pub fn addresses(&self) -> Result<[std::net::IpAddr; 2], Error> {
        let [from, to] = PREMIUM.map(|name| self.bed.host(name));
        Ok([from?.address.into(), to?.address.into()])
    }

    /// Starts the flood at this rate.
    ///
    /// # Errors
    /// A socket cannot be made.
    pub fn flood(&self, rate: Rate) -> Result<Cbr, Error> {
        let [from, to] = OTHERS.map(|name| self.bed.host(name));
        let flood = Cbr::start_of(self.layout.flood_packet, &from?, &to?, FLOOD_PORT, self.clock)?;
        flood.set_rate(rate);
        Ok(flood)
    }

    /// Makes a file of `bytes` bytes that takes no space on the disk.
    ///
    /// # Errors
    /// The file cannot be made.
    pub fn file(&self, name: &str, bytes: u64) -> Result<PathBuf, Error> {
        let path = self.scratch.path().join(name);
        let wrong = |error| linux::error::SystemError::because(format!("make {}", path.display()), error);
        File::create(&path).and_then(|file| file.set_len(bytes)).map_err(wrong)?;
        Ok(path)
    }

    /// Starts `sluice copy --receive` at the premium sink. It stores nothing.
    ///
    /// # Errors
    /// The program does not start.
    pub fn receiver(&self) -> Result<RunningProgram, Error> {
        let host = self.bed.host(PREMIUM[1])?;
        let mut command = Command::new(&self.program);
        let listen = format!("{}:{COPY_PORT}", host.address);
        command.args(["copy", "--receive", "/", "--discard", "--json", "--listen", &listen]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        host.namespace.enter_at_exec(&mut command);
        program::start(&mut command)
    }

    /// Starts `sluice copy` of a file at the premium source, with additional options.
    ///
    /// # Errors
    /// The program does not start.
    pub fn copy(&self, file: &std::path::Path, options: &[&str]) -> Result<RunningProgram, Error> {
        let (from, to) = (self.bed.host(PREMIUM[0])?, self.bed.host(PREMIUM[1])?);
        let mut command = Command::new(&self.program);
        command.arg("copy").arg(file).arg(format!("{}:{COPY_PORT}", to.address));
        command.arg("--socket").arg(&self.bed.node(self.layout.edge)?.socket).args(["--resource", &self.resource()]);
        command.args(["--silent", "--json"]).args(options);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        from.namespace.enter_at_exec(&mut command);
        program::start(&mut command)
    }
}

/// Sends a program SIGINT, as Ctrl-C does, and waits until it has ended.
///
/// # Errors
/// The program does not end.
pub fn interrupt(running: &mut RunningProgram) -> Result<(), Error> {
    if let Some(id) = ProcessId::of(running.id()) {
        id.signal(SIGINT)?;
    }
    let until = Instant::now() + END;
    while running.is_running() {
        if Instant::now() > until {
            return Err(Error::Void("sluice copy does not end when it is told to".into()));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

//! Trials by fault on real packets: a sender cheats, or an agent dies.
//!
//! Each trial runs on an existing testbed, measures, and returns its results. Their function `shortfalls`
//! judges them, so that a test and `sluice lab` agree.

pub mod excess;
pub mod kill_receiver;
pub mod kill_router;

use crate::reserve::{Receiving, ReservedFlow, Sending};
use bed::cbr::{Cbr, PACKET};
use bed::error::Error;
use bed::program;
use bed::scratch::{self, Scratch};
use bed::testbed::UpOptions;
use bed::{Bed, RECEIVER, SENDER};
use documents::session::{SenderId, SessionId, TspecDoc};
use linux::clock::Clock;
use linux::process::ProcessId;
use rpc::client::Client;
use std::process::Stdio;
use std::time::{Duration, Instant};
use terms::{Bytes, Rate, Span, Tspec};

/// The time limit for a restarted agent to answer.
const RESTART: Duration = Duration::from_secs(15);

/// Brings a testbed up for one trial. It is removed when the returned values are dropped.
///
/// # Errors
/// As [`Bed::up`].
pub fn bed(refresh: Span, options: &UpOptions) -> Result<(Bed, Scratch), Error> {
    scratch::sweep(&options.testbeds);
    let scratch = Scratch::create()?;
    Ok((Bed::up(scratch.name(), refresh, options)?, scratch))
}

/// A constant flow with a reservation.
#[derive(Debug)]
pub struct ReservedTrial {
    /// The sender of packets.
    pub cbr: Cbr,
    /// The flow's session and sender.
    pub flow: ReservedFlow,
    /// The sending application.
    pub sending: Sending,
    /// The receiving application.
    pub receiving: Receiving,
}

impl ReservedTrial {
    /// Announces and reserves `rate` for a flow to `port`, which sends nothing yet.
    ///
    /// # Errors
    /// The reservation is refused, or an agent does not answer.
    pub fn start(bed: &Bed, port: u16, rate: Rate, clock: Clock) -> Result<ReservedTrial, Error> {
        let flow = udp_flow(bed, port)?;
        let tspec = tspec(rate);
        let cbr = Cbr::start(&bed.host(SENDER)?, &bed.host(RECEIVER)?, port, clock)?;
        let mut receiving = Receiving::start(bed.client(RECEIVER)?, flow)?;
        let sending = Sending::start(bed.client(SENDER)?, flow, tspec)?;
        receiving.wait_for_path()?;
        receiving.reserve(tspec)?;
        crate::setup::in_place(bed, &flow)?;
        Ok(ReservedTrial { cbr, flow, sending, receiving })
    }
}

/// Returns the flow from the sender's to the receiver's UDP `port`.
///
/// # Errors
/// The testbed has no such hosts.
pub fn udp_flow(bed: &Bed, port: u16) -> Result<ReservedFlow, Error> {
    let session = SessionId { dst: bed.host(RECEIVER)?.address.into(), protocol: 17, dst_port: port };
    Ok(ReservedFlow { session, sender: SenderId { src: bed.host(SENDER)?.address.into(), src_port: port.into() } })
}

/// Returns a Tspec for a constant flow of [`PACKET`]s, with room for a sender that was delayed by a tenth of
/// a second.
pub fn tspec(rate: Rate) -> TspecDoc {
    let b = rate.demands(Span::from_millis(100)) + Bytes::new(4 * u64::from(PACKET));
    Tspec { r: rate, b, p: Rate::INFINITE, m: PACKET, M: PACKET }.into()
}

/// A restarted agent. It is stopped when this is dropped, before its testbed is removed.
#[derive(Debug)]
pub struct Restarted {
    agent: program::RunningProgram,
}

impl Drop for Restarted {
    fn drop(&mut self) {
        const TERM: i32 = 15;
        if let Some(id) = ProcessId::of(self.agent.id()) {
            // If it cannot be asked to stop, it is killed when `agent` is dropped.
            let _ = id.signal(TERM);
            let until = Instant::now() + Duration::from_secs(5);
            while id.is_running() && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }
}

/// Kills a node's agent with SIGKILL, which it cannot catch.
///
/// # Errors
/// There is no such node, or the kernel refuses.
pub fn kill(bed: &Bed, node: &str) -> Result<(), Error> {
    const KILL: i32 = 9;
    let pid = bed.node(node)?.agent.pid;
    let id = ProcessId::of(pid).ok_or_else(|| Error::Void(format!("the agent of {node} had ended by itself")))?;
    id.signal(KILL)?;
    let until = Instant::now() + Duration::from_secs(5);
    while id.is_running() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Restarts a node's agent, and returns when it answers.
///
/// # Errors
/// The agent does not answer in time.
pub fn restart(bed: &Bed, node: &str) -> Result<Restarted, Error> {
    let (mut command, log, _namespace) = bed.agent_command(node)?;
    let failed = |error| linux::error::SystemError::because(format!("write {}", log.display()), error);
    let out = std::fs::OpenOptions::new().append(true).create(true).open(&log).map_err(failed)?;
    let errors = out.try_clone().map_err(failed)?;
    let agent = program::start(command.stdout(Stdio::from(out)).stderr(errors))?;
    let restarted = Restarted { agent };
    let until = Instant::now() + RESTART;
    while bed.client(node).and_then(|mut client| Ok(client.call(documents::agent::Request::Hello)?)).is_err() {
        if Instant::now() > until {
            return Err(Error::Testbed(format!("the agent of {node} did not start again: {}", log.display())));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(restarted)
}

/// Returns the number of open slots in all ledgers of a node.
///
/// # Errors
/// Its agent does not answer.
pub fn slots(client: &mut Client) -> Result<usize, Error> {
    match client.call(documents::agent::Request::Status)? {
        documents::agent::Answer::Status(status) => Ok(status.interfaces.iter().map(|interface| interface.slots).sum()),
        other => Err(Error::Void(format!("an agent answered {other:?} when asked for its status"))),
    }
}

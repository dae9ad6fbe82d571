//! `kill -9` of a router's agent during a reserved stream under flood. The program, its link and its map are
//! pinned: packets are still classified; the restarted agent adopts this state before it reads the first
//! message.

use super::{ReservedTrial, Restarted, kill, restart, tspec, udp_flow};
use crate::reserve::{Receiving, ReservedFlow, Sending};
use bed::cbr::Cbr;
use bed::error::Error;
use bed::patience::Patience;
use bed::{Bed, FAR, NEAR, RECEIVER, SENDER};
use documents::rows::{InstalledState, ReservationRow};
use linux::clock::Clock;
use linux::error::SystemError;
use linux::netlink::Socket;
use linux::netns::Namespace;
use serde::Serialize;
use std::time::Duration;
use terms::Rate;
use traffic::plan::ClassId;

const STREAM: Rate = Rate::from_kbps(3_300);
const STREAM_SENDS: Rate = Rate::from_kbps(3_100);
const FLOOD: Rate = Rate::from_mbps(12);
/// A rate that does not fit beside the adopted reservation, and would fit without it.
const TOO_MUCH: Rate = Rate::from_mbps(8);
const PORT: u16 = 6_003;

/// The results of the trial.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct KillRouter {
    /// Packets of the stream that were sent without an agent, and a little longer.
    pub sent: u64,
    /// The number of these packets that did not arrive.
    pub lost: u64,
    /// Reserved packets that the policer sent as best effort, from the reservation to the end.
    pub in_default_class: u64,
    /// Packets that the reserved class sent without an agent.
    pub class_packets: u64,
    /// The state of the reservation in the restarted agent at once.
    pub adopted: Option<String>,
    /// The refusal of a request for the adopted capacity; `None`: it was granted.
    pub refused: Option<String>,
    /// The state of the reservation after its refresh, if the trial waited for it.
    pub refreshed: Option<String>,
}

/// Runs the trial without an agent for `length`.
///
/// # Errors
/// A reservation fails, the agent does not come back, or the user stops the run.
pub fn run(bed: &Bed, length: Duration, patience: &Patience) -> Result<(KillRouter, Restarted), Error> {
    let clock = Clock::start();
    let stream = ReservedTrial::start(bed, PORT, STREAM, clock)?;
    let flood = Cbr::start(&bed.host(SENDER)?, &bed.host(RECEIVER)?, 9, clock)?;
    flood.set_rate(FLOOD);
    stream.cbr.set_rate(STREAM_SENDS);
    patience.wait(Duration::from_secs(1))?;
    kill(bed, NEAR)?;
    let (before, class_before) = (stream.cbr.count(), class_packets(bed)?);
    patience.wait(length)?;
    let (after, class_after) = (stream.cbr.count(), class_packets(bed)?);
    let agent = restart(bed, NEAR)?;
    let adopted = row(bed, &stream.flow)?;
    let refused = refusal(bed)?;
    let refreshed = wait_for_refresh(bed, &stream.flow, patience)?;
    let measured = refreshed.as_ref().and_then(|row| row.measured.as_ref());
    let passed = after.since(&before);
    let state =
        |row: Option<ReservationRow>| row.and_then(|row| row.installed).map(|installed| installed.state.to_string());
    let found = KillRouter {
        sent: passed.sent,
        lost: passed.sent.saturating_sub(passed.received + UNDER_WAY),
        in_default_class: measured.map_or(u64::MAX, |measured| measured.excess_packets),
        class_packets: class_after - class_before,
        adopted: state(adopted),
        refused,
        refreshed: state(refreshed.clone()),
    };
    Ok((found, agent))
}

/// The largest number of packets of a flow that are on the path at once.
const UNDER_WAY: u64 = 20;
/// The time limit for the next refresh: one and a half of the 30 s of RFC 2205 section 3.7, and a margin.
const REFRESH: Duration = Duration::from_secs(50);

/// Returns the kernel's packet count of the reserved class before the bottleneck.
fn class_packets(bed: &Bed) -> Result<u64, Error> {
    let interface = bed.interface(NEAR, FAR)?;
    let namespace = Namespace::open(&bed.node(NEAR)?.namespace)?;
    let counted = namespace.run(|| {
        let mut socket = Socket::open()?;
        let link = socket.link_by_name(&interface)?;
        let classes = socket.classes(link.index)?;
        let class = classes.into_iter().find(|class| class.handle.minor() == ClassId::CONTROLLED_LOAD.0);
        Ok(class.map(|class| class.stats.packets))
    })?;
    let counted = counted.map_err(SystemError::netlink(format!("read the classes of {NEAR}")))?;
    counted.ok_or_else(|| Error::Void(format!("{NEAR} has lost its class for reserved traffic")))
}

fn row(bed: &Bed, flow: &ReservedFlow) -> Result<Option<ReservationRow>, Error> {
    let rows = bed.status(NEAR)?.reservations;
    Ok(rows.into_iter().find(|row| (row.session, row.sender) == (flow.session, flow.sender)))
}

/// Requests more than is left beside the adopted reservation. Returns the refusal.
fn refusal(bed: &Bed) -> Result<Option<String>, Error> {
    let flow = udp_flow(bed, PORT + 1)?;
    let mut receiving = Receiving::start(bed.client(RECEIVER)?, flow)?;
    let _sending = Sending::start(bed.client(SENDER)?, flow, tspec(TOO_MUCH))?;
    receiving.wait_for_path()?;
    match receiving.reserve(tspec(TOO_MUCH)) {
        Ok(_) => Ok(None),
        Err(Error::Agent(rpc::client::Error::Agent(problem))) => Ok(Some(problem.message)),
        Err(other) => Err(other),
    }
}

fn wait_for_refresh(bed: &Bed, flow: &ReservedFlow, patience: &Patience) -> Result<Option<ReservationRow>, Error> {
    let mut last = None;
    patience.wait_for(REFRESH, || {
        last = row(bed, flow).ok().flatten();
        let state = last.as_ref().and_then(|row| row.installed.as_ref()).map(|installed| installed.state);
        state == Some(InstalledState::Installed)
    })?;
    Ok(last)
}

impl std::fmt::Display for KillRouter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let or = |text: &Option<String>, none: &str| text.clone().unwrap_or_else(|| none.to_string());
        writeln!(f, "without an agent: {} reserved packets sent, {} lost", self.sent, self.lost)?;
        writeln!(f, "reserved class:   {} packets more on its counter", self.class_packets)?;
        writeln!(f, "default class:    {} reserved packets", self.in_default_class)?;
        writeln!(f, "restarted agent:  the reservation is {}", or(&self.adopted, "unknown to it"))?;
        writeln!(f, "adopted capacity: {}", or(&self.refused, "given away"))?;
        write!(f, "after a refresh:  the reservation is {}", or(&self.refreshed, "unknown"))
    }
}

impl KillRouter {
    /// Returns the expected results that did not appear, in words.
    pub fn shortfalls(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut must = |holds: bool, what: &str| {
            if !holds {
                found.push(format!("{what}: {self:?}"));
            }
        };
        must(self.sent > 0 && self.lost == 0, "reserved packets were lost");
        must(self.in_default_class == 0, "reserved packets went as best effort");
        must(self.class_packets + UNDER_WAY >= self.sent, "the class counters stopped");
        must(self.adopted.is_some(), "the restarted agent did not adopt the reservation");
        must(self.refused.is_some(), "adopted capacity was given away");
        must(self.refreshed.as_deref() == Some("installed"), "the adopted reservation was not refreshed");
        found
    }
}

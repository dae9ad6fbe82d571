//! The agent's status: the agent, interfaces and their classes, sessions, path states, reservations.

use crate::session::{FlowSpecDoc, SenderId, SessionId, StyleDoc, TspecDoc};
use crate::turns::TurnsDoc;
use crate::words::words;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// An interface.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct InterfaceRow {
    /// Name.
    pub name: String,
    /// Kernel index.
    pub index: u32,
    /// Addresses.
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<String>))]
    pub addresses: Vec<IpAddr>,
    /// MTU, bytes.
    pub mtu: u32,
    /// True if the interface speaks RSVP.
    pub rsvp: bool,
    /// The role of its neighbours; null: not configured, so it is an edge.
    #[serde(default)]
    pub role: Option<NeighbourRole>,
    /// Link rate, wire bit/s; null: unknown, so nothing is reservable.
    pub rate_wire_bps: Option<u64>,
    /// The rate that the ledger holds, wire bit/s.
    pub reserved_wire_bps: u64,
    /// The rate that bookings take from what can be signalled, now or at their fullest instant to come, bit/s on the
    /// wire.
    #[serde(default)]
    pub booked_wire_bps: u64,
    /// The free rate, wire bit/s.
    pub free_wire_bps: u64,
    /// The number of open slots in the ledger.
    pub slots: usize,
    /// Its queueing: `htb` or `hfsc` in the kernel, `user` (HFSC in user space), or null where the plane leaves it alone.
    pub plane: Option<String>,
    /// Services offered: `controlled-load`, `guaranteed`.
    pub services: Vec<String>,
    /// Classes as read from the plane.
    pub classes: Vec<ClassRow>,
}

words! {
    /// The kind of neighbours behind an interface.
    NeighbourRole {
        /// Hosts.
        Edge = "edge",
        /// Nodes of this domain.
        Core = "core",
        /// Another domain.
        Peer = "peer",
    }
}

/// A class, read from the plane.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ClassRow {
    /// The class as tc writes it.
    pub class: String,
    /// `link`, `best-effort`, `control`, `controlled-load` or `guaranteed`.
    pub name: String,
    /// Guaranteed rate, wire bit/s.
    pub rate_wire_bps: u64,
    /// The most that it may reach by borrowing, wire bit/s.
    pub ceil_wire_bps: u64,
    /// Packets sent.
    pub packets: u64,
    /// Bytes sent, link headers included.
    pub bytes: u64,
    /// Packets dropped.
    pub drops: u64,
}

/// A message counter.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CounterRow {
    /// `Path`, `Resv`, ... or the reason of a drop.
    pub name: String,
    /// Received (or dropped for this reason).
    pub received: u64,
    /// Sent.
    pub sent: u64,
}

/// A session and the number of its states.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SessionRow {
    /// The session.
    #[serde(flatten)]
    pub session: SessionId,
    /// Path states.
    pub senders: usize,
    /// Reservation states.
    pub reservations: usize,
    /// Local applications that registered to receive.
    pub receivers: usize,
}

/// A path state.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SenderRow {
    /// The session.
    #[serde(flatten)]
    pub session: SessionId,
    /// The sender.
    #[serde(flatten)]
    pub sender: SenderId,
    /// The sender's Tspec.
    pub tspec: TspecDoc,
    /// Previous hop; null: a local application.
    pub phop: Option<IpAddr>,
    /// Interface it comes in by; null: a local application.
    pub iif: Option<String>,
    /// Interface it goes out by; null: it ends here.
    pub oif: Option<String>,
    /// Milliseconds until it dies unrefreshed; null: local.
    pub expires_in_ms: Option<u64>,
    /// True if a hop without RSVP lies before us.
    pub non_rsvp_hop: bool,
}

/// A reservation: its requested, admitted, installed and measured traffic.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ReservationRow {
    /// The session.
    #[serde(flatten)]
    pub session: SessionId,
    /// The sender.
    #[serde(flatten)]
    pub sender: SenderId,
    /// Of prefixes (Boomerang's masks): the flow, `10.1.0.0/16:* -> 10.2.0.0/16:*/any`; session and sender
    /// are their first addresses then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefixes: Option<String>,
    /// The interface of the reservation; null: a local receiver's, on no interface of ours.
    pub oif: Option<String>,
    /// The next hop that asked; null: a local application, or adopted.
    pub nhop: Option<IpAddr>,
    /// Style; null while it is only adopted.
    pub style: Option<StyleDoc>,
    /// The requested flowspec.
    pub asked: FlowSpecDoc,
    /// The rate that the ledger counts for it, wire bit/s; null where no interface of ours carries it.
    pub admitted_wire_bps: Option<u64>,
    /// The reservation in the plane.
    pub installed: Option<Installed>,
    /// The plane's measurement.
    pub measured: Option<FlowMeasured>,
    /// Milliseconds until it expires without a refresh; null: local.
    pub expires_in_ms: Option<u64>,
}

words! {
    /// The state of a reservation in the plane.
    InstalledState {
        /// Sent to the plane.
        Pending = "pending",
        /// Read back.
        Installed = "installed",
        /// Found at start, not yet refreshed.
        Adopted = "adopted",
        /// The kernel does not have it any more.
        Missing = "missing",
    }
}

/// A reservation in the plane.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Installed {
    /// Its state in the plane; never `missing`.
    pub state: InstalledState,
    /// Its class, as tc writes it: `5c1c:4`.
    pub class: String,
    /// True if the class is shared with other flows, each held to its own bucket.
    pub shared: bool,
    /// Bucket rate, bit/s.
    pub bucket_bps: u64,
    /// Bucket depth, bytes.
    pub bucket_bytes: u64,
}

/// A plane's measurement of a flow.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct FlowMeasured {
    /// The interval, milliseconds; 0: no two samples yet.
    pub interval_ms: u64,
    /// Conforming traffic, bit/s of IP bytes over the interval.
    pub bps: f64,
    /// Traffic above the bucket (sent as best effort), bit/s over the interval.
    pub excess_bps: f64,
    /// Conforming packets since it was installed.
    pub packets: u64,
    /// Bytes of those packets.
    pub bytes: u64,
    /// Packets above the bucket since it was installed.
    pub excess_packets: u64,
    /// Bytes of those packets.
    pub excess_bytes: u64,
}

/// The whole status of an agent.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Status {
    /// The agent.
    pub agent: HelloDoc,
    /// Interfaces.
    pub interfaces: Vec<InterfaceRow>,
    /// Reservations.
    pub reservations: Vec<ReservationRow>,
    /// Notes for the operator: guarantees that this kernel cannot give, classes that were changed by others.
    pub notes: Vec<String>,
    /// The durations of the turns of the agent's loop; an older agent leaves them out.
    #[serde(default)]
    pub turns: TurnsDoc,
}

/// The agent itself.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct HelloDoc {
    /// The node's name.
    pub node: String,
    /// The agent's version.
    pub version: String,
    /// Its process.
    pub pid: u32,
    /// Milliseconds since it started.
    pub uptime_ms: u64,
}

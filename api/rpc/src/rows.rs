//! Rows of the agent's status: interfaces and their classes, sessions, path states.

use crate::agent::{SenderId, SessionId, TspecDoc};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// An interface.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct InterfaceRow {
    /// Name.
    pub name: String,
    /// Kernel index.
    pub index: u32,
    /// Addresses.
    pub addresses: Vec<IpAddr>,
    /// MTU, bytes.
    pub mtu: u32,
    /// True if the interface speaks RSVP.
    pub rsvp: bool,
    /// The role of its neighbours: `edge`, `core` or `peer`; null: not configured, so it is an edge.
    #[serde(default)]
    pub role: Option<String>,
    /// Link rate, wire bit/s; null: unknown, so nothing is reservable.
    pub rate_wire_bps: Option<u64>,
    /// The rate that the ledger holds, wire bit/s.
    pub reserved_wire_bps: u64,
    /// The free rate, wire bit/s.
    pub free_wire_bps: u64,
    /// The number of open slots in the ledger.
    pub slots: usize,
    /// `htb`, or null where the plane leaves the interface alone.
    pub plane: Option<String>,
    /// Services offered: `controlled-load`, `guaranteed`.
    pub services: Vec<String>,
    /// Classes as read from the plane.
    pub classes: Vec<ClassRow>,
}

/// A class, read from the plane.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
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

//! Rows of the agent's status: interfaces and their classes.

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
    /// Whether RSVP is spoken.
    pub rsvp: bool,
    /// Link rate, wire bit/s; null: unknown, so nothing is reservable.
    pub rate_wire_bps: Option<u64>,
    /// What the ledger holds, wire bit/s.
    pub reserved_wire_bps: u64,
    /// What is free, wire bit/s.
    pub free_wire_bps: u64,
    /// How many open slots the ledger holds.
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
    /// As tc writes it.
    pub class: String,
    /// `link`, `best-effort`, `control`, `controlled-load` or `guaranteed`.
    pub name: String,
    /// Guaranteed rate, wire bit/s.
    pub rate_wire_bps: u64,
    /// Most it may borrow up to, wire bit/s.
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

//! Documents that a broker and an agent exchange beside bookings: links, and the requester for whom a broker
//! speaks.

use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// The most addresses of one question about routes.
pub const MAX_ROUTES: usize = 64;

/// A requester for whom a broker speaks. The broker knows the requester by a certificate; the agent does not.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallerDoc {
    /// The requester's one name.
    pub name: String,
    /// The groups that vouch for the requester.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// `owner`: rights over its own reservations; `auditor`: reads all; `operator`: all rights.
    pub role: String,
    /// The token of a virtual organisation that the requester shows (docs/tokens.md).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
}

/// A link, as its agent sees it: agents with an address of the same network are neighbours on it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LinkRow {
    /// The interface.
    pub interface: String,
    /// Its addresses with the lengths of their prefixes: `10.0.1.1/24`.
    pub addresses: Vec<String>,
    /// The resource of the packets that leave by it: `net/eth1`; null: nothing can be reserved.
    pub resource: Option<String>,
    /// Rate of the link, wire bit/s; null: unknown.
    pub rate_wire_bps: Option<u64>,
    /// MTU, bytes.
    pub mtu: u32,
    /// The agreements about packets that come in by it: `sla/PEER`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slas: Vec<String>,
}

/// The way out to an address, by the kernel's routing table: that of a packet of this machine without marks.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RouteRow {
    /// The address.
    pub to: IpAddr,
    /// The interface by which packets to it leave; null: it is this machine's own address, or there is no route.
    pub interface: Option<String>,
    /// The next router; null: the address itself is on the link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<IpAddr>,
    /// True if it is an address of this machine.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub local: bool,
}

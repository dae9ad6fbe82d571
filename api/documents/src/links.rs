//! Documents that a broker and an agent exchange beside bookings: links, and the requester for whom a broker
//! speaks.

use serde::{Deserialize, Serialize};

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
}

//! What a broker asks of an agent beside its book: the links it has, and to be taken for somebody else.

use serde::{Deserialize, Serialize};

/// Somebody for whom a broker speaks: it knows them by their certificate, the agent does not.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallerDoc {
    /// Their one name.
    pub name: String,
    /// The groups that vouch for them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// `owner`: what is theirs; `auditor`: reads all; `operator`: all.
    pub role: String,
}

/// A link as its agent sees it: agents with an address of the same network are neighbours on it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LinkRow {
    /// The interface.
    pub interface: String,
    /// Its addresses with the lengths of their prefixes: `10.0.1.1/24`.
    pub addresses: Vec<String>,
    /// What is reserved for what leaves here: `net/eth1`; null: nothing can be.
    pub resource: Option<String>,
    /// Rate of the link, wire bit/s; null: unknown.
    pub rate_wire_bps: Option<u64>,
    /// MTU, bytes.
    pub mtu: u32,
}

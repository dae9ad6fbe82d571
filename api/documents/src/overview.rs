//! A broker and its agents as a whole: the caller, the map, interfaces, audits; and the ticket by which a browser signs
//! in.

use crate::book::{AuditRow, Instant};
use crate::rows::InterfaceRow;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// The caller, as the broker knows it, and the broker's clock.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MeDoc {
    /// The caller's one name.
    pub name: String,
    /// The groups that vouch for the caller.
    pub groups: Vec<String>,
    /// The caller's role.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::may::CallerRights))]
    pub role: String,
    /// The caller's column of the table of rights.
    pub seat: String,
    /// The broker's time.
    pub at: Instant,
    /// The broker's time zone, a name such as `Europe/Berlin`; null: unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// The broker's name.
    pub broker: String,
    /// The broker's version.
    pub version: String,
    /// The end of a browser's session; null: the caller came by other means.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Instant>,
}

/// A ticket, by which one browser may sign in once.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TicketDoc {
    /// The address to open. The ticket is behind its `#`, a part that browsers keep to themselves.
    pub address: String,
    /// The time after which the ticket is worth nothing.
    pub expires: Instant,
}

/// All agents.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Agents {
    /// The agents, in the order of the broker's file.
    pub agents: Vec<AgentRow>,
}

/// An agent.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AgentRow {
    /// The name that precedes its resources.
    pub agent: String,
    /// The name of its node; null: it is away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Its version; null: it is away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Milliseconds since it started; null: it is away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uptime_ms: Option<u64>,
    /// Why it does not answer; null: it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub away: Option<String>,
}

/// The networks on which agents are neighbours.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MapDoc {
    /// The agents that said what links they have.
    pub agents: Vec<String>,
    /// The networks, each once.
    pub networks: Vec<NetworkRow>,
    /// Agents that did not answer, so that their links are missing.
    pub away: Vec<String>,
}

/// A network, and the interfaces of agents on it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NetworkRow {
    /// Address and prefix length: `10.0.1.0/24`.
    pub network: String,
    /// The interfaces.
    pub ends: Vec<NetworkEnd>,
}

/// An interface on a network.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NetworkEnd {
    /// The agent.
    pub agent: String,
    /// The interface.
    pub interface: String,
    /// The interface's address on this network.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub address: IpAddr,
    /// The resource of the packets that leave by it, AGENT/RESOURCE; null: nothing can be reserved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// Rate of the link, wire bit/s; null: unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_wire_bps: Option<u64>,
}

/// The interfaces of agents, with their classes and counters.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Interfaces {
    /// The broker's time when the agents had answered.
    pub at: Instant,
    /// The agents that answered.
    pub agents: Vec<AgentInterfaces>,
    /// Agents that did not answer.
    pub away: Vec<String>,
}

/// The interfaces of one agent.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AgentInterfaces {
    /// The agent.
    pub agent: String,
    /// Its interfaces.
    pub interfaces: Vec<InterfaceRow>,
    /// The number of signalled reservations.
    pub signalled: u64,
    /// Notes for the operator: guarantees that its kernel cannot give, classes that were changed by others.
    pub notes: Vec<String>,
}

/// Pages of the agents' audits.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Audits {
    /// The page of each agent that answered.
    pub agents: Vec<AgentAudit>,
    /// Agents that did not answer.
    pub away: Vec<String>,
}

/// A page of one agent's audit, oldest entry first.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AgentAudit {
    /// The agent.
    pub agent: String,
    /// The entries that match.
    pub entries: Vec<AuditRow>,
    /// The number from which to ask next. If it is greater than `last`, there are no more entries yet.
    pub next: u64,
    /// The number of the last entry in the audit; 0: there is none.
    pub last: u64,
}

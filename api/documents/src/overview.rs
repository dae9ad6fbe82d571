//! A broker and its agents as a whole: the caller, the map, interfaces, audits; and the ticket by which a browser signs
//! in.

use crate::book::{AuditRow, Instant};
use crate::rows::{InstalledState, InterfaceRow, ReservationRow};
use crate::session::FlowSpecDoc;
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

/// The signalled reservations of agents: those that RSVP or Boomerang asked for.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SignalledReservations {
    /// The broker's time when the agents had answered.
    pub at: Instant,
    /// The reservations.
    pub reservations: Vec<SignalledRow>,
    /// True if an agent has more than it says at once.
    pub more: bool,
    /// Agents that did not answer.
    pub away: Vec<String>,
}

/// A signalled reservation at one interface of one agent.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SignalledRow {
    /// The agent.
    pub agent: String,
    /// The resource of the packets, AGENT/RESOURCE; null: they leave by no interface of the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// Source, address and port.
    pub from: String,
    /// Destination, address and port.
    pub to: String,
    /// IP protocol number.
    pub protocol: u8,
    /// The style of RSVP; null: it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub style: Option<String>,
    /// The service: `controlled-load` or `guaranteed`.
    pub service: String,
    /// The rate that was asked for, bit/s.
    pub asked_bps: u64,
    /// The rate that the ledger counts, wire bit/s; null: no interface of the agent carries it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admitted_wire_bps: Option<u64>,
    /// The rate of its bucket as read back, bit/s; null: it is not installed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub installed_bps: Option<u64>,
    /// Its state in the plane; null: it has none there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<InstalledState>,
    /// Conforming traffic as measured, bit/s; null: not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured_bps: Option<f64>,
    /// Milliseconds until it expires without a refresh; null: local.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in_ms: Option<u64>,
}

impl SignalledRow {
    /// The row of an agent's reservation.
    pub fn of(agent: &str, row: &ReservationRow) -> SignalledRow {
        let (service, asked_bps) = match row.asked {
            FlowSpecDoc::ControlledLoad { tspec } => ("controlled-load", tspec.r_bps),
            FlowSpecDoc::Guaranteed { rate_bps, .. } => ("guaranteed", rate_bps),
        };
        let end = |address: IpAddr, port: u32| match (address, port) {
            (IpAddr::V6(_), 1..) => format!("[{address}]:{port}"),
            (_, 1..) => format!("{address}:{port}"),
            (_, 0) => address.to_string(),
        };
        SignalledRow {
            agent: agent.to_owned(),
            resource: row.oif.as_ref().map(|interface| format!("{agent}/net/{interface}")),
            from: end(row.sender.src, row.sender.src_port),
            to: end(row.session.dst, row.session.dst_port.into()),
            protocol: row.session.protocol,
            style: row.style.map(|style| style.as_str().to_owned()),
            service: service.to_owned(),
            asked_bps,
            admitted_wire_bps: row.admitted_wire_bps,
            installed_bps: row.installed.as_ref().map(|installed| installed.bucket_bps),
            state: row.installed.as_ref().map(|installed| installed.state),
            measured_bps: row.measured.as_ref().map(|measured| measured.bps),
            expires_in_ms: row.expires_in_ms,
        }
    }
}

/// The features that the machines of agents have and lack, as `sluice doctor` finds them there; and certificates.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Doctors {
    /// The machines of the agents that answered.
    pub agents: Vec<AgentDoctor>,
    /// The certificates that the broker and its agents show.
    pub certificates: Vec<CertificateRow>,
    /// Agents that did not answer.
    pub away: Vec<String>,
}

/// The machine of an agent.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AgentDoctor {
    /// The agent.
    pub agent: String,
    /// The findings.
    #[serde(flatten)]
    pub found: DoctorDoc,
}

/// The features that a machine has and lacks.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DoctorDoc {
    /// The kernel's release; empty: the machine is still being examined.
    pub kernel: String,
    /// True if reservations can be enforced there.
    pub can_reserve: bool,
    /// The features.
    pub findings: Vec<FindingRow>,
    /// The things that should be changed there.
    pub warnings: Vec<DoctorWarning>,
}

/// A feature of a kernel.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FindingRow {
    /// Its area: `scheduler`.
    pub area: String,
    /// Its name: `hfsc`.
    pub name: String,
    /// True if it is there.
    pub there: bool,
    /// The use of it, or the substitute where it is missing.
    pub text: String,
}

/// Something that should be changed on a machine.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DoctorWarning {
    /// The interface, or what else it is about.
    pub of: String,
    /// The text.
    pub text: String,
}

/// A certificate.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CertificateRow {
    /// Who shows it: `broker`, or the agent.
    pub of: String,
    /// The name in it.
    pub name: String,
    /// The end of its validity.
    pub until: Instant,
}

/// The figures that applications report of themselves.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Readings {
    /// The newest reading of each name.
    pub readings: Vec<ReadingRow>,
}

/// The newest reading of a figure that an application reports.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ReadingRow {
    /// Its name: `frames per second`.
    pub name: String,
    /// The caller who reports it.
    pub owner: String,
    /// The value.
    pub value: f64,
    /// The unit, for people; empty: a number.
    pub unit: String,
    /// The time of the reading.
    pub at: Instant,
}

/// A reading, as an application reports it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ReadingWish {
    /// The value, a finite number.
    pub value: f64,
    /// The unit, for people: at most 16 characters.
    #[serde(default)]
    pub unit: String,
}

/// A reading of a reservation: asked, admitted, installed, measured.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ReservationReading {
    /// The broker's time.
    pub at: Instant,
    /// The reservation's state.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::rest::ReservationWord))]
    pub state: String,
    /// Its parts, in the order of the reservation's own.
    pub parts: Vec<PartReading>,
}

/// One part of a reservation, in its unit.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PartReading {
    /// The resource, AGENT/RESOURCE.
    pub resource: String,
    /// Its direction, if it belongs to a path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::rest::PathWord>))]
    pub way: Option<String>,
    /// The unit of the amounts.
    pub unit: String,
    /// The amount that its windows ask for now.
    pub asked: f64,
    /// The admitted amount.
    pub now: f64,
    /// The amount that was read back from what enforces it.
    pub installed: f64,
    /// The use that was measured; null: not measured.
    pub measured: Option<f64>,
    /// How far its enforcement is.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::book::EnforcementWord))]
    pub enforced: String,
}

//! Documents between brokers of different domains: legs of a reservation, decisions, and acceptances.

use crate::book::{EpochDoc, Instant, WindowDoc};
use crate::rest::Ports;
use crate::topology::StatementDoc;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// A question for a vote: a broker asks the broker of a neighbouring domain to promise its leg.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct LegAskDoc {
    /// The transaction of the broker that asks, 32 hexadecimal digits.
    pub transaction: String,
    /// The number of the domain that is asked among its members, from 0.
    pub member: u32,
    /// The present start of the broker that asks.
    pub epoch: EpochDoc,
    /// The number of the transaction in this start, from 1.
    pub serial: u64,
    /// Every transaction of this start with a lower number has ended.
    pub floor: u64,
    /// The transaction of the broker that asked first, 32 hexadecimal digits.
    pub origin: String,
    /// The domains that the question has come through, the first one first.
    pub via: Vec<String>,
    /// The reservation's name at the broker that asks.
    pub reservation: String,
    /// For whom: a name of the domain that asks, or by whose word it has it.
    pub owner: String,
    /// The groups that the asking domain vouches for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// The token of a virtual organisation that the owner shows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// The network of the border link by which packets come, such as `10.0.3.0/30`.
    pub border: String,
    /// The leg.
    pub leg: LegDoc,
    /// The change.
    pub change: LegChange,
    /// Of a tree, where the first broker asks each domain itself; null: of a chain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<TreeLegDoc>,
}

/// The place of a leg in a tree: the first broker asks each domain itself, the last one first.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct TreeLegDoc {
    /// The domain from which packets come.
    pub entry: String,
    /// The acceptances of the domains after this one, the nearest first; empty: packets end here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<StatementDoc>,
}

/// The kinds of change of a leg.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum LegChange {
    /// A new leg.
    Create,
    /// Other rates, another window or label.
    Modify,
    /// Other packets.
    Bind,
}

/// A leg as it is to be after the change.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct LegDoc {
    /// The first host of the whole way.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub from: IpAddr,
    /// The last host of the whole way.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub to: IpAddr,
    /// The rate from the first host to the last, bit/s of IP bytes; 0: none.
    pub forward: u64,
    /// The rate back, bit/s of IP bytes; 0: none.
    pub reverse: u64,
    /// The windows; at least one.
    pub windows: Vec<WindowDoc>,
    /// The requester's label.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub label: String,
    /// The packets that it serves; null: they are bound later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow: Option<Ports>,
    /// The smallest size of its packets, bytes of IP; null: 1,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packet_bytes: Option<u32>,
    /// The longest round-trip time, milliseconds; null: 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_ms: Option<f64>,
}

/// A promise of a leg: it ends by a decision only, or when its windows have passed.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct LegPromiseDoc {
    /// The acceptances, the nearest domain's first.
    pub acceptances: Vec<StatementDoc>,
}

/// A domain's acceptance of its leg, as its broker signs it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct AcceptanceDoc {
    /// The transaction of the broker that asked first, 32 hexadecimal digits.
    pub transaction: String,
    /// The domain that accepts.
    pub domain: String,
    /// The reservation's name there.
    pub reservation: String,
    /// The domain from which packets come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<String>,
    /// The domain to which packets go on; null: they end here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<String>,
    /// The rate from the first host to the last, bit/s of IP bytes; 0: none.
    pub forward: u64,
    /// The rate back, bit/s of IP bytes; 0: none.
    pub reverse: u64,
    /// The windows.
    pub windows: Vec<WindowDoc>,
    /// The agreement with the domain from which packets come that it counts against, as AGENT/RESOURCE.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sla: Option<String>,
    /// The instant at which it expires: it supports no vote from then on.
    pub expires: Instant,
    /// The SHA-256 digest of the next domain's signed acceptance, in hexadecimal digits; null: there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// Acceptances that a broker keeps.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Acceptances {
    /// The acceptances, the oldest first; those of one reservation in the order of the way.
    pub acceptances: Vec<KeptAcceptance>,
}

/// An acceptance that is kept with a reservation.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct KeptAcceptance {
    /// The time at which it was checked here.
    pub at: Instant,
    /// The reservation's name here.
    pub reservation: String,
    /// The owner here.
    pub owner: String,
    /// True: the reservation was given back.
    pub over: bool,
    /// The domain's acceptance.
    pub accepted: AcceptanceDoc,
    /// The signed text.
    pub statement: StatementDoc,
}

/// A decision of the broker that asked for a leg.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct LegDecisionDoc {
    /// The number of the domain among the members, from 0.
    pub member: u32,
    /// The broker's present start.
    pub epoch: EpochDoc,
    /// The number of the decision to commit, from 1; null: abort.
    #[serde(default)]
    pub commit: Option<u64>,
}

/// The answer to a decision: it is on the disk of the domain, which drives it to its end.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct LegDecidedDoc {
    /// The transaction, 32 hexadecimal digits.
    pub transaction: String,
}

/// A leg as the domain that has it shows it to the domain that asked for it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct LegStateDoc {
    /// The state of the reservation there, as in its own lists.
    pub state: String,
    /// Agents and domains that have a part of it and do not answer now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub away: Vec<String>,
}

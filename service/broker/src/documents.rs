//! What requests and answers look like, where it is more than the book's own documents.
//!
//! Resources are called `AGENT/RESOURCE`, as in `maui/net/eth1`; of a broker with one agent `net/eth1` will do. Rates
//! are bit/s of IP bytes. Integers are 64 bits: read them as such.

use rpc::book::{
    BackgroundDoc, BindingDoc, BookEvent, Instant, PartDoc, PartRow, RefusalDoc, ResourceRow, StepDoc, VolumeDoc,
    WindowDoc,
};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use utoipa::ToSchema;

/// A request: what between two hosts, or how much of single resources, or both; and when. All of it or nothing.
///
/// Without `earliest`, `volume` and `windows` it is one window from `start` (default: now) to `end`.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Wish {
    /// Network between two hosts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathWish>,
    /// Single resources.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<PartDoc>,
    /// From when; null: now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<Instant>,
    /// Until when; `"forever"`: until it is given back. Null only with `duration_s`, `volume` or `windows`, or in an enquiry, which asks
    /// about what is open at its end then. With `earliest`: over by then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<Instant>,
    /// For how long, seconds; in place of `end`, and required with `earliest`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_s: Option<f64>,
    /// As early as it fits, not before `start`, over by `end`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub earliest: bool,
    /// So much moved by a deadline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume: Option<VolumeDoc>,
    /// A recurrence, spelled out: each of these windows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub windows: Vec<WindowDoc>,
    /// Which of `windows`, from 0, need not fit; with one agent only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub may_fail: Vec<usize>,
    /// What you call it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub label: String,
    /// Only held, for so many seconds, until it is committed; of no meaning to an enquiry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold_s: Option<f64>,
}

/// Network between two hosts.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PathWish {
    /// The one host's address.
    #[schema(value_type = String)]
    pub from: IpAddr,
    /// The other's.
    #[schema(value_type = String)]
    pub to: IpAddr,
    /// How much goes from the one to the other, bit/s; null or 0: nothing (in an enquiry: how much could?).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forward: Option<u64>,
    /// How much comes back, bit/s; null or 0: nothing (in an enquiry: how much could?).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reverse: Option<u64>,
    /// The least of `forward` that will do; null: all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forward_at_least: Option<u64>,
    /// The least of `reverse` that will do; null: all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reverse_at_least: Option<u64>,
    /// It only shares what foreground leaves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub background: Option<BackgroundDoc>,
    /// The least size of its packets, bytes of IP; null: 1,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packet_bytes: Option<u32>,
    /// The longest round-trip time, milliseconds; null: 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_ms: Option<f64>,
    /// Whose packets; null: that is said later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow: Option<Ports>,
}

/// Which packets between the two hosts. What comes back has the ports the other way round.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Ports {
    /// IP protocol number: 6 is TCP, 17 UDP; null: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<u8>,
    /// The port at the one host; null: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_port: Option<u16>,
    /// The port at the other; null: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_port: Option<u16>,
}

/// A reservation.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Reservation {
    /// Its name, opaque; keep it.
    pub id: String,
    /// Whose it is.
    pub owner: String,
    /// What its owner calls it.
    pub label: String,
    /// `held`, `booked`, `active`, `suspended`, `ended`, `cancelled`, `expired`; `broken`: some of its parts are over or
    /// missing and others are not, or they do not have what they should have together.
    pub state: String,
    /// Agents that know nothing of their part of it (any more).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// Agents that have a part of it and do not answer now: how it stands there is not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub away: Vec<String>,
    /// When it was created.
    pub created: Instant,
    /// Until when it is held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold_until: Option<Instant>,
    /// Between whom.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<Ends>,
    /// Its parts.
    pub parts: Vec<Part>,
}

/// Two hosts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Ends {
    /// The one.
    #[schema(value_type = String)]
    pub from: IpAddr,
    /// The other.
    #[schema(value_type = String)]
    pub to: IpAddr,
    /// What goes from the one to the other now, bit/s; null: nothing is reserved that way.
    pub forward: Option<u64>,
    /// What comes back.
    pub reverse: Option<u64>,
}

/// A part of a reservation.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Part {
    /// The agent that keeps it.
    pub agent: String,
    /// Its handle there.
    pub handle: String,
    /// `forward` or `reverse`, where it is of a path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub way: Option<String>,
    /// The rest.
    #[serde(flatten)]
    pub row: PartRow,
}

/// Many reservations.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Reservations {
    /// These.
    pub reservations: Vec<Reservation>,
    /// Whether an agent had more than it shows at once: ask more narrowly.
    pub more: bool,
    /// Agents that did not answer: what they keep is missing here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub away: Vec<String>,
}

/// What would be granted.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Enquiry {
    /// Whether the request would be accepted now.
    pub accepted: bool,
    /// The most that could go from the one host to the other over the whole window, bit/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forward: Option<u64>,
    /// The most that could come back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reverse: Option<u64>,
    /// Part by part.
    pub parts: Vec<EnquiredPart>,
    /// Why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<RefusalDoc>,
}

/// A part of an enquiry.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct EnquiredPart {
    /// Which resource.
    pub resource: String,
    /// `forward` or `reverse`, where it is of a path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub way: Option<String>,
    /// `reserved`, or `cap` where only a cap is possible.
    pub kind: String,
    /// The most that it could have over its whole window, in its own unit.
    pub free: f64,
    /// What it would get.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub granted: Vec<StepDoc>,
}

/// What to change; what is left out stays.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// What goes from the one host to the other, bit/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forward: Option<u64>,
    /// What comes back, bit/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reverse: Option<u64>,
    /// New amounts of single parts, but not of the hops of a path: these have one rate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub amounts: Vec<rpc::book::AmountDoc>,
    /// A new start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<Instant>,
    /// A new end; `"forever"`: open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<Instant>,
    /// Another label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
}

/// Whose packets or processes. Either `flow` (of a reservation between two hosts) or `part` and `binding`.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BindWish {
    /// Which packets between the two hosts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow: Option<Ports>,
    /// Which part, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<usize>,
    /// Whose; null: nobody's any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub binding: Option<BindingDoc>,
}

/// Resources of all agents.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Resources {
    /// These.
    pub resources: Vec<ResourceRow>,
    /// Agents that did not answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub away: Vec<String>,
}

/// What happened.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Events {
    /// Oldest first.
    pub events: Vec<Event>,
}

/// Something that happened to a reservation.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Event {
    /// To which.
    pub reservation: String,
    /// At which agent.
    pub agent: String,
    /// `forward` or `reverse`, where it is about a part of a path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub way: Option<String>,
    /// What.
    #[serde(flatten)]
    pub event: BookEvent,
}

/// Ways between two hosts, the best first.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Paths {
    /// From the one to the other.
    pub forward: Vec<PathRow>,
    /// And back.
    pub reverse: Vec<PathRow>,
    /// Agents that did not say what links they have: ways over them are missing here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub away: Vec<String>,
}

/// A way.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct PathRow {
    /// Over which interfaces.
    pub hops: Vec<Hop>,
    /// The least rate of its links, wire bit/s; null: none of them is known.
    pub rate_wire_bps: Option<u64>,
}

/// An interface on a way.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Hop {
    /// The agent.
    pub agent: String,
    /// The interface by which packets leave there.
    pub interface: String,
    /// What is reserved for them; null: nothing can be, so no reservation goes over it.
    pub resource: Option<String>,
}

/// A target for events.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WebhookWish {
    /// Where to: `https`, and allowed by the broker's configuration.
    pub url: String,
    /// Only events of this reservation; null: of all that the caller may see.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reservation: Option<String>,
    /// What deliveries are signed with, 16 to 128 characters; null: one is drawn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
}

/// A webhook.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Webhook {
    /// Its name.
    pub id: String,
    /// Where to.
    pub url: String,
    /// Only events of this reservation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reservation: Option<String>,
    /// What deliveries are signed with; shown once, when it is made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// How far events were delivered.
    pub delivered: String,
    /// How many deliveries failed since the last one that did not.
    pub failures: u32,
    /// How the last one failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_failure: Option<String>,
}

/// Webhooks.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Webhooks {
    /// These.
    pub webhooks: Vec<Webhook>,
}

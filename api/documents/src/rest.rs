//! Requests and answers of REST: what the broker adds to the documents of bookings.
//!
//! Resources are named `AGENT/RESOURCE`, as in `maui/net/eth1`; with a broker of one agent `net/eth1` will
//! do. Rates are bit/s of IP bytes. Integers are 64 bits: read them as such.

use crate::book::{
    BackgroundDoc, BindingDoc, BookEvent, ChangeDoc, EpochDoc, Instant, PartDoc, PartRow, RefusalDoc, ResourceRow,
    StepDoc, WhenDoc,
};
use crate::words::words;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// A request for a path between two hosts, for single resources, or for both, and a time. All of it or
/// nothing.
///
/// Without `earliest`, `volume` and `windows` it is one window from `start` (default: now) to `end`.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Wish {
    /// A path between two hosts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathWish>,
    /// Single resources.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<PartDoc>,
    /// The time.
    #[serde(flatten)]
    pub when: WhenDoc,
    /// The requester's label.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub label: String,
    /// Hold it for so many seconds, until it is committed; an enquiry ignores it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold_s: Option<f64>,
    /// Seconds before its end at which the event `ends_soon` says so; null: none does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notify_s: Option<f64>,
}

/// A path between two hosts.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct PathWish {
    /// The address of the first host.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub from: IpAddr,
    /// The address of the second host.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub to: IpAddr,
    /// The rate from the first host to the second, bit/s; null or 0: none (in an enquiry: the most that is
    /// free).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forward: Option<u64>,
    /// The rate back, bit/s; null or 0: none (in an enquiry: the most that is free).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reverse: Option<u64>,
    /// The least acceptable `forward`, bit/s; null: all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forward_at_least: Option<u64>,
    /// The least acceptable `reverse`, bit/s; null: all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reverse_at_least: Option<u64>,
    /// Makes it a background part, which only shares the capacity that foreground parts leave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub background: Option<BackgroundDoc>,
    /// The smallest size of its packets, bytes of IP; null: 1,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packet_bytes: Option<u32>,
    /// The longest round-trip time, milliseconds; null: 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_ms: Option<f64>,
    /// The packets that it serves; null: they are bound later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow: Option<Ports>,
    /// Over several domains: this broker asks each domain's broker itself, instead of the next domain only.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tree: bool,
}

/// A filter of packets between the two hosts. Packets back have the ports swapped.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Ports {
    /// IP protocol number: 6 is TCP, 17 UDP; null: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<u8>,
    /// The port at the first host; null: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_port: Option<u16>,
    /// The port at the second host; null: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_port: Option<u16>,
}

words! {
    /// The state of a reservation over all of its agents.
    ReservationWord {
        /// Held until its deadline; it is not booked.
        Held = "held",
        /// Booked; its window has not begun.
        Booked = "booked",
        /// Its window is open.
        Active = "active",
        /// Its window is open, and its background part has nothing now.
        Suspended = "suspended",
        /// Its window is over.
        Ended = "ended",
        /// Given back by its owner, or by an operator.
        Cancelled = "cancelled",
        /// Its hold ran out.
        Expired = "expired",
        /// A change at several agents is not decided yet.
        Preparing = "preparing",
        /// A change is decided, and not done everywhere yet.
        Committing = "committing",
        /// A change is refused, and not given back everywhere yet.
        Aborting = "aborting",
        /// Some of its parts are over or missing and others are not, or their amounts do not agree.
        Broken = "broken",
    }
}

words! {
    /// The direction of a part of a path.
    PathWord {
        /// From the first host to the second.
        Forward = "forward",
        /// Back.
        Reverse = "reverse",
    }
}

/// A reservation.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Reservation {
    /// The name. It is opaque; keep it.
    pub id: String,
    /// The owner.
    pub owner: String,
    /// The label that the owner gave it.
    pub label: String,
    /// Its state over all of its agents.
    #[cfg_attr(feature = "openapi", schema(value_type = ReservationWord))]
    pub state: String,
    /// Agents that do not know their part of it, or no longer know it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// Agents that have a part of it and do not answer now: its state there is not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub away: Vec<String>,
    /// The time of creation.
    pub created: Instant,
    /// The end of the hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold_until: Option<Instant>,
    /// Seconds before its end at which its owner is told; null: not at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notify_s: Option<f64>,
    /// The two hosts, if it is a path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<Ends>,
    /// Its parts in this domain.
    pub parts: Vec<Part>,
    /// The domain that asked for it, if it is a leg of a reservation that begins elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub above: Option<String>,
    /// The acceptances of other domains, the nearest first; if another domain asked for it, our own acceptance
    /// comes before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub legs: Vec<LegRow>,
}

/// A leg in a domain, as it has accepted it by its signature.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LegRow {
    /// The domain.
    pub domain: String,
    /// The reservation's name there.
    pub reservation: String,
    /// The domain from which packets come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<String>,
    /// The domain to which they go on; null: they end there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<String>,
    /// The rate from the first host to the last, bit/s.
    pub forward: u64,
    /// The rate back, bit/s.
    pub reverse: u64,
    /// The agreement with the domain from which packets come that it counts against, as AGENT/RESOURCE.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sla: Option<String>,
}

/// Two hosts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Ends {
    /// The first host.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub from: IpAddr,
    /// The second host.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub to: IpAddr,
    /// The rate from the first host to the second now, bit/s; null: nothing is reserved in that direction.
    pub forward: Option<u64>,
    /// The rate back, bit/s.
    pub reverse: Option<u64>,
}

/// A part of a reservation.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Part {
    /// The agent that keeps it.
    pub agent: String,
    /// The handle at that agent.
    pub handle: String,
    /// Its direction, if it belongs to a path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<PathWord>))]
    pub way: Option<String>,
    /// The part as the agent shows it.
    #[serde(flatten)]
    pub row: PartRow,
}

/// A list of reservations.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Reservations {
    /// The reservations.
    pub reservations: Vec<Reservation>,
    /// True if there are more: ask again with `after`, or with a narrower filter.
    pub more: bool,
    /// With `more`: the `after` of the next page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// Agents that did not answer: their reservations are missing here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub away: Vec<String>,
}

/// The result of an enquiry.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Enquiry {
    /// True if the request would be accepted now.
    pub accepted: bool,
    /// The highest rate from the first host to the second over the whole window, bit/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forward: Option<u64>,
    /// The highest rate back, bit/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reverse: Option<u64>,
    /// The parts.
    pub parts: Vec<EnquiredPart>,
    /// The refusal, if it would not be accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<RefusalDoc>,
}

/// A part of an enquiry.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EnquiredPart {
    /// The name of the resource.
    pub resource: String,
    /// Its direction, if it belongs to a path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<PathWord>))]
    pub way: Option<String>,
    /// The strength of the guarantee.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::book::GuaranteeWord))]
    pub kind: String,
    /// The most that it could have over its whole window, in its own unit.
    pub free: f64,
    /// The steps that it would get.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub granted: Vec<StepDoc>,
}

/// A change of a reservation; a field that is left out stays as it was.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// The rate from the first host to the second, bit/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forward: Option<u64>,
    /// The rate back, bit/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reverse: Option<u64>,
    /// The rest, as for an agent.
    #[serde(flatten)]
    pub rest: ChangeDoc,
}

/// A binding. Give either `flow` (for a reservation between two hosts) or `part` and `binding`.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct BindWish {
    /// The packets between the two hosts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow: Option<Ports>,
    /// The part, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<usize>,
    /// The flow, process or control group; null: none any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub binding: Option<BindingDoc>,
}

/// Resources of all agents.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Resources {
    /// The resources.
    pub resources: Vec<ResourceRow>,
    /// Agents that did not answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub away: Vec<String>,
}

/// Events of a reservation.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Events {
    /// The events, oldest first.
    pub events: Vec<Event>,
}

/// An event of a reservation.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Event {
    /// The name of the reservation.
    pub reservation: String,
    /// The agent.
    pub agent: String,
    /// `forward` or `reverse`, if it concerns a part of a path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub way: Option<String>,
    /// The event.
    #[serde(flatten)]
    pub event: BookEvent,
}

/// Paths between two hosts, the best first.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Paths {
    /// Paths from the first host to the second.
    pub forward: Vec<PathRow>,
    /// Paths back.
    pub reverse: Vec<PathRow>,
    /// Agents that did not report their links: paths over them are missing here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub away: Vec<String>,
}

/// A path.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PathRow {
    /// The interfaces, in order.
    pub hops: Vec<Hop>,
    /// The least rate of its links, wire bit/s; null: none of them is known.
    pub rate_wire_bps: Option<u64>,
    /// True if packets take it now, by the routes of the agents' kernels; false: it is computed from links and costs.
    #[serde(default)]
    pub routed: bool,
}

/// An interface on a path.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Hop {
    /// The agent.
    pub agent: String,
    /// The interface by which packets leave there.
    pub interface: String,
    /// The resource of these packets; null: none, so no reservation goes over it.
    pub resource: Option<String>,
}

/// The outcome of a transaction over several agents, for an agent that has promised a part of it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TransactionDoc {
    /// The transaction, 32 hexadecimal digits.
    pub transaction: String,
    /// The name of the broker that coordinates.
    pub coordinator: String,
    /// The broker's present start.
    pub epoch: EpochDoc,
    /// `committed`; `aborted`; `pending`: ask again later; `unknown`: the broker's journal has lost it, and an
    /// operator must decide.
    pub outcome: String,
    /// The number of the decision, if it is committed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<u64>,
}

/// A request for a webhook.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct WebhookWish {
    /// The URL: `https`, or `mailto:NAME@HOST`; allowed by the broker's configuration.
    pub url: String,
    /// Report only these kinds of events, such as `ends_soon`; none: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<crate::book::EventWord>))]
    pub events: Vec<String>,
    /// Report only events of this reservation; null: of all that the caller may see.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reservation: Option<String>,
    /// The secret that signs deliveries, 16 to 128 characters; null: the broker draws one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
}

/// A webhook.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Webhook {
    /// The name.
    pub id: String,
    /// The URL.
    pub url: String,
    /// The reservation, if only its events are reported. Mail about one ends with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reservation: Option<String>,
    /// The kinds of events that are reported; none: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<crate::book::EventWord>))]
    pub events: Vec<String>,
    /// The secret that signs deliveries; shown once, at its creation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// The place in the stream of events up to which it delivered.
    pub delivered: String,
    /// The number of failures since the last success.
    pub failures: u32,
    /// The reason of the last failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_failure: Option<String>,
}

/// A list of webhooks.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Webhooks {
    /// The webhooks.
    pub webhooks: Vec<Webhook>,
}

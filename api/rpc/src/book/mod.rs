//! The book's documents: what is asked and answered about reservations of network, processor, disk and whatever is
//! counted, now or for later.
//!
//! Rates are bit/s, cores are cores, a disk is bytes a second, licences are pieces. Times are RFC 3339.

mod answer;
mod audit;
pub mod convert;
mod event;
mod instant;
pub mod pages;
pub mod shown;

pub use answer::{AlternativeDoc, EnquiredDoc, MeasuredDoc, PartRow, RefusalDoc, ReservationDoc, ResourceRow, StepDoc};
pub use audit::{AuditAsk, AuditPage, AuditRow};
pub use event::{BookEvent, BookEvents};
pub use instant::Instant;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// A request for resources: when, and how much of what.
///
/// Without `earliest`, `volume` and `windows` it is one window from `start` (default: now) to `end`.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct AskDoc {
    /// How much of what; at least one.
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
    /// Which of `windows`, from 0, need not fit; all others must.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub may_fail: Vec<usize>,
    /// What you call it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub label: String,
    /// What it belongs to, with reservations of other agents.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// All members of the group, this one as well, as whoever makes it names them: from any one it can be told whether all are there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<String>,
    /// Only held, for so many seconds, until `book_commit`; of no meaning to an enquiry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold_s: Option<f64>,
    /// Idempotency key: the same key with the same request has one effect; of no meaning to an enquiry.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub key: String,
}

/// How much of one resource. Exactly one of `rate`, `cores`, `bytes_per_s` and `count` says how much.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct PartDoc {
    /// `net/eth1`, `cpu`, `disk/sda`, `licence/NAME`.
    pub resource: String,
    /// Of a network part: bit/s of IP bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<u64>,
    /// Of a processor part: cores, 0.5 is half of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cores: Option<f64>,
    /// Of a disk part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_s: Option<u64>,
    /// Of what is counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// The least that will do, in the same unit; null: all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least: Option<f64>,
    /// It only shares what foreground leaves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub background: Option<BackgroundDoc>,
    /// The least size of its packets, bytes of IP; null: 1,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packet_bytes: Option<u32>,
    /// The longest round-trip time, milliseconds; null: 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_ms: Option<f64>,
    /// Whose packets or processes it is for; null: that is said later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub binding: Option<BindingDoc>,
}

/// How a background part shares.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct BackgroundDoc {
    /// Its share against other background parts.
    #[serde(default = "one")]
    pub weight: u32,
    /// With less than this (in the part's unit) it is suspended.
    #[serde(default)]
    pub floor: f64,
}

fn one() -> u32 {
    1
}

/// So much by a deadline.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct VolumeDoc {
    /// How much.
    pub bytes: u64,
    /// By when.
    pub deadline: Instant,
}

/// A window of a recurrence.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct WindowDoc {
    /// From when.
    pub start: Instant,
    /// Until when.
    pub end: Instant,
}

/// Whose packets or processes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum BindingDoc {
    /// A network part: these packets.
    Flow(FlowDoc),
    /// A processor or disk part: all threads of a process.
    Pid(u32),
    /// A processor part: one thread.
    Tid(u32),
    /// A processor or disk part: a control group.
    Cgroup(String),
}

/// A five-tuple; what is left out may be anything.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct FlowDoc {
    /// Source address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub src: Option<IpAddr>,
    /// Destination address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub dst: Option<IpAddr>,
    /// IP protocol number: 6 is TCP, 17 UDP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<u8>,
    /// Source port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub src_port: Option<u16>,
    /// Destination port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dst_port: Option<u16>,
}

/// What to change; what is left out stays.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ChangeDoc {
    /// New amounts, by part.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub amounts: Vec<AmountDoc>,
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

/// A new amount of a part, in one of the units of [`PartDoc`], which must be the part's.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct AmountDoc {
    /// Which part, from 0.
    #[serde(default)]
    pub part: usize,
    /// Of a network part: bit/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<u64>,
    /// Of a processor part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cores: Option<f64>,
    /// Of a disk part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_s: Option<u64>,
    /// Of what is counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
}

/// Which reservations to list; what is left out does not matter.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
pub struct BookFilter {
    /// Of this owner.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Of this group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// With this label.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// With a part of this resource.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// In one of these states; none: all that are not over.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub states: Vec<String>,
    /// With a window that meets this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<WindowDoc>,
    /// The next page: after this handle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// At most so many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
    /// Of one that is shown: leave out so many steps, which came before.
    #[serde(skip_serializing_if = "crate::agent::is_nought")]
    pub skip: u64,
}

/// What the book answers.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum BookAnswer {
    /// What would be granted.
    Enquired(EnquiredDoc),
    /// The reservation after the call.
    Reservation(ReservationDoc),
    /// Those that match.
    Reservations {
        /// These.
        rows: Vec<ReservationDoc>,
        /// Whether there are more: ask again with `after`.
        more: bool,
    },
    /// What happened.
    Events(BookEvents),
    /// What there is.
    Resources(Vec<ResourceRow>),
}

//! JSON documents of bookings: requests and answers about reservations of network, processor, disk and
//! counted resources, now or for later.
//!
//! Rates are bit/s, cores are cores, a disk is bytes a second, licences are pieces. Times are RFC 3339.

mod amount;
mod answer;
mod audit;
mod event;
mod instant;
mod meter;
pub mod pages;
mod promise;

use crate::agent::Problem;
pub use amount::{amount, scale, unit};
pub use answer::{
    AlternativeDoc, AlternativeWord, EnforcementWord, EnquiredDoc, GuaranteeWord, MeasuredDoc, PartRow, RefusalDoc,
    ReservationDoc, ResourceRow, StepDoc,
};
pub use audit::{AskedDoc, AskedPartDoc, AuditAsk, AuditPage, AuditRow};
pub use event::{BookEvent, BookEvents, EventWord};
pub use instant::Instant;
pub use meter::{ColorDoc, ColorsDoc, MeterDoc, MeterWord};
pub use promise::{DecideDoc, EpochDoc, PrepareAskDoc, PrepareDoc, PromiseDoc, PromiseRow, PromiseRows, PromisesDoc};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// A request for resources: windows of time, and an amount of each resource.
///
/// Without `earliest`, `volume` and `windows` it is one window from `start` (default: now) to `end`.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AskDoc {
    /// The parts, each an amount of one resource; at least one.
    pub parts: Vec<PartDoc>,
    /// The time.
    #[serde(flatten)]
    pub when: WhenDoc,
    /// The requester's label.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub label: String,
    /// The name of the group, which may have members at other agents.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// All members of the group, this one included, as its creator names them. One member so shows if any is
    /// missing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<String>,
    /// Hold the booking for so many seconds, until `book_commit`; an enquiry ignores it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold_s: Option<f64>,
    /// Seconds before its end at which the event `ends_soon` says so; null: none does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notify_s: Option<f64>,
    /// Idempotency key: the same key with the same request has one effect; an enquiry ignores it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub key: String,
}

impl AskDoc {
    /// Checks that a request states its end or duration: nothing is reserved for ever by default.
    ///
    /// # Errors
    /// `misuse`: there is neither an end nor a field that takes its place.
    pub fn says_how_long(&self) -> Result<(), Problem> {
        let WhenDoc { end, duration_s, volume, windows, .. } = &self.when;
        if end.is_some() || duration_s.is_some() || volume.is_some() || !windows.is_empty() {
            return Ok(());
        }
        Err(Problem::misuse("for how long? give duration_s or end; \"end\": \"forever\" is until it is given back"))
    }
}

/// The time of a request, the same for agents and brokers.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WhenDoc {
    /// The start; null: now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<Instant>,
    /// The end; `"forever"`: until it is cancelled. Null only with `duration_s`, `volume` or `windows`, or in
    /// an enquiry, which then has no end. With `earliest`: the latest end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<Instant>,
    /// The duration, seconds; it takes the place of `end`, and is required with `earliest`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_s: Option<f64>,
    /// Take the earliest window that fits, not before `start` and over by `end`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub earliest: bool,
    /// Move a volume of data by a deadline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume: Option<VolumeDoc>,
    /// The windows of a recurrence, each spelled out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub windows: Vec<WindowDoc>,
    /// Indices into `windows`, from 0, that need not fit; with one agent only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub may_fail: Vec<usize>,
}

impl WhenDoc {
    /// From now on, for so many seconds.
    pub fn lasting(seconds: f64) -> WhenDoc {
        WhenDoc { duration_s: Some(seconds), ..WhenDoc::default() }
    }
}

/// An amount of one resource, in exactly one of `rate`, `cores`, `bytes_per_s` and `count`.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct PartDoc {
    /// `net/eth1`, `cpu`, `disk/sda`, `licence/NAME`.
    pub resource: String,
    /// Of a network part: the rate, bit/s of IP bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<u64>,
    /// Of a processor part: cores; 0.5 is half of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cores: Option<f64>,
    /// Of a disk part: the rate, bytes a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_s: Option<u64>,
    /// Of a counted resource: pieces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// The least acceptable amount, in the same unit; null: all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least: Option<f64>,
    /// Makes it a background part, which only shares the capacity that foreground parts leave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub background: Option<BackgroundDoc>,
    /// The smallest size of its packets, bytes of IP; null: 1,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packet_bytes: Option<u32>,
    /// The longest round-trip time, milliseconds; null: 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_ms: Option<f64>,
    /// Of a background part of an interface: the meter that colours its packets; null: what exceeds its rate is dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meter: Option<MeterDoc>,
    /// The flow, process or control group that the part serves; null: it is bound later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub binding: Option<BindingDoc>,
}

/// The terms on which a background part shares.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct BackgroundDoc {
    /// The weight of its share against other background parts.
    #[serde(default = "one")]
    pub weight: u32,
    /// The least share, in the part's unit. With less the part is suspended.
    #[serde(default)]
    pub floor: f64,
}

fn one() -> u32 {
    1
}

/// A volume of data and its deadline.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct VolumeDoc {
    /// The volume, bytes.
    pub bytes: u64,
    /// The deadline.
    pub deadline: Instant,
}

/// A window of a recurrence.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct WindowDoc {
    /// The start.
    pub start: Instant,
    /// The end.
    pub end: Instant,
}

impl WindowDoc {
    /// True if there is an instant in both.
    pub fn overlaps(&self, other: &WindowDoc) -> bool {
        self.start < other.end && other.start < self.end
    }
}

/// The flow, process or control group that a part serves.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum BindingDoc {
    /// For a network part: a flow of packets.
    Flow(FlowDoc),
    /// For a processor or disk part: all threads of a process.
    Pid(u32),
    /// For a processor part: one thread.
    Tid(u32),
    /// For a processor or disk part: a control group. For a network part: all packets that its processes send.
    Cgroup(String),
}

/// A five-tuple; a field that is left out matches any value.
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

/// A change of a booking; a field that is left out stays as it was.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ChangeDoc {
    /// New amounts of single parts, but not of the hops of a path: these have one rate.
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
    /// Windows to give back: of every part those that overlap one of these. One that runs ends now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub without: Vec<WindowDoc>,
}

/// A new amount of a part, in one of the units of [`PartDoc`], which must be the part's.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct AmountDoc {
    /// The index of the part, from 0.
    #[serde(default)]
    pub part: usize,
    /// Of a network part: the rate, bit/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<u64>,
    /// Of a processor part: cores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cores: Option<f64>,
    /// Of a disk part: the rate, bytes a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_s: Option<u64>,
    /// Of a counted resource: pieces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
}

/// A filter of reservations. A field that is left out matches every reservation.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
pub struct BookFilter {
    /// The owner.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// The group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The label.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// A resource of which the reservation has a part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// The states; none: all states that are not over.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub states: Vec<String>,
    /// A window that overlaps with one of the reservation's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<WindowDoc>,
    /// The last handle of the previous page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// The most reservations to return.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
    /// With a handle: the number of steps to leave out, which came before.
    #[serde(skip_serializing_if = "crate::agent::is_nought")]
    pub skip: u64,
}

/// An answer about bookings.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum BookAnswer {
    /// The result of an enquiry.
    Enquired(EnquiredDoc),
    /// The reservation after the call.
    Reservation(ReservationDoc),
    /// The reservations that match.
    Reservations {
        /// The reservations.
        rows: Vec<ReservationDoc>,
        /// True if there are more: ask again with `after`.
        more: bool,
    },
    /// Events of reservations.
    Events(BookEvents),
    /// The resources.
    Resources(Vec<ResourceRow>),
    /// The open promises to a coordinator.
    Promises(PromiseRows),
    /// It is done, and no reservation is left to show.
    Nothing,
}

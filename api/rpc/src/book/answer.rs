//! What the book answers: reservations, enquiries, refusals, resources. Amounts are in the unit of the resource's
//! kind: `bit/s`, `cores`, `bytes/s` or `pieces`.

use super::{BackgroundDoc, BindingDoc, Instant};
use serde::{Deserialize, Serialize};

/// A reservation.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ReservationDoc {
    /// Its handle, opaque; keep it.
    pub handle: String,
    /// Whose it is.
    pub owner: String,
    /// What its owner calls it.
    pub label: String,
    /// What it belongs to.
    pub group: String,
    /// All members of that, as whoever made it named them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<String>,
    /// `held`, `booked`, `active`, `suspended`, `ended`, `cancelled` or `expired`.
    pub state: String,
    /// Until when it is held.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hold_until: Option<Instant>,
    /// When it was created.
    pub created: Instant,
    /// Grows with each change.
    pub version: u64,
    /// Its parts.
    pub parts: Vec<PartRow>,
    /// There was no room for more steps: show it again, and `skip` those that came.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub more: bool,
}

/// A part of a reservation.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PartRow {
    /// Which resource.
    pub resource: String,
    /// What amounts count: `bit/s`, `cores`, `bytes/s`, `pieces`.
    pub unit: String,
    /// `reserved`, or `cap` where only a cap is possible; null: the resource is not there at present.
    pub kind: Option<String>,
    /// How much and when.
    pub steps: Vec<StepDoc>,
    /// Whether it only shares what foreground leaves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub background: Option<BackgroundDoc>,
    /// The least size of its packets, bytes.
    pub packet_bytes: u32,
    /// The longest round-trip time, milliseconds.
    pub rtt_ms: f64,
    /// Whose packets or processes.
    pub binding: Option<BindingDoc>,
    /// What its windows ask for now; of a background part, the most that it wants.
    #[serde(default)]
    pub asked: f64,
    /// What it may have now: what was admitted.
    pub now: f64,
    /// What was read back for it from whatever enforces it.
    #[serde(default)]
    pub installed: f64,
    /// What that is, in the kernel's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub means: Option<String>,
    /// What it was seen to use; null: not enforced, not counted, or not for a second yet.
    #[serde(default)]
    pub measured: Option<MeasuredDoc>,
    /// `idle`, `unbound`, `pending`, `in_force` or `failed`.
    pub enforced: String,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
}

/// What a part was seen to use, in its unit: a mean over the last whole interval.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MeasuredDoc {
    /// So much: IP bytes that the edge let through, processor time, bytes read and written.
    pub amount: f64,
    /// In so many seconds.
    pub interval_s: f64,
    /// Of a network part: what exceeded it and was dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<f64>,
    /// Of a disk part: what all that is not reserved did meanwhile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreserved: Option<f64>,
}

/// An amount in a window.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StepDoc {
    /// From when.
    pub start: Instant,
    /// Until when; null: open.
    pub end: Option<Instant>,
    /// How much.
    pub amount: f64,
}

/// What would be granted.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EnquiredDoc {
    /// Whether the request would be accepted now.
    pub accepted: bool,
    /// What each part would get.
    pub granted: Vec<Vec<StepDoc>>,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refusal: Option<RefusalDoc>,
    /// What each part could have at most over its whole window.
    pub free: Vec<f64>,
    /// `reserved` or `cap`, for each part.
    pub kinds: Vec<String>,
}

/// Why not, and what would be possible.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RefusalDoc {
    /// For programs: `no_room`, `policy`, `no_resource`, `unknown_handle`, `wrong_state`, `key_used`, `key_over`, `taken`, `limit`,
    /// `meaningless`, `clock`, `not_written`, `starting`.
    pub reason: String,
    /// For people.
    pub message: String,
    /// Which part of the request, where it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<usize>,
    /// Which resource.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// What was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked: Option<f64>,
    /// What is free.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub free: Option<f64>,
    /// From when there is not enough.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<Instant>,
    /// Until when.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<Instant>,
    /// The rule of policy that decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// What would be accepted now.
    #[serde(default)]
    pub alternatives: Vec<AlternativeDoc>,
}

/// Something near what was asked that would be accepted.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AlternativeDoc {
    /// `later`, `slower`, `shorter` or `other_path`.
    pub sort: String,
    /// What each part would get.
    pub parts: Vec<Vec<StepDoc>>,
    /// Of a broker: the resource of each part.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<String>,
}

/// A resource.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ResourceRow {
    /// Its name.
    pub resource: String,
    /// What amounts count.
    pub unit: String,
    /// `reserved` or `cap`.
    pub kind: String,
    /// The most that can be booked at all.
    pub capacity: f64,
    /// What can be booked at this instant.
    pub free: f64,
    /// What background parts may have together now.
    pub background: f64,
    /// What they have now. Foreground does not wait for it: it is not taken from `free`.
    #[serde(default)]
    pub background_now: f64,
    /// Reservations that are not over.
    pub reservations: usize,
    /// What is promised and not there, at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<f64>,
    /// Since when, or from when on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing_from: Option<Instant>,
    /// What is free, from when to when.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub timeline: Vec<StepDoc>,
    /// There was no room for more of the timeline: ask for this `resource` alone, from the end of the last stretch on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub more: bool,
    /// There was no room for the resources behind this one: ask for those `after` it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub next: bool,
}

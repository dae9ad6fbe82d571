//! Answers about bookings: reservations, enquiries, refusals, resources. Amounts are in the unit of the
//! resource's kind: `bit/s`, `cores`, `bytes/s` or `pieces`.

use super::{BackgroundDoc, BindingDoc, ColorsDoc, EpochDoc, Instant, MeterDoc, PromiseDoc};
use crate::words::words;
use serde::{Deserialize, Serialize};

/// A reservation.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ReservationDoc {
    /// The handle. It is opaque; keep it.
    pub handle: String,
    /// The owner.
    pub owner: String,
    /// The label that the owner gave it.
    pub label: String,
    /// The group that it belongs to.
    pub group: String,
    /// All members of the group, as its creator named them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<String>,
    /// `held`, `promised`, `booked`, `active`, `suspended`, `ended`, `cancelled` or `expired`.
    pub state: String,
    /// The end of the hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hold_until: Option<Instant>,
    /// Seconds before its end at which its owner is told; null: not at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notify_s: Option<f64>,
    /// The time of creation.
    pub created: Instant,
    /// A version number that grows with each change.
    pub version: u64,
    /// The change that is promised to a broker in a transaction over several agents, and not decided yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promise: Option<PromiseDoc>,
    /// The parts.
    pub parts: Vec<PartRow>,
    /// True if more steps did not fit: show it again, and `skip` the steps that came.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub more: bool,
}

words! {
    /// The strength of a guarantee.
    GuaranteeWord {
        /// The amount is there for the part whatever others do.
        Reserved = "reserved",
        /// Only a cap is possible: the part gets no more.
        Cap = "cap",
    }
}

words! {
    /// How far the enforcement of a part is.
    EnforcementWord {
        /// No window is open: there is nothing to enforce.
        Idle = "idle",
        /// No flow, process or control group is bound to it.
        Unbound = "unbound",
        /// Ordered and not yet read back.
        Pending = "pending",
        /// Read back from the kernel or device.
        InForce = "in_force",
        /// The order failed, for the reason beside it; it is tried again.
        Failed = "failed",
    }
}

words! {
    /// The difference of an alternative from the original request.
    AlternativeWord {
        /// It begins later.
        Later = "later",
        /// It has a smaller amount.
        Slower = "slower",
        /// It ends earlier.
        Shorter = "shorter",
        /// It takes another path.
        OtherPath = "other_path",
    }
}

/// A part of a reservation.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PartRow {
    /// The name of the resource.
    pub resource: String,
    /// The unit of the amounts: `bit/s`, `cores`, `bytes/s`, `pieces`.
    pub unit: String,
    /// The strength of its guarantee; null: the resource is not there at present.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<GuaranteeWord>))]
    pub kind: Option<String>,
    /// The amounts by window.
    pub steps: Vec<StepDoc>,
    /// Present if the part only shares the capacity that foreground parts leave.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub background: Option<BackgroundDoc>,
    /// The smallest size of its packets, bytes.
    pub packet_bytes: u32,
    /// The longest round-trip time, milliseconds.
    pub rtt_ms: f64,
    /// The meter that colours its packets, as it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meter: Option<MeterDoc>,
    /// The flow, process or control group that the part serves.
    pub binding: Option<BindingDoc>,
    /// The amount that its windows ask for now; of a background part, the most that it wants.
    #[serde(default)]
    pub asked: f64,
    /// The amount that it may have now: the admitted amount.
    pub now: f64,
    /// The amount that was read back from the kernel or device that enforces it.
    #[serde(default)]
    pub installed: f64,
    /// The kernel's terms for the installed limits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub means: Option<String>,
    /// The use that was measured; null: not enforced, not counted, or not for a second yet.
    #[serde(default)]
    pub measured: Option<MeasuredDoc>,
    /// Of a part with a meter: the packets of each colour, since its rule was made. Of an agreement (`sla/PEER`) with one
    /// those of all its bookings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub colors: Option<ColorsDoc>,
    /// How far its enforcement is.
    #[cfg_attr(feature = "openapi", schema(value_type = EnforcementWord))]
    pub enforced: String,
    /// The reason of the failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
}

/// The measured use of a part, in its unit: a mean over the last whole interval.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MeasuredDoc {
    /// The use: IP bytes that the edge let through, processor time, bytes read and written.
    pub amount: f64,
    /// The length of the interval, seconds.
    pub interval_s: f64,
    /// Of a network part: traffic that exceeded it and was dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<f64>,
    /// Of a disk part: the use by all unreserved traffic in the same interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreserved: Option<f64>,
}

/// An amount in a window.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StepDoc {
    /// The start of the window.
    pub start: Instant,
    /// The end of the window; null: open.
    pub end: Option<Instant>,
    /// The amount.
    pub amount: f64,
}

/// The result of an enquiry.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EnquiredDoc {
    /// True if the request would be accepted now.
    pub accepted: bool,
    /// The steps that each part would get.
    pub granted: Vec<Vec<StepDoc>>,
    /// The refusal, if it would not be accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refusal: Option<RefusalDoc>,
    /// The most that each part could have over its whole window.
    pub free: Vec<f64>,
    /// The strength of the guarantee of each part.
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<GuaranteeWord>))]
    pub kinds: Vec<String>,
}

/// A refusal, with alternatives that would be accepted.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RefusalDoc {
    /// For programs: `no_room`, `policy`, `no_resource`, `unknown_handle`, `wrong_state`, `key_used`, `key_over`, `taken`, `limit`,
    /// `meaningless`, `clock`, `not_written`, `starting`, `undecided`, `outdated`, `not_promised`.
    pub reason: String,
    /// A message for people.
    pub message: String,
    /// The part of the request that was refused, if it was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<usize>,
    /// The name of the resource.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// The amount that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked: Option<f64>,
    /// The amount that is free.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub free: Option<f64>,
    /// The start of the shortage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<Instant>,
    /// The end of the shortage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<Instant>,
    /// The rule of policy that decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Of `outdated`: the newest start of the broker that the agent knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known: Option<EpochDoc>,
    /// Alternatives that would be accepted now.
    #[serde(default)]
    pub alternatives: Vec<AlternativeDoc>,
}

/// A request near the original one that would be accepted.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AlternativeDoc {
    /// The difference from the original request.
    #[cfg_attr(feature = "openapi", schema(value_type = AlternativeWord))]
    pub sort: String,
    /// The steps that each part would get.
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
    /// The unit of its amounts.
    pub unit: String,
    /// The strength of its guarantees.
    #[cfg_attr(feature = "openapi", schema(value_type = GuaranteeWord))]
    pub kind: String,
    /// The most that can be booked at all.
    pub capacity: f64,
    /// The amount that can be booked at this instant.
    pub free: f64,
    /// The most that all background parts may have together now.
    pub background: f64,
    /// The amount that background parts have now. Foreground does not wait for it: it is not taken from
    /// `free`.
    #[serde(default)]
    pub background_now: f64,
    /// The number of reservations that are not over.
    pub reservations: usize,
    /// The largest amount that is promised and not available.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<f64>,
    /// The start of that shortage, now or later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing_from: Option<Instant>,
    /// The free amounts, by window.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub timeline: Vec<StepDoc>,
    /// True if more of the timeline did not fit: ask for this `resource` alone, from the end of the last step
    /// on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub more: bool,
    /// True if the resources behind this one did not fit: ask for those `after` it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub next: bool,
}

//! The audit of decisions: for each, the caller, the question, the outcome and the deciding rules.

use super::Instant;
use serde::{Deserialize, Serialize};

/// A filter of decisions. A field that is left out matches every decision.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AuditAsk {
    /// The first number to return; null: the last `limit` entries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<u64>,
    /// The most entries to return.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
    /// Only decisions about this reservation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handle: Option<String>,
    /// Only decisions on calls of this caller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub who: Option<String>,
}

/// A page of the audit, oldest entry first, each verified against the one before it. A call examines a bounded
/// number of entries, so a page may be empty and not the last.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct AuditPage {
    /// The entries that match.
    pub entries: Vec<AuditRow>,
    /// The number from which to ask next. If it is greater than `last`, there are no more entries yet.
    pub next: u64,
    /// The number of the last entry in the audit; 0: there is none.
    pub last: u64,
}

/// A decision.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AuditRow {
    /// The number of the decision. The first is 1, and none is left out.
    pub number: u64,
    /// The time of the decision.
    pub at: Instant,
    /// The caller.
    pub who: String,
    /// `create`, `commit`, `modify`, `bind` or `cancel`.
    pub verb: String,
    /// The handle of the reservation, if there is one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub handle: Option<String>,
    /// `granted`, or the reason of the refusal: `policy`, `no_room`, ...
    pub outcome: String,
    /// The rules of policy that decided, part by part.
    pub rules: Vec<String>,
    /// The request; null: the call asks for no amount, or an older version wrote the entry.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub asked: Option<AskedDoc>,
    /// SHA-256 over the previous entry's hash, the number and the record, in hexadecimal.
    pub hash: String,
}

/// The amounts and times of a request for a reservation, or for a change of one.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AskedDoc {
    /// The parts.
    pub parts: Vec<AskedPartDoc>,
    /// The earliest start.
    pub start: Instant,
    /// The latest end; null: open.
    pub end: Option<Instant>,
    /// The number of windows of a recurrence; null: one window.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub windows: Option<u64>,
    /// The length in seconds, where any window of it within these times would do.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub seconds: Option<f64>,
    /// The volume to be moved within these times, in bytes.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub volume: Option<u64>,
}

/// An amount of one resource that was asked for.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AskedPartDoc {
    /// The resource.
    pub resource: String,
    /// The unit of its amounts: `bit/s`, `cores`, `bytes/s`, `pieces`.
    pub unit: String,
    /// The most that was wanted; null: all that is free.
    pub amount: Option<f64>,
    /// The least that was acceptable; null: the amount.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub least: Option<f64>,
}

//! What the book tells: events with numbers, so that a stream goes on where it broke off.

use super::{BindingDoc, Instant};
use serde::{Deserialize, Serialize};

/// Events, oldest first.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BookEvents {
    /// These.
    pub events: Vec<BookEvent>,
    /// The number of the last event that there is.
    pub last: u64,
    /// Whether some of those asked for are not kept any more.
    pub lost: bool,
}

/// Something that happened to a reservation.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BookEvent {
    /// Its number; numbers grow, some are never used.
    pub seq: u64,
    /// When.
    pub at: Instant,
    /// To which reservation.
    pub handle: String,
    /// Whose it is.
    pub owner: String,
    /// Of which group.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// `created`, `committed`, `modified`, `bound`, `opened`, `paused`, `ended`, `cancelled`, `expired`, `share`,
    /// `failing`, `in_force`, `short`.
    pub event: String,
    /// Which part, where it is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<usize>,
    /// `share`: what it had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<f64>,
    /// `share`: what it has; 0: suspended. `short`: how much is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<f64>,
    /// `bound`: to whom.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub binding: Option<BindingDoc>,
    /// `created`: in which state. `short`: from when on. `failing`: why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

//! Events of bookings. They have numbers, so that a stream can go on after a break.

use super::{BindingDoc, Instant};
use serde::{Deserialize, Serialize};

/// Events, oldest first.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BookEvents {
    /// The events.
    pub events: Vec<BookEvent>,
    /// The number of the last event in the bookings.
    pub last: u64,
    /// True if some of the requested events are no longer kept.
    pub lost: bool,
}

/// An event of a reservation.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BookEvent {
    /// The number of the event. Numbers grow; some are never used.
    pub seq: u64,
    /// The time of the event.
    pub at: Instant,
    /// The handle of the reservation.
    pub handle: String,
    /// The owner of the reservation.
    pub owner: String,
    /// The group of the reservation.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// `created`, `committed`, `modified`, `bound`, `opened`, `paused`, `ended`, `cancelled`, `expired`, `share`,
    /// `failing`, `in_force`, `short`, `contradicted`.
    pub event: String,
    /// The part, if the event is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<usize>,
    /// `share`: the amount before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<f64>,
    /// `share`: the amount from now on; 0: suspended. `short`: the amount that is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<f64>,
    /// `bound`: the new binding.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub binding: Option<BindingDoc>,
    /// `created`: the state. `short`: the first instant of the shortage. `failing`: the reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

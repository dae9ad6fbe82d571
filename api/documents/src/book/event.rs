//! Events of bookings. They have numbers, so that a stream can go on after a break.

use super::{BindingDoc, Instant};
use crate::words::words;
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

words! {
    /// The kinds of events of a reservation.
    EventWord {
        /// It was made.
        Created = "created",
        /// A held reservation is booked.
        Committed = "committed",
        /// Its amounts or windows have changed.
        Modified = "modified",
        /// It serves another flow, process or control group.
        Bound = "bound",
        /// A window has begun.
        Opened = "opened",
        /// A window is over, and another comes.
        Paused = "paused",
        /// Its end is as near as its owner wanted to be told.
        EndsSoon = "ends_soon",
        /// Its last window is over.
        Ended = "ended",
        /// It was given back.
        Cancelled = "cancelled",
        /// It was held, and not booked in time.
        Expired = "expired",
        /// A background part has another amount.
        Share = "share",
        /// It is not in force.
        Failing = "failing",
        /// It is in force.
        InForce = "in_force",
        /// More is promised than there is.
        Short = "short",
        /// The kernel has something else than what was installed.
        Contradicted = "contradicted",
    }
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
    /// The kind of event.
    #[cfg_attr(feature = "openapi", schema(value_type = EventWord))]
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
    /// `created`: the state. `ends_soon`: the end. `short`: the first instant of the shortage. `failing`: the reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

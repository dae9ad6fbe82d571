//! Counts of a command's connections, for its report.

use serde_json::{Value, json};
use std::time::Duration;

/// The most set-up times that are kept for the median.
const MOST_TIMES: usize = 4096;

/// Counts of connections.
#[derive(Default, Debug)]
pub(super) struct Tally {
    rsvp: u64,
    booking: u64,
    refused: u64,
    unreserved: u64,
    lost: u64,
    at_once: usize,
    /// Microseconds from the question to the reservation in force.
    times: Vec<u64>,
}

impl Tally {
    /// A reservation stands, one of `now`.
    pub(super) fn stands(&mut self, by_rsvp: bool, took: Duration, now: usize) {
        *(if by_rsvp { &mut self.rsvp } else { &mut self.booking }) += 1;
        self.at_once = self.at_once.max(now);
        if self.times.len() < MOST_TIMES {
            self.times.push(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
        }
    }

    /// A reservation was refused; `goes_on`: its connection goes on without.
    pub(super) fn refused(&mut self, goes_on: bool) {
        *(if goes_on { &mut self.unreserved } else { &mut self.refused }) += 1;
    }

    /// The far end has given a reservation back while its connection lasts.
    pub(super) fn lost(&mut self) {
        self.lost += 1;
    }

    /// As JSON.
    pub(super) fn report(mut self) -> Value {
        self.times.sort_unstable();
        json!({"rsvp": self.rsvp, "booking": self.booking, "refused": self.refused, "unreserved": self.unreserved,
            "lost": self.lost, "most_at_once": self.at_once, "setup_us_median": self.times.get(self.times.len() / 2)})
    }
}

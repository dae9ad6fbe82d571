//! Limits of the bookings: sizes and time spans.

use terms::Span;

/// Limits and spans of [`Bookings`](crate::Bookings). Reaching a limit is a refusal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// Most reservations that are not over.
    pub reservations: usize,
    /// Most reservations of one owner that are not over.
    pub of_owner: usize,
    /// Most holds of one owner.
    pub holds: usize,
    /// Most reservations that are over and still shown; the oldest go first.
    pub finished: usize,
    /// The time for which a reservation that is over is shown and its key is remembered.
    pub retention: Span,
    /// Most parts of a reservation.
    pub parts: usize,
    /// Most steps of a part.
    pub steps: usize,
    /// Most bytes of a label, a group or a key.
    pub text: usize,
    /// Most members of a group that a reservation names.
    pub members: usize,
    /// The longest hold.
    pub hold: Span,
    /// How far ahead a window may begin or, if it has an end, end.
    pub horizon: Span,
    /// Most events that are kept.
    pub events: usize,
    /// Most rows in one answer.
    pub rows: usize,
    /// Most calls that wait for one reservation to be written.
    pub waiting: usize,
    /// The number of refusals of one caller that have an audit row each, if they come at once. Later refusals
    /// are counted together.
    pub refusals: u32,
    /// The time after which such a caller has earned one more row. See [`Config::refusals`].
    pub refusal_every: Span,
    /// Most callers whose refusals are counted separately.
    pub refused_callers: usize,
    /// The largest uncertainty of the clock at which windows are promised.
    pub uncertainty: Span,
    /// The time after the requested window that is searched for an alternative.
    pub look_ahead: Span,
    /// Limits and times of promises to coordinators.
    pub promises: commit::participant::Config,
}

const DAY: u64 = 86_400;

impl Default for Config {
    /// Two million reservations, 100,000 of an owner, 1,024 holds of an owner; ten years ahead; a second of uncertainty.
    fn default() -> Config {
        Config {
            reservations: 1 << 21,
            of_owner: 100_000,
            holds: 1_024,
            finished: 100_000,
            retention: Span::from_secs(30 * DAY),
            parts: 16,
            steps: 1_024,
            text: 256,
            members: 1_024,
            hold: Span::from_secs(3_600),
            horizon: Span::from_secs(3_653 * DAY),
            events: 100_000,
            rows: 1_000,
            waiting: 64,
            refusals: 64,
            refusal_every: Span::from_secs(60),
            refused_callers: 1_024,
            uncertainty: Span::from_secs(1),
            look_ahead: Span::from_secs(31 * DAY),
            promises: commit::participant::Config::default(),
        }
    }
}

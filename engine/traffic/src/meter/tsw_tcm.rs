//! A time sliding window three colour marker (RFC 2859).

use super::{BadProfile, Color};
use crate::work::PER_BYTE;
use terms::{Rate, Span, Time};

/// CTR, PTR and AVG_INTERVAL. Marks by chance, in proportion to the excess of the average rate over a target,
/// so it keeps no burst at all. The estimator divides once per packet, by its definition (section 4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TswTcm {
    interval: u64,
    /// The work in the window at which the average rate equals the target, in 2^-16 byte.
    committed: u64,
    peak: u64,
}

/// The estimator's state for a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TswState {
    /// Bytes in the window, in 2^-16 byte: `avg-rate * AVG_INTERVAL` of section 4.
    window: u64,
    front: Time,
}

/// The window counts in 2^-16 byte, so that its decay rounds below a millionth of a packet.
const FRACTION: u32 = 16;

impl TswTcm {
    /// The longest averaging interval.
    pub const MAX_INTERVAL: Span = Span::from_secs(3600);

    /// A profile.
    ///
    /// # Errors
    /// [`BadProfile::PeakBelowCommitted`], [`BadProfile::BadInterval`].
    pub fn new(ctr: Rate, ptr: Rate, interval: Span) -> Result<TswTcm, BadProfile> {
        if ptr < ctr {
            return Err(BadProfile::PeakBelowCommitted { committed: ctr, peak: ptr });
        }
        if interval == Span::ZERO || interval > TswTcm::MAX_INTERVAL {
            return Err(BadProfile::BadInterval);
        }
        let target = |rate: Rate| {
            let bits = u128::from(rate.as_bps()) * u128::from(interval.as_nanos());
            u64::try_from((bits << FRACTION) / u128::from(PER_BYTE)).unwrap_or(u64::MAX)
        };
        Ok(TswTcm { interval: interval.as_nanos(), committed: target(ctr), peak: target(ptr) })
    }

    /// An estimator whose average is the committed rate (section 4: initially `avg-rate = CTR`).
    pub fn start(&self, now: Time) -> TswState {
        TswState { window: self.committed, front: now }
    }

    /// The average rate as of the last packet, rounded down.
    pub fn average(&self, state: &TswState) -> Rate {
        let work = (u128::from(state.window) * u128::from(PER_BYTE)) >> FRACTION;
        Rate::from_bps(u64::try_from(work / u128::from(self.interval)).unwrap_or(u64::MAX))
    }

    /// Updates the estimate and colours the packet. `chance` is uniform over `u32`, from the caller.
    pub fn meter(&self, state: &mut TswState, now: Time, len: u32, chance: u32) -> Color {
        let dt = now.since(state.front).as_nanos();
        let filled = u128::from(state.window) + (u128::from(len) << FRACTION);
        let span = u128::from(self.interval) + u128::from(dt);
        state.window = u64::try_from(filled * u128::from(self.interval) / span).unwrap_or(u64::MAX);
        state.front = state.front.max(now);
        // Section 5: with avg = window, P(red) = (avg - PTR) / avg, P(red or yellow) = (avg - CTR) / avg.
        let draw = u128::from(chance) * u128::from(state.window);
        if draw < u128::from(state.window.saturating_sub(self.peak)) << 32 {
            Color::Red
        } else if draw < u128::from(state.window.saturating_sub(self.committed)) << 32 {
            Color::Yellow
        } else {
            Color::Green
        }
    }
}

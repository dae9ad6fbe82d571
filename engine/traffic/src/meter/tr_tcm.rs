//! A two rate three colour marker (RFC 2698).

use super::{
    BadProfile, COLORS, Color, PLAIN_LEN, TokenCounts, below, bursts, cost, fill, fill_plain, plain_below, taken,
};
use terms::{Bytes, Rate, Span, Time};

/// CIR, CBS, PIR, PBS; state: `Tc` (first) and `Tp` (second).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TrTcm {
    pub(super) cir: u64,
    pub(super) cbs: u64,
    pub(super) pir: u64,
    pub(super) pbs: u64,
    /// The gap between packets, in ns, below which no saturation is needed.
    plain: u64,
}

impl TrTcm {
    /// A profile.
    ///
    /// # Errors
    /// [`BadProfile::PeakBelowCommitted`], [`BadProfile::NoBurst`] if a burst is zero (section 2),
    /// [`BadProfile::BurstTooLarge`].
    pub fn new(cir: Rate, cbs: Bytes, pir: Rate, pbs: Bytes) -> Result<TrTcm, BadProfile> {
        if pir < cir {
            return Err(BadProfile::PeakBelowCommitted { committed: cir, peak: pir });
        }
        if cbs == Bytes::ZERO || pbs == Bytes::ZERO {
            return Err(BadProfile::NoBurst);
        }
        let (cbs, pbs) = bursts(cbs, pbs)?;
        let (cir, pir) = (cir.as_bps(), pir.as_bps());
        let plain = plain_below(cir, cbs).min(plain_below(pir, pbs));
        Ok(TrTcm { cir, cbs, pir, pbs, plain })
    }

    /// Full buckets (section 3: initially `Tp = PBS`, `Tc = CBS`).
    pub fn start(&self, now: Time) -> TokenCounts {
        TokenCounts { at: now, first: self.cbs, second: self.pbs }
    }

    /// Colours a packet of `len` bytes. For a colour-blind meter, pass [`Color::Green`] (section 3).
    #[inline(always)]
    pub fn meter(&self, state: &mut TokenCounts, now: Time, len: u32, color: Color) -> Color {
        let dt = now.as_nanos().wrapping_sub(state.at.as_nanos());
        if dt >= self.plain || len >= PLAIN_LEN {
            return self.meter_any(state, now, len, color);
        }
        let first = fill_plain(state.first, self.cir, dt, self.cbs);
        let second = fill_plain(state.second, self.pir, dt, self.pbs);
        let (first, second, color) = take(first, second, cost(len) as i64, color);
        (state.first, state.second) = (first, second);
        state.at = now;
        color
    }

    /// The larger of CBS and PBS.
    pub(super) fn largest_burst(&self) -> Bytes {
        Bytes::new(self.cbs.max(self.pbs) / crate::work::PER_BYTE)
    }

    /// The slow path, right for all numbers: after a long pause, when time runs backwards, or for a huge packet.
    #[cold]
    #[inline(never)]
    fn meter_any(&self, state: &mut TokenCounts, now: Time, len: u32, color: Color) -> Color {
        self.refill(state, now);
        let cost = cost(len);
        let peak = (color != Color::Red) & (state.second >= cost);
        let committed = peak & (color == Color::Green) & (state.first >= cost);
        state.second -= taken(peak, cost);
        state.first -= taken(committed, cost);
        Color::of(committed, peak)
    }

    /// The earliest instant, not before `now`, at which the packet is green if no other comes: the T2 of RFC
    /// 2963 section 3.5. `None`: never (larger than CBS or PBS, or no rate).
    pub fn green_at(&self, state: &TokenCounts, now: Time, len: u32) -> Option<Time> {
        let committed = reaches(state.first, self.cir, self.cbs, state.at, now, len)?;
        let peak = reaches(state.second, self.pir, self.pbs, state.at, now, len)?;
        Some(committed.max(peak))
    }

    #[inline(always)]
    fn refill(&self, state: &mut TokenCounts, now: Time) {
        let dt = now.since(state.at).as_nanos();
        state.first = fill(state.first, self.cir, dt, self.cbs);
        state.second = fill(state.second, self.pir, dt, self.pbs);
        state.at = state.at.max(now);
    }
}

/// Takes the packet's cost from the filled buckets without a branch, because the next colour is
/// unpredictable. All values are below 2^63. Returns the remaining credit and the colour.
#[inline(always)]
pub(super) fn take(first: i64, second: i64, cost: i64, color: Color) -> (u64, u64, Color) {
    let came = color as i64;
    // All ones where a bucket gives nothing: it lacks the credit, or the packet came as red (or not as green).
    let no_peak = below(second, cost) | below(1, came);
    let no_committed = no_peak | below(first, cost) | below(0, came);
    let color = COLORS[3 & (-(no_peak + no_committed)) as usize];
    ((first - (cost & !no_committed)) as u64, (second - (cost & !no_peak)) as u64, color)
}

/// The time at which a bucket with `credit` at `at` reaches a packet's cost; not before `now`. Rounded up to the
/// nanosecond.
pub(super) fn reaches(credit: u64, rate: u64, burst: u64, at: Time, now: Time, len: u32) -> Option<Time> {
    let cost = cost(len);
    if cost > burst {
        return None;
    }
    if credit >= cost {
        return Some(now);
    }
    if rate == 0 {
        return None;
    }
    Some((at + Span::from_nanos((cost - credit).div_ceil(rate))).max(now))
}

//! A single rate three colour marker (RFC 2697).

use super::{BadProfile, Color, TokenCounts, bursts, cost, taken};
use terms::{Bytes, Rate, Time};

/// CIR, CBS, EBS; state: `Tc` (first) and `Te` (second).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SrTcm {
    cir: u64,
    cbs: u64,
    ebs: u64,
}

impl SrTcm {
    /// A profile.
    ///
    /// # Errors
    /// [`BadProfile::NoBurst`] if both bursts are zero (section 2), [`BadProfile::BurstTooLarge`].
    pub fn new(cir: Rate, cbs: Bytes, ebs: Bytes) -> Result<SrTcm, BadProfile> {
        if cbs == Bytes::ZERO && ebs == Bytes::ZERO {
            return Err(BadProfile::NoBurst);
        }
        let (cbs, ebs) = bursts(cbs, ebs)?;
        Ok(SrTcm { cir: cir.as_bps(), cbs, ebs })
    }

    /// Full buckets (section 3: initially `Tc = CBS`, `Te = EBS`).
    pub fn start(&self, now: Time) -> TokenCounts {
        TokenCounts { at: now, first: self.cbs, second: self.ebs }
    }

    /// Colours a packet of `len` bytes. For a colour-blind meter, pass [`Color::Green`] (section 3).
    #[inline(always)]
    pub fn meter(&self, state: &mut TokenCounts, now: Time, len: u32, color: Color) -> Color {
        self.refill(state, now);
        let cost = cost(len);
        let committed = (color == Color::Green) & (state.first >= cost);
        let excess = !committed & (color != Color::Red) & (state.second >= cost);
        state.first -= taken(committed, cost);
        state.second -= taken(excess, cost);
        Color::of(committed, committed | excess)
    }

    /// True if a green packet would stay green now; takes nothing.
    pub fn would_be_green(&self, state: &TokenCounts, now: Time, len: u32) -> bool {
        let mut then = *state;
        self.refill(&mut then, now);
        then.first >= cost(len)
    }

    /// The earliest instant, not before `now`, at which the packet is green if no other comes: the T2 of RFC
    /// 2963 section 3.3. `None`: never (larger than CBS, or no rate).
    pub fn green_at(&self, state: &TokenCounts, now: Time, len: u32) -> Option<Time> {
        super::tr_tcm::reaches(state.first, self.cir, self.cbs, state.at, now, len)
    }

    /// Adds credit to the committed bucket; its overflow goes to the excess bucket (section 3).
    #[inline(always)]
    fn refill(&self, state: &mut TokenCounts, now: Time) {
        let dt = now.since(state.at).as_nanos();
        let sum = state.first.saturating_add(self.cir.saturating_mul(dt));
        // A saturated sum overflows both: `cbs + ebs` fits 64 bits, so `MAX - cbs >= ebs`.
        let over = sum.saturating_sub(self.cbs);
        state.first = sum - over;
        state.second = state.second.saturating_add(over).min(self.ebs);
        state.at = state.at.max(now);
    }
}

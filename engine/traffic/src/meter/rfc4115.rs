//! A differentiated service two-rate, three-color marker with efficient handling of in-profile traffic (RFC 4115).

use super::{BadProfile, Color, TokenCounts, bursts, cost, fill, taken};
use terms::{Bytes, Rate, Time};

/// CIR, CBS, EIR, EBS; state: `Tc` (first) and `Te` (second). Unlike RFC 2698, green packets take nothing
/// from the excess bucket, so earlier yellow packets never starve in-profile traffic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rfc4115 {
    cir: u64,
    cbs: u64,
    eir: u64,
    ebs: u64,
}

impl Rfc4115 {
    /// A profile.
    ///
    /// # Errors
    /// [`BadProfile::NoBurst`] if both bursts are zero, [`BadProfile::BurstTooLarge`].
    pub fn new(cir: Rate, cbs: Bytes, eir: Rate, ebs: Bytes) -> Result<Rfc4115, BadProfile> {
        if cbs == Bytes::ZERO && ebs == Bytes::ZERO {
            return Err(BadProfile::NoBurst);
        }
        let (cbs, ebs) = bursts(cbs, ebs)?;
        Ok(Rfc4115 { cir: cir.as_bps(), cbs, eir: eir.as_bps(), ebs })
    }

    /// Full buckets.
    pub fn start(&self, now: Time) -> TokenCounts {
        TokenCounts { at: now, first: self.cbs, second: self.ebs }
    }

    /// Colours a packet of `len` bytes. For a colour-blind meter, pass [`Color::Green`].
    #[inline(always)]
    pub fn meter(&self, state: &mut TokenCounts, now: Time, len: u32, color: Color) -> Color {
        let dt = now.since(state.at).as_nanos();
        state.first = fill(state.first, self.cir, dt, self.cbs);
        state.second = fill(state.second, self.eir, dt, self.ebs);
        state.at = state.at.max(now);
        let cost = cost(len);
        let committed = (color == Color::Green) & (state.first >= cost);
        let excess = !committed & (color != Color::Red) & (state.second >= cost);
        state.first -= taken(committed, cost);
        state.second -= taken(excess, cost);
        Color::of(committed, committed | excess)
    }
}

//! Two-piece linear service curves (Stoica, Zhang, Ng, SIGCOMM 1997, section II).

use crate::{Bytes, Rate, Span};

/// A service curve: slope `m1` for the first `d`, then slope `m2`.
/// Concave (`m1 > m2`) serves bursts early, convex (`m1 < m2`) lets others go first.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ServiceCurve {
    /// Slope of the first piece.
    pub m1: Rate,
    /// Length of the first piece.
    pub d: Span,
    /// Slope of the second piece, for ever after.
    pub m2: Rate,
}

impl ServiceCurve {
    /// One slope for ever.
    pub const fn linear(rate: Rate) -> ServiceCurve {
        ServiceCurve { m1: rate, d: Span::ZERO, m2: rate }
    }

    /// True if the curve is a line.
    pub fn is_linear(&self) -> bool {
        self.d == Span::ZERO || self.m1 == self.m2
    }

    /// True if the first piece is the steeper one.
    pub fn is_concave(&self) -> bool {
        self.d != Span::ZERO && self.m1 > self.m2
    }

    /// The service owed `t` after the start of a backlogged period: rounded down (once, over both pieces),
    /// saturating.
    pub fn service(&self, t: Span) -> Bytes {
        let (first, second) = (t.min(self.d), t.saturating_sub(self.d));
        self.m1.supplies_with(first, self.m2, second)
    }
}

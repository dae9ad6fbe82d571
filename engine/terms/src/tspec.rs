//! What a source sends and what a receiver asks for: Tspec, Rspec and flowspec (RFC 2210, 2211, 2212, 2215).

use crate::{Bytes, Rate, ServiceCurve, Span};

/// The token bucket description of a source: TOKEN_BUCKET_TSPEC of RFC 2215 section 3.6.
///
/// The field names are the RFCs' own letters.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(non_snake_case)]
pub struct Tspec {
    /// Token rate, bit/s of IP bytes (on the wire: a float, bytes/s).
    pub r: Rate,
    /// Bucket depth, bytes.
    pub b: Bytes,
    /// Peak rate; may be [`Rate::INFINITE`].
    pub p: Rate,
    /// Minimum policed unit, bytes: a shorter packet counts as this long.
    pub m: u32,
    /// Maximum packet size, bytes. Zero in a received flowspec means "unset" (seen from Cisco IOS).
    pub M: u32,
}

impl Tspec {
    /// The least Tspec that covers both: every field's maximum, the minimum of `m` (RFC 2211 section 6, RFC 2212 section 6).
    pub fn least_upper_bound(&self, other: &Tspec) -> Tspec {
        Tspec {
            r: self.r.max(other.r),
            b: self.b.max(other.b),
            p: self.p.max(other.p),
            m: self.m.min(other.m),
            M: self.M.max(other.M),
        }
    }

    /// The greatest Tspec that both cover; used to cap a request by what the sender can send.
    /// `m` takes the larger, `M` the smaller that is set (RFC 2211 section 6).
    pub fn greatest_lower_bound(&self, other: &Tspec) -> Tspec {
        let max = match (self.M, other.M) {
            (0, m) | (m, 0) => m,
            (a, b) => a.min(b),
        };
        Tspec { r: self.r.min(other.r), b: self.b.min(other.b), p: self.p.min(other.p), m: self.m.max(other.m), M: max }
    }

    /// Whether a reservation for `self` is enough for `other` (the ordering of RFC 2211 section 6).
    pub fn covers(&self, other: &Tspec) -> bool {
        self.r >= other.r && self.b >= other.b && self.p >= other.p && self.m <= other.m && self.M >= other.M
    }
}

/// The service that a guaranteed-service receiver wants: RFC 2212 section 4.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(non_snake_case)]
pub struct Rspec {
    /// Service rate; at least the Tspec's `r`.
    pub R: Rate,
    /// Slack: how much later than the bound of `R` is still good enough.
    pub S: Span,
}

/// A receiver's request: FLOWSPEC of RFC 2210 section 3.2.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FlowSpec {
    /// Controlled load, RFC 2211: as if the network were lightly loaded.
    ControlledLoad(Tspec),
    /// Guaranteed service, RFC 2212: a bound on delay and no loss.
    Guaranteed(Tspec, Rspec),
}

impl FlowSpec {
    /// The traffic part.
    pub fn tspec(&self) -> &Tspec {
        match self {
            FlowSpec::ControlledLoad(t) | FlowSpec::Guaranteed(t, _) => t,
        }
    }

    /// The rate that the ledger must find free: `r`, or `R` where the receiver asks for more.
    pub fn rate(&self) -> Rate {
        match self {
            FlowSpec::ControlledLoad(t) => t.r,
            FlowSpec::Guaranteed(t, s) => t.r.max(s.R),
        }
    }

    /// The service curve for a scheduler, by the formulas of seed 000 section 3.3:
    /// `m1 = min(R, p_rcv, p_snd)`, `m2 = min(R, r_rcv, r_snd)`, `d = min(b_snd, b_rcv) / m1`.
    /// Without an Rspec, `R` does not bound. Where no peak is known, `m1 = m2` and `d = 0`.
    /// Where the receiver's `R` exceeds `r`, `m2` is at least `r` and `m1` carries the extra rate.
    pub fn service_curve(&self, sender: &Tspec) -> ServiceCurve {
        let (rcv, cap) = match self {
            FlowSpec::ControlledLoad(t) => (t, Rate::INFINITE),
            FlowSpec::Guaranteed(t, s) => (t, s.R),
        };
        let m2 = cap.min(rcv.r).min(sender.r);
        let m1 = cap.min(rcv.p).min(sender.p);
        if m1.is_infinite() || m1 <= m2 {
            return ServiceCurve::linear(m2);
        }
        ServiceCurve { m1, d: m1.span_for(rcv.b.min(sender.b)), m2 }
    }
}

//! A source's traffic and a receiver's request: Tspec, Rspec and flowspec (RFC 2210, 2211, 2212, 2215).

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
    /// The Tspec that RSVP installs and passes upstream for several requests: the largest `r`, `b` and `p`,
    /// the smallest `m` and the *smallest* `M` that is set (RFC 2211 section 8, RFC 2212 "Ordering and
    /// Merging": the merged request that reaches the sender has the packet size that fits every path).
    /// Commutative, associative, idempotent.
    pub fn merged(&self, other: &Tspec) -> Tspec {
        Tspec { M: smallest_set(self.M, other.M), ..self.least_common(other) }
    }

    /// The least Tspec that describes the traffic of either: every field's maximum, the minimum of `m` ("Least Common
    /// TSpec" of the same sections). The least upper bound in the order of [`Tspec::covers`].
    pub fn least_common(&self, other: &Tspec) -> Tspec {
        Tspec {
            r: self.r.max(other.r),
            b: self.b.max(other.b),
            p: self.p.max(other.p),
            m: self.m.min(other.m),
            M: self.M.max(other.M),
        }
    }

    /// The Tspec of several senders together: sums of `r`, `b` and `p`, the smallest `m`, the largest `M`
    /// ("summed TSpec"; `Path_Te` of RFC 2205 section 2.2).
    pub fn summed(&self, other: &Tspec) -> Tspec {
        Tspec {
            r: self.r.saturating_add(other.r),
            b: self.b.saturating_add(other.b),
            p: self.p.saturating_add(other.p),
            m: self.m.min(other.m),
            M: self.M.max(other.M),
        }
    }

    /// The greatest Tspec that both cover; used to cap a request by what the sender can send.
    /// `m` takes the larger, `M` the smaller that is set.
    pub fn greatest_lower_bound(&self, other: &Tspec) -> Tspec {
        Tspec {
            r: self.r.min(other.r),
            b: self.b.min(other.b),
            p: self.p.min(other.p),
            m: self.m.max(other.m),
            M: smallest_set(self.M, other.M),
        }
    }

    /// True if a reservation for `self` is enough for `other` (the ordering of RFC 2211 section 8).
    pub fn covers(&self, other: &Tspec) -> bool {
        self.r >= other.r && self.b >= other.b && self.p >= other.p && self.m <= other.m && self.M >= other.M
    }
}

/// The smaller packet size; zero is "unset" and bounds nothing.
fn smallest_set(a: u32, b: u32) -> u32 {
    match (a, b) {
        (0, m) | (m, 0) => m,
        (a, b) => a.min(b),
    }
}

/// The service that a guaranteed-service receiver wants: RFC 2212 section 4.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(non_snake_case)]
pub struct Rspec {
    /// Service rate; at least the Tspec's `r`.
    pub R: Rate,
    /// Slack: the delay beyond the bound of `R` that the receiver accepts.
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

    /// The rate that the ledger must find free: `r`, or `R` if the receiver asks for more.
    pub fn rate(&self) -> Rate {
        match self {
            FlowSpec::ControlledLoad(t) => t.r,
            FlowSpec::Guaranteed(t, s) => t.r.max(s.R),
        }
    }

    /// The flowspec that serves both requests at once: [`Tspec::merged`], the larger `R`, the smaller `S`
    /// (RFC 2212 "Ordering and Merging"). `None`: two services do not merge. Commutative, associative,
    /// idempotent.
    pub fn merged(&self, other: &FlowSpec) -> Option<FlowSpec> {
        match (self, other) {
            (FlowSpec::ControlledLoad(a), FlowSpec::ControlledLoad(b)) => Some(FlowSpec::ControlledLoad(a.merged(b))),
            (FlowSpec::Guaranteed(ta, ra), FlowSpec::Guaranteed(tb, rb)) => {
                Some(FlowSpec::Guaranteed(ta.merged(tb), Rspec { R: ra.R.max(rb.R), S: ra.S.min(rb.S) }))
            }
            _ => None,
        }
    }

    /// True if a reservation for `self` serves `other` too: merging `other` into it changes nothing.
    pub fn serves(&self, other: &FlowSpec) -> bool {
        self.merged(other) == Some(*self)
    }

    /// The greatest lower bound of two requests (`GLB_of_Flowspecs`, RFC 2205 section 3.11.6): the smaller
    /// `r`, `b`, `p` and `R`, the larger `m` and `S`, and for `M`, like a merge, the smaller that is set, so
    /// that no path's MTU is exceeded; `m` is reduced to it. `None`: the two services have nothing in common.
    pub fn greatest_lower_bound(&self, other: &FlowSpec) -> Option<FlowSpec> {
        let bound = |a: &Tspec, b: &Tspec| {
            let t = a.greatest_lower_bound(b);
            if t.M == 0 { t } else { Tspec { m: t.m.min(t.M), ..t } }
        };
        match (self, other) {
            (FlowSpec::ControlledLoad(a), FlowSpec::ControlledLoad(b)) => Some(FlowSpec::ControlledLoad(bound(a, b))),
            (FlowSpec::Guaranteed(ta, ra), FlowSpec::Guaranteed(tb, rb)) => {
                let rspec = Rspec { R: ra.R.min(rb.R), S: ra.S.max(rb.S) };
                Some(FlowSpec::Guaranteed(bound(ta, tb), rspec))
            }
            _ => None,
        }
    }

    /// The service curve for a scheduler, by the formulas of seed 000 section 3.3:
    /// `m1 = min(R, p_rcv, p_snd)`, `m2 = min(R, r_rcv, r_snd)`, `d = min(b_snd, b_rcv) / m1`.
    /// Without an Rspec, `R` does not bound. If no peak is known, `m1 = m2` and `d = 0`.
    /// If the receiver's `R` exceeds `r`, `m2` is at least `r` and `m1` carries the extra rate.
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

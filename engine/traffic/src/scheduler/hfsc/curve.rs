//! Running service curves: a two-piece curve that is reset each time its class becomes backlogged.
//!
//! The deadline curve of a class is `D(t) = min over all starts a of backlogged periods of S(t - a) + w(a)` (Stoica,
//! Zhang, Ng 1997, section IV). A concave two-piece curve is the minimum of two lines, a convex one the maximum, so
//! a running curve is kept as two [`CurveSegment`]s through points with integer coordinates. The minimum of two running
//! curves of one concave service curve is then the lower of the first lines with the lower of the second lines:
//! **exact**, no crossing point is ever computed, and nothing is rounded until a time is asked for.
//!
//! The maximum of the lower first line and the lower second line is the running minimum of convex curves too
//! if their first slope is zero (the paper's case). With a first slope above zero the minimum would not be
//! two-piece; then this is a curve just below it: guarantees that fit the link are still met, and a class
//! that repeatedly goes idle within `d` may get its bytes later than by the definition. (The authors' code
//! keeps the old curve instead, which can exceed the link's rate: a property test found it.)

use crate::work::{Work, nanos_for};
use terms::ServiceCurve;

/// A time later than every other.
pub const NEVER: u128 = u128::MAX;

/// A line of slope `rate` through the point (`x`, `y`): x in ns (of real or virtual time), y in work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CurveSegment {
    x: u128,
    y: Work,
    rate: u64,
}

/// The distance beyond which the point moves along the line, so that the usual division is a short one.
const FAR: Work = 1 << 63;

impl CurveSegment {
    /// The line.
    pub fn new(x: u128, y: Work, rate: u64) -> CurveSegment {
        CurveSegment { x, y, rate }
    }

    /// The work at `x`; saturates at both ends.
    pub fn work_at(&self, x: u128) -> Work {
        let rate = u128::from(self.rate);
        if x >= self.x {
            self.y.saturating_add(rate.saturating_mul(x - self.x))
        } else {
            self.y.saturating_sub(rate.saturating_mul(self.x - x))
        }
    }

    /// The first ns at which the line has reached `work`: rounded up; [`NEVER`] if it does not.
    pub fn time_of(&self, work: Work) -> u128 {
        if work <= self.y {
            // Backwards; the first whole ns is found by rounding the way back down.
            let back = (self.y - work).checked_div(Work::from(self.rate)).unwrap_or(u128::MAX);
            return self.x.saturating_sub(back);
        }
        nanos_for(work - self.y, self.rate).map_or(NEVER, |dx| self.x.saturating_add(dx))
    }

    /// Moves the point along the line to just below `work` if it is far behind. Exact: by whole nanoseconds.
    fn approach(&mut self, work: Work) {
        if self.rate != 0 && work > self.y && work - self.y > FAR {
            let dx = (work - self.y) / Work::from(self.rate);
            self.x = self.x.saturating_add(dx);
            self.y += dx * Work::from(self.rate);
        }
    }

    fn lower(self, other: CurveSegment) -> CurveSegment {
        // Parallel lines: whichever is lower anywhere is lower everywhere.
        if self.work_at(other.x) < other.y { self } else { other }
    }
}

/// A running two-piece curve.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Curve {
    first: CurveSegment,
    second: CurveSegment,
    /// The eligible curve of a convex one: its second slope from its start.
    ahead: CurveSegment,
    shape: Shape,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Shape {
    /// Only `second` counts.
    Linear,
    /// The minimum of both.
    Concave,
    /// The maximum of both.
    Convex,
}

impl Curve {
    /// The curve that starts at `x` with `work`.
    pub fn start(spec: &ServiceCurve, x: u128, work: Work) -> Curve {
        let (m1, m2) = (spec.m1.as_bps(), spec.m2.as_bps());
        let d = u128::from(spec.d.as_nanos());
        let shape = if spec.is_linear() {
            Shape::Linear
        } else if spec.is_concave() {
            Shape::Concave
        } else {
            Shape::Convex
        };
        let first = CurveSegment::new(x, work, m1);
        let bend = (x.saturating_add(d), first.work_at(x.saturating_add(d)));
        let second =
            if shape == Shape::Linear { CurveSegment::new(x, work, m2) } else { CurveSegment::new(bend.0, bend.1, m2) };
        Curve { first, second, ahead: CurveSegment::new(x, work, m2), shape }
    }

    /// This curve with another shape from (`x`, `work`) on. The change gives no new burst and no new delay:
    /// the rest of a concave curve's burst stays, up to the new burst.
    pub fn reshaped(&self, spec: &ServiceCurve, x: u128, work: Work) -> Curve {
        let fresh = Curve::start(spec, x, work);
        let past = CurveSegment::new(x, work, spec.m2.as_bps());
        match fresh.shape {
            Shape::Linear => fresh,
            Shape::Convex => Curve { first: past, second: past, ..fresh },
            Shape::Concave => {
                let left = if self.shape == Shape::Concave { self.second.work_at(x).max(work) } else { work };
                let second = CurveSegment::new(x, left, spec.m2.as_bps());
                Curve { second: second.lower(fresh.second), ..fresh }
            }
        }
    }

    /// A new backlogged period starts at `x` with `work` done: the minimum of this curve and a fresh one.
    pub fn begin_period(&mut self, spec: &ServiceCurve, x: u128, work: Work) {
        let fresh = Curve::start(spec, x, work);
        self.second = self.second.lower(fresh.second);
        if self.shape != Shape::Linear {
            self.first = self.first.lower(fresh.first);
            self.ahead = self.ahead.lower(fresh.ahead);
        }
    }

    /// The work at `x`.
    pub fn work_at(&self, x: u128) -> Work {
        match self.shape {
            Shape::Linear => self.second.work_at(x),
            Shape::Concave => self.first.work_at(x).min(self.second.work_at(x)),
            Shape::Convex => self.first.work_at(x).max(self.second.work_at(x)),
        }
    }

    /// The first ns at which the curve has reached `work`: rounded up; [`NEVER`] if it does not.
    pub fn time_of(&self, work: Work) -> u128 {
        match self.shape {
            Shape::Linear => self.second.time_of(work),
            Shape::Concave => self.first.time_of(work).max(self.second.time_of(work)),
            Shape::Convex => self.first.time_of(work).min(self.second.time_of(work)),
        }
    }

    /// Counts `work` as received before: raises the curve by it.
    pub fn lift(&mut self, work: Work) {
        for line in [&mut self.first, &mut self.second, &mut self.ahead] {
            line.y = line.y.saturating_add(work);
        }
    }

    /// Keeps later divisions short; `work` is the work that the class has received. Changes no value.
    pub fn approach(&mut self, work: Work) {
        self.first.approach(work);
        self.second.approach(work);
        self.ahead.approach(work);
    }

    /// The time at which the eligible curve of this deadline curve (section IV-B of the paper) reaches
    /// `work`: the least curve `E` with `D(t2) - E(t1) <= S(t2 - t1)`. For a concave `D` that is `D` itself;
    /// for a convex one it is the line of its second slope from its start, because a class must be served
    /// ahead if its later demand exceeds the link's rate.
    pub fn eligible_of(&self, work: Work) -> u128 {
        match self.shape {
            Shape::Linear | Shape::Concave => self.time_of(work),
            Shape::Convex if self.first.rate == 0 => self.ahead.time_of(work),
            Shape::Convex => self.ahead.time_of(work).min(self.first.time_of(work)),
        }
    }
}

//! Growth of the congestion window in congestion avoidance, and its reduction: Reno (RFC 5681) and CUBIC (RFC
//! 9438).
//!
//! CUBIC is computed in floating point with sums, products, quotients and Newton's method only, so it is the
//! same on every machine.

use super::ONE;
use crate::scenario::Growth;
use terms::{Span, Time};

/// C of RFC 9438 section 4.1, segments per cubic second.
const C: f64 = 0.4;
/// beta_cubic of section 4.6.
const BETA: f64 = 0.7;
/// alpha_cubic of section 4.3.
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);

/// The algorithm and its state.
#[derive(Clone, PartialEq, Debug)]
pub enum Grower {
    /// RFC 5681, without state.
    Reno,
    /// RFC 9438, with its curve.
    Cubic(Box<Cubic>),
}

/// The curve of CUBIC; windows in segments, times in seconds.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Cubic {
    w_max: f64,
    k: f64,
    /// The start of this congestion avoidance.
    epoch: Option<Time>,
    /// The window that Reno would have (section 4.3).
    w_est: f64,
    /// The window just before the last reduction. Above it, Reno's estimate grows as Reno does.
    prior: f64,
}

impl Grower {
    /// The initial state.
    pub fn new(growth: Growth) -> Grower {
        match growth {
            Growth::Reno => Grower::Reno,
            Growth::Cubic => Grower::Cubic(Box::default()),
        }
    }

    /// Handles an acknowledgement of `acked` new segments in congestion avoidance. Returns the new window, in
    /// 2^-16 segments.
    #[inline]
    pub fn avoid(&mut self, now: Time, srtt: Span, window: u32, acked: u32) -> u32 {
        match self {
            // RFC 5681 equation 3.
            Grower::Reno => window.saturating_add(((1u64 << 32) / u64::from(window.max(1))) as u32),
            Grower::Cubic(cubic) => to_window(cubic.avoid(now, srtt, from_window(window), f64::from(acked))),
        }
    }

    /// Handles a loss with `flight` in flight, in 2^-16 segments. Returns the new threshold (RFC 5681
    /// equation 4, RFC 9438 section 4.6).
    pub fn reduce(&mut self, window: u32, flight: u32) -> u32 {
        let threshold = match self {
            Grower::Reno => flight / 2,
            Grower::Cubic(cubic) => to_window(cubic.reduce(from_window(window.min(flight.max(ONE))))),
        };
        threshold.max(2 * ONE)
    }

    /// Handles a timeout: the curve starts anew (RFC 9438 section 4.8).
    pub fn timeout(&mut self) {
        if let Grower::Cubic(cubic) = self {
            cubic.epoch = None;
        }
    }
}

impl Cubic {
    fn avoid(&mut self, now: Time, srtt: Span, window: f64, acked: f64) -> f64 {
        let epoch = match self.epoch {
            Some(epoch) => epoch,
            None => {
                self.begin(now, window);
                now
            }
        };
        let t = seconds(now.since(epoch));
        let alpha = if self.w_est >= self.prior { 1.0 } else { ALPHA };
        self.w_est += alpha * acked / window;
        if self.curve(t) < self.w_est {
            return window.max(self.w_est);
        }
        // Section 4.4 and 4.5: where the curve will be in one round trip, but at most half as much again.
        let target = self.curve(t + seconds(srtt)).clamp(window, 1.5 * window);
        window + (target - window) * acked / window
    }

    /// Starts the curve: K from the present window (section 4.2).
    fn begin(&mut self, now: Time, window: f64) {
        self.epoch = Some(now);
        self.w_est = window;
        self.w_max = self.w_max.max(window);
        self.k = cube_root((self.w_max - window) / C);
    }

    fn curve(&self, t: f64) -> f64 {
        let d = t - self.k;
        C * d * d * d + self.w_max
    }

    fn reduce(&mut self, window: f64) -> f64 {
        // Section 4.7, fast convergence.
        self.w_max = if window < self.w_max { window * (1.0 + BETA) / 2.0 } else { window };
        self.prior = window;
        self.epoch = None;
        window * BETA
    }
}

fn from_window(window: u32) -> f64 {
    f64::from(window) / f64::from(ONE)
}

fn to_window(segments: f64) -> u32 {
    // Saturates.
    (segments * f64::from(ONE)) as u32
}

fn seconds(span: Span) -> f64 {
    span.as_nanos() as f64 / Span::NANOS_PER_SEC as f64
}

/// The cube root by Newton's method from above, exact to the last few bits for possible windows.
fn cube_root(x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    let mut root = x.max(1.0);
    for _ in 0..200 {
        let next = (2.0 * root + x / (root * root)) / 3.0;
        if next >= root {
            break;
        }
        root = next;
    }
    root
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cube_roots() {
        for n in 1..2_000 {
            let x = f64::from(n) * 0.37;
            let root = cube_root(x);
            assert!((root * root * root - x).abs() < 1e-9 * x, "{x}: {root}");
        }
        assert_eq!(cube_root(-1.0), 0.0);
    }

    #[test]
    fn reno_adds_a_segment_a_window() {
        let mut window = 10 * ONE;
        for _ in 0..10 {
            window = Grower::Reno.avoid(Time::ZERO, Span::ZERO, window, 1);
        }
        assert!((10 * ONE + ONE * 95 / 100..=11 * ONE).contains(&window), "{}", from_window(window));
    }

    #[test]
    fn cubic_comes_back_to_its_plateau_after_k_seconds_and_then_goes_beyond() {
        let mut cubic = Grower::new(Growth::Cubic);
        let (full, srtt) = (1_000 * ONE, Span::from_millis(100));
        let mut window = cubic.reduce(full, full);
        assert_eq!(from_window(window).round(), 700.0);
        // K = cbrt(300 / 0.4) = 9.09 s.
        let at = |seconds: f64| Time::from_nanos((seconds * 1e9) as u64);
        let mut seen = Vec::new();
        for round in 0..180 {
            for ack in 0..from_window(window) as u32 {
                let now = at(f64::from(round) * 0.1 + f64::from(ack) * 0.1 / from_window(window));
                window = cubic.avoid(now, srtt, window, 1);
            }
            seen.push(from_window(window));
        }
        assert!((985.0..=1_002.0).contains(&seen[90]), "at K it is back: {}", seen[90]);
        let steps = [seen[10] - seen[0], seen[90] - seen[80], seen[170] - seen[160]];
        assert!(steps[0] > 10.0 * steps[1] && steps[2] > 10.0 * steps[1], "flat around the plateau: {steps:?}");
        assert!(seen[179] > 1_200.0);
    }
}

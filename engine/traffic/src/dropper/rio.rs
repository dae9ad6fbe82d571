//! RIO: RED with in and out, here with three precedences; with one curve for all colours it is RED.

use super::average::{Average, ONE, amount};
use super::{BadDropper, RedCurve, Verdict};
use crate::meter::Color;
use terms::{Span, Time};

/// The packets that a colour's average counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Coupling {
    /// RIO-C: green counts green, yellow counts green and yellow, red counts all.
    Coupled,
    /// RIO-DC: each counts its own colour.
    Decoupled,
    /// One average of all packets, a curve per colour (weighted RED).
    Single,
}

/// Curves, weight and coupling of a dropper.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RioProfile {
    curves: [Curve; 3],
    weight: u64,
    /// For each colour of a packet, its weight in each average; zero if the average does not count it.
    weights: [[u64; 3]; 3],
    slot: Span,
    coupling: Coupling,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Curve {
    min: u64,
    max: u64,
    /// The average above which every packet is dropped.
    end: u64,
    /// The slope of the probability (2^-32) per 2^-24 of an amount above `min`, in 2^-64.
    slope: u64,
    /// The slope from `max` to `2 max`, in the same unit.
    steep: u64,
    max_p: u64,
}

impl RioProfile {
    /// The curves of green, yellow and red; `weight` of the average in 2^-32 (0.002 is 8589935); `slot`: the
    /// time a typical packet takes to leave, for the correction after idle time.
    ///
    /// # Errors
    /// [`BadDropper`] names the value out of range.
    pub fn new(curves: [RedCurve; 3], weight: u64, slot: Span, coupling: Coupling) -> Result<RioProfile, BadDropper> {
        if weight == 0 || weight > ONE {
            return Err(BadDropper::Weight { weight });
        }
        let [green, yellow, red] = curves;
        let curves = [curve(&green)?, curve(&yellow)?, curve(&red)?];
        let counts = |c| [0, 1, 2].map(|queue| if counted_in(coupling, c).contains(&queue) { weight } else { 0 });
        Ok(RioProfile { curves, weight, weights: [0, 1, 2].map(counts), slot, coupling })
    }
}

fn curve(c: &RedCurve) -> Result<Curve, BadDropper> {
    if c.min >= c.max || c.max > 1 << 30 {
        return Err(BadDropper::Thresholds { min: c.min, max: c.max });
    }
    if c.max_p == 0 || c.max_p > 1 << 16 {
        return Err(BadDropper::Probability { max_p: c.max_p });
    }
    let max_p = u64::from(c.max_p) << 16;
    let per = |rise: u64, run: u64| u64::try_from((u128::from(rise) << 32) / u128::from(run)).unwrap_or(u64::MAX);
    let (min, max) = (amount(c.min), amount(c.max));
    let end = if c.gentle { 2 * max } else { max };
    Ok(Curve { min, max, end, slope: per(max_p, max - min), steep: per(ONE - max_p, max), max_p })
}

/// One queue's dropper.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Rio {
    queued: [u32; 3],
    averages: [Average; 3],
    /// Packets accepted since the last one dropped, per colour; `count` of Floyd and Jacobson.
    since_drop: [u32; 3],
    counters: [ColorCounters; 3],
}

/// The fates of one colour's packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ColorCounters {
    /// The packets accepted.
    pub accepted: u64,
    /// The packets dropped by chance.
    pub early: u64,
    /// The packets dropped above the upper threshold.
    pub forced: u64,
}

impl Rio {
    /// An empty queue.
    pub fn new() -> Rio {
        Rio::default()
    }

    /// A queue that already holds these amounts of each colour, and has no history.
    pub fn holding(queued: [u32; 3]) -> Rio {
        Rio { queued, ..Rio::default() }
    }

    /// For a caller that counts its queue itself (do not mix with [`Rio::arrival`], which counts it here): a
    /// packet arrives, and `waiting` is the amount that decides for its colour; only that colour's average
    /// moves, whatever the coupling. Call [`Rio::emptied`] when that amount becomes zero.
    #[inline]
    pub fn decide(&mut self, profile: &RioProfile, now: Time, color: Color, waiting: u32, chance: u32) -> Verdict {
        let c = color as usize;
        let average = self.averages[c].arrival(now, waiting, profile.weight, profile.slot);
        let verdict = self.judge(&profile.curves[c], c, average, chance);
        self.count(c, verdict);
        verdict
    }

    /// Records that the amount for [`Rio::decide`] became zero for this colour.
    pub fn emptied(&mut self, now: Time, color: Color) {
        self.averages[color as usize].emptied(now);
    }

    /// Decides on an arriving packet of `amount` (1, or its bytes). If accepted, it counts as queued. `chance` is
    /// uniform over `u32`.
    #[inline]
    pub fn arrival(&mut self, profile: &RioProfile, now: Time, color: Color, amount: u32, chance: u32) -> Verdict {
        let c = color as usize;
        let average = self.observe(profile, now, c);
        let verdict = self.judge(&profile.curves[c], c, average, chance);
        self.count(c, verdict);
        if verdict == Verdict::Accept {
            self.queued[c] = self.queued[c].saturating_add(amount);
        }
        verdict
    }

    /// Records that an accepted packet leaves (or that the queue dropped it after all).
    #[inline]
    pub fn departure(&mut self, profile: &RioProfile, now: Time, color: Color, amount: u32) {
        let c = color as usize;
        self.queued[c] = self.queued[c].saturating_sub(amount);
        let (waiting, weights) = (self.waiting(profile.coupling), &profile.weights[c]);
        for queue in 0..3 {
            self.averages[queue].emptied_if((waiting[queue] == 0) & (weights[queue] != 0), now);
        }
    }

    /// The counters of a colour.
    pub fn counters(&self, color: Color) -> ColorCounters {
        self.counters[color as usize]
    }

    /// The average that decides for a colour, in whole amounts.
    pub fn average(&self, color: Color) -> u64 {
        self.averages[color as usize].whole()
    }

    /// Updates the averages that count this colour, and returns the one that decides. All three are computed,
    /// some with weight zero: a processor cannot predict the next colour's branch.
    #[inline]
    fn observe(&mut self, profile: &RioProfile, now: Time, c: usize) -> u64 {
        let (waiting, weights) = (self.waiting(profile.coupling), &profile.weights[c]);
        let empty = |queue: usize| (waiting[queue] == 0) & (weights[queue] != 0);
        if empty(0) | empty(1) | empty(2) {
            for queue in (0..3).filter(|&queue| empty(queue)) {
                self.averages[queue].rested(now, profile.weight, profile.slot);
            }
        }
        let averages = [0, 1, 2].map(|queue| self.averages[queue].approach(waiting[queue], weights[queue]));
        averages[c]
    }

    #[inline(always)]
    fn count(&mut self, c: usize, verdict: Verdict) {
        let counters = &mut self.counters[c];
        match verdict {
            Verdict::Accept => counters.accepted += 1,
            Verdict::Early => counters.early += 1,
            Verdict::Forced => counters.forced += 1,
        }
    }

    /// Floyd and Jacobson section 4: `p_b` linear in the average, `p_a = p_b / (1 - count p_b)`, which spaces drops evenly.
    #[inline(always)]
    fn judge(&mut self, curve: &Curve, c: usize, average: u64, chance: u32) -> Verdict {
        if average >= curve.end {
            self.since_drop[c] = 0;
            return Verdict::Forced;
        }
        // Below `min` it is 0 and nothing is dropped. Colours mix and a processor would guess wrong, so signs stand for branches;
        // amounts are below 2^57.
        let above = average.wrapping_sub(curve.min) as i64;
        let below = above >> 63;
        let rise = |above: u64, slope: u64| ((u128::from(above) * u128::from(slope)) >> 32) as u64;
        let p = if average < curve.max {
            rise((above - (above & below)) as u64, curve.slope)
        } else {
            curve.max_p + rise(average - curve.max, curve.steep)
        };
        // `p`, `since_drop` and `chance` are below 2^32: no product overflows. Once `since_drop * p` passes one, so does p_a.
        let gone = u64::from(self.since_drop[c]) * p;
        // chance / 2^32 < p_a, without dividing.
        if gone >= ONE || u64::from(chance) * (ONE - gone) < p << 32 {
            self.since_drop[c] = 0;
            return Verdict::Early;
        }
        let since = self.since_drop[c].saturating_add(1);
        self.since_drop[c] = since - (since & below as u32);
        Verdict::Accept
    }

    /// The waiting amount that each average counts.
    #[inline(always)]
    fn waiting(&self, coupling: Coupling) -> [u32; 3] {
        let [green, yellow, red] = self.queued;
        let two = green.saturating_add(yellow);
        let all = two.saturating_add(red);
        match coupling {
            Coupling::Coupled => [green, two, all],
            Coupling::Decoupled => self.queued,
            Coupling::Single => [all; 3],
        }
    }
}

/// The range of the averages that count a packet of colour `c`.
const fn counted_in(coupling: Coupling, c: usize) -> core::ops::Range<usize> {
    match coupling {
        Coupling::Coupled => c..3,
        Coupling::Decoupled => c..c + 1,
        Coupling::Single => 0..3,
    }
}

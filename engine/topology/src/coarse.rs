//! From exact amounts over time to coarse steps: others learn what there is room for, and not who reserved what when.

use crate::advertisement::FreeStep;
use alloc::vec::Vec;
use terms::{Rate, Span, Time};

/// How coarse: intervals that begin at multiples of `step`, and rates that are multiples of `unit`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Grain {
    /// The length of an interval; at least a nanosecond.
    pub step: Span,
    /// The unit of rates, bit/s; at least 1.
    pub unit: Rate,
}

/// The least of `exact` in each interval from the one of `start` up to `end`, rounded down to the unit; equal
/// neighbours are one step. `exact` is in order, and what is before its first step counts as nothing.
pub fn coarse(exact: &[FreeStep], start: Time, end: Time, grain: Grain) -> Vec<FreeStep> {
    let step = grain.step.as_nanos().max(1);
    let unit = grain.unit.as_bps().max(1);
    let mut all: Vec<FreeStep> = Vec::new();
    let mut from = Time::from_nanos(start.as_nanos() / step * step);
    while from < end {
        let until = from.saturating_add(Span::from_nanos(step));
        // The interval of `start` counts from there on only.
        let least = least(exact, from.max(start), until);
        let rate = Rate::from_bps(least.as_bps() / unit * unit);
        if all.last().is_none_or(|last| last.rate != rate) {
            all.push(FreeStep { start: from, rate });
        }
        if until == Time::FOREVER {
            break;
        }
        from = until;
    }
    all
}

/// Two amounts over time as one: `join` says which of the two counts at each moment. What is before the first step of
/// either counts as nothing.
pub fn joined(a: &[FreeStep], b: &[FreeStep], join: impl Fn(Rate, Rate) -> Rate) -> Vec<FreeStep> {
    let mut starts: Vec<Time> = a.iter().chain(b).map(|step| step.start).collect();
    starts.sort_unstable();
    starts.dedup();
    let (mut at_a, mut at_b) = (Cursor::new(a), Cursor::new(b));
    let mut all: Vec<FreeStep> = Vec::new();
    for start in starts {
        let rate = join(at_a.at(start), at_b.at(start));
        if all.last().is_none_or(|last| last.rate != rate) {
            all.push(FreeStep { start, rate });
        }
    }
    all
}

/// A place in amounts over time that only moves on.
struct Cursor<'a> {
    rest: &'a [FreeStep],
    rate: Rate,
}

impl<'a> Cursor<'a> {
    fn new(steps: &'a [FreeStep]) -> Cursor<'a> {
        Cursor { rest: steps, rate: Rate::ZERO }
    }

    fn at(&mut self, moment: Time) -> Rate {
        while let Some((first, rest)) = self.rest.split_first().filter(|(first, _)| first.start <= moment) {
            (self.rate, self.rest) = (first.rate, rest);
        }
        self.rate
    }
}

/// The least rate at any moment from `from` to `until`.
fn least(exact: &[FreeStep], from: Time, until: Time) -> Rate {
    let Some(first) = exact.iter().rposition(|step| step.start <= from) else { return Rate::ZERO };
    let during = exact[first..].iter().take_while(|step| step.start <= from || step.start < until);
    during.map(|step| step.rate).min().unwrap_or(Rate::ZERO)
}

//! The capacity of a resource: a step function of time.

use crate::table::MAX_RATE;
use alloc::vec::Vec;
use terms::{Rate, Time, Window};

/// The steps in order of time. The first is at [`Time::ZERO`]; each holds until the next, the last for ever.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Capacity {
    steps: Vec<(Time, Rate)>,
}

/// A stretch of time with one capacity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stretch {
    pub(crate) start: Time,
    pub(crate) end: Time,
    pub(crate) rate: Rate,
}

impl Capacity {
    /// A constant capacity. Supply rounds down: values above [`MAX_RATE`] count as that.
    pub(crate) fn constant(rate: Rate) -> Capacity {
        Capacity { steps: alloc::vec![(Time::ZERO, rate.min(MAX_RATE))] }
    }

    /// A copy with `rate` in `window`. Steps before `now` are forgotten.
    pub(crate) fn with(&self, window: Window, rate: Rate, now: Time) -> Capacity {
        let rate = rate.min(MAX_RATE);
        let mut steps: Vec<(Time, Rate)> = Vec::with_capacity(self.steps.len() + 2);
        let mut put = |at: Time, rate: Rate| {
            while steps.last().is_some_and(|&(last, _)| last >= at) {
                steps.pop();
            }
            if steps.last().is_none_or(|&(_, last)| last != rate) {
                steps.push((at, rate));
            }
        };
        for &(at, old) in self.steps.iter().filter(|step| step.0 < window.start()) {
            put(if at <= now { Time::ZERO } else { at }, old);
        }
        put(if window.start() <= now { Time::ZERO } else { window.start() }, rate);
        if window.end() != Time::FOREVER {
            let resumes = if window.end() <= now { Time::ZERO } else { window.end() };
            put(resumes, self.at(window.end()));
            for &(at, old) in self.steps.iter().filter(|step| step.0 > window.end()) {
                put(if at <= now { Time::ZERO } else { at }, old);
            }
        }
        Capacity { steps }
    }

    /// The number of steps.
    pub(crate) fn len(&self) -> usize {
        self.steps.len()
    }

    /// The capacity at `t`.
    pub(crate) fn at(&self, t: Time) -> Rate {
        self.steps[self.index(t)].1
    }

    /// Every step.
    pub(crate) fn steps(&self) -> &[(Time, Rate)] {
        &self.steps
    }

    /// The stretches of `[start, end)`, in order.
    pub(crate) fn stretches(&self, start: Time, end: Time) -> impl Iterator<Item = Stretch> + '_ {
        let first = self.index(start);
        self.steps[first..].iter().enumerate().map_while(move |(i, &(at, rate))| {
            let from = at.max(start);
            let next = self.steps.get(first + i + 1).map_or(Time::FOREVER, |step| step.0);
            (from < end).then_some(Stretch { start: from, end: next.min(end), rate })
        })
    }

    fn index(&self, t: Time) -> usize {
        match self.steps.as_slice() {
            [_] => 0,
            steps => steps.partition_point(|step| step.0 <= t) - 1,
        }
    }
}

//! The capacity of a resource: a step function of time.

use crate::quantity::MOST;
use alloc::vec::Vec;
use terms::{Time, Window};

/// The steps in order of time. The first is at [`Time::ZERO`]; each holds until the next, the last for ever.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Capacity {
    steps: Vec<(Time, u64)>,
}

/// A stretch of time with one capacity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stretch {
    pub(crate) start: Time,
    pub(crate) end: Time,
    pub(crate) capacity: u64,
}

impl Capacity {
    /// A constant capacity. Supply rounds down: values above [`MOST`] count as that.
    pub(crate) fn constant(capacity: u64) -> Capacity {
        Capacity { steps: alloc::vec![(Time::ZERO, capacity.min(MOST))] }
    }

    /// A copy with `capacity` in `window`. Steps before `now` are forgotten.
    pub(crate) fn with(&self, window: Window, capacity: u64, now: Time) -> Capacity {
        let capacity = capacity.min(MOST);
        let mut steps: Vec<(Time, u64)> = Vec::with_capacity(self.steps.len() + 2);
        let mut put = |at: Time, capacity: u64| {
            while steps.last().is_some_and(|&(last, _)| last >= at) {
                steps.pop();
            }
            if steps.last().is_none_or(|&(_, last)| last != capacity) {
                steps.push((at, capacity));
            }
        };
        for &(at, old) in self.steps.iter().filter(|step| step.0 < window.start()) {
            put(if at <= now { Time::ZERO } else { at }, old);
        }
        put(if window.start() <= now { Time::ZERO } else { window.start() }, capacity);
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
    pub(crate) fn at(&self, t: Time) -> u64 {
        self.steps[self.index(t)].1
    }

    /// Every step.
    pub(crate) fn steps(&self) -> &[(Time, u64)] {
        &self.steps
    }

    /// The stretches of `[start, end)`, in order.
    pub(crate) fn stretches(&self, start: Time, end: Time) -> impl Iterator<Item = Stretch> + '_ {
        let first = self.index(start);
        self.steps[first..].iter().enumerate().map_while(move |(i, &(at, capacity))| {
            let from = at.max(start);
            let next = self.steps.get(first + i + 1).map_or(Time::FOREVER, |step| step.0);
            (from < end).then_some(Stretch { start: from, end: next.min(end), capacity })
        })
    }

    fn index(&self, t: Time) -> usize {
        match self.steps.as_slice() {
            [_] => 0,
            steps => steps.partition_point(|step| step.0 <= t) - 1,
        }
    }
}

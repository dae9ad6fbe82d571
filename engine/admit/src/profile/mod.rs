//! How much is booked at every instant: a step function, changed by stretches and asked for maxima.

use alloc::collections::BTreeMap;
use terms::Time;

/// A step function of time, zero before its first boundary; values in bit/s.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    deltas: BTreeMap<Time, i64>,
}

/// A search for a stretch that is long enough and nowhere above a ceiling; it may go on over several calls.
#[derive(Clone, Copy, Debug)]
pub struct Search {
    /// The least length of the stretch, ns.
    pub length: u64,
    /// Since when the function has been at or under its ceiling; `None`: it is above.
    pub since: Option<Time>,
}

impl Search {
    /// The function is at or under its ceiling from `t` on.
    fn under(&mut self, t: Time) {
        self.since = self.since.or(Some(t));
    }

    /// What `since` is, if a stretch that lasts until `t` is long enough.
    pub fn found(&self, t: Time) -> Option<Time> {
        self.since.filter(|since| t.since(*since).as_nanos() >= self.length)
    }
}

impl Profile {
    /// Zero everywhere.
    pub fn new() -> Profile {
        Profile::default()
    }

    /// Adds `rate` to every instant of `[start, end)`.
    pub fn add(&mut self, start: Time, end: Time, rate: i64) {
        self.step(start, rate);
        if end != Time::FOREVER {
            self.step(end, -rate);
        }
    }

    fn step(&mut self, at: Time, delta: i64) {
        let sum = self.deltas.entry(at).or_insert(0);
        *sum += delta;
        if *sum == 0 {
            self.deltas.remove(&at);
        }
    }

    /// The value at `t`.
    pub fn level(&self, t: Time) -> u64 {
        self.deltas.range(..=t).map(|(_, d)| d).sum::<i64>() as u64
    }

    /// The greatest value in `[start, end)`.
    pub fn peak(&self, start: Time, end: Time) -> u64 {
        let mut level = self.level(start) as i64;
        let mut peak = level;
        for (&t, delta) in self.deltas.range(start..end) {
            if t > start {
                level += delta;
                peak = peak.max(level);
            }
        }
        peak as u64
    }

    /// The first instant in `[start, end)` with a value above `ceiling`.
    pub fn first_above(&self, start: Time, end: Time, ceiling: u64) -> Option<Time> {
        let mut level = self.level(start);
        if level > ceiling {
            return Some(start);
        }
        for (&t, delta) in self.deltas.range(start..end) {
            if t > start {
                level = level.wrapping_add_signed(*delta);
                if level > ceiling {
                    return Some(t);
                }
            }
        }
        None
    }

    /// Carries `search` over `[start, end)`; answers the start of the first stretch that is long enough.
    pub fn search(&self, search: &mut Search, start: Time, end: Time, ceiling: u64) -> Option<Time> {
        let mut level = self.level(start);
        let mut visit = |t: Time, level: u64| {
            if level > ceiling {
                let found = search.found(t);
                search.since = None;
                return found;
            }
            search.under(t);
            None
        };
        if let Some(found) = visit(start, level) {
            return Some(found);
        }
        for (&t, delta) in self.deltas.range(start..end) {
            if t > start {
                level = level.wrapping_add_signed(*delta);
                if let Some(found) = visit(t, level) {
                    return Some(found);
                }
            }
        }
        search.found(end)
    }

    /// Every boundary in order, with the value from there on.
    pub fn steps(&self) -> impl Iterator<Item = (Time, u64)> + '_ {
        let mut level = 0i64;
        self.deltas.iter().map(move |(&t, delta)| {
            level += delta;
            (t, level as u64)
        })
    }

    /// Checks the structure itself.
    ///
    /// # Errors
    /// What is wrong.
    pub fn audit(&self) -> Result<(), &'static str> {
        if self.deltas.values().all(|d| *d != 0) { Ok(()) } else { Err("an empty boundary") }
    }

    /// Bytes of memory, about.
    pub fn bytes(&self) -> usize {
        self.deltas.len() * 24
    }
}

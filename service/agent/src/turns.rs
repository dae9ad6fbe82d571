//! The shares of a turn of the agent's loop, and statistics of its duration.

use documents::turns::{SpreadDoc, TurnsDoc, per_mille};
use std::collections::BTreeMap;
use terms::{Span, Time};

/// A call that lists all state may exceed its turn. After one that took more processor time than this, none
/// follows for nine times as long, so that all of them together have a tenth of the loop.
const SHORT_LOOK: Span = Span::from_millis(2);
const REST: u64 = 9;
/// The longest pause after such a call.
const LONGEST_REST: Span = Span::from_secs(10);

/// Time limits for the work of a turn, and statistics of its duration.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    calls_until: Time,
    looks_from: Time,
    /// The client that was served last: the next turn begins with the one after it.
    last: u64,
    count: u64,
    cpu: Spread,
    wall: Spread,
}

impl Turns {
    /// True if there is time for another call in this turn.
    pub fn calls_go_on(&self, now: Time) -> bool {
        now < self.calls_until
    }

    /// True if a call that lists all state may run now.
    pub fn may_look(&self, now: Time) -> bool {
        now >= self.looks_from
    }

    /// Records such a call and its time.
    pub fn looked(&mut self, took: Span, now: Time) {
        if took > SHORT_LOOK {
            self.looks_from = now + Span::from_nanos(took.as_nanos().saturating_mul(REST)).min(LONGEST_REST);
        }
    }

    /// Starts a turn, or its time for calls: it lasts until then.
    pub fn calls_until(&mut self, until: Time) {
        self.calls_until = until;
    }

    /// The time from which a call that lists all state may run.
    pub fn looks_from(&self) -> Time {
        self.looks_from
    }

    /// Clients in the order of their turns, which begins after the one that was served last.
    pub fn in_turn<T: Copy>(&self, clients: &BTreeMap<u64, T>) -> Vec<(u64, T)> {
        let after = clients.range(self.last.saturating_add(1)..).chain(clients.range(..=self.last));
        after.map(|(&client, &with)| (client, with)).collect()
    }

    /// Records the client that was served.
    pub fn served(&mut self, client: u64) {
        self.last = client;
    }

    /// Records the end of a turn, and its time on the processor and in all, nanoseconds.
    pub fn ended(&mut self, cpu: u64, wall: u64) {
        self.count += 1;
        self.cpu.add(cpu);
        self.wall.add(wall);
    }

    /// The statistics for a status.
    pub fn doc(&self) -> TurnsDoc {
        TurnsDoc { turns: self.count, cpu: self.cpu.doc(), wall: self.wall.doc() }
    }
}

/// A histogram of durations, in eighths of an octave of microseconds.
#[derive(Debug, Default)]
struct Spread {
    counts: BTreeMap<u32, u64>,
    most_us: u64,
}

impl Spread {
    fn add(&mut self, nanos: u64) {
        let us = nanos.div_ceil(1000);
        *self.counts.entry(place(us)).or_insert(0) += 1;
        self.most_us = self.most_us.max(us);
    }

    fn doc(&self) -> SpreadDoc {
        let histogram: Vec<_> = self.counts.iter().map(|(&at, &n)| (upto(at), n)).collect();
        let (p50_us, p999_us) = (per_mille(&histogram, 500), per_mille(&histogram, 999));
        SpreadDoc {
            p50_us: p50_us.min(self.most_us),
            p999_us: p999_us.min(self.most_us),
            most_us: self.most_us,
            histogram,
        }
    }
}

/// The bucket of a duration: each microsecond below 16, then eighths of octaves.
fn place(us: u64) -> u32 {
    match us.checked_ilog2() {
        Some(octave) if octave >= 4 => octave * 8 + (us >> (octave - 3) & 7) as u32 - 16,
        _ => us as u32,
    }
}

/// The upper bound of a bucket, microseconds.
fn upto(place: u32) -> u64 {
    if place < 16 {
        return u64::from(place);
    }
    let (octave, eighth) = ((place + 16) / 8, u64::from((place + 16) % 8));
    ((9 + eighth) << (octave - 3)) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_counted_to_an_eighth_of_an_octave() {
        let mut last = None;
        for us in (0..5_000).chain([9_999, 10_000, 1_000_000, u64::from(u32::MAX)]) {
            let at = place(us);
            assert!(upto(at) >= us && upto(at) <= us + us / 8, "{us} is counted as at most {}", upto(at));
            assert!(last.is_none_or(|last| at >= last), "in order");
            last = Some(at);
        }
        let mut spread = Spread::default();
        (0..999).for_each(|_| spread.add(100_000));
        spread.add(9_000_000);
        let doc = spread.doc();
        assert_eq!((doc.p50_us, doc.p999_us, doc.most_us), (103, 103, 9_000));
        spread.add(9_000_000);
        assert_eq!(spread.doc().p999_us, 9_000);
        assert_eq!(spread.doc().since(&doc), [(9_215, 1)]);
    }

    #[test]
    fn looks_have_a_tenth_of_the_loop() {
        let mut turns = Turns::default();
        let at = |ms: u64| Time::from_nanos(ms * 1_000_000);
        turns.looked(Span::from_millis(1), at(101));
        assert!(turns.may_look(at(101)), "a short one costs nothing");
        turns.looked(Span::from_millis(30), at(230));
        assert!(!turns.may_look(at(499)) && turns.may_look(at(500)));
        turns.looked(Span::from_millis(8_000), at(9_000));
        assert!(!turns.may_look(at(18_999)) && turns.may_look(at(19_000)), "and nobody waits for ever");
    }
}

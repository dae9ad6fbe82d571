//! The event queue: exact order by (time, sequence number), so that what is due at the same instant happens in the
//! order in which it was put in, on every machine, in every run.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use terms::Time;

/// What is to come.
#[derive(Debug)]
pub struct Agenda<E> {
    heap: BinaryHeap<Reverse<Entry<E>>>,
    now: Time,
    sequence: u64,
}

#[derive(Debug)]
struct Entry<E> {
    at: Time,
    sequence: u64,
    event: E,
}

impl<E> Default for Agenda<E> {
    fn default() -> Agenda<E> {
        Agenda { heap: BinaryHeap::new(), now: Time::ZERO, sequence: 0 }
    }
}

impl<E> Agenda<E> {
    /// Simulated time: that of the last event taken.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Events put in so far.
    pub fn count(&self) -> u64 {
        self.sequence
    }

    /// Puts an event in. What should have been in the past is now.
    pub fn put(&mut self, at: Time, event: E) {
        let entry = Entry { at: at.max(self.now), sequence: self.sequence, event };
        self.sequence += 1;
        self.heap.push(Reverse(entry));
    }

    /// Takes the next event that is due at `until` or before; time moves to it.
    pub fn take(&mut self, until: Time) -> Option<E> {
        if self.heap.peek()?.0.at > until {
            return None;
        }
        let Reverse(entry) = self.heap.pop()?;
        self.now = entry.at;
        Some(entry.event)
    }

    /// Nothing more is due until then: time moves there.
    pub fn pass(&mut self, until: Time) {
        self.now = self.now.max(until);
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Entry<E>) -> bool {
        (self.at, self.sequence) == (other.at, other.sequence)
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Entry<E>) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Entry<E>) -> std::cmp::Ordering {
        (self.at, self.sequence).cmp(&(other.at, other.sequence))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_come_in_the_order_they_were_put() {
        let mut agenda = Agenda::default();
        let at = Time::from_nanos;
        for (t, name) in [(5, "a"), (3, "b"), (5, "c"), (3, "d"), (4, "e")] {
            agenda.put(at(t), name);
        }
        let mut seen = Vec::new();
        while let Some(name) = agenda.take(at(4)) {
            seen.push(name);
        }
        assert_eq!(seen, ["b", "d", "e"]);
        agenda.put(at(1), "late");
        while let Some(name) = agenda.take(Time::FOREVER) {
            seen.push(name);
        }
        assert_eq!(seen[3..], ["late", "a", "c"]);
        assert_eq!(agenda.now(), at(5));
    }
}

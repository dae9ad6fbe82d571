//! The event queue, in exact order by (time, sequence number): events of one instant are taken in the order
//! in which they were put in, on every machine, in every run.
//!
//! It is a wheel of levels, so there is no width to choose. An event lies at the level of the highest digit
//! in which its time differs from the wheel's time, and moves down when the wheel turns there. Digits have 64
//! values, except one of 4,096: slots of 4 us for the next 17 ms, in which packets on links fall. Each event
//! moves a few times, whatever the number of events. A slot keeps the order of its events, and events of one
//! instant are always in the same slot.

use terms::Time;

const NONE: u32 = u32::MAX;
/// For each level, the first bit of its digit and its first slot.
const LEVELS: [(u32, usize); 10] = [
    (0, 0),
    (6, 64),
    (12, 128),
    (24, 4_224),
    (30, 4_288),
    (36, 4_352),
    (42, 4_416),
    (48, 4_480),
    (54, 4_544),
    (60, 4_608),
];
/// The level of 4,096 slots.
const WIDE: usize = 2;
const SLOTS: usize = 4_672;
/// The level of the digit that contains a bit.
const LEVEL_OF: [u8; 64] = {
    let mut of = [0; 64];
    let mut level = 0;
    while level < LEVELS.len() {
        let mut bit = LEVELS[level].0;
        while bit < 64 {
            of[bit as usize] = level as u8;
            bit += 1;
        }
        level += 1;
    }
    of
};

/// The pending events.
#[derive(Clone, Debug)]
pub struct Agenda<E> {
    entries: Vec<Entry<E>>,
    vacant: u32,
    slots: Box<[Slot; SLOTS]>,
    /// Bit set of the slots that hold events, 64 a word.
    occupied: [u64; SLOTS / 64],
    /// Bit set of the words of the wide level that are not zero.
    wide: u64,
    /// Bit set of the levels that hold events.
    levels: u32,
    /// The wheel's time, ns. Nothing is due before it, and it is never after `now` when an event is put in.
    base: u64,
    now: u64,
    taken: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entry<E> {
    at: u64,
    next: u32,
    event: E,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    head: u32,
    tail: u32,
}

impl<E: Copy> Default for Agenda<E> {
    fn default() -> Agenda<E> {
        Agenda {
            entries: Vec::new(),
            vacant: NONE,
            slots: Box::new([Slot { head: NONE, tail: NONE }; SLOTS]),
            occupied: [0; SLOTS / 64],
            wide: 0,
            levels: 0,
            base: 0,
            now: 0,
            taken: 0,
        }
    }
}

impl<E: Copy> Agenda<E> {
    /// Simulated time: the time of the last event taken.
    #[inline]
    pub fn now(&self) -> Time {
        Time::from_nanos(self.now)
    }

    /// The number of events taken so far.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// Puts an event in. An event in the past is due now.
    #[inline]
    pub fn put(&mut self, at: Time, event: E) {
        let at = at.as_nanos().max(self.now);
        let n = self.vacant;
        if n == NONE {
            self.entries.push(Entry { at, next: NONE, event });
            self.hang(self.entries.len() as u32 - 1, at);
        } else {
            let entry = &mut self.entries[n as usize];
            self.vacant = entry.next;
            *entry = Entry { at, next: NONE, event };
            self.hang(n, at);
        }
    }

    /// Takes the next event due at `until` or before, and moves time to it.
    #[inline]
    pub fn take(&mut self, until: Time) -> Option<E> {
        let until = until.as_nanos();
        loop {
            if self.levels == 0 {
                return None;
            }
            // Nothing at a higher level, or in a higher slot, is due before what is in this one.
            let level = self.levels.trailing_zeros() as usize;
            let first = LEVELS[level].1 / 64;
            let word = if level == WIDE { first + self.wide.trailing_zeros() as usize } else { first };
            let slot = 64 * word + self.occupied[word].trailing_zeros() as usize;
            let Slot { head, tail } = self.slots[slot];
            if level > 0 && head != tail {
                if !self.turn(level, slot, until) {
                    return None;
                }
                continue;
            }
            let Entry { at, next, event } = self.entries[head as usize];
            if at > until {
                return None;
            }
            if head == tail {
                self.empty(level, slot);
            } else {
                self.slots[slot].head = next;
            }
            self.entries[head as usize].next = self.vacant;
            self.vacant = head;
            (self.base, self.now) = (at, at);
            self.taken += 1;
            return Some(event);
        }
    }

    /// Moves time to `until`. No event may be due before it.
    pub fn pass(&mut self, until: Time) {
        self.now = self.now.max(until.as_nanos());
    }

    /// Turns the wheel to a slot: moves its events to lower levels, in order.
    fn turn(&mut self, level: usize, slot: usize, until: u64) -> bool {
        let (shift, first) = LEVELS[level];
        let above = LEVELS.get(level + 1).map_or(u64::BITS, |next| next.0);
        let high = if above < u64::BITS { self.base >> above << above } else { 0 };
        let start = high | ((slot - first) as u64) << shift;
        if start > until {
            return false;
        }
        let mut n = self.slots[slot].head;
        self.empty(level, slot);
        self.base = start;
        self.now = self.now.max(start);
        while n != NONE {
            let entry = &mut self.entries[n as usize];
            let (at, next) = (entry.at, entry.next);
            entry.next = NONE;
            self.hang(n, at);
            n = next;
        }
        true
    }

    #[inline]
    fn empty(&mut self, level: usize, slot: usize) {
        self.slots[slot] = Slot { head: NONE, tail: NONE };
        let word = slot / 64;
        self.occupied[word] &= !(1 << (slot % 64));
        if self.occupied[word] == 0 {
            if level == WIDE {
                self.wide &= !(1 << (word - LEVELS[WIDE].1 / 64));
                if self.wide != 0 {
                    return;
                }
            }
            self.levels &= !(1 << level);
        }
    }

    #[inline]
    fn hang(&mut self, n: u32, at: u64) {
        let differs = (at ^ self.base) | 1;
        let level = usize::from(LEVEL_OF[(63 - differs.leading_zeros()) as usize]);
        let (shift, first) = LEVELS[level];
        let digits = if level == WIDE { 4_095 } else { 63 };
        let at = first + ((at >> shift) & digits) as usize;
        let slot = &mut self.slots[at];
        let tail = std::mem::replace(&mut slot.tail, n);
        if tail != NONE {
            self.entries[tail as usize].next = n;
            return;
        }
        slot.head = n;
        let word = at / 64;
        self.occupied[word] |= 1 << (at % 64);
        self.levels |= 1 << level;
        if level == WIDE {
            self.wide |= 1 << (word - LEVELS[WIDE].1 / 64);
        }
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

    /// The oracle: a list sorted by (time, sequence).
    #[test]
    fn a_million_events_come_as_a_sorted_list_gives_them() {
        for seed in 0..20 {
            let mut chance = crate::rng::Rng::new(seed, 1);
            let mut agenda = Agenda::default();
            let mut oracle = std::collections::BTreeSet::new();
            let mut number = 0u64;
            for _ in 0..50_000 {
                if chance.below(100) < 52 {
                    let span = 1 << chance.below(34);
                    let at = agenda.now() + terms::Span::from_nanos(chance.below(span));
                    agenda.put(at, number);
                    oracle.insert((at, number));
                    number += 1;
                } else {
                    let until = agenda.now() + terms::Span::from_nanos(chance.below(1 << 24));
                    let first = oracle.first().copied().filter(|(at, _)| *at <= until);
                    let taken = agenda.take(until);
                    assert_eq!(taken, first.map(|(_, number)| number), "seed {seed}");
                    match first {
                        Some(entry) => {
                            assert_eq!(agenda.now(), entry.0);
                            oracle.remove(&entry);
                        }
                        None => agenda.pass(until),
                    }
                }
            }
        }
    }

    #[test]
    fn the_end_of_time_is_a_time() {
        let mut agenda = Agenda::default();
        agenda.put(Time::FOREVER, 1);
        agenda.put(Time::from_nanos(u64::MAX - 1), 0);
        assert_eq!((agenda.take(Time::FOREVER), agenda.take(Time::FOREVER)), (Some(0), Some(1)));
    }
}

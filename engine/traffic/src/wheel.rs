//! A hierarchical timing wheel (Varghese and Lauck 1987, scheme 7) with find-first-set: a million timers at constant
//! cost, for protocol engines, shapers and simulators alike.
//!
//! Time is cut into ticks of 2^n ns. Eight levels of 256 slots cover all of it: level 0 holds the next 256 ticks one
//! by one, level 1 the next 256 spans of 256 ticks, and so on. A timer lies in the level of the highest digit (base
//! 256) in which its tick differs from the present one; as time enters a slot of a higher level, its timers are
//! dealt to lower ones. A bitmap a level finds the next slot that is not empty, so silence costs nothing.
//!
//! Timers are named by the caller's own small numbers (the index of whatever they belong to) and linked through one
//! table by these numbers: setting, moving and cancelling allocate nothing.
//!
//! A timer never expires early, and late by less than a tick. Timers of one tick expire in the order in which they
//! were set.

use alloc::vec::Vec;
use terms::Time;

const NONE: u32 = u32::MAX;
const LEVELS: usize = 8;
const SLOTS: usize = 256;
const WORDS: usize = SLOTS / 64;
/// The list of those that are due, after all slots.
const DUE: usize = LEVELS * SLOTS;

/// The wheel.
#[derive(Clone, Debug)]
pub struct Wheel {
    shift: u32,
    /// The present, in ticks: all slots before it are empty.
    tick: u64,
    slots: Vec<Slot>,
    map: [[u64; WORDS]; LEVELS],
    timers: Vec<Timer>,
    len: usize,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    first: u32,
    last: u32,
}

const EMPTY: Slot = Slot { first: NONE, last: NONE };

#[derive(Clone, Copy, Debug)]
struct Timer {
    tick: u64,
    next: u32,
    /// [`UNSET`]: in no list.
    prev: u32,
}

/// Not in any list; `NONE` is the first of a list.
const UNSET: u32 = u32::MAX - 1;

impl Wheel {
    /// A wheel with ticks of `2^shift` ns (at most 2^63), at `now`, for timers numbered below `timers`.
    pub fn new(shift: u32, now: Time, timers: usize) -> Wheel {
        let shift = shift.min(63);
        let mut wheel = Wheel {
            shift,
            tick: now.as_nanos() >> shift,
            slots: alloc::vec![EMPTY; DUE + 1],
            map: [[0; WORDS]; LEVELS],
            timers: Vec::new(),
            len: 0,
        };
        wheel.reserve(timers);
        wheel
    }

    /// Makes room for timers numbered below `timers`. The only call that allocates.
    pub fn reserve(&mut self, timers: usize) {
        let timers = timers.min(UNSET as usize);
        if timers > self.timers.len() {
            self.timers.resize(timers, Timer { tick: 0, next: NONE, prev: UNSET });
        }
    }

    /// Timers that are set.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether none is set.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Sets the timer to `at`, or moves it there. A time that is past is due at once.
    ///
    /// # Panics
    /// If no room was made for a timer of this number.
    pub fn set(&mut self, timer: u32, at: Time) {
        self.cancel(timer);
        let mask = (1u64 << self.shift) - 1;
        let tick = (at.as_nanos() >> self.shift) + u64::from(at.as_nanos() & mask != 0);
        self.timers[timer as usize].tick = tick;
        self.append(self.slot_of(tick), timer);
        self.len += 1;
    }

    /// Cancels the timer; says whether it was set.
    pub fn cancel(&mut self, timer: u32) -> bool {
        if !self.is_set(timer) {
            return false;
        }
        let Timer { tick, next, prev } = self.timers[timer as usize];
        let at = self.slot_of(tick);
        if prev == NONE {
            self.slots[at].first = next;
        } else {
            self.timers[prev as usize].next = next;
        }
        if next == NONE {
            self.slots[at].last = prev;
        } else {
            self.timers[next as usize].prev = prev;
        }
        if self.slots[at].first == NONE {
            self.mark(at, false);
        }
        self.timers[timer as usize].prev = UNSET;
        self.len -= 1;
        true
    }

    /// Whether the timer is set.
    pub fn is_set(&self, timer: u32) -> bool {
        self.timers.get(timer as usize).is_some_and(|t| t.prev != UNSET)
    }

    /// The next timer that is due at `now`; it is no longer set then. Ask until there is none.
    pub fn expire(&mut self, now: Time) -> Option<u32> {
        let now = now.as_nanos() >> self.shift;
        loop {
            let timer = self.slots[DUE].first;
            if timer != NONE {
                let next = self.timers[timer as usize].next;
                self.slots[DUE].first = next;
                if next == NONE {
                    self.slots[DUE].last = NONE;
                } else {
                    self.timers[next as usize].prev = NONE;
                }
                self.timers[timer as usize].prev = UNSET;
                self.len -= 1;
                return Some(timer);
            }
            match self.next_slot() {
                Some((at, start)) if start <= now => self.enter(at, start),
                _ => {
                    self.tick = self.tick.max(now);
                    return None;
                }
            }
        }
    }

    /// When to call [`Wheel::expire`] next: not after the first timer is due, perhaps before (when a slot of a
    /// higher level must be dealt out). A time that is past means at once; `None`: nothing is set.
    pub fn wake_at(&self) -> Option<Time> {
        if self.slots[DUE].first != NONE {
            return Some(Time::from_nanos(self.tick << self.shift));
        }
        self.next_slot().map(|(_, start)| match start.checked_shl(self.shift) {
            Some(ns) if ns >> self.shift == start => Time::from_nanos(ns),
            _ => Time::FOREVER,
        })
    }

    /// The first slot that is not empty, and the first tick of it. Levels come in order of time.
    fn next_slot(&self) -> Option<(usize, u64)> {
        for (level, words) in self.map.iter().enumerate() {
            for (i, word) in words.iter().enumerate() {
                if *word != 0 {
                    let slot = i * 64 + word.trailing_zeros() as usize;
                    let shift = 8 * level as u32;
                    let above = self.tick.checked_shr(shift + 8).unwrap_or(0);
                    let start = above.checked_shl(shift + 8).unwrap_or(0) | (slot as u64) << shift;
                    return Some((level * SLOTS + slot, start));
                }
            }
        }
        None
    }

    /// Time enters a slot: its timers become due, or are dealt to lower levels, in their order.
    fn enter(&mut self, at: usize, start: u64) {
        self.tick = start;
        let slot = core::mem::replace(&mut self.slots[at], EMPTY);
        self.mark(at, false);
        if at < SLOTS {
            self.slots[DUE] = slot;
            return;
        }
        let mut timer = slot.first;
        while timer != NONE {
            let Timer { tick, next, .. } = self.timers[timer as usize];
            self.append(self.slot_of(tick), timer);
            timer = next;
        }
    }

    /// The slot of a tick as seen from the present. As time goes on it stays the same until time enters that slot.
    fn slot_of(&self, tick: u64) -> usize {
        if tick <= self.tick {
            return DUE;
        }
        let level = (63 - (tick ^ self.tick).leading_zeros()) / 8;
        level as usize * SLOTS + (tick >> (8 * level)) as usize % SLOTS
    }

    fn append(&mut self, at: usize, timer: u32) {
        let last = self.slots[at].last;
        self.slots[at].last = timer;
        let entry = &mut self.timers[timer as usize];
        entry.next = NONE;
        entry.prev = last;
        if last == NONE {
            self.slots[at].first = timer;
            self.mark(at, true);
        } else {
            self.timers[last as usize].next = timer;
        }
    }

    fn mark(&mut self, at: usize, set: bool) {
        if at == DUE {
            return;
        }
        let (word, bit) = (at % SLOTS / 64, 1 << (at % 64));
        let word = &mut self.map[at / SLOTS][word];
        *word = if set { *word | bit } else { *word & !bit };
    }
}

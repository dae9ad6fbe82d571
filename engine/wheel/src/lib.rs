//! A hierarchical timing wheel (Varghese and Lauck 1987, scheme 7) with find-first-set: a million timers at constant
//! cost, for protocol engines, shapers and simulators alike.
//!
//! Time is cut into ticks of 2^n ns. Eight levels of 256 slots cover all of it: level 0 holds the next 256 ticks one
//! by one, level 1 the next 256 spans of 256 ticks, and so on. A timer lies in the level of the highest digit (base
//! 256) in which its tick differs from the present one; as time enters a slot of a higher level, its timers are
//! dealt to lower ones. A bitmap a level finds the next slot that is not empty, so silence costs nothing.
//!
//! Timers are named by the caller's own small numbers (the index of whatever they belong to). A slot is a list of
//! chunks of a dozen entries, so that dealing out and expiring read memory in order instead of chasing one timer
//! after the other; a table by timer says where each one is. Setting, moving and cancelling allocate nothing.
//!
//! A timer never expires early, and late by less than a tick. Timers of one tick expire in the order in which they
//! were set, except that the last of a slot takes the place of one that was cancelled or moved. So the order is a function of the
//! calls alone.
//!
//! Two questions about what comes next: [`Wheel::wake_at`] costs a look at a bitmap but may be early, because a slot has to be
//! dealt out before its first timer is due; [`Wheel::next`] is exact, and looks at every timer of the first slot that is not empty.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

use alloc::vec::Vec;
use terms::Time;

const NONE: u32 = u32::MAX;
const LEVELS: usize = 8;
const SLOTS: usize = 256;
const WORDS: usize = SLOTS / 64;
/// The list of those that are due, after all slots.
const DUE: usize = LEVELS * SLOTS;

/// Entries of a chunk: as many as make two lines of a cache.
const ENTRIES: usize = 15;

/// The wheel.
#[derive(Clone, Debug)]
pub struct Wheel {
    shift: u32,
    /// The present, in ticks: all slots before it are empty.
    tick: u64,
    slots: Vec<Slot>,
    map: [[u64; WORDS]; LEVELS],
    chunks: Vec<Chunk>,
    free: u32,
    /// By timer.
    places: Vec<Place>,
    /// How much of the first chunk of those that are due has expired.
    expired: u32,
    len: usize,
}

/// A list of chunks; all but the last are full.
#[derive(Clone, Copy, Debug)]
struct Slot {
    first: u32,
    last: u32,
    /// Entries in the last.
    len: u32,
}

const EMPTY: Slot = Slot { first: NONE, last: NONE, len: 0 };

#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Chunk {
    entries: [Entry; ENTRIES],
    next: u32,
    prev: u32,
}

/// A timer, and the lower half of its tick. The upper half is that of the present, but on the levels of [`FAR`].
#[derive(Clone, Copy, Debug)]
struct Entry {
    timer: u32,
    low: u32,
}

/// The first slot whose ticks may differ from the present in their upper half.
const FAR: usize = 4 * SLOTS;

/// Where a timer is (chunk x 16 + entry), and the upper half of its tick.
#[derive(Clone, Copy, Debug)]
struct Place {
    at: u32,
    high: u32,
}

/// Timers and chunks are numbered below this, so that a place is never [`NONE`].
const LIMIT: usize = (NONE / 16) as usize;

impl Wheel {
    /// A wheel with ticks of `2^shift` ns (at most 2^63), at `now`, for timers numbered below `timers`.
    pub fn new(shift: u32, now: Time, timers: usize) -> Wheel {
        let shift = shift.min(63);
        let mut wheel = Wheel {
            shift,
            tick: now.as_nanos() >> shift,
            slots: alloc::vec![EMPTY; DUE + 1],
            map: [[0; WORDS]; LEVELS],
            chunks: Vec::new(),
            free: NONE,
            places: Vec::new(),
            expired: 0,
            len: 0,
        };
        wheel.reserve(timers);
        wheel
    }

    /// Makes room for timers numbered below `timers`. The only call that allocates.
    pub fn reserve(&mut self, timers: usize) {
        let timers = timers.min(LIMIT / 2);
        if timers > self.places.len() {
            self.places.resize(timers, Place { at: NONE, high: 0 });
            // Full chunks, one in each slot that is not, and one that is being dealt out.
            let chunks = timers / ENTRIES + timers.min(DUE + 1) + 1;
            self.chunks.reserve_exact(chunks - self.chunks.len());
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
        self.places[timer as usize].high = (tick >> 32) as u32;
        self.append(self.slot_of(tick), Entry { timer, low: tick as u32 });
        self.len += 1;
    }

    /// Cancels the timer; says whether it was set.
    pub fn cancel(&mut self, timer: u32) -> bool {
        if !self.is_set(timer) {
            return false;
        }
        let Place { at, high } = self.places[timer as usize];
        self.places[timer as usize].at = NONE;
        let (chunk, entry) = (at as usize / 16, at as usize % 16);
        let low = self.chunks[chunk].entries[entry].low;
        let slot = self.slot_of(u64::from(high) << 32 | u64::from(low));
        // The last entry of the slot takes the place.
        let Slot { first, last, len } = self.slots[slot];
        let moved = self.chunks[last as usize].entries[len as usize - 1];
        self.slots[slot].len = len - 1;
        if moved.timer != timer {
            self.chunks[chunk].entries[entry] = moved;
            self.places[moved.timer as usize].at = at;
        }
        let gone = if slot == DUE && first == last { self.expired } else { 0 };
        if len - 1 == gone {
            self.drop_last(slot);
        }
        self.forget_one();
        true
    }

    /// Whether the timer is set.
    pub fn is_set(&self, timer: u32) -> bool {
        self.places.get(timer as usize).is_some_and(|place| place.at != NONE)
    }

    /// When the timer is due, if it is set: the time that it was set to, rounded up to a tick.
    pub fn due(&self, timer: u32) -> Option<Time> {
        let place = self.places.get(timer as usize).filter(|place| place.at != NONE)?;
        let low = self.chunks[place.at as usize / 16].entries[place.at as usize % 16].low;
        Some(self.time_of(u64::from(place.high) << 32 | u64::from(low)))
    }

    /// The next timer that is due at `now`; it is no longer set then. Ask until there is none.
    pub fn expire(&mut self, now: Time) -> Option<u32> {
        let now = now.as_nanos() >> self.shift;
        loop {
            let Slot { first, last, len } = self.slots[DUE];
            if first != NONE {
                let chunk = &self.chunks[first as usize];
                let timer = chunk.entries[self.expired as usize].timer;
                self.expired += 1;
                if self.expired == if first == last { len } else { ENTRIES as u32 } {
                    let rest = Slot { first: chunk.next, last, len };
                    self.slots[DUE] = if first == last { EMPTY } else { rest };
                    self.expired = 0;
                    self.give_back(first);
                }
                self.places[timer as usize].at = NONE;
                self.forget_one();
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

    /// When to call [`Wheel::expire`] next: not after the first timer is due; before it only when a slot of a higher level must be
    /// dealt out, which is when its first tick comes. That happens at most seven times in the life of a timer, the last time within
    /// 256 ticks of its expiry. A time that is past means at once; `None`: nothing is set.
    pub fn wake_at(&self) -> Option<Time> {
        if self.slots[DUE].first != NONE {
            return Some(self.time_of(self.tick));
        }
        self.next_slot().map(|(_, start)| self.time_of(start))
    }

    /// When the first timer is due, exactly (in ticks, as [`Wheel::due`]); `None`: nothing is set. Looks at one slot: all timers of
    /// one tick if the first is due within the present 256 ticks, else all of a span of 256, 65,536, ... ticks. Whoever
    /// asks after each [`Wheel::expire`] that said `None` pays once for what a slot holds each time it is dealt out.
    pub fn next(&self) -> Option<Time> {
        if self.slots[DUE].first != NONE {
            return Some(self.time_of(self.tick));
        }
        let (at, start) = self.next_slot()?;
        if at < SLOTS {
            return Some(self.time_of(start));
        }
        let Slot { first, last, len } = self.slots[at];
        let (mut chunk, mut least) = (first, u64::MAX);
        loop {
            let entries = if chunk == last { len as usize } else { ENTRIES };
            for entry in &self.chunks[chunk as usize].entries[..entries] {
                least = least.min(u64::from(self.high_of(at, start, entry.timer)) << 32 | u64::from(entry.low));
            }
            if chunk == last {
                return Some(self.time_of(least));
            }
            chunk = self.chunks[chunk as usize].next;
        }
    }

    /// The upper half of the tick of a timer in this slot.
    fn high_of(&self, slot: usize, start: u64, timer: u32) -> u32 {
        if slot < FAR { (start >> 32) as u32 } else { self.places[timer as usize].high }
    }

    /// The instant at which a tick begins.
    fn time_of(&self, tick: u64) -> Time {
        match tick.checked_shl(self.shift) {
            Some(ns) if ns >> self.shift == tick => Time::from_nanos(ns),
            _ => Time::FOREVER,
        }
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
    fn enter(&mut self, slot_at: usize, start: u64) {
        self.tick = start;
        let slot = core::mem::replace(&mut self.slots[slot_at], EMPTY);
        self.mark(slot_at, false);
        if slot_at < SLOTS {
            self.slots[DUE] = slot;
            return;
        }
        let mut from = slot.first;
        while from != NONE {
            let len = if from == slot.last { slot.len as usize } else { ENTRIES };
            for at in 0..len {
                let entry = self.chunks[from as usize].entries[at];
                let high = self.high_of(slot_at, start, entry.timer);
                self.append(self.slot_of(u64::from(high) << 32 | u64::from(entry.low)), entry);
            }
            let next = self.chunks[from as usize].next;
            self.give_back(from);
            from = if from == slot.last { NONE } else { next };
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

    fn append(&mut self, slot: usize, entry: Entry) {
        if self.slots[slot].last == NONE || self.slots[slot].len as usize == ENTRIES {
            self.add_chunk(slot);
        }
        let Slot { last, len, .. } = self.slots[slot];
        self.slots[slot].len = len + 1;
        self.chunks[last as usize].entries[len as usize] = entry;
        self.places[entry.timer as usize].at = last * 16 + len;
    }

    /// An empty chunk at the end of the slot.
    fn add_chunk(&mut self, slot: usize) {
        let last = self.slots[slot].last;
        let at = if self.free == NONE {
            let entries = [Entry { timer: NONE, low: 0 }; ENTRIES];
            self.chunks.push(Chunk { entries, next: NONE, prev: last });
            self.chunks.len() as u32 - 1
        } else {
            let at = self.free;
            let reused = &mut self.chunks[at as usize];
            self.free = reused.next;
            (reused.next, reused.prev) = (NONE, last);
            at
        };
        if last == NONE {
            self.slots[slot].first = at;
            self.mark(slot, true);
        } else {
            self.chunks[last as usize].next = at;
        }
        self.slots[slot].last = at;
        self.slots[slot].len = 0;
    }

    /// The last chunk of the slot is empty.
    fn drop_last(&mut self, slot: usize) {
        let last = self.slots[slot].last;
        let before = if self.slots[slot].first == last { NONE } else { self.chunks[last as usize].prev };
        self.give_back(last);
        if before == NONE {
            self.slots[slot] = EMPTY;
            self.mark(slot, false);
            if slot == DUE {
                self.expired = 0;
            }
        } else {
            self.slots[slot].last = before;
            self.slots[slot].len = ENTRIES as u32;
        }
    }

    /// One timer less. An empty wheel begins again with its memory in order.
    fn forget_one(&mut self) {
        self.len -= 1;
        if self.len == 0 {
            self.chunks.clear();
            self.free = NONE;
        }
    }

    fn give_back(&mut self, chunk: u32) {
        self.chunks[chunk as usize].next = self.free;
        self.free = chunk;
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

//! A hierarchical timing wheel (Varghese and Lauck 1987, scheme 7) with find-first-set: a million timers at
//! constant cost, for protocol engines, shapers and simulators alike.
//!
//! Time is cut into ticks of 2^n ns. Eight levels of 256 slots cover all of it: level 0 holds the next 256 ticks one
//! by one, level 1 the next 256 spans of 256 ticks, and so on. A timer lies in the level of the highest digit (base
//! 256) in which its tick differs from the present one; as time enters a slot of a higher level, its timers are
//! dealt to lower ones. A bitmap a level finds the next slot that is not empty, so silence costs nothing.
//!
//! Timers are named by the caller's own small numbers (indices into its table). A slot is a list of chunks of
//! fifteen entries, so that dealing out and expiring read memory in order instead of chasing one timer after
//! the other; a table by timer has their positions. Setting, moving and cancelling allocate nothing.
//!
//! A timer never expires early, and late by less than a tick. Timers of one tick expire in the order in which they
//! were set, except that the last of a slot takes the place of one that was cancelled or moved. So the order is a function of the
//! calls alone.
//!
//! Two calls find the next deadline. [`Wheel::wake_at`] costs a look at a bitmap but may be early, because a
//! slot has to be dealt out before its first timer is due. [`Wheel::next`] is exact, and looks at every timer
//! of the first slot that is not empty.
//!
//! # Contract
//!
//! - **Room** ([`Wheel::new`], [`Wheel::reserve`]): before a timer of that number is set; setting one without room
//!   panics. No other call grows the wheel.
//! - **Timers** ([`Wheel::set`], [`Wheel::cancel`]): at any time, between two calls of `expire` too. A time that is past
//!   is due at the next call of `expire`.
//! - **Expiry** ([`Wheel::expire`]): call it with the same `now` until it returns `None`. A timer that it returned is no
//!   longer set, and may be set again at once. Time never goes back: an earlier `now` expires nothing new.
//! - **Waking** ([`Wheel::wake_at`], [`Wheel::next`]): read one of them after `expire` returned `None`, and again after
//!   each [`Wheel::set`], which may be due earlier.
//! - **Views** ([`Wheel::len`], [`Wheel::is_set`], [`Wheel::due`]): at any time.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

use alloc::boxed::Box;
use alloc::vec::Vec;
use terms::Time;

const NONE: u32 = u32::MAX;
const LEVELS: usize = 8;
const SLOTS: usize = 256;
const WORDS: usize = SLOTS / 64;
/// The list of the timers that are due; its index is after those of all slots.
const DUE: usize = LEVELS * SLOTS;
/// The length of the slot table: a power of two, so that a slot's index needs no bounds check.
const PLACES: usize = 2 * DUE;

/// Entries of a chunk. The last one links to the next chunk and to the previous one.
const CHUNK: u32 = 16;
/// The index within a chunk of its link, which never holds a timer.
const LINK: u32 = CHUNK - 1;
/// Entries of a cache line; two lines make a chunk.
const LINE: u32 = 8;

/// The wheel.
#[derive(Clone, Debug)]
pub struct Wheel {
    shift: u32,
    /// The present, in ticks: all slots before it are empty.
    tick: u64,
    slots: Box<[Slot; PLACES]>,
    map: [[u64; WORDS]; LEVELS],
    lines: Vec<Line>,
    /// The first chunk that is free.
    free: u32,
    /// The place of each timer, by its number.
    places: Vec<Place>,
    /// The entry in the list of due timers that expires next.
    due: u32,
    len: usize,
}

/// A list of chunks; all but the last are full.
#[derive(Clone, Copy, Debug)]
struct Slot {
    /// The first chunk.
    first: u32,
    /// The entry that is filled next; a [`LINK`] if the last chunk is full, as [`NONE`] is without a chunk.
    tail: u32,
}

const EMPTY: Slot = Slot { first: NONE, tail: NONE };

#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Line([Entry; LINE as usize]);

/// A timer, and the lower half of its tick. The upper half is that of the present tick, except from slot
/// [`FAR`] on. In a [`LINK`]: the next chunk, and the previous one.
#[derive(Clone, Copy, Debug)]
struct Entry {
    timer: u32,
    low: u32,
}

/// The first slot whose ticks may differ from the present tick in their upper half.
const FAR: usize = 4 * SLOTS;

/// The position of a timer's entry, and the upper half of its tick.
#[derive(Clone, Copy, Debug)]
struct Place {
    at: u32,
    high: u32,
}

/// Timers and chunks are numbered below this, so that a place is never [`NONE`].
const LIMIT: usize = (NONE / CHUNK) as usize;

impl Wheel {
    /// A wheel with ticks of `2^shift` ns (at most 2^63), at `now`, for timers numbered below `timers`.
    pub fn new(shift: u32, now: Time, timers: usize) -> Wheel {
        let shift = shift.min(63);
        let mut wheel = Wheel {
            shift,
            tick: now.as_nanos() >> shift,
            slots: Box::new([EMPTY; PLACES]),
            map: [[0; WORDS]; LEVELS],
            lines: Vec::new(),
            free: NONE,
            places: Vec::new(),
            due: NONE,
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
            let chunks = timers / LINK as usize + timers.min(DUE + 1) + 1;
            self.lines.reserve_exact(chunks * (CHUNK / LINE) as usize - self.lines.len());
        }
    }

    /// The number of timers that are set.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if no timer is set.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Sets the timer to `at`, or moves it there. A time that is past is due at once.
    ///
    /// # Panics
    /// If no room was made for a timer of this number.
    #[inline]
    pub fn set(&mut self, timer: u32, at: Time) {
        if self.places[timer as usize].at != NONE {
            self.cancel(timer);
        }
        let mask = (1u64 << self.shift) - 1;
        let tick = (at.as_nanos() >> self.shift) + u64::from(at.as_nanos() & mask != 0);
        let at = self.append(self.slot_of(tick), Entry { timer, low: tick as u32 });
        self.places[timer as usize] = Place { at, high: (tick >> 32) as u32 };
        self.len += 1;
    }

    /// Cancels the timer; true if it was set.
    pub fn cancel(&mut self, timer: u32) -> bool {
        if !self.is_set(timer) {
            return false;
        }
        let Place { at, high } = self.places[timer as usize];
        self.places[timer as usize].at = NONE;
        let low = self.entry(at).low;
        let slot = self.slot_of(u64::from(high) << 32 | u64::from(low));
        // The last entry of the slot takes the place.
        let last = self.slots[slot % PLACES].tail - 1;
        let moved = self.entry(last);
        self.slots[slot % PLACES].tail = last;
        if last != at {
            *self.entry_mut(at) = moved;
            self.places[moved.timer as usize].at = at;
        }
        if last.is_multiple_of(CHUNK) || (slot == DUE && last == self.due) {
            self.drop_last(slot);
        }
        self.forget_one();
        true
    }

    /// True if the timer is set.
    pub fn is_set(&self, timer: u32) -> bool {
        self.places.get(timer as usize).is_some_and(|place| place.at != NONE)
    }

    /// The time at which the timer is due, if it is set: the time that it was set to, rounded up to a tick.
    pub fn due(&self, timer: u32) -> Option<Time> {
        let place = self.places.get(timer as usize).filter(|place| place.at != NONE)?;
        Some(self.time_of(u64::from(place.high) << 32 | u64::from(self.entry(place.at).low)))
    }

    /// Takes the next timer that is due at `now`; it is no longer set then. Call until it returns `None`.
    #[inline]
    pub fn expire(&mut self, now: Time) -> Option<u32> {
        let now = now.as_nanos() >> self.shift;
        loop {
            if self.due != NONE {
                let timer = self.entry(self.due).timer;
                self.due += 1;
                let Slot { first, tail } = self.slots[DUE];
                if self.due == tail {
                    self.slots[DUE] = EMPTY;
                    self.due = NONE;
                    self.give_back(first);
                } else if self.due % CHUNK == LINK {
                    let next = self.entry(self.due).timer;
                    self.slots[DUE].first = next;
                    self.due = next * CHUNK;
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

    /// The time of the next call of [`Wheel::expire`]. It is never after the first timer is due. It is before
    /// that only when a slot of a higher level must be dealt out, which is at the slot's first tick. That
    /// happens at most seven times in the life of a timer, the last time within 256 ticks of its expiry. A
    /// time in the past means at once; `None`: no timer is set.
    pub fn wake_at(&self) -> Option<Time> {
        if self.due != NONE {
            return Some(self.time_of(self.tick));
        }
        self.next_slot().map(|(_, start)| self.time_of(start))
    }

    /// The exact time at which the first timer is due (in ticks, as [`Wheel::due`]); `None`: no timer is set.
    /// It looks at one slot: all timers of one tick if the first is due within the present 256 ticks, else
    /// all of a span of 256, 65,536, ... ticks. A caller that asks after each [`Wheel::expire`] that returned
    /// `None` pays once for the contents of a slot each time it is dealt out.
    pub fn next(&self) -> Option<Time> {
        if self.due != NONE {
            return Some(self.time_of(self.tick));
        }
        let (at, start) = self.next_slot()?;
        if at < SLOTS {
            return Some(self.time_of(start));
        }
        let mut least = u64::MAX;
        self.each(self.slots[at], |entry| {
            least = least.min(u64::from(self.high_of(at, start, entry.timer)) << 32 | u64::from(entry.low));
        });
        Some(self.time_of(least))
    }

    /// Looks at all entries of a slot that is not empty, in order.
    fn each(&self, slot: Slot, mut look: impl FnMut(Entry)) {
        let (mut at, tail) = (slot.first * CHUNK, slot.tail);
        loop {
            if at % CHUNK == LINK {
                at = self.entry(at).timer * CHUNK;
            }
            look(self.entry(at));
            at += 1;
            if at == tail {
                return;
            }
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

    /// The first slot that is not empty, and its first tick. Levels are in order of time.
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
            self.due = slot.first * CHUNK;
            return;
        }
        let mut from = slot.first * CHUNK;
        while from != slot.tail {
            if from % CHUNK == LINK {
                let next = self.entry(from).timer;
                self.give_back(from / CHUNK);
                from = next * CHUNK;
            }
            let entry = self.entry(from);
            let high = self.high_of(slot_at, start, entry.timer);
            let at = self.append(self.slot_of(u64::from(high) << 32 | u64::from(entry.low)), entry);
            self.places[entry.timer as usize].at = at;
            from += 1;
        }
        self.give_back((from - 1) / CHUNK);
    }

    /// The slot of a tick as seen from the present. As time goes on it stays the same until time enters that slot.
    #[inline]
    fn slot_of(&self, tick: u64) -> usize {
        if tick <= self.tick {
            return DUE;
        }
        // Eight times the level: the lowest bit of the digit.
        let bit = (63 - (tick ^ self.tick).leading_zeros()) & !7;
        bit as usize / 8 * SLOTS + (tick >> bit) as usize % SLOTS
    }

    #[inline]
    fn entry(&self, at: u32) -> Entry {
        self.lines[(at / LINE) as usize].0[(at % LINE) as usize]
    }

    #[inline]
    fn entry_mut(&mut self, at: u32) -> &mut Entry {
        &mut self.lines[(at / LINE) as usize].0[(at % LINE) as usize]
    }

    /// Puts an entry at the end of a slot, and returns its position.
    #[inline]
    fn append(&mut self, slot: usize, entry: Entry) -> u32 {
        let mut at = self.slots[slot % PLACES].tail;
        if at % CHUNK == LINK {
            at = self.add_chunk(slot);
        }
        *self.entry_mut(at) = entry;
        self.slots[slot % PLACES].tail = at + 1;
        at
    }

    /// Adds an empty chunk to the end of the slot, and returns its first entry.
    #[inline(never)]
    fn add_chunk(&mut self, slot: usize) -> u32 {
        let Slot { tail, .. } = self.slots[slot % PLACES];
        let chunk = self.take_chunk();
        let before = if tail == NONE { NONE } else { tail / CHUNK };
        *self.entry_mut(chunk * CHUNK + LINK) = Entry { timer: NONE, low: before };
        if tail == NONE {
            self.slots[slot % PLACES].first = chunk;
            self.mark(slot, true);
            if slot == DUE {
                self.due = chunk * CHUNK;
            }
        } else {
            self.entry_mut(tail).timer = chunk;
        }
        chunk * CHUNK
    }

    fn take_chunk(&mut self) -> u32 {
        if self.free == NONE {
            let empty = Line([Entry { timer: NONE, low: 0 }; LINE as usize]);
            self.lines.extend([empty; (CHUNK / LINE) as usize]);
            return self.lines.len() as u32 / (CHUNK / LINE) - 1;
        }
        let chunk = self.free;
        self.free = self.entry(chunk * CHUNK + LINK).timer;
        chunk
    }

    fn give_back(&mut self, chunk: u32) {
        self.entry_mut(chunk * CHUNK + LINK).timer = self.free;
        self.free = chunk;
    }

    /// Gives back the last chunk of the slot, which is empty or has expired.
    fn drop_last(&mut self, slot: usize) {
        let Slot { first, tail } = self.slots[slot % PLACES];
        let last = tail / CHUNK;
        let before = self.entry(last * CHUNK + LINK).low;
        self.give_back(last);
        if first == last {
            self.slots[slot % PLACES] = EMPTY;
            self.mark(slot, false);
            if slot == DUE {
                self.due = NONE;
            }
        } else {
            self.slots[slot % PLACES].tail = before * CHUNK + LINK;
        }
    }

    /// Counts one timer less. An empty wheel begins again with its memory in order.
    #[inline]
    fn forget_one(&mut self) {
        self.len -= 1;
        if self.len == 0 {
            self.lines.clear();
            self.free = NONE;
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

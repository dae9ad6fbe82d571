//! A check of the table against its slots (FAULTS.md I2), and a digest of its state (I5, I9).

use super::SlotTable;
use crate::quantity::Quantity;
use crate::slot::Slot;
use crate::state::SlotState;
use alloc::collections::BTreeMap;
use terms::Time;

/// An aggregate that is not the sum of its parts. It is a bug of this crate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AggregateDrift {
    /// The name of the aggregate.
    pub what: &'static str,
}

impl<Q: Quantity> SlotTable<Q> {
    /// Recomputes every sum and the whole profile from the slots. Takes time in proportion to the slots.
    ///
    /// # Errors
    /// [`AggregateDrift`] names the first aggregate that is wrong.
    pub fn audit(&self) -> Result<(), AggregateDrift> {
        let (mut standing, mut sheltered, mut loose, mut undecided) = (0u64, 0u64, 0u64, 0usize);
        let mut deltas: BTreeMap<Time, i64> = BTreeMap::new();
        let mut book = |start: Time, end: Time, count: i64| {
            *deltas.entry(start).or_insert(0) += count;
            if end != Time::FOREVER {
                *deltas.entry(end).or_insert(0) -= count;
            }
        };
        for (id, slot) in self.slots.iter() {
            let count = slot.amount.count();
            match slot.state {
                SlotState::Open if slot.until == Time::FOREVER => standing += count,
                SlotState::Open if self.loose_slots.contains(&(slot.until, id)) => loose += count,
                SlotState::Open => {
                    sheltered += count;
                    book(slot.window.start(), slot.until, count as i64);
                }
                _ => {
                    undecided += usize::from(slot.state != SlotState::Committed);
                    book(slot.window.start(), slot.window.end(), count as i64);
                }
            }
        }
        deltas.retain(|_, delta| *delta != 0);
        let mut level = 0i64;
        let steps = deltas.into_iter().map(|(t, delta)| {
            level += delta;
            (t, level as u64)
        });
        let wrong = |what| Err(AggregateDrift { what });
        match () {
            () if standing != self.whole.standing() => wrong("sum of open slots"),
            () if sheltered != self.sheltered => wrong("sum of sheltered slots"),
            () if loose != self.loose => wrong("sum of loose slots"),
            () if undecided != self.undecided => wrong("number of undecided slots"),
            () if self.slots.iter().count() != self.slots.len() => wrong("number of slots"),
            () if !self.agenda.is_of(self.slots.iter(), self.now) => wrong("agenda"),
            () if !steps.eq(self.whole.profile().steps()) => wrong("profile"),
            () => {
                let slot = |id| self.slots.get(id).ok().map(|slot| (slot.window, slot.state));
                let pool = self.pool.as_ref().map_or(Ok(()), |pool| pool.audit(slot));
                self.whole.profile().audit().and(pool).map_err(|what| AggregateDrift { what })
            }
        }
    }

    /// A digest of the logical state: offer, capacity, time, every slot with its handle, and the sub-pool. Equal states have equal
    /// digests on every machine; it is no protection against forgery.
    pub fn digest(&self) -> u64 {
        let mut digest = Digest(0);
        digest.eat(self.now.as_nanos());
        digest.eat(self.offer.signalled_share.map_or(u64::MAX, Quantity::count));
        digest.eat(self.offer.assumed_holding.map_or(u64::MAX, |span| span.as_nanos()));
        for &(at, capacity) in self.whole.capacity().steps() {
            digest.eat(at.as_nanos());
            digest.eat(capacity);
        }
        for (id, slot) in self.slots.iter() {
            digest.eat(id.as_u64());
            digest.eat_slot(&slot);
        }
        self.pool.iter().flat_map(|pool| pool.words()).for_each(|word| digest.eat(word));
        digest.0
    }

    /// The number of instants at which the booked amount changes.
    pub fn edges(&self) -> usize {
        self.whole.profile().boundaries()
    }

    /// Bytes of memory that the table takes.
    pub fn bytes(&self) -> usize {
        let pool = self.pool.as_ref().map_or(0, |pool| pool.bytes());
        size_of::<SlotTable<Q>>() + self.slots.bytes() + self.agenda.bytes() + self.whole.profile().bytes() + pool
    }
}

struct Digest(u64);

impl Digest {
    /// Adds one word by SplitMix64's finishing step (Steele, Lea, Flood, OOPSLA 2014).
    fn eat(&mut self, word: u64) {
        let z = (self.0.rotate_left(5) ^ word).wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        self.0 = z ^ (z >> 27);
    }

    fn eat_slot<Q: Quantity>(&mut self, slot: &Slot<Q>) {
        self.eat(slot.window.start().as_nanos());
        self.eat(slot.window.end().as_nanos());
        self.eat(slot.amount.count());
        self.eat(slot.until.as_nanos());
        self.eat(slot.state as u64 * 2 + u64::from(slot.begun));
    }
}

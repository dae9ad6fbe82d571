//! A check of the table against its slots (FAULTS.md I2), and a digest of its state (I5, I9).

use crate::slot::Slot;
use crate::state::SlotState;
use crate::table::SlotTable;
use alloc::collections::BTreeMap;
use terms::Time;

/// An aggregate that is not the sum of its parts. It is a bug of this crate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AggregateDrift {
    /// The name of the aggregate.
    pub what: &'static str,
}

impl SlotTable {
    /// Recomputes every sum and the whole profile from the slots. Takes time in proportion to the slots.
    ///
    /// # Errors
    /// [`AggregateDrift`] names the first aggregate that is wrong.
    pub fn audit(&self) -> Result<(), AggregateDrift> {
        let (mut standing, mut sheltered, mut loose, mut undecided) = (0u64, 0u64, 0u64, 0usize);
        let mut deltas: BTreeMap<Time, i64> = BTreeMap::new();
        let mut book = |start: Time, end: Time, bps: i64| {
            *deltas.entry(start).or_insert(0) += bps;
            if end != Time::FOREVER {
                *deltas.entry(end).or_insert(0) -= bps;
            }
        };
        for (id, slot) in self.slots.iter() {
            let bps = slot.rate.as_bps();
            match slot.state {
                SlotState::Open if slot.until == Time::FOREVER => standing += bps,
                SlotState::Open if self.loose_slots.contains(&(slot.until, id)) => loose += bps,
                SlotState::Open => {
                    sheltered += bps;
                    book(slot.window.start(), slot.until, bps as i64);
                }
                _ => {
                    undecided += usize::from(slot.state != SlotState::Committed);
                    book(slot.window.start(), slot.window.end(), bps as i64);
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
            () if standing != self.standing => wrong("sum of open slots"),
            () if sheltered != self.sheltered => wrong("sum of sheltered slots"),
            () if loose != self.loose => wrong("sum of loose slots"),
            () if undecided != self.undecided => wrong("number of undecided slots"),
            () if self.slots.iter().count() != self.slots.len() => wrong("number of slots"),
            () if !self.agenda.is_of(self.slots.iter(), self.now) => wrong("agenda"),
            () if !steps.eq(self.profile.steps()) => wrong("profile"),
            () => self.profile.audit().map_err(|what| AggregateDrift { what }),
        }
    }

    /// A digest of the logical state: offer, capacity, time, and every slot with its handle. Equal states have equal
    /// digests on every machine; it is no protection against forgery.
    pub fn digest(&self) -> u64 {
        let mut digest = Digest(0);
        digest.eat(self.now.as_nanos());
        digest.eat(self.offer.signalled_share.map_or(u64::MAX, |share| share.as_bps()));
        digest.eat(self.offer.assumed_holding.map_or(u64::MAX, |span| span.as_nanos()));
        for &(at, rate) in self.capacity.steps() {
            digest.eat(at.as_nanos());
            digest.eat(rate.as_bps());
        }
        for (id, slot) in self.slots.iter() {
            digest.eat(id.as_u64());
            digest.eat_slot(&slot);
        }
        digest.0
    }

    /// The number of instants at which the booked rate changes.
    pub fn edges(&self) -> usize {
        self.profile.boundaries()
    }

    /// Bytes of memory that the table takes.
    pub fn bytes(&self) -> usize {
        size_of::<SlotTable>() + self.slots.bytes() + self.agenda.bytes() + self.profile.bytes()
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

    fn eat_slot(&mut self, slot: &Slot) {
        self.eat(slot.window.start().as_nanos());
        self.eat(slot.window.end().as_nanos());
        self.eat(slot.rate.as_bps());
        self.eat(slot.until.as_nanos());
        self.eat(slot.state as u64 * 2 + u64::from(slot.begun));
    }
}

//! A grant: one slot given to a sub-admitter, which divides it by its own rule and never exceeds it.
//!
//! The ledger sees the slot and not its parts. The parts of a division with [`Inside::Exact`] add up to at
//! most the grant. With [`Inside::Statistical`] (a measured sum) they may add up to more.

use crate::denied::Denied;
use crate::slot::SlotId;
use crate::table::{SlotChange, SlotTable};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use terms::{Misuse, Rate, Window};

/// The limit on the sum of a grant's parts.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Inside {
    /// At most the grant.
    Exact,
    /// Possibly more than the grant: the sub-admitter expects that not all parts are used at once. No part
    /// alone is larger than the grant.
    Statistical,
}

/// The number of a part of a grant. Numbers are never used twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PartId(pub u64);

/// A change to a part, for a plane to follow.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PartChange {
    /// The part.
    pub part: PartId,
    /// Its old rate.
    pub from: Rate,
    /// Its new rate; zero if it is gone.
    pub to: Rate,
}

/// A slot and its division into parts.
#[derive(Clone, Debug)]
pub struct Grant {
    slot: SlotId,
    rate: Rate,
    inside: Inside,
    limit: usize,
    parts: BTreeMap<PartId, Rate>,
    sum: u128,
    next: u64,
}

impl Grant {
    /// Takes a grant of `rate` for `window` out of a table, with at most `limit` parts.
    ///
    /// # Errors
    /// As [`SlotTable::grant`].
    pub fn take(
        table: &mut SlotTable,
        window: Window,
        rate: Rate,
        inside: Inside,
        limit: usize,
    ) -> Result<Grant, Denied> {
        let slot = table.grant(window, rate)?;
        Ok(Grant { slot, rate, inside, limit, parts: BTreeMap::new(), sum: 0, next: 0 })
    }

    /// The grant's slot in the ledger.
    pub fn slot(&self) -> SlotId {
        self.slot
    }

    /// The rate of the grant.
    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// The limit on the sum of the parts.
    pub fn inside(&self) -> Inside {
        self.inside
    }

    /// The largest rate that a new part could have.
    pub fn free(&self) -> Rate {
        match self.inside {
            Inside::Statistical => self.rate,
            Inside::Exact => Rate::from_bps((u128::from(self.rate.as_bps()).saturating_sub(self.sum)) as u64),
        }
    }

    /// Every part, in order of age.
    pub fn parts(&self) -> impl Iterator<Item = (PartId, Rate)> + '_ {
        self.parts.iter().map(|(&part, &rate)| (part, rate))
    }

    /// Makes a new part.
    ///
    /// # Errors
    /// [`Denied`]: it does not fit in the grant, there are too many parts, the rate is zero.
    pub fn add(&mut self, rate: Rate) -> Result<PartId, Denied> {
        if rate == Rate::ZERO {
            return Err(Misuse::ZeroRate.into());
        }
        if self.parts.len() >= self.limit {
            return Err(Denied::Limit { what: "parts of a grant", limit: self.limit });
        }
        if rate > self.free() {
            return Err(Denied::Capacity { asked: rate, free: self.free() });
        }
        let part = PartId(self.next);
        self.next += 1;
        self.parts.insert(part, rate);
        self.sum += u128::from(rate.as_bps());
        Ok(part)
    }

    /// Gives a part back.
    ///
    /// # Errors
    /// [`Misuse::UnknownHandle`].
    pub fn remove(&mut self, part: PartId) -> Result<Rate, Misuse> {
        let rate = self.parts.remove(&part).ok_or(Misuse::UnknownHandle)?;
        self.sum -= u128::from(rate.as_bps());
        Ok(rate)
    }

    /// Divides anew: every part named gets its new rate (zero removes it), the others keep theirs. All or
    /// nothing. Returns the changes, decreases before increases, so that a plane which follows them in order
    /// never carries more than the grant. If a part is named twice, the last entry counts.
    ///
    /// # Errors
    /// [`Denied`]: a part that is unknown or larger than the grant, or a sum that does not fit.
    pub fn redivide(&mut self, wanted: &[(PartId, Rate)]) -> Result<Vec<PartChange>, Denied> {
        let wanted: BTreeMap<PartId, Rate> = wanted.iter().copied().collect();
        let mut sum = self.sum;
        let mut changes = Vec::new();
        for (&part, &to) in &wanted {
            let from = *self.parts.get(&part).ok_or(Misuse::UnknownHandle)?;
            if to > self.rate {
                return Err(Denied::Capacity { asked: to, free: self.rate });
            }
            sum = sum - u128::from(from.as_bps()) + u128::from(to.as_bps());
            if from != to {
                changes.push(PartChange { part, from, to });
            }
        }
        if self.inside == Inside::Exact && sum > u128::from(self.rate.as_bps()) {
            let asked = Rate::from_bps(u64::try_from(sum).unwrap_or(u64::MAX));
            return Err(Denied::Capacity { asked, free: self.rate });
        }
        changes.sort_by_key(|change| (change.to > change.from, change.part));
        for change in &changes {
            if change.to == Rate::ZERO {
                self.parts.remove(&change.part);
            } else {
                self.parts.insert(change.part, change.to);
            }
        }
        self.sum = sum;
        Ok(changes)
    }

    /// Makes the grant itself larger or smaller. It never shrinks below its parts: divide anew first.
    ///
    /// # Errors
    /// [`Denied`]: the ledger does not have that much, the parts need more, or the slot is over.
    pub fn resize(&mut self, table: &mut SlotTable, rate: Rate) -> Result<(), Denied> {
        let least = match self.inside {
            Inside::Exact => self.sum,
            Inside::Statistical => self.parts.values().map(|rate| u128::from(rate.as_bps())).max().unwrap_or(0),
        };
        if u128::from(rate.as_bps()) < least {
            return Err(Denied::Capacity { asked: Rate::from_bps(least as u64), free: rate });
        }
        self.rate = table.modify(self.slot, SlotChange::amount(rate))?.amount;
        Ok(())
    }

    /// Gives the whole grant back, with its parts. It is no error if the slot is over already.
    pub fn give_back(self, table: &mut SlotTable) {
        // The slot may have closed at the end of its window; then there is nothing left to give.
        let _ = table.release(self.slot);
    }
}

//! Free buckets. A freed bucket is reused as late as possible: a packet that is still in the program may
//! write to it.

use std::collections::{BTreeSet, VecDeque};
use terms::Fault;

/// The buckets of a flow table.
#[derive(Debug)]
pub struct Slots {
    limit: u32,
    /// Freed slots, oldest first.
    free: VecDeque<u32>,
    /// The first of the slots that were never used; it is above all slots in use.
    next: u32,
}

impl Slots {
    /// The slots of a table for `limit` flows, with those that are `used`.
    pub fn new(limit: u32, used: &BTreeSet<u32>) -> Slots {
        let next = used.last().map_or(0, |last| last.saturating_add(1));
        Slots { limit, free: (0..next).filter(|slot| !used.contains(slot)).collect(), next }
    }

    /// Takes a free slot.
    ///
    /// # Errors
    /// ENOSPC: the table is full.
    pub fn take(&mut self) -> Result<u32, Fault> {
        if self.next < self.limit {
            self.next += 1;
            return Ok(self.next - 1);
        }
        self.free.pop_front().ok_or(Fault { what: "the flow map is full", code: libc::ENOSPC })
    }

    /// Frees a slot.
    pub fn give(&mut self, slot: u32) {
        if slot < self.limit {
            self.free.push_back(slot);
        }
    }

    /// Marks a slot as used (again).
    pub fn keep(&mut self, slot: u32) {
        if let Some(at) = self.free.iter().rposition(|free| *free == slot) {
            self.free.remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bucket_once_and_the_freshest_last() {
        let mut slots = Slots::new(5, &BTreeSet::from([1, 2]));
        assert_eq!((slots.take(), slots.take()), (Ok(3), Ok(4)));
        slots.give(3);
        assert_eq!((slots.take(), slots.take()), (Ok(0), Ok(3)));
        assert_eq!(slots.take().expect_err("full").code, libc::ENOSPC);
        slots.give(2);
        slots.give(4);
        slots.keep(2);
        assert_eq!(slots.take(), Ok(4));
        slots.give(9);
        assert!(slots.take().is_err(), "a slot that another table had");
    }
}

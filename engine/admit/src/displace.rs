//! The room that displacing open slots would make. The caller chooses the slots (RFC 3181: by priorities,
//! which the table does not know). The table computes exactly, and without a change, if they would be enough.

use crate::link::LinkLedger;
use crate::slot::SlotId;
use crate::state::SlotState;
use crate::table::SlotTable;
use alloc::vec::Vec;
use terms::{Rate, Time};

impl SlotTable {
    /// The rate that could be opened without the open slots of `gone`; with `of`, the total rate that this
    /// open slot could have. Slots of other states count as usual. The table is unchanged afterwards.
    pub fn free_without(&mut self, gone: &[SlotId], of: Option<SlotId>) -> Rate {
        let open =
            |id: &SlotId| self.slots.get(*id).ok().filter(|slot| slot.state == SlotState::Open).map(|slot| (*id, slot));
        let mut gone: Vec<_> = gone.iter().filter(|id| Some(**id) != of).filter_map(open).collect();
        gone.sort_unstable_by_key(|(id, _)| *id);
        gone.dedup_by_key(|(id, _)| *id);
        gone.iter().for_each(|(id, slot)| self.uncount_open(*id, slot));
        let free = match of.and_then(|id| self.slots.get(id).ok()) {
            Some(slot) => slot.rate.saturating_add(self.free_to_open_until(slot.until)),
            None => self.free_to_open(),
        };
        gone.iter().for_each(|(id, slot)| self.count_open(*id, slot));
        free
    }
}

impl LinkLedger {
    /// As [`SlotTable::free_without`].
    pub fn free_without(&mut self, now: Time, gone: &[SlotId], of: Option<SlotId>) -> Rate {
        self.table_mut().expire(now);
        self.table_mut().free_without(gone, of)
    }
}

//! What displacing open slots would make room for. Who has to go is decided outside (RFC 3181: by priorities that the
//! table does not know); the table says, exactly and without changing anything, whether it would be enough.

use crate::link::LinkLedger;
use crate::slot::SlotId;
use crate::state::SlotState;
use crate::table::SlotTable;
use alloc::vec::Vec;
use terms::{Rate, Time};

impl SlotTable {
    /// What could be opened if these open slots were not there, or, with `of`, how much that open slot could have in
    /// all. Slots that are not open count as they do. Nothing is different afterwards.
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

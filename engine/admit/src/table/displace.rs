//! The room that displacing open slots would make. The caller chooses the slots (RFC 3181: by priorities,
//! which the table does not know). The table computes exactly, and without a change, if they would be enough.

use super::SlotTable;
use crate::quantity::Quantity;
use crate::slot::SlotId;
use crate::state::SlotState;
use alloc::vec::Vec;

impl<Q: Quantity> SlotTable<Q> {
    /// The amount that could be opened without the open slots of `gone`; with `of`, the total that this
    /// open slot could have. Slots of other states count as usual. The table is unchanged afterwards.
    pub fn free_without(&mut self, gone: &[SlotId], of: Option<SlotId>) -> Q {
        let open =
            |id: &SlotId| self.slots.get(*id).ok().filter(|slot| slot.state == SlotState::Open).map(|slot| (*id, slot));
        let mut gone: Vec<_> = gone.iter().filter(|id| Some(**id) != of).filter_map(open).collect();
        gone.sort_unstable_by_key(|(id, _)| *id);
        gone.dedup_by_key(|(id, _)| *id);
        gone.iter().for_each(|(id, slot)| self.uncount_open(*id, slot));
        let free = match of.and_then(|id| self.slots.get(id).ok()) {
            Some(slot) => sum(slot.amount, self.free_to_open_until(slot.until)),
            None => self.free_to_open(),
        };
        gone.iter().for_each(|(id, slot)| self.count_open(*id, slot));
        free
    }
}

/// The sum, or the largest amount.
fn sum<Q: Quantity>(a: Q, b: Q) -> Q {
    Q::of(a.count().saturating_add(b.count()))
}

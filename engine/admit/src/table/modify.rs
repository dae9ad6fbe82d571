//! Changing a slot: the old stays unless the new fits at every instant (FAULTS.md T5, T6).

use super::SlotTable;
use crate::denied::Denied;
use crate::quantity::Quantity;
use crate::slot::{Slot, SlotId};
use crate::state::{SlotState, SlotStep};
use terms::{Misuse, Rate, Time, Window};

/// A change to a slot. `None` leaves the value as it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SlotChange<Q = Rate> {
    /// The new amount. What the slot takes of a sub-pool stays as it is.
    pub amount: Option<Q>,
    /// The new start; not for a slot that has begun, nor for an open one.
    pub start: Option<Time>,
    /// The new end; not for an open slot.
    pub end: Option<Time>,
}

impl<Q> SlotChange<Q> {
    /// A change of the amount alone.
    pub const fn amount(amount: Q) -> SlotChange<Q> {
        SlotChange { amount: Some(amount), start: None, end: None }
    }

    /// A change of the window alone.
    pub fn window(window: Window) -> SlotChange<Q> {
        SlotChange { amount: None, start: Some(window.start()), end: Some(window.end()) }
    }
}

impl<Q: Quantity> SlotTable<Q> {
    /// Changes amount, start or end of a held, committed or open slot. Only growth must fit: a slot may always
    /// shrink, even if capacity was lowered below what is given away. Returns the new slot.
    ///
    /// # Errors
    /// [`Denied`], and the old slot stays: the growth does not fit, an amount of zero, a window that is empty or
    /// over, a start for a slot that has begun, a window for an open slot, a promised slot, a stale handle.
    pub fn modify(&mut self, id: SlotId, change: SlotChange<Q>) -> Result<Slot<Q>, Denied<Q>> {
        let old = self.slots.get(id)?;
        old.state.after(SlotStep::Modify)?;
        let amount = change.amount.unwrap_or(old.amount);
        if amount == Q::ZERO {
            return Err(Misuse::ZeroRate.into());
        }
        let new = if old.state == SlotState::Open {
            if change.start.is_some() || change.end.is_some() {
                return Err(Misuse::WrongState.into());
            }
            self.resize_open(id, old, amount)?
        } else {
            let new = Slot { window: self.new_window(&old, change)?, amount, ..old };
            self.must_grow(&old, &new)?;
            if let Some(pool) = &mut self.pool {
                let refused = |(asked, free)| Denied::Pool { asked: Q::of(asked), free: Q::of(free) };
                pool.may_move(self.now, id, old.window, new.window).map_err(refused)?;
                pool.shift(id, old.window, new.window);
            }
            self.whole.remove(old.window.start(), old.window.end(), old.amount.count());
            self.whole.add(new.window.start(), new.window.end(), amount.count());
            new
        };
        self.slots.put(id, new);
        self.agenda.change(id, &old, &new);
        self.settle();
        Ok(self.slots.get(id).unwrap_or(new))
    }

    /// The window after the change. A window that has started keeps its start.
    fn new_window(&self, old: &Slot<Q>, change: SlotChange<Q>) -> Result<Window, Misuse> {
        let start = match change.start {
            None => old.window.start(),
            Some(start) if start <= self.now && old.window.start() <= self.now => old.window.start(),
            Some(start) if old.begun && start != old.window.start() => return Err(Misuse::WrongState),
            Some(start) => start.max(self.now),
        };
        let end = change.end.unwrap_or(old.window.end());
        if end <= self.now {
            return Err(Misuse::Past { end, now: self.now });
        }
        Window::new(start, end)
    }

    /// Checks that the growth from `old` to `new` fits at every instant from now on.
    fn must_grow(&self, old: &Slot<Q>, new: &Slot<Q>) -> Result<(), Denied<Q>> {
        let more = growth(old.amount, new.amount);
        let pieces = [
            (new.window.start(), new.window.end().min(old.window.start()), new.amount),
            (new.window.start().max(old.window.start()), new.window.end().min(old.window.end()), more),
            (new.window.start().max(old.window.end()), new.window.end(), new.amount),
        ];
        for (start, end, amount) in pieces {
            if let (Ok(piece), true) = (Window::new(start.max(self.now), end), amount > Q::ZERO) {
                self.must_fit(piece, amount)?;
            }
        }
        Ok(())
    }

    fn resize_open(&mut self, id: SlotId, old: Slot<Q>, amount: Q) -> Result<Slot<Q>, Denied<Q>> {
        let more = growth(old.amount, amount);
        let free = self.free_to_open_until(old.until);
        if more > free {
            return Err(Denied::Capacity { asked: more, free });
        }
        let new = Slot { amount, ..old };
        self.uncount_open(id, &old);
        self.count_open(id, &new);
        Ok(new)
    }
}

fn growth<Q: Quantity>(old: Q, new: Q) -> Q {
    Q::of(new.count().saturating_sub(old.count()))
}

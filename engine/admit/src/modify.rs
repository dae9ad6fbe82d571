//! Changing a slot: the old stays unless the new fits at every instant (FAULTS.md T5, T6).

use crate::denied::Denied;
use crate::slot::{Slot, SlotId};
use crate::state::{SlotState, SlotStep};
use crate::table::SlotTable;
use terms::{Misuse, Rate, Time, Window};

/// A change to a slot. `None` leaves the value as it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SlotChange {
    /// The new rate.
    pub rate: Option<Rate>,
    /// The new start; not for a slot that has begun, nor for an open one.
    pub start: Option<Time>,
    /// The new end; not for an open slot.
    pub end: Option<Time>,
}

impl SlotChange {
    /// A change of the rate alone.
    pub const fn rate(rate: Rate) -> SlotChange {
        SlotChange { rate: Some(rate), start: None, end: None }
    }

    /// A change of the window alone.
    pub fn window(window: Window) -> SlotChange {
        SlotChange { rate: None, start: Some(window.start()), end: Some(window.end()) }
    }
}

impl SlotTable {
    /// Changes rate, start or end of a held, committed or open slot. Only growth must fit: a slot may always
    /// shrink, even if capacity was lowered below what is given away. Returns the new slot.
    ///
    /// # Errors
    /// [`Denied`], and the old slot stays: the growth does not fit, a rate of zero, a window that is empty or
    /// over, a start for a slot that has begun, a window for an open slot, a promised slot, a stale handle.
    pub fn modify(&mut self, id: SlotId, change: SlotChange) -> Result<Slot, Denied> {
        let old = self.slots.get(id)?;
        old.state.after(SlotStep::Modify)?;
        let rate = change.rate.unwrap_or(old.rate);
        if rate == Rate::ZERO {
            return Err(Misuse::ZeroRate.into());
        }
        let new = if old.state == SlotState::Open {
            if change.start.is_some() || change.end.is_some() {
                return Err(Misuse::WrongState.into());
            }
            self.resize_open(id, old, rate)?
        } else {
            let new = Slot { window: self.new_window(&old, change)?, rate, ..old };
            self.must_grow(&old, &new)?;
            self.profile.add(old.window.start(), old.window.end(), -(old.rate.as_bps() as i64));
            self.profile.add(new.window.start(), new.window.end(), rate.as_bps() as i64);
            new
        };
        self.slots.put(id, new);
        self.agenda.change(id, &old, &new);
        self.settle();
        Ok(self.slots.get(id).unwrap_or(new))
    }

    /// The window after the change. A window that has started keeps its start.
    fn new_window(&self, old: &Slot, change: SlotChange) -> Result<Window, Misuse> {
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
    fn must_grow(&self, old: &Slot, new: &Slot) -> Result<(), Denied> {
        let more = new.rate.saturating_sub(old.rate);
        let pieces = [
            (new.window.start(), new.window.end().min(old.window.start()), new.rate),
            (new.window.start().max(old.window.start()), new.window.end().min(old.window.end()), more),
            (new.window.start().max(old.window.end()), new.window.end(), new.rate),
        ];
        for (start, end, rate) in pieces {
            if let (Ok(piece), true) = (Window::new(start.max(self.now), end), rate > Rate::ZERO) {
                self.must_fit(piece, rate)?;
            }
        }
        Ok(())
    }

    fn resize_open(&mut self, id: SlotId, old: Slot, rate: Rate) -> Result<Slot, Denied> {
        let more = rate.saturating_sub(old.rate);
        let free = self.free_to_open_until(old.until);
        if more > free {
            return Err(Denied::Capacity { asked: more, free });
        }
        let new = Slot { rate, ..old };
        self.uncount_open(id, &old);
        self.count_open(id, &new);
        Ok(new)
    }
}

//! The slots of a reservation in the ledger: booked, counted again, and given back.

use crate::background::Background;
use crate::calendar::Calendar;
use crate::reservations::{Freed, Resources};
use alloc::vec::Vec;
use terms::Time;
use terms::book::{RateStep, ResourceId};
use terms::ports::Ledger;
use terms::ports::book::{Demand, NoRoom, SlotKey};

/// Books one step.
///
/// # Errors
/// [`NoRoom`]: the ledger's reason.
pub(crate) fn book<L: Ledger>(
    ledger: &mut L,
    calendar: Calendar,
    id: ResourceId,
    packet: u32,
    step: &RateStep,
) -> Result<SlotKey, NoRoom> {
    let window = calendar.offset().agents_window(step.window).unwrap_or(step.window);
    ledger.book(calendar.now(), id, window, Demand { amount: step.amount, packet })
}

/// Holds one step, until it is committed or given back.
///
/// # Errors
/// [`NoRoom`]: the ledger's reason.
pub(crate) fn hold<L: Ledger>(
    ledger: &mut L,
    calendar: Calendar,
    id: ResourceId,
    packet: u32,
    step: &RateStep,
) -> Result<SlotKey, NoRoom> {
    let window = calendar.offset().agents_window(step.window).unwrap_or(step.window);
    ledger.hold(calendar.now(), id, window, Demand { amount: step.amount, packet })
}

/// Counts the steps of a part that are not over. They were promised, so they are counted even if they do not fit.
pub(crate) fn adopt<L: Ledger>(
    ledger: &mut L,
    calendar: Calendar,
    id: ResourceId,
    packet: u32,
    steps: &[RateStep],
) -> Vec<SlotKey> {
    let ahead = steps.iter().filter(|step| step.window.end() > calendar.today());
    let slot = |step: &RateStep| {
        let window = calendar.offset().agents_window(step.window).unwrap_or(step.window);
        ledger.adopt(calendar.now(), id, window, Demand { amount: step.amount, packet }).ok()
    };
    ahead.filter_map(slot).collect()
}

/// Gives slots back.
pub(crate) fn give_back<L: Ledger>(
    ledger: &mut L,
    resources: &Resources,
    background: &mut Background,
    now: Time,
    slots: impl IntoIterator<Item = Freed>,
) {
    for (resource, slot) in slots {
        if let Some(id) = resources.get(resource).id() {
            ledger.release(now, id, slot);
        }
        background.freed(resource);
    }
}

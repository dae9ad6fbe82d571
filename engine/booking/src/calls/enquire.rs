//! `enquire`: the grant that a creation would get, and the free amounts. Nothing is held or written.

use crate::admission::{Judge, Room, Wanted, offered, sought};
use crate::calendar::Calendar;
use crate::config::Config;
use crate::io::{BookingRequest, CallResult, Enquired, Free, Reply, When};
use crate::refusal::RefusalReason;
use crate::reservations::Reservations;
use alloc::vec::Vec;
use terms::book::Caller;
use terms::ports::{Ledger, PolicyPort};
use terms::{Time, Window};

/// Answers an enquiry. A part with an amount of zero asks for all that is free.
pub(crate) fn enquire<W: Ledger + PolicyPort>(
    table: &Reservations,
    world: &W,
    (config, calendar): (&Config, Calendar),
    caller: &Caller,
    mut ask: BookingRequest,
) -> Reply {
    let room = Room::new(world, config, calendar);
    let judge = Judge::new(world, table, calendar, caller);
    // In a volume, zero means the same to a creation.
    let is_open = !matches!(ask.when, When::Volume { .. });
    let open: Vec<bool> = ask.parts.iter().map(|part| part.amount == 0 && is_open).collect();
    for (part, _) in ask.parts.iter_mut().zip(&open).filter(|(_, open)| **open) {
        (part.amount, part.least) = (1, 1);
    }
    let wanted = room.check(&ask)?;
    let window = first_window(&ask.when, calendar.today());
    let free = |part: &Wanted<'_>| match (part.needs_room(), window) {
        (false, _) => part.offer().shared,
        (true, Some(window)) => room.free(part, window),
        (true, None) => 0,
    };
    let parts: Vec<Free> = wanted
        .iter()
        .map(|part| Free { kind: part.offer().kind, free: free(part), guarantee: part.offer().guarantee })
        .collect();
    drop(wanted);
    for ((part, free), _) in ask.parts.iter_mut().zip(&parts).zip(&open).filter(|(_, open)| **open) {
        part.amount = free.free.max(1);
    }
    let answer = room.resolve(&ask).and_then(|(wanted, plan)| {
        judge.permitted(&ask.label, &sought(&wanted, &plan))?;
        judge.bindings(&ask)?;
        Ok(offered(&wanted, &plan))
    });
    match answer {
        Ok(granted) => Ok(CallResult::Enquired(Enquired { granted: Some(granted), refusal: None, parts })),
        Err(refusal) => {
            let denied = match refusal.why {
                RefusalReason::NoRoom { .. } => judge.denied_anyway(&ask),
                RefusalReason::Policy { .. } => Some(refusal.clone()),
                _ => return Err(refusal),
            };
            // A caller who may not have it does not learn the free amount.
            match denied {
                Some(refusal) => {
                    let nothing = parts.iter().map(|part| Free { free: 0, ..*part }).collect();
                    Ok(CallResult::Enquired(Enquired { granted: None, refusal: Some(refusal), parts: nothing }))
                }
                None => Ok(CallResult::Enquired(Enquired { granted: None, refusal: Some(refusal), parts })),
            }
        }
    }
}

/// The window whose least free amount the answer states.
pub(super) fn first_window(when: &When, today: Time) -> Option<Window> {
    match when {
        When::Window { start, end } => Window::new(start.unwrap_or(today).max(today), end.unwrap_or(Time::FOREVER)),
        When::Now { span } => Window::new(today, today.saturating_add(*span)),
        When::Earliest { span, not_before, .. } => {
            let start = not_before.unwrap_or(today).max(today);
            Window::new(start, start.saturating_add(*span))
        }
        When::Volume { not_before, deadline, .. } => Window::new(not_before.unwrap_or(today).max(today), *deadline),
        When::Series { windows, .. } => return windows.first().copied(),
    }
    .ok()
}

//! Boomerang's events in words.

use crate::log::Level;
use crate::news::{EventLine, Names, at, packets};
use boomerang::Event;

/// True for events that every reservation causes.
pub fn is_routine(event: &Event) -> bool {
    matches!(event, Event::Reserved { .. } | Event::Released { .. } | Event::Expired { .. } | Event::Stranger { .. })
}

/// The words for an event.
pub fn news(event: &Event, names: &Names) -> EventLine {
    let place = |flow, oif| format!("{} on {}", packets(flow), at(oif, names));
    let (level, name, text) = match event {
        Event::Reserved { flow, oif, rate, before } => {
            (Level::Info, "boomerang_reserved", format!("{}: {rate} (before: {before})", place(flow, *oif)))
        }
        Event::Refused { flow, oif, asked, free } => {
            let text = format!("{}: asked {asked}, free {free}", place(flow, *oif));
            (Level::Warn, "boomerang_refused", text)
        }
        Event::Released { flow, oif } => (Level::Info, "boomerang_released", place(flow, *oif)),
        Event::Reverted { flow, oif, rate } => {
            let text = format!("{}: refused further on, {rate} again", place(flow, *oif));
            (Level::Info, "boomerang_reverted", text)
        }
        Event::Expired { flow, oif } => {
            (Level::Info, "boomerang_expired", format!("{}: nobody refreshed it", place(flow, *oif)))
        }
        Event::Lost { flow, oif } => {
            let text = format!("{}: made way, or could not be installed", place(flow, *oif));
            (Level::Warn, "boomerang_lost", text)
        }
        Event::Stranger { flow } => {
            let text = format!("{}: a reply to no request that passed here reserves nothing", packets(flow));
            (Level::Info, "boomerang_stranger", text)
        }
        Event::Unproven { initiator } => {
            (Level::Warn, "boomerang_unproven", format!("{initiator}: key, digest or sequence number is wrong"))
        }
        Event::Locked { flow, oif } => {
            (Level::Info, "boomerang_locked", format!("{}: waits for its key", place(flow, *oif)))
        }
        Event::Full { what, limit } => (Level::Warn, "boomerang_full", format!("{what}: the limit is {limit}")),
        Event::Unexpected { transaction } => {
            let text = format!("a reply of transaction {transaction:#010x} answers nothing that was asked");
            (Level::Warn, "boomerang_unexpected", text)
        }
    };
    EventLine { level, name, text }
}

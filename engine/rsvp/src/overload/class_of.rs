//! The class of a message: it takes a look at the header and at most three table look-ups.

use super::class::IntakeClass;
use super::waiting::Incoming;
use crate::state::State;
use crate::state::heard::UNHEARD;
use core::net::IpAddr;
use wire::{MessageType, Salvage};

/// The class of a message, the neighbour whose quota it counts against (its RSVP_HOP, or else its IP
/// source), and its hash if it repeats the last message of a state.
pub(crate) fn class_of(state: &State, message: &Incoming<'_>) -> (IntakeClass, IpAddr, u64) {
    let (src, bytes) = (message.src, message.bytes);
    let kind = bytes.get(1).copied().and_then(MessageType::from_number);
    let class = match kind {
        Some(MessageType::Path | MessageType::Resv) => {
            if let Some(refresh) = state.knows(&message.arrival(), bytes) {
                return (IntakeClass::Refresh, src, refresh);
            }
            let new = if kind == Some(MessageType::Path) { IntakeClass::NewPath } else { IntakeClass::NewResv };
            return class_of_session(state, message, IntakeClass::Known, new);
        }
        Some(MessageType::PathTear | MessageType::ResvTear) => {
            return class_of_session(state, message, IntakeClass::Tear, IntakeClass::NewPath);
        }
        Some(MessageType::PathErr | MessageType::ResvErr | MessageType::ResvConf) => {
            return class_of_session(state, message, IntakeClass::Known, IntakeClass::NewPath);
        }
        Some(MessageType::Bundle | MessageType::Srefresh) => IntakeClass::Summary,
        Some(MessageType::IntegrityChallenge) => IntakeClass::Challenge,
        Some(_) => IntakeClass::Liveness,
        None => IntakeClass::NewPath,
    };
    (class, src, UNHEARD)
}

/// The class by the message's session: `reserved` if that has a reservation, else `new`. The type alone
/// does not suffice: any node can send errors about nothing, but a stranger does not know the sessions.
fn class_of_session(
    state: &State,
    message: &Incoming<'_>,
    reserved: IntakeClass,
    new: IntakeClass,
) -> (IntakeClass, IpAddr, u64) {
    let Some(found) = Salvage::read(message.bytes) else { return (IntakeClass::NewPath, message.src, UNHEARD) };
    let by = found.hop.map_or(message.src, |hop| hop.addr);
    let known = found.session.is_some_and(|session| state.is_reserved(&session));
    (if known { reserved } else { new }, by, UNHEARD)
}

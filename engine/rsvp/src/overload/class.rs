//! The class of a message: a look at the header and at most three look-ups.

use super::Incoming;
use crate::Rsvp;
use crate::heard::UNHEARD;
use core::net::IpAddr;
use terms::probe::Probe;
use wire::{MessageType, Salvage};

/// What is served first comes first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Class {
    /// Whether a neighbour lives, and what it has got: Hello, Ack, the answer to a challenge.
    Liveness,
    /// What gives a reservation back: PathTear, ResvTear.
    Tear,
    /// What a state said last, once more.
    Refresh,
    /// What else is about a session with a reservation: changes, errors, confirmations.
    Known,
    /// What names states instead of sessions: summaries, bundles.
    Summary,
    /// Somebody who does not know us asks us to prove ourselves; it cannot sign that.
    Challenge,
    /// A reservation for a sender that has none.
    NewResv,
    /// All else: it is about a session without a reservation, or says nothing of itself.
    NewPath,
}

impl Class {
    /// In the order of service.
    pub const ALL: [Class; 8] = [
        Class::Liveness,
        Class::Tear,
        Class::Refresh,
        Class::Known,
        Class::Summary,
        Class::Challenge,
        Class::NewResv,
        Class::NewPath,
    ];

    /// What it holds, for people.
    pub fn name(self) -> &'static str {
        match self {
            Class::Liveness => "liveness",
            Class::Tear => "tears",
            Class::Refresh => "refreshes",
            Class::Known => "of what is there",
            Class::Summary => "summaries",
            Class::Challenge => "challenges",
            Class::NewResv => "new reservations",
            Class::NewPath => "new senders",
        }
    }

    pub(super) fn is_new(self) -> bool {
        self >= Class::Challenge
    }
}

impl<P: Probe> Rsvp<P> {
    /// The class of a message, the neighbour on whose account it waits (its RSVP_HOP, or else its IP source), and its
    /// hash if it is the last message of a state once more.
    pub(super) fn class_of(&self, message: &Incoming<'_>) -> (Class, IpAddr, u64) {
        let (src, bytes) = (message.src, message.bytes);
        let kind = bytes.get(1).copied().and_then(MessageType::from_number);
        let class = match kind {
            Some(MessageType::Path | MessageType::Resv) => {
                if let Some(refresh) = self.knows(&message.arrival(), bytes) {
                    return (Class::Refresh, src, refresh);
                }
                let new = if kind == Some(MessageType::Path) { Class::NewPath } else { Class::NewResv };
                return self.class_of_session(message, Class::Known, new);
            }
            Some(MessageType::PathTear | MessageType::ResvTear) => {
                return self.class_of_session(message, Class::Tear, Class::NewPath);
            }
            Some(MessageType::PathErr | MessageType::ResvErr | MessageType::ResvConf) => {
                return self.class_of_session(message, Class::Known, Class::NewPath);
            }
            Some(MessageType::Bundle | MessageType::Srefresh) => Class::Summary,
            Some(MessageType::IntegrityChallenge) => Class::Challenge,
            Some(_) => Class::Liveness,
            None => Class::NewPath,
        };
        (class, src, UNHEARD)
    }

    /// By whether its session has a reservation. A type alone says nothing: anybody can send errors about nothing, and
    /// what they are about is the one thing that a stranger has to know.
    fn class_of_session(&self, message: &Incoming<'_>, reserved: Class, new: Class) -> (Class, IpAddr, u64) {
        let Some(found) = Salvage::read(message.bytes) else { return (Class::NewPath, message.src, UNHEARD) };
        let by = found.hop.map_or(message.src, |hop| hop.addr);
        let known = found.session.is_some_and(|session| self.is_reserved(&session));
        (if known { reserved } else { new }, by, UNHEARD)
    }
}

//! The class of a message: a look at the header and at most three look-ups.

use super::Incoming;
use crate::Rsvp;
use crate::heard::UNHEARD;
use core::net::IpAddr;
use terms::probe::ProbeObserver;
use wire::{MessageType, Salvage};

/// What is served first comes first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum IntakeClass {
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

impl IntakeClass {
    /// In the order of service.
    pub const ALL: [IntakeClass; 8] = [
        IntakeClass::Liveness,
        IntakeClass::Tear,
        IntakeClass::Refresh,
        IntakeClass::Known,
        IntakeClass::Summary,
        IntakeClass::Challenge,
        IntakeClass::NewResv,
        IntakeClass::NewPath,
    ];

    /// What it holds, for people.
    pub fn name(self) -> &'static str {
        match self {
            IntakeClass::Liveness => "liveness",
            IntakeClass::Tear => "tears",
            IntakeClass::Refresh => "refreshes",
            IntakeClass::Known => "of what is there",
            IntakeClass::Summary => "summaries",
            IntakeClass::Challenge => "challenges",
            IntakeClass::NewResv => "new reservations",
            IntakeClass::NewPath => "new senders",
        }
    }

    pub(super) fn is_new(self) -> bool {
        self >= IntakeClass::Challenge
    }
}

impl<P: ProbeObserver> Rsvp<P> {
    /// The class of a message, the neighbour on whose account it waits (its RSVP_HOP, or else its IP source), and its
    /// hash if it is the last message of a state once more.
    pub(super) fn class_of(&self, message: &Incoming<'_>) -> (IntakeClass, IpAddr, u64) {
        let (src, bytes) = (message.src, message.bytes);
        let kind = bytes.get(1).copied().and_then(MessageType::from_number);
        let class = match kind {
            Some(MessageType::Path | MessageType::Resv) => {
                if let Some(refresh) = self.knows(&message.arrival(), bytes) {
                    return (IntakeClass::Refresh, src, refresh);
                }
                let new = if kind == Some(MessageType::Path) { IntakeClass::NewPath } else { IntakeClass::NewResv };
                return self.class_of_session(message, IntakeClass::Known, new);
            }
            Some(MessageType::PathTear | MessageType::ResvTear) => {
                return self.class_of_session(message, IntakeClass::Tear, IntakeClass::NewPath);
            }
            Some(MessageType::PathErr | MessageType::ResvErr | MessageType::ResvConf) => {
                return self.class_of_session(message, IntakeClass::Known, IntakeClass::NewPath);
            }
            Some(MessageType::Bundle | MessageType::Srefresh) => IntakeClass::Summary,
            Some(MessageType::IntegrityChallenge) => IntakeClass::Challenge,
            Some(_) => IntakeClass::Liveness,
            None => IntakeClass::NewPath,
        };
        (class, src, UNHEARD)
    }

    /// By whether its session has a reservation. A type alone says nothing: anybody can send errors about nothing, and
    /// what they are about is the one thing that a stranger has to know.
    fn class_of_session(
        &self,
        message: &Incoming<'_>,
        reserved: IntakeClass,
        new: IntakeClass,
    ) -> (IntakeClass, IpAddr, u64) {
        let Some(found) = Salvage::read(message.bytes) else { return (IntakeClass::NewPath, message.src, UNHEARD) };
        let by = found.hop.map_or(message.src, |hop| hop.addr);
        let known = found.session.is_some_and(|session| self.is_reserved(&session));
        (if known { reserved } else { new }, by, UNHEARD)
    }
}

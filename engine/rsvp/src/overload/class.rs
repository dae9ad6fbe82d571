//! The class of a message: it takes a look at the header and at most three table look-ups.

use super::Incoming;
use crate::Rsvp;
use crate::heard::UNHEARD;
use core::net::IpAddr;
use terms::probe::ProbeObserver;
use wire::{MessageType, Salvage};

/// The class of a message that waits, in the order of service.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum IntakeClass {
    /// A neighbour's signs of life and acknowledgements: Hello, Ack, the answer to a challenge.
    Liveness,
    /// Tears, which give a reservation back: PathTear, ResvTear.
    Tear,
    /// A refresh: the last message of a state once more.
    Refresh,
    /// Other messages about a session with a reservation: changes, errors, confirmations.
    Known,
    /// Messages that name states instead of sessions: summaries, bundles.
    Summary,
    /// An Integrity Challenge by a node that does not know us yet; it cannot be signed.
    Challenge,
    /// A reservation for a sender that has none.
    NewResv,
    /// All other messages: about a session without a reservation, or about no session that can be read.
    NewPath,
}

impl IntakeClass {
    /// All classes, in the order of service.
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

    /// The name of the class, for people.
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
    /// The class of a message, the neighbour whose quota it counts against (its RSVP_HOP, or else its IP
    /// source), and its hash if it repeats the last message of a state.
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

    /// The class by the message's session: `reserved` if that has a reservation, else `new`. The type alone
    /// does not suffice: any node can send errors about nothing, but a stranger does not know the sessions.
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

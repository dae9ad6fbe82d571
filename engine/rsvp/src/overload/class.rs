//! The class of a message: a look at the header and at most three look-ups.

use super::Incoming;
use crate::Rsvp;
use crate::heard::UNHEARD;
use core::net::IpAddr;
use terms::Session;
use terms::probe::Probe;
use wire::{MessageType, Salvage};

/// What is served first comes first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Class {
    /// Whether a neighbour lives, and what it has got: Hello, Ack, the answer to a challenge.
    Liveness,
    /// What gives something back: PathTear, ResvTear.
    Tear,
    /// What a state said last, once more.
    Refresh,
    /// What else belongs to something that is there: its changes, summaries, errors, confirmations.
    Known,
    /// Somebody who does not know us asks us to prove ourselves; it cannot sign that.
    Challenge,
    /// A reservation for a sender that has none.
    NewResv,
    /// A sender never heard of, and whatever says nothing of itself.
    NewPath,
}

impl Class {
    /// In the order of service.
    pub const ALL: [Class; 7] =
        [Class::Liveness, Class::Tear, Class::Refresh, Class::Known, Class::Challenge, Class::NewResv, Class::NewPath];

    /// What it holds, for people.
    pub fn name(self) -> &'static str {
        match self {
            Class::Liveness => "liveness",
            Class::Tear => "tears",
            Class::Refresh => "refreshes",
            Class::Known => "of what is there",
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
                let (class, by) = self.class_of_state(message, kind == Some(MessageType::Path));
                return (class, by, UNHEARD);
            }
            Some(MessageType::PathTear | MessageType::ResvTear) => Class::Tear,
            Some(MessageType::PathErr | MessageType::ResvErr | MessageType::ResvConf) => Class::Known,
            Some(MessageType::Bundle | MessageType::Srefresh) => Class::Known,
            Some(MessageType::IntegrityChallenge) => Class::Challenge,
            Some(_) => Class::Liveness,
            None => Class::NewPath,
        };
        (class, src, UNHEARD)
    }

    fn class_of_state(&self, message: &Incoming<'_>, is_path: bool) -> (Class, IpAddr) {
        let Some(found) = Salvage::read(message.bytes) else { return (Class::NewPath, message.src) };
        let by = found.hop.map_or(message.src, |hop| hop.addr);
        let known = found.session.is_some_and(|session| self.has_state(&session, is_path));
        match (known, is_path) {
            (true, _) => (Class::Known, by),
            (false, true) => (Class::NewPath, by),
            (false, false) => (Class::NewResv, by),
        }
    }

    /// Whether a Path or Resv of this session could belong to something that is there, or was in an earlier life.
    fn has_state(&self, session: &Session, path: bool) -> bool {
        self.sessions.find(session).is_some_and(|id| {
            let state = &self.sessions[id];
            let there = if path { !state.psbs.is_empty() } else { !state.rsbs.is_empty() };
            there || state.adopted_until.is_some()
        })
    }
}

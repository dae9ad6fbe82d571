//! Static senders and reservations: an operator sets them up for hosts that do not signal themselves.

use crate::session::{FlowSpecDoc, SenderId, SessionId, StyleDoc, TspecDoc};
use crate::words::words;
use serde::{Deserialize, Serialize};

/// A static sender or reservation.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum StaticDoc {
    /// A sender. Path messages go out for it as if it sent them itself.
    Sender {
        /// Destination.
        session: SessionId,
        /// Source.
        sender: SenderId,
        /// The traffic.
        tspec: TspecDoc,
        /// TTL of the data packets.
        ttl: u8,
    },
    /// A reservation. It is requested as if the receiver did it itself.
    Reservation {
        /// The session.
        session: SessionId,
        /// `ff`, `se` or `wf`.
        style: StyleDoc,
        /// The senders; none for `wf`.
        senders: Vec<SenderId>,
        /// The flowspecs: one per sender for `ff`, otherwise one.
        flowspecs: Vec<FlowSpecDoc>,
    },
}

impl StaticDoc {
    /// The session of the sender or reservation.
    pub fn session(&self) -> &SessionId {
        match self {
            StaticDoc::Sender { session, .. } | StaticDoc::Reservation { session, .. } => session,
        }
    }

    /// True if one would replace the other: the same sender of a session, or a reservation for the same
    /// session.
    pub fn is_of_same(&self, other: &StaticDoc) -> bool {
        match (self, other) {
            (StaticDoc::Sender { session, sender, .. }, StaticDoc::Sender { session: to, sender: from, .. }) => {
                (session, sender) == (to, from)
            }
            (StaticDoc::Reservation { session, .. }, StaticDoc::Reservation { session: to, .. }) => session == to,
            _ => false,
        }
    }
}

words! {
    /// The state of a static sender or reservation.
    StaticState {
        /// There is no answer yet.
        Waiting = "waiting",
        /// It is reserved all the way; of a sender: its Path messages go out.
        Held = "held",
        /// A node refused it.
        Refused = "refused",
    }
}

/// A static sender or reservation and its state.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct StaticRow {
    /// Its number, for as long as it exists.
    pub number: u64,
    /// The sender or reservation.
    pub what: StaticDoc,
    /// True if it comes from the configuration file, which alone can remove it.
    pub from_file: bool,
    /// Its state.
    pub state: StaticState,
    /// The last answer: who confirmed, or who refused and why.
    pub said: Option<String>,
}

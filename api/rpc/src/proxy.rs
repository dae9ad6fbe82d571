//! Static senders and reservations: what an operator sets up on behalf of hosts that do not signal themselves.

use crate::agent::{FlowSpecDoc, SenderId, SessionId, StyleDoc, TspecDoc};
use serde::{Deserialize, Serialize};

/// What is set up.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum StaticDoc {
    /// A sender: Path messages go out for it as if it sent them itself.
    Sender {
        /// To where.
        session: SessionId,
        /// From where.
        sender: SenderId,
        /// How much.
        tspec: TspecDoc,
        /// TTL of the data packets.
        ttl: u8,
    },
    /// A reservation: it is asked for as if the receiver asked itself.
    Reservation {
        /// The session.
        session: SessionId,
        /// `ff`, `se` or `wf`.
        style: StyleDoc,
        /// Which senders; none for `wf`.
        senders: Vec<SenderId>,
        /// How much; one per sender for `ff`, otherwise one.
        flowspecs: Vec<FlowSpecDoc>,
    },
}

impl StaticDoc {
    /// The session that it is about.
    pub fn session(&self) -> &SessionId {
        match self {
            StaticDoc::Sender { session, .. } | StaticDoc::Reservation { session, .. } => session,
        }
    }

    /// Whether one would take the other's place: the same sender of a session, or a reservation for the same session.
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

/// One of them, and how it goes.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct StaticRow {
    /// Its number, for as long as it is there.
    pub number: u64,
    /// What it is.
    pub what: StaticDoc,
    /// Whether the configuration file sets it up (then only the file takes it away).
    pub from_file: bool,
    /// `waiting` (nobody has answered), `held` (reserved all the way), `refused`.
    pub state: String,
    /// What was said last: who confirmed, or who refused and why.
    pub said: Option<String>,
}

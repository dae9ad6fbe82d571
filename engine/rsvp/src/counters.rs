//! Counters of messages received and sent by type, and of messages dropped by reason.

use alloc::collections::BTreeMap;
use wire::MessageType;

/// Counts since the engine was made.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RsvpCounters {
    /// Messages that came in and were understood, by type.
    pub received: PerType,
    /// Messages sent, by type.
    pub sent: PerType,
    /// Messages dropped, by reason.
    pub dropped: BTreeMap<&'static str, u64>,
    /// Reservations refused here.
    pub refused: u64,
    /// States refreshed by name (RFC 2961 section 5).
    pub summarised: u64,
    /// Names in summaries of neighbours that were unknown here.
    pub unknown_names: u64,
    /// Messages sent again for lack of an acknowledgement.
    pub repeated: u64,
    /// Messages given up after the last repetition.
    pub unacknowledged: u64,
}

/// A count for each type of message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PerType([u64; 13]);

/// All types, in the order of their numbers.
pub const ALL: [MessageType; 13] = [
    MessageType::Path,
    MessageType::Resv,
    MessageType::PathErr,
    MessageType::ResvErr,
    MessageType::PathTear,
    MessageType::ResvTear,
    MessageType::ResvConf,
    MessageType::Bundle,
    MessageType::Ack,
    MessageType::Srefresh,
    MessageType::Hello,
    MessageType::IntegrityChallenge,
    MessageType::IntegrityResponse,
];

/// The seven messages of RFC 2205, in the order of their numbers.
pub const SEVEN: [MessageType; 7] = [
    MessageType::Path,
    MessageType::Resv,
    MessageType::PathErr,
    MessageType::ResvErr,
    MessageType::PathTear,
    MessageType::ResvTear,
    MessageType::ResvConf,
];

impl PerType {
    /// The count of one type.
    pub fn get(&self, kind: MessageType) -> u64 {
        place(kind).map_or(0, |i| self.0[i])
    }

    /// Type and count, in the order of the type numbers.
    pub fn iter(&self) -> impl Iterator<Item = (MessageType, u64)> {
        ALL.into_iter().zip(self.0)
    }

    pub(crate) fn add(&mut self, kind: MessageType) {
        if let Some(i) = place(kind) {
            self.0[i] += 1;
        }
    }
}

fn place(kind: MessageType) -> Option<usize> {
    ALL.iter().position(|k| *k == kind)
}

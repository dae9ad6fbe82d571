//! A reservation as a record of the journal.

use super::{Number, Reservation, Reservations};
use crate::io::{JournalRecord, RecordTable};
use crate::record::{Writing, WritingPart};
use alloc::vec::Vec;

/// The key of a reservation's record. Keys rise in order of creation, so that reservations created together
/// share a page.
pub(crate) fn key_of(number: Number) -> Vec<u8> {
    number.to_be_bytes().to_vec()
}

impl Reservations {
    /// A reservation as bytes.
    pub(super) fn encoded(&self, r: &Reservation) -> Vec<u8> {
        let parts = r.parts.iter().map(|part| WritingPart {
            resource: self.resources.get(part.resource).name(),
            steps: &part.steps,
            background: part.background,
            shape: part.shape,
            binding: &part.binding,
            grant: self.grants.get(part.grant),
        });
        Writing {
            handle: r.handle,
            number: r.number,
            owner: self.owners.get(r.owner).name(),
            label: &r.label,
            group: &r.group,
            members: &r.members,
            key: r.key.as_deref(),
            created: r.created,
            over: r.over,
            version: r.version,
            state: r.state,
            hold_until: r.hold_until,
            notice: r.notice,
            parts,
        }
        .encode()
    }

    /// The record of a reservation of this table, or of one that is to replace it.
    pub(crate) fn record(&self, r: &Reservation) -> JournalRecord {
        JournalRecord { table: RecordTable::Reservation, key: key_of(r.number), value: Some(self.encoded(r)) }
    }
}

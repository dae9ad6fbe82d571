//! A reservation of a journal, for a reader who has the journal alone: a checker of tests, or of a damaged machine.

use crate::record::Stored;
use crate::state::BookingState;
use alloc::string::String;
use alloc::vec::Vec;
use terms::Time;
use terms::book::{Handle, RateStep};
use terms::codec::Corrupt;

/// A reservation as the journal has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JournaledReservation {
    /// Its handle.
    pub handle: Handle,
    /// The name of its owner.
    pub owner: String,
    /// The owner's label for it.
    pub label: String,
    /// The group to which it belongs; empty: none.
    pub group: String,
    /// The number of its version.
    pub version: u64,
    /// The state in its life.
    pub state: BookingState,
    /// The end of the hold, if it is held.
    pub hold_until: Time,
    /// The resource and the steps of each part. Times are calendar time.
    pub parts: Vec<(String, Vec<RateStep>)>,
}

impl JournaledReservation {
    /// Reads a record of the table of reservations.
    ///
    /// # Errors
    /// [`Corrupt`]: the mistake.
    pub fn read(value: &[u8]) -> Result<JournaledReservation, Corrupt> {
        let stored = Stored::decode(value)?.into_fields();
        Ok(JournaledReservation {
            handle: stored.handle,
            owner: stored.owner,
            label: stored.label,
            group: stored.group,
            version: stored.version,
            state: stored.state,
            hold_until: stored.hold_until,
            parts: stored.parts.into_iter().map(|part| (part.resource, part.steps)).collect(),
        })
    }
}

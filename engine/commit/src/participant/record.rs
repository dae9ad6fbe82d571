//! Records of a participant's journal, and their bytes.

use crate::record::{read_epoch, write_epoch};
use crate::{Branch, CoordinatorName, Epoch, TransactionId};
use alloc::vec::Vec;
use terms::Time;
use terms::codec::{Corrupt, RecordReader, RecordWriter};

/// A record of a participant's journal.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum ParticipantRecord {
    /// The newest epoch of a coordinator, and the number of the newest decision that was heard from it.
    Known {
        /// The coordinator.
        coordinator: CoordinatorName,
        /// The epoch; `decisions` counts those that were heard since as well.
        epoch: Epoch,
        /// Transactions of the epoch with lower numbers have ended, and may be forgotten here.
        floor: u64,
    },
    /// A promise, or what became of it.
    Branch {
        /// The part of the transaction.
        branch: Branch,
        /// The coordinator.
        coordinator: CoordinatorName,
        /// The epoch in which it was promised.
        epoch: Epoch,
        /// The number of its transaction in the epoch.
        serial: u64,
        /// The instant at which the promise is moot.
        until: Time,
        /// `None`: promised. Otherwise: true if the change was made.
        made: Option<bool>,
        /// True: time or an operator ended it, and the coordinator's decision has not been heard.
        alone: bool,
    },
    /// The record of this part of a transaction is deleted.
    Forget(Branch),
}

impl ParticipantRecord {
    /// The key under which the journal keeps it.
    pub fn key(&self) -> Vec<u8> {
        let mut w = RecordWriter::default();
        match self {
            ParticipantRecord::Known { coordinator, .. } => {
                w.byte(0);
                w.raw(coordinator.as_bytes());
            }
            ParticipantRecord::Branch { branch, .. } | ParticipantRecord::Forget(branch) => {
                w.byte(1);
                w.raw(&branch.transaction.0);
                w.number(branch.member.into());
            }
        }
        w.into_bytes()
    }

    /// The value; `None`: the key is deleted.
    pub fn value(&self) -> Option<Vec<u8>> {
        let mut w = RecordWriter::default();
        w.byte(1);
        match self {
            ParticipantRecord::Forget(_) => return None,
            ParticipantRecord::Known { epoch, floor, .. } => {
                write_epoch(&mut w, *epoch);
                w.number(*floor);
            }
            ParticipantRecord::Branch { coordinator, epoch, serial, until, made, alone, .. } => {
                w.text(coordinator);
                write_epoch(&mut w, *epoch);
                w.number(*serial);
                w.number(until.as_nanos());
                w.option(made, |w, made| w.byte(u8::from(*made) | u8::from(*alone) << 1));
            }
        }
        Some(w.into_bytes())
    }

    /// Reads a record.
    ///
    /// # Errors
    /// [`Corrupt`]: it breaks its form.
    pub fn read(key: &[u8], value: &[u8]) -> Result<ParticipantRecord, Corrupt> {
        let (mut k, mut r) = (RecordReader::new(key), RecordReader::new(value));
        if r.byte()? != 1 {
            return Err(Corrupt("a newer program wrote it"));
        }
        let kind = k.byte()?;
        if kind > 1 {
            return Err(Corrupt("a newer program wrote it"));
        }
        let record = if kind == 0 {
            let name = core::str::from_utf8(&key[1..]).map_err(|_| Corrupt("text is not UTF-8"))?;
            ParticipantRecord::Known { coordinator: name.into(), epoch: read_epoch(&mut r)?, floor: r.number()? }
        } else {
            let branch = Branch { transaction: TransactionId(k.array()?), member: k.small()? };
            k.end()?;
            let (coordinator, epoch) = (r.text()?.into(), read_epoch(&mut r)?);
            let (serial, until) = (r.number()?, Time::from_nanos(r.number()?));
            let end = r.option(|r| match r.byte()? {
                bits @ 0..=3 => Ok((bits & 1 != 0, bits & 2 != 0)),
                _ => Err(Corrupt("neither made nor not")),
            })?;
            let (made, alone) = (end.map(|(made, _)| made), end.is_some_and(|(_, alone)| alone));
            ParticipantRecord::Branch { branch, coordinator, epoch, serial, until, made, alone }
        };
        r.end()?;
        Ok(record)
    }
}

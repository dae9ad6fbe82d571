//! Records of a coordinator's journal, and their bytes.

use crate::{Branch, Epoch, TransactionId};
use alloc::string::String;
use alloc::vec::Vec;
use terms::codec::{Corrupt, RecordReader, RecordWriter};

/// A member of a transaction as the journal has it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct MemberRecord {
    /// The name of the participant.
    pub name: String,
    /// The order that it is given, in the words of the caller of [`crate::Coordinator`]. The engine does not read it.
    pub order: Vec<u8>,
}

/// A record of the journal of a coordinator.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum CoordinatorRecord {
    /// The present start.
    Epoch {
        /// The number of the present epoch.
        number: u64,
        /// Decisions to commit, so far.
        decisions: u64,
        /// Transactions of the epochs from the first number up to the second may have been decided and are not in
        /// this journal, because it was restored from an older copy. (0, 0): none.
        forgotten: (u64, u64),
    },
    /// A transaction that has not ended.
    Transaction {
        /// Its number.
        id: TransactionId,
        /// The epoch in which it began.
        epoch: Epoch,
        /// The number of the decision to commit; `None`: it is not decided.
        committed: Option<u64>,
        /// Its members.
        members: Vec<MemberRecord>,
        /// The caller's words about it. The engine does not read them.
        note: Vec<u8>,
        /// The part of another coordinator's transaction that it stands for; `None`: this coordinator decides.
        above: Option<Branch>,
    },
    /// A transaction has ended: the record of this key is deleted.
    End(TransactionId),
}

/// The key of the one record of an epoch. A transaction's key is its number, of 16 bytes.
const EPOCH_KEY: &[u8] = b"epoch";

impl CoordinatorRecord {
    /// The key under which the journal keeps it.
    pub fn key(&self) -> Vec<u8> {
        match self {
            CoordinatorRecord::Epoch { .. } => EPOCH_KEY.to_vec(),
            CoordinatorRecord::Transaction { id, .. } | CoordinatorRecord::End(id) => id.0.to_vec(),
        }
    }

    /// The value; `None`: the key is deleted.
    pub fn value(&self) -> Option<Vec<u8>> {
        let mut w = RecordWriter::default();
        // What an earlier program can read is written as it wrote it.
        let nested = matches!(self, CoordinatorRecord::Transaction { above: Some(_), .. });
        w.byte(if nested { 2 } else { 1 });
        match self {
            CoordinatorRecord::End(_) => return None,
            CoordinatorRecord::Epoch { number, decisions, forgotten } => {
                [number, decisions, &forgotten.0, &forgotten.1].into_iter().for_each(|n| w.number(*n));
            }
            CoordinatorRecord::Transaction { epoch, committed, members, note, above, .. } => {
                write_epoch(&mut w, *epoch);
                w.option(committed, |w, number| w.number(*number));
                w.list(members, |w, member| {
                    w.text(&member.name);
                    w.number(member.order.len() as u64);
                    w.raw(&member.order);
                });
                w.number(note.len() as u64);
                w.raw(note);
                if let Some(above) = above {
                    w.raw(&above.transaction.0);
                    w.number(above.member.into());
                }
            }
        }
        Some(w.into_bytes())
    }

    /// Reads a record.
    ///
    /// # Errors
    /// [`Corrupt`]: it breaks its form.
    pub fn read(key: &[u8], value: &[u8]) -> Result<CoordinatorRecord, Corrupt> {
        let mut r = RecordReader::new(value);
        let form = r.byte()?;
        if !matches!(form, 1 | 2) {
            return Err(Corrupt("a newer program wrote it"));
        }
        let record = if key == EPOCH_KEY {
            CoordinatorRecord::Epoch {
                number: r.number()?,
                decisions: r.number()?,
                forgotten: (r.number()?, r.number()?),
            }
        } else {
            let id = TransactionId(key.try_into().map_err(|_| Corrupt("a transaction has a number of 16 bytes"))?);
            let epoch = read_epoch(&mut r)?;
            let committed = r.option(RecordReader::number)?;
            let blob = |r: &mut RecordReader<'_>| -> Result<Vec<u8>, Corrupt> {
                let len = r.small()?;
                Ok(r.raw(len)?.to_vec())
            };
            let members = r.list(|r| Ok(MemberRecord { name: r.text()?, order: blob(r)? }))?;
            let note = blob(&mut r)?;
            let above = match form {
                2 => Some(Branch { transaction: TransactionId(r.array()?), member: r.small()? }),
                _ => None,
            };
            CoordinatorRecord::Transaction { id, epoch, committed, members, note, above }
        };
        r.end()?;
        Ok(record)
    }
}

pub(crate) fn write_epoch(w: &mut RecordWriter, epoch: Epoch) {
    [epoch.number, epoch.decisions, epoch.nonce].into_iter().for_each(|n| w.number(n));
}

pub(crate) fn read_epoch(r: &mut RecordReader<'_>) -> Result<Epoch, Corrupt> {
    Ok(Epoch { number: r.number()?, decisions: r.number()?, nonce: r.number()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let member = |name: &str| MemberRecord { name: name.into(), order: alloc::vec![7; 200] };
        let id = TransactionId([9; 16]);
        let records = [
            CoordinatorRecord::Epoch { number: 3, decisions: 1000, forgotten: (1, 2) },
            CoordinatorRecord::Transaction {
                id,
                epoch: Epoch { number: 300, decisions: 4, nonce: u64::MAX },
                committed: Some(5),
                members: [member("east"), member("west")].into(),
                note: b"note".to_vec(),
                above: None,
            },
            CoordinatorRecord::Transaction {
                id,
                epoch: Epoch::default(),
                committed: None,
                members: [member("east")].into(),
                note: Vec::new(),
                above: Some(Branch { transaction: TransactionId([4; 16]), member: 300 }),
            },
        ];
        for record in records {
            let bytes = record.value().unwrap();
            assert_eq!(CoordinatorRecord::read(&record.key(), &bytes), Ok(record.clone()));
            for len in 0..bytes.len() {
                assert!(CoordinatorRecord::read(&record.key(), &bytes[..len]).is_err());
            }
        }
        assert_eq!(CoordinatorRecord::End(id).value(), None);
        assert_eq!(TransactionId::parse(&alloc::format!("{id}")), Some(id));
        assert_eq!(TransactionId::parse("0x"), None);
    }
}

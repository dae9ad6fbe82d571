//! The record of a promised change, beside the participant's own: one for each promise, until it is acknowledged.

use crate::io::{JournalRecord, RecordTable};
use crate::record::{read_binding, read_grant, read_steps, write_binding, write_grant, write_steps};
use crate::reservations::{Grant, Number, Prepared, Reservations};
use alloc::boxed::Box;
use alloc::vec::Vec;
use commit::participant::ParticipantRecord;
use commit::{Branch, TransactionId};
use terms::book::{Binding, RateStep};
use terms::codec::{Corrupt, RecordReader, RecordWriter};

const VERSION: u8 = 1;
/// The first octet of the key. The participant's own keys begin with 0 and 1.
const CHANGE: u8 = 2;

/// A promised change as the journal has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct StoredPromise {
    pub branch: Branch,
    pub number: Number,
    pub change: StoredChange,
}

/// The change itself, with names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum StoredChange {
    Create,
    Hold,
    Modify { label: Box<str>, parts: Vec<(Vec<RateStep>, Grant)> },
    Bind { part: usize, binding: Option<Binding> },
}

/// A record of the table of promises.
pub(crate) enum PromiseRecord {
    Participant(ParticipantRecord),
    Change(StoredPromise),
}

/// The record of the participant.
pub(crate) fn participant(record: &ParticipantRecord) -> JournalRecord {
    JournalRecord { table: RecordTable::Promise, key: record.key(), value: record.value() }
}

/// The record that deletes a promised change.
pub(crate) fn deleted(branch: Branch) -> JournalRecord {
    JournalRecord { table: RecordTable::Promise, key: key(branch), value: None }
}

fn key(branch: Branch) -> Vec<u8> {
    let mut w = RecordWriter::default();
    w.byte(CHANGE);
    w.raw(&branch.transaction.0);
    w.number(branch.member.into());
    w.into_bytes()
}

/// The record of a promised change.
pub(crate) fn change(table: &Reservations, branch: Branch, number: Number, change: &Prepared) -> JournalRecord {
    let mut w = RecordWriter::default();
    w.byte(VERSION);
    w.number(number);
    match change {
        Prepared::Create => w.byte(0),
        Prepared::Hold => w.byte(1),
        Prepared::Modify { next, label, .. } => {
            w.byte(2);
            w.text(label);
            w.list(next, |w, part| {
                write_steps(w, &part.steps);
                write_grant(w, table.grant(part.grant));
            });
        }
        Prepared::Bind { part, binding } => {
            w.byte(3);
            w.number(*part as u64);
            w.option(binding, write_binding);
        }
    }
    JournalRecord { table: RecordTable::Promise, key: key(branch), value: Some(w.into_bytes()) }
}

/// Reads a record of the table of promises.
///
/// # Errors
/// [`Corrupt`]: the mistake.
pub(crate) fn read(key: &[u8], value: &[u8]) -> Result<PromiseRecord, Corrupt> {
    if key.first() != Some(&CHANGE) {
        return ParticipantRecord::read(key, value).map(PromiseRecord::Participant);
    }
    let (mut k, mut r) = (RecordReader::new(key), RecordReader::new(value));
    k.byte()?;
    let branch = Branch { transaction: TransactionId(k.array()?), member: k.small()? };
    k.end()?;
    if r.byte()? != VERSION {
        return Err(Corrupt("a newer program wrote it"));
    }
    let number = r.number()?;
    let change = match r.byte()? {
        0 => StoredChange::Create,
        1 => StoredChange::Hold,
        2 => StoredChange::Modify {
            label: r.text()?.into_boxed_str(),
            parts: r.list(|r| Ok((read_steps(r)?, read_grant(r)?)))?,
        },
        3 => StoredChange::Bind { part: r.small()?, binding: r.option(read_binding)? },
        _ => return Err(Corrupt("a change of no known sort")),
    };
    r.end()?;
    Ok(PromiseRecord::Change(StoredPromise { branch, number, change }))
}

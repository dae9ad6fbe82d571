//! Rows of the audit: who asked for something, the outcome, and the rules of policy that decided.

use crate::io::{JournalRecord, RecordTable};
use crate::record::{self, AuditedAsk};
use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;
use terms::Time;
use terms::book::{Caller, Handle};

/// The verb in rows that count refusals.
const REFUSED: &str = "refused";

/// Policy's decision about a call, for the audit.
pub(crate) struct Decided<'a> {
    caller: &'a Caller,
    verb: &'static str,
    handle: Option<Handle>,
    rules: Vec<Box<str>>,
    asked: Option<AuditedAsk>,
}

impl<'a> Decided<'a> {
    /// A decision without rules, about a call of this name and (`None`: not yet) a reservation.
    pub(crate) fn new(caller: &'a Caller, verb: &'static str, handle: Option<Handle>) -> Decided<'a> {
        Decided { caller, verb, handle, rules: Vec::new(), asked: None }
    }

    /// The same under the name of another call.
    pub(crate) fn named(mut self, verb: &'static str) -> Decided<'a> {
        self.verb = verb;
        self
    }

    /// The name of the caller.
    pub(crate) fn who(&self) -> &str {
        &self.caller.name
    }

    /// The decision is about this reservation.
    pub(crate) fn about(mut self, handle: Handle) -> Decided<'a> {
        self.handle = Some(handle);
        self
    }

    /// These rules have decided, too.
    pub(crate) fn by(mut self, rules: impl IntoIterator<Item = Box<str>>) -> Decided<'a> {
        self.rules.extend(rules);
        self
    }

    /// This is what was asked.
    pub(crate) fn asking(mut self, asked: Option<AuditedAsk>) -> Decided<'a> {
        self.asked = asked;
        self
    }

    /// Its row; `seq` makes the key unique.
    pub(super) fn record(&self, today: Time, seq: u64, outcome: &str) -> JournalRecord {
        let about = (self.verb, self.handle);
        row(today, seq, record::audit(today, &self.caller.name, about, outcome, &self.rules, self.asked.as_ref()))
    }
}

/// A row about many refusals of one caller.
pub(super) fn count(today: Time, seq: u64, who: &str, more: u64) -> JournalRecord {
    row(today, seq, record::audit(today, who, (REFUSED, None), &format!("{more} more"), &[], None))
}

fn row(today: Time, seq: u64, value: Vec<u8>) -> JournalRecord {
    let mut key = today.as_nanos().to_be_bytes().to_vec();
    key.extend(seq.to_be_bytes());
    JournalRecord { table: RecordTable::Audit, key, value: Some(value) }
}

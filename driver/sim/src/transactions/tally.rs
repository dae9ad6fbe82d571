//! The counts of faults and outcomes, and the rows that no test may leave empty.

use super::message::PROTOCOL;
use std::collections::BTreeMap;

/// A row: the fault, and the kind of message if it concerns one.
pub(super) type Row = (&'static str, &'static str);

/// The counts of one run.
#[derive(Clone, Default, Debug)]
pub(super) struct Tally {
    rows: BTreeMap<Row, u64>,
}

/// Faults and outcomes that must all have happened (`FAULTS.md` C1 to C15, D1, D4).
pub(super) const MUST: [&str; 46] = [
    "C1 coordinator dies before the log",
    "C1 coordinator dies after the log, before a send",
    "C1 coordinator dies after one of several sends",
    "C1 coordinator dies after all sends",
    "C2 participant dies before its vote is on the disk",
    "C2 participant dies after its vote",
    "C2 participant dies in the apply",
    "C3 all die",
    "C5 hold runs out while its coordinator stands still",
    "C6 two coordinators ask in opposite order",
    "C7 participant restored from an older copy",
    "C7 coordinator restored from an older copy",
    "C7 older coordinator refused",
    "C8 removed from the trust list after its vote",
    "C8 not trusted",
    "C9 clocks too far apart, nothing begun",
    "C10 coordinator gone for ever",
    "C10 operator decides a promise",
    "C10 operator decides otherwise, which is told",
    "C11 commit is answered with gone",
    "C11 promise is moot",
    "C12 coordinator stands still for 300 s",
    "C12 participant stands still for 300 s",
    "C13 slow loris",
    "C13 half-open connection",
    "C13 black hole",
    "C14 certificate expires after a vote",
    "C14 expired certificate",
    "C15 partition",
    "C15 one-way partition",
    "C15 swizzle-clog",
    "D1 killed, its write lost",
    "D1 killed, its write kept",
    "D4 no space for a promise",
    "D4 no space for a decision",
    "D4 no space for a coordinator",
    "clock jumps",
    "clock is wrong",
    "create committed",
    "create aborted",
    "hold booked",
    "change committed",
    "change aborted",
    "cancellation ordered",
    "single call booked",
    "asked again by key",
];

/// The faults of which each kind of message must have had its share.
pub(super) const MESSAGES: [&str; 4] = ["C4 lost", "C4 doubled", "C4 overtaken", "C4 ten minutes late"];

impl Tally {
    pub(super) fn count(&mut self, what: &'static str, of: &'static str) {
        *self.rows.entry((what, of)).or_default() += 1;
    }

    pub(super) fn rows(&self) -> impl Iterator<Item = (Row, u64)> + '_ {
        self.rows.iter().map(|(row, count)| (*row, *count))
    }
}

/// Every row that must have been counted.
pub(super) fn required() -> impl Iterator<Item = Row> {
    let messages = MESSAGES.into_iter().flat_map(|what| PROTOCOL.into_iter().map(move |of| (what, of)));
    MUST.into_iter().map(|what| (what, "")).chain(messages)
}

/// A row in words.
pub(super) fn words((what, of): Row) -> String {
    if of.is_empty() { what.to_owned() } else { format!("{what}: {of}") }
}

//! Journal before reply: each change is one batch, counts from that moment, and is undone if the batch cannot
//! be written. Events caused by time alone cannot be undone, and are written again.

mod audit;
mod events;
mod refusals;

use crate::calendar::Calendar;
use crate::io::{Batch, BatchId, CallId, Event, EventKind, JournalRecord, Output, RecordTable, Reply};
use crate::outbox::Outbox;
use crate::refusal::Refusal;
use crate::reservations::{Freed, Number, Part, Reservation, Reservations};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::ToString;
use alloc::vec::Vec;
pub(crate) use audit::Decided;
use commit::participant::{DropReason, WriteId};
pub(crate) use events::EventLog;
pub(crate) use refusals::Refusals;
use terms::book::{Binding, Handle};
use terms::{Span, Time};

/// The wait after a failure before events caused by time alone are written again.
const AGAIN: Span = Span::from_secs(1);
/// Most reservations whose facts go into one batch.
const FACTS: usize = 256;
/// The number of pending deletions that are worth a batch of their own.
const DOOMED: usize = 256;

/// A change of a reservation that becomes true when its batch is written, and is undone if it cannot be.
#[derive(Clone)]
pub(crate) enum Change {
    Create(Number),
    Commit(Number),
    Modify {
        number: Number,
        next: Vec<Part>,
        label: Box<str>,
        grown: Vec<Freed>,
    },
    Bind {
        number: Number,
        part: usize,
        binding: Option<Binding>,
    },
    Cancel(Number),
    /// A change is promised to a coordinator.
    Promise(Number),
    /// The promised change comes true.
    Keep(Number),
    /// The promised change is dropped.
    Drop(Number, DropReason),
}

impl Change {
    pub(crate) fn number(&self) -> Number {
        match self {
            Change::Create(number)
            | Change::Commit(number)
            | Change::Modify { number, .. }
            | Change::Bind { number, .. }
            | Change::Cancel(number)
            | Change::Promise(number)
            | Change::Keep(number)
            | Change::Drop(number, _) => *number,
        }
    }
}

/// The purpose of a batch.
#[derive(Clone)]
pub(crate) enum Purpose {
    Change(Change),
    /// A refusal that is written to the audit only.
    Refused(Refusal),
    /// Events that time alone caused.
    Facts(Vec<(Number, Vec<EventKind>)>),
    /// By caller, the number of refusals that had no row of their own.
    Counted(Vec<(Box<str>, u64)>),
    /// Records of promises that change no reservation.
    Noted,
}

/// A batch on its way.
#[derive(Clone)]
struct Pending {
    id: BatchId,
    purpose: Purpose,
    receipt: Receipt,
}

/// The call that waits for a batch, and the batch's events. Only the journal makes one, when the store has answered;
/// without it no change is acknowledged.
#[derive(Clone, Default)]
pub(crate) struct Receipt {
    reply: Option<CallId>,
    events: Vec<Event>,
    /// The write of the participant that the batch carries.
    write: Option<WriteId>,
}

impl Receipt {
    /// The write of the participant that the batch carries.
    pub(crate) fn carries(&self) -> Option<WriteId> {
        self.write
    }

    /// Answers the call of a batch of which nothing is written. Its events have never happened.
    pub(crate) fn refuse(self, out: &mut Outbox, refusal: Refusal) {
        if let Some(id) = self.reply {
            out.reply(id, Err(refusal));
        }
    }
}

/// A change of a reservation, to be written.
pub(crate) struct Entry<'a> {
    /// The reservation after the change.
    pub next: &'a Reservation,
    pub change: Change,
    pub events: &'a [EventKind],
    pub decided: &'a Decided<'a>,
    /// The call to answer.
    pub reply: Option<CallId>,
    /// The write of the participant that goes with it, and its records.
    pub promise: Option<(WriteId, Vec<JournalRecord>)>,
}

/// Batches on their way to the store, what waits for a batch, and the events that were written.
#[derive(Clone)]
pub(crate) struct Journal {
    next_batch: u64,
    /// Batches on their way, oldest first.
    pending: VecDeque<Pending>,
    /// Events that time alone caused and that are not on their way to the store yet.
    facts: BTreeMap<Number, Vec<EventKind>>,
    /// Records to delete.
    doomed: Vec<JournalRecord>,
    /// The earliest time at which a failed write is repeated; the agent's clock.
    write_again: Time,
    log: EventLog,
}

impl Journal {
    /// A journal that keeps so many events.
    pub(crate) fn new(most_events: usize) -> Journal {
        Journal {
            next_batch: 1,
            pending: VecDeque::new(),
            facts: BTreeMap::new(),
            doomed: Vec::new(),
            write_again: Time::ZERO,
            log: EventLog::new(most_events),
        }
    }

    /// The written events.
    pub(crate) fn log(&self) -> &EventLog {
        &self.log
    }

    /// The time at which facts are to be written; the agent's clock.
    pub(crate) fn wake_at(&self) -> Option<Time> {
        (self.pending.is_empty() && !self.facts.is_empty()).then_some(self.write_again)
    }

    /// The earliest time at which a failed write is repeated; the agent's clock.
    pub(crate) fn write_again(&self) -> Time {
        self.write_again
    }

    /// Writes a change: the reservation after it, its events, and the decision.
    pub(crate) fn write(
        &mut self,
        out: &mut Outbox,
        table: &Reservations,
        calendar: Calendar,
        entry: Entry<'_>,
    ) -> BatchId {
        let Entry { next, change, events, decided, reply, promise } = entry;
        let mut records = Vec::with_capacity(2 * events.len() + 2);
        records.push(table.record(next));
        let today = calendar.today();
        let events: Vec<Event> = events.iter().map(|what| self.event(table, today, next, what.clone())).collect();
        records.push(decided.record(today, self.log.number(), "granted"));
        let write = promise.map(|(write, more)| {
            records.extend(more);
            write
        });
        self.append(out, records, Purpose::Change(change), Receipt { reply, events, write })
    }

    /// Writes records of the participant that change no reservation.
    pub(crate) fn write_noted(&mut self, out: &mut Outbox, write: WriteId, records: Vec<JournalRecord>) {
        self.append(out, records, Purpose::Noted, Receipt { write: Some(write), ..Receipt::default() });
    }

    /// Writes a refusal to the audit before it is said.
    pub(crate) fn write_refusal(
        &mut self,
        out: &mut Outbox,
        today: Time,
        reply: CallId,
        refusal: Refusal,
        decided: &Decided<'_>,
    ) {
        let record = decided.record(today, self.log.number(), refusal.why.name());
        let receipt = Receipt { reply: Some(reply), ..Receipt::default() };
        self.append(out, [record].into(), Purpose::Refused(refusal), receipt);
    }

    /// Writes the number of refusals of each caller that had no row of their own.
    pub(crate) fn write_counts(&mut self, out: &mut Outbox, today: Time, counted: Vec<(Box<str>, u64)>) {
        let records = counted.iter().map(|(who, more)| audit::count(today, self.log.number(), who, *more)).collect();
        self.append(out, records, Purpose::Counted(counted), Receipt::default());
    }

    fn append(
        &mut self,
        out: &mut Outbox,
        mut records: Vec<JournalRecord>,
        purpose: Purpose,
        receipt: Receipt,
    ) -> BatchId {
        let id = BatchId(self.next_batch);
        self.next_batch += 1;
        // If this batch fails they stay on the disk, are read at the next recovery, and are deleted then.
        records.append(&mut self.doomed);
        records.extend(receipt.events.iter().map(|event| JournalRecord {
            table: RecordTable::Event,
            key: event.seq.to_be_bytes().to_vec(),
            value: Some(event.encode()),
        }));
        let urgent = match &purpose {
            Purpose::Change(change) => matches!(change, Change::Cancel(_) | Change::Keep(_) | Change::Drop(..)),
            purpose => matches!(purpose, Purpose::Facts(_)),
        };
        out.say(Output::Append(Batch { id, records, urgent }));
        self.pending.push_back(Pending { id, purpose, receipt });
        id
    }

    /// This batch and all before it are on the disk: the oldest of them that is still on its way.
    pub(crate) fn written(&mut self, id: BatchId) -> Option<(Purpose, Receipt)> {
        self.pending.front().filter(|pending| pending.id <= id)?;
        self.pending.pop_front().map(|pending| (pending.purpose, pending.receipt))
    }

    /// Nothing of this batch is on the disk. Facts wait for another one.
    pub(crate) fn failed(&mut self, id: BatchId, now: Time) -> Option<(Purpose, Receipt)> {
        let place = self.pending.binary_search_by_key(&id, |pending| pending.id).ok()?;
        let Pending { mut purpose, receipt, .. } = self.pending.remove(place)?;
        if let Purpose::Facts(facts) = &mut purpose {
            for (number, whats) in core::mem::take(facts) {
                self.facts.entry(number).or_default().splice(0..0, whats);
            }
            self.write_again = now.saturating_add(AGAIN);
        }
        Some((purpose, receipt))
    }

    /// Answers the call of a batch that is written, after its events.
    pub(crate) fn acknowledge(&mut self, out: &mut Outbox, receipt: Receipt, answer: Reply) {
        let reply = receipt.reply;
        self.publish(out, receipt);
        if let Some(id) = reply {
            out.reply(id, answer);
        }
    }

    /// Tells the events of a batch that is written.
    pub(crate) fn publish(&mut self, out: &mut Outbox, receipt: Receipt) {
        for event in receipt.events {
            self.log.keep(event.clone());
            self.doomed.extend(self.log.drop_oldest());
            out.say(Output::Event(event));
        }
    }

    /// Notes an event of a reservation that time alone caused.
    pub(crate) fn note(&mut self, number: Number, what: EventKind) {
        self.facts.entry(number).or_default().push(what);
    }

    /// Drops what was noted of a reservation that is no more.
    pub(crate) fn drop_notes(&mut self, number: Number) {
        self.facts.remove(&number);
    }

    /// Deletes a record with one of the next batches.
    pub(crate) fn delete(&mut self, table: RecordTable, key: Vec<u8>) {
        self.doomed.push(JournalRecord { table, key, value: None });
    }

    /// Sends the events that time alone caused, except for a reservation with a change under way.
    pub(crate) fn flush(&mut self, out: &mut Outbox, table: &Reservations, calendar: Calendar) {
        if calendar.now() < self.write_again {
            return;
        }
        loop {
            let ready = self.facts.keys().filter(|number| table.get(**number).is_none_or(|r| r.busy.is_none()));
            let numbers: Vec<Number> = ready.copied().take(FACTS).collect();
            if numbers.is_empty() && self.doomed.len() < DOOMED {
                return;
            }
            let (mut records, mut events, mut facts) = (Vec::new(), Vec::new(), Vec::new());
            for number in numbers {
                let Some(whats) = self.facts.remove(&number) else { continue };
                let Some(r) = table.get(number) else { continue };
                records.push(table.record(r));
                for what in &whats {
                    events.push(self.event(table, calendar.today(), r, what.clone()));
                }
                facts.push((number, whats));
            }
            self.append(out, records, Purpose::Facts(facts), Receipt { events, ..Receipt::default() });
        }
    }

    fn event(&mut self, table: &Reservations, at: Time, r: &Reservation, what: EventKind) -> Event {
        let (owner, group) = (table.owner_of(r).to_string(), r.group.to_string());
        Event { seq: self.log.number(), at, handle: r.handle, owner, group, what }
    }

    /// Reads an event of an earlier run.
    pub(crate) fn restore(&mut self, event: Event) {
        self.log.restore(event);
    }

    /// Ends the reading of an earlier run: moves the records of earlier builds from their handle to their present key.
    pub(crate) fn restored(&mut self, out: &mut Outbox, table: &Reservations) {
        let old = core::mem::take(&mut self.doomed);
        for some in old.chunks(FACTS) {
            let mut records = some.to_vec();
            for record in some {
                let handle = record.key.as_slice().try_into().map(Handle).ok();
                let number = handle.and_then(|handle| table.number_of(handle));
                records.extend(number.and_then(|number| table.get(number)).map(|r| table.record(r)));
            }
            let receipt = Receipt::default();
            self.append(out, records, Purpose::Facts(Vec::new()), receipt);
        }
        self.log.restored();
        while let Some(record) = self.log.drop_oldest() {
            self.doomed.push(record);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::refusal::RefusalReason;
    use alloc::string::String;
    use terms::book::{Caller, CallerRole};

    fn replies(out: &mut Outbox) -> usize {
        core::iter::from_fn(|| out.next()).filter(|output| matches!(output, Output::Reply { .. })).count()
    }

    /// A call is answered with its batch: not before, not twice, and not by a batch before it.
    #[test]
    fn acknowledged_means_written() {
        let (mut journal, mut out) = (Journal::new(8), Outbox::default());
        let caller = Caller { name: String::from("ann"), groups: Vec::new(), role: CallerRole::Owner, token: None };
        let decided = Decided::new(&caller, "create", None);
        for id in [1, 2] {
            let refusal = Refusal::plain(RefusalReason::UnknownHandle);
            journal.write_refusal(&mut out, Time::ZERO, CallId(id), refusal, &decided);
        }
        assert_eq!(replies(&mut out), 0);
        let mut answered = |journal: &mut Journal, id| {
            while let Some((Purpose::Refused(refusal), receipt)) = journal.written(BatchId(id)) {
                journal.acknowledge(&mut out, receipt, Err(refusal));
            }
            replies(&mut out)
        };
        assert_eq!(answered(&mut journal, 1), 1);
        assert_eq!(answered(&mut journal, 1), 0);
        assert_eq!(answered(&mut journal, 2), 1);
        assert!(journal.failed(BatchId(2), Time::ZERO).is_none(), "it is not on its way any more");
    }
}

//! Journal before reply: each change is one batch, counts from that moment, and is undone if the batch cannot
//! be written. Events caused by time alone cannot be undone, and are written again.

use crate::broker::Bookings;
pub(crate) use crate::io::BatchId;
use crate::io::{Batch, CallId, CallResult, Event, EventKind, JournalRecord, Output, RecordTable};
use crate::record::{Writing, WritingPart, audit};
use crate::refusal::{Refusal, RefusalReason};
use crate::reservation::{Number, Part, Reservation};
use crate::state::BookingState;
use alloc::boxed::Box;
use alloc::string::ToString;
use alloc::vec::Vec;
use terms::Span;
use terms::book::{Binding, Caller, Handle};
use terms::ports::book::SlotKey;
use terms::ports::{Ledger, PolicyPort};

/// The wait after a failure before events caused by time alone are written again.
const AGAIN: Span = Span::from_secs(1);
/// Most reservations whose facts go into one batch.
const FACTS: usize = 256;
/// The number of pending deletions that are worth a batch of their own.
const DOOMED: usize = 256;

/// A batch on its way.
#[derive(Clone)]
pub(crate) struct Pending {
    pub(crate) id: BatchId,
    pub(crate) change: Written,
    /// The call that waits for it.
    pub(crate) reply: Option<CallId>,
    pub(crate) events: Vec<Event>,
}

/// A change that becomes true when a batch is written, and is undone if it cannot be.
#[derive(Clone)]
pub(crate) enum Written {
    Create(Number),
    Commit(Number),
    Modify {
        number: Number,
        next: Vec<Part>,
        label: Box<str>,
        grown: Vec<(u32, SlotKey)>,
    },
    Bind {
        number: Number,
        part: usize,
        binding: Option<Binding>,
    },
    Cancel(Number),
    /// A refusal that is written to the audit only.
    Refused(Refusal),
    Facts(Vec<(Number, Vec<EventKind>)>),
    /// By caller, the number of refusals that had no row of their own.
    Counted(Vec<(Box<str>, u64)>),
}

impl Written {
    fn number(&self) -> Option<Number> {
        match self {
            Written::Create(number)
            | Written::Commit(number)
            | Written::Modify { number, .. }
            | Written::Bind { number, .. }
            | Written::Cancel(number) => Some(*number),
            Written::Refused(_) | Written::Facts(_) | Written::Counted(_) => None,
        }
    }
}

/// Policy's decision about a change, for the audit.
pub(crate) struct Decided<'a> {
    pub(crate) caller: &'a Caller,
    pub(crate) verb: &'static str,
    pub(crate) handle: Option<Handle>,
    pub(crate) rules: Vec<Box<str>>,
}

/// The key of a reservation's record. Keys rise in order of creation, so that reservations created together
/// share a page.
pub(crate) fn key_of(number: Number) -> Vec<u8> {
    number.to_be_bytes().to_vec()
}

impl Bookings {
    /// Writes a change: the reservation after it, its events, and the decision.
    pub(crate) fn write(
        &mut self,
        next: &Reservation,
        change: Written,
        whats: &[EventKind],
        reply: CallId,
        decided: &Decided<'_>,
    ) -> BatchId {
        let mut records = Vec::with_capacity(2 * whats.len() + 2);
        records.push(self.record_of(next));
        let events: Vec<Event> = whats.iter().map(|what| self.event(next, what.clone())).collect();
        records.push(self.audit_record(decided, "granted"));
        let id = self.append(records, change, Some(reply), events);
        if let Some(r) = self.all.get_mut(&next.number) {
            r.busy = Some(id);
        }
        id
    }

    pub(crate) fn append(
        &mut self,
        mut records: Vec<JournalRecord>,
        change: Written,
        reply: Option<CallId>,
        events: Vec<Event>,
    ) -> BatchId {
        let id = BatchId(self.next_batch);
        self.next_batch += 1;
        // If this batch fails they stay on the disk, are read at the next recovery, and are deleted then.
        records.append(&mut self.doomed);
        records.extend(events.iter().map(|event| JournalRecord {
            table: RecordTable::Event,
            key: event.seq.to_be_bytes().to_vec(),
            value: Some(event.encode()),
        }));
        let urgent = matches!(change, Written::Cancel(_) | Written::Facts(_));
        self.say(Output::Append(Batch { id, records, urgent }));
        self.pending.push_back(Pending { id, change, reply, events });
        id
    }

    /// This batch and all before it are on the disk.
    pub(crate) fn appended<W: Ledger + PolicyPort>(&mut self, world: &mut W, id: BatchId) {
        while self.pending.front().is_some_and(|pending| pending.id <= id) {
            let Some(pending) = self.pending.pop_front() else { return };
            let number = pending.change.number();
            let refusal = self.complete(world, pending.change);
            if let Some(number) = number {
                self.follow(world, number);
                if !self.force.touched.is_empty() {
                    self.divide_background(world);
                }
            }
            for event in pending.events {
                self.keep(event.clone());
                self.say(Output::Event(event));
            }
            let Some(reply) = pending.reply else { continue };
            match (refusal, number) {
                (Some(refusal), _) => self.reply(reply, Err(refusal)),
                (None, Some(number)) => {
                    let view = self.view(world, number).map(CallResult::Reservation);
                    self.reply(reply, view.ok_or_else(|| Refusal::plain(RefusalReason::UnknownHandle)));
                }
                (None, None) => {}
            }
            if let Some(number) = number {
                self.go_on(world, number);
            }
        }
    }

    /// Makes an announced change true.
    fn complete<W: Ledger + PolicyPort>(&mut self, world: &mut W, change: Written) -> Option<Refusal> {
        match change {
            Written::Create(number) => self.born(number),
            Written::Commit(number) => self.committed(number),
            Written::Modify { number, next, label, grown } => self.modified(world, number, next, label, grown),
            Written::Bind { number, part, binding } => self.bound(number, part, binding),
            Written::Cancel(number) => {
                self.settled(number);
                self.finish(world, number, BookingState::Cancelled);
            }
            Written::Refused(refusal) => return Some(refusal),
            Written::Facts(_) | Written::Counted(_) => {}
        }
        None
    }

    /// Nothing of this batch is on the disk.
    pub(crate) fn append_failed<W: Ledger + PolicyPort>(&mut self, world: &mut W, id: BatchId, text: &str) {
        let Ok(place) = self.pending.binary_search_by_key(&id, |pending| pending.id) else { return };
        let Some(pending) = self.pending.remove(place) else { return };
        let number = pending.change.number();
        let mut refusal = Refusal::plain(RefusalReason::NotWritten { text: text.to_string() });
        match pending.change {
            Written::Create(number) => self.unmake(world, number),
            Written::Modify { number, grown, .. } => {
                grown.into_iter().for_each(|(resource, slot)| self.give_back(world, resource, slot));
                self.settled(number);
            }
            Written::Commit(number) | Written::Bind { number, .. } | Written::Cancel(number) => self.settled(number),
            Written::Refused(refused) => refusal = refused,
            Written::Counted(counted) => self.not_counted(counted),
            Written::Facts(facts) => {
                for (number, whats) in facts {
                    self.facts.entry(number).or_default().splice(0..0, whats);
                }
                self.write_again = self.now.saturating_add(AGAIN);
            }
        }
        if let Some(reply) = pending.reply {
            self.reply(reply, Err(refusal));
        }
        if let Some(number) = number {
            self.follow(world, number);
            self.go_on(world, number);
        }
    }

    /// No batch of this reservation is on its way any more.
    pub(crate) fn settled(&mut self, number: Number) {
        if let Some(r) = self.all.get_mut(&number) {
            r.busy = None;
        }
    }

    /// Continues the calls that wait for a reservation, until one has to wait again.
    fn go_on<W: Ledger + PolicyPort>(&mut self, world: &mut W, number: Number) {
        while let Some(queue) = self.waiting.get_mut(&number) {
            if self.all.get(&number).is_some_and(|r| r.busy.is_some()) {
                return;
            }
            let Some((id, caller, call)) = queue.pop_front() else {
                self.waiting.remove(&number);
                return;
            };
            match call {
                crate::io::Call::Create { ask, hold, key } => self.create(world, id, caller, ask, hold, key),
                call => self.change(world, id, number, caller, call),
            }
        }
    }

    /// Notes an event of a reservation that time alone caused.
    pub(crate) fn fact(&mut self, number: Number, what: EventKind) {
        self.facts.entry(number).or_default().push(what);
    }

    /// Sends the events that time alone caused, except for a reservation with a change under way.
    pub(crate) fn flush(&mut self) {
        if self.now < self.write_again {
            return;
        }
        loop {
            let ready = self.facts.keys().filter(|number| self.all.get(number).is_none_or(|r| r.busy.is_none()));
            let numbers: Vec<Number> = ready.copied().take(FACTS).collect();
            if numbers.is_empty() && self.doomed.len() < DOOMED {
                return;
            }
            let (mut records, mut events, mut facts) = (Vec::new(), Vec::new(), Vec::new());
            for number in numbers {
                let Some(whats) = self.facts.remove(&number) else { continue };
                let Some(r) = self.all.remove(&number) else { continue };
                records.push(self.record_of(&r));
                for what in &whats {
                    events.push(self.event(&r, what.clone()));
                }
                self.all.insert(number, r);
                facts.push((number, whats));
            }
            self.append(records, Written::Facts(facts), None, events);
        }
    }

    fn event(&mut self, r: &Reservation, what: EventKind) -> Event {
        let seq = self.next_seq;
        self.next_seq += 1;
        let owner = self.owners.get(r.owner).name.to_string();
        Event { seq, at: self.today(), handle: r.handle, owner, group: r.group.to_string(), what }
    }

    /// Keeps a written event for later queries; the oldest is dropped.
    pub(crate) fn keep(&mut self, event: Event) {
        self.events.push_back(event);
        while self.events.len() > self.config.events {
            let Some(old) = self.events.pop_front() else { return };
            self.lost_events = true;
            self.doomed.push(JournalRecord {
                table: RecordTable::Event,
                key: old.seq.to_be_bytes().to_vec(),
                value: None,
            });
        }
    }

    /// A reservation as bytes.
    pub(crate) fn encoded(&self, r: &Reservation) -> Vec<u8> {
        let parts = r.parts.iter().map(|part| WritingPart {
            resource: &self.resources.get(part.resource).name,
            steps: &part.steps,
            background: part.background,
            shape: part.shape,
            binding: &part.binding,
            grant: self.grants.get(part.grant),
        });
        Writing {
            handle: r.handle,
            number: r.number,
            owner: &self.owners.get(r.owner).name,
            label: &r.label,
            group: &r.group,
            members: &r.members,
            key: r.key.as_deref(),
            created: r.created,
            over: r.over,
            version: r.version,
            state: r.state,
            hold_until: r.hold_until,
            parts,
        }
        .encode()
    }

    fn record_of(&self, r: &Reservation) -> JournalRecord {
        JournalRecord { table: RecordTable::Reservation, key: key_of(r.number), value: Some(self.encoded(r)) }
    }

    /// Moves the records of earlier builds from their handle to their present key; `old`: the deletions.
    pub(crate) fn move_records(&mut self, old: Vec<JournalRecord>) {
        for some in old.chunks(FACTS) {
            let mut records = some.to_vec();
            for record in some {
                let handle = record.key.as_slice().try_into().map(Handle).ok();
                let number = handle.and_then(|handle| self.handles.get(&handle));
                records.extend(number.and_then(|number| self.all.get(number)).map(|r| self.record_of(r)));
            }
            self.append(records, Written::Facts(Vec::new()), None, Vec::new());
        }
    }

    pub(crate) fn audit_record(&mut self, decided: &Decided<'_>, outcome: &str) -> JournalRecord {
        let Decided { caller, verb, handle, rules } = decided;
        let value = audit(self.today(), &caller.name, verb, *handle, outcome, rules);
        JournalRecord { table: RecordTable::Audit, key: self.audit_key(), value: Some(value) }
    }

    /// A row of the audit about many calls of one caller.
    pub(crate) fn count_record(&mut self, who: &str, verb: &str, outcome: &str) -> JournalRecord {
        let value = audit(self.today(), who, verb, None, outcome, &[]);
        JournalRecord { table: RecordTable::Audit, key: self.audit_key(), value: Some(value) }
    }

    fn audit_key(&mut self) -> Vec<u8> {
        let mut key = self.today().as_nanos().to_be_bytes().to_vec();
        key.extend(self.next_seq.to_be_bytes());
        self.next_seq += 1;
        key
    }
}

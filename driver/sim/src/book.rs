//! The bookings of a simulated node: their journal is a disk that outlives the agent.

use booking::io::{CallId, CallResult, OrderId, RecordTable};
use booking::{Batch, Call, Event, Input, JournalRecord, Reply};
use std::collections::{BTreeMap, VecDeque};
use terms::book::{Caller, CallerRole, Handle};
use terms::ports::PolicyPort;
use terms::ports::book::{BindQuestion, PolicyDecision, Question};
use terms::{Rate, Time};

/// The disk of a node's bookings, and what they have said.
#[derive(Default)]
pub struct BookingHost {
    disk: BTreeMap<(RecordTable, Vec<u8>), Vec<u8>>,
    unwritten: VecDeque<Batch>,
    /// Orders for resources of the host, on their way.
    orders: VecDeque<OrderId>,
    log: Vec<(Time, BookingOutput)>,
    calls: u64,
}

/// An output of the bookings.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BookingOutput {
    /// A reply to the call of that number. Calls are counted from 1.
    Reply(u64, Reply),
    /// An event for subscribers.
    Event(Event),
    /// A part of an interface has this rate at its edge from now on; zero: it has gone.
    Enforced(Handle, usize, Rate),
}

/// The policy of a simulation: every caller may have anything.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Anybody;

impl PolicyPort for Anybody {
    fn decide(&self, _: &Question<'_>) -> PolicyDecision {
        PolicyDecision { rule: "anybody".into(), denied: None, ..PolicyDecision::default() }
    }

    fn may_bind(&self, _: &BindQuestion<'_>) -> PolicyDecision {
        PolicyDecision { rule: "anybody".into(), denied: None, ..PolicyDecision::default() }
    }
}

impl BookingHost {
    /// All outputs so far, with their times.
    pub fn log(&self) -> &[(Time, BookingOutput)] {
        &self.log
    }

    /// The handle of the reservation that the call of that number was granted.
    pub fn granted(&self, call: u64) -> Option<Handle> {
        self.log.iter().find_map(|(_, said)| match said {
            BookingOutput::Reply(id, Ok(CallResult::Reservation(view))) if *id == call => Some(view.handle),
            _ => None,
        })
    }

    /// Drops pending work after the agent's death.
    pub(crate) fn die(&mut self) {
        self.unwritten.clear();
        self.orders.clear();
    }

    /// A caller's call as an input of the bookings.
    pub(crate) fn call(&mut self, who: &str, call: Call) -> Input {
        self.calls += 1;
        let caller = Caller { name: who.into(), groups: Vec::new(), role: CallerRole::Owner, token: None };
        Input::Call { id: CallId(self.calls), caller: Box::new(caller), call }
    }

    /// The records on the disk.
    pub(crate) fn records(&self) -> Vec<JournalRecord> {
        let record = |((table, key), value): (&(RecordTable, Vec<u8>), &Vec<u8>)| JournalRecord {
            table: *table,
            key: key.clone(),
            value: Some(value.clone()),
        };
        self.disk.iter().map(record).collect()
    }

    /// Hands a batch to the disk.
    pub(crate) fn write(&mut self, batch: Batch) {
        self.unwritten.push_back(batch);
    }

    /// Writes the oldest batch to the disk. Returns the input that says so.
    pub(crate) fn written(&mut self) -> Option<Input> {
        let batch = self.unwritten.pop_front()?;
        for record in batch.records {
            match record.value {
                Some(value) => _ = self.disk.insert((record.table, record.key), value),
                None => _ = self.disk.remove(&(record.table, record.key)),
            }
        }
        Some(Input::Appended(batch.id))
    }

    /// Takes an order for a resource of the host.
    pub(crate) fn order(&mut self, id: OrderId) {
        self.orders.push_back(id);
    }

    /// Carries out the oldest order. Returns the input that says so.
    pub(crate) fn enforced(&mut self) -> Option<Input> {
        let id = self.orders.pop_front()?;
        Some(Input::Enforced { id, result: Ok(()) })
    }

    pub(crate) fn note(&mut self, now: Time, said: BookingOutput) {
        self.log.push((now, said));
    }
}

//! The calls that an agent gets under faults, and the checks afterwards.

use crate::crash::{INTERFACE, LICENCE, count};
use documents::agent::{Answer, BookAnswer, BookFilter, Request};
use documents::book::{AmountDoc, AskDoc, BindingDoc, ChangeDoc, FlowDoc, PartDoc, ReservationDoc, WhenDoc};
use rpc::client::{Client, Error};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The number of reservations that stay from one script to the next. Others are cancelled to make room for
/// new ones.
const KEPT: usize = 6;
/// The number of rounds in a script. A later round also uses what earlier ones made.
const ROUNDS: usize = 2;

/// The state of a reservation, as acknowledged.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Known {
    /// The possible numbers of licences. Several: a change was not answered.
    counts: BTreeSet<u64>,
    /// The possible answers to "is it cancelled?". Both: a cancellation was not answered.
    cancelled: BTreeSet<bool>,
}

/// All calls and their outcome.
#[derive(Debug, Default)]
pub struct Script {
    known: BTreeMap<String, Known>,
    /// Requests without an answer, by key. Their reservations may exist.
    open: BTreeMap<String, AskDoc>,
    /// Handles of reservations that are over.
    over: BTreeSet<String>,
    serial: u64,
}

impl Script {
    /// Creates, changes and cancels. The agent may die meanwhile; calls without an answer stay in doubt.
    pub fn play(&mut self, socket: &Path) {
        // A connection that cannot be had, or ends, is no answer.
        let mut step = |step: fn(&mut Script, &mut Client)| {
            if let Ok(mut client) = Client::connect(socket) {
                step(self, &mut client);
            }
            self.live().len()
        };
        let mut live = 0;
        for _ in 0..ROUNDS {
            step(|script, client| script.create(client, false));
            step(|script, client| script.create(client, true));
            step(|script, client| script.create(client, false));
            step(Script::modify);
            step(Script::cancel);
            step(Script::modify);
            live = step(Script::cancel);
        }
        for _ in KEPT..live {
            step(Script::cancel);
        }
    }

    fn live(&self) -> Vec<String> {
        let live = self.known.iter().filter(|(_, known)| known.cancelled == BTreeSet::from([false]));
        live.map(|(handle, _)| handle.clone()).collect()
    }

    /// Reserves licences, and packets at once or licences tomorrow.
    fn create(&mut self, client: &mut Client, later: bool) {
        self.serial += 1;
        let key = format!("anomaly-{}", self.serial);
        let licence = PartDoc { resource: LICENCE.to_owned(), count: Some(1 + self.serial % 2), ..PartDoc::default() };
        let mut ask = AskDoc { parts: vec![licence], when: WhenDoc::lasting(7_200.0), key, ..AskDoc::default() };
        if later {
            let start = linux::clock::Clock::start().now() + terms::Span::from_secs(86_400);
            ask.when.start = Some(documents::book::Instant(start));
        } else {
            let port = 2_000 + (self.serial % 20_000) as u16;
            let flow = FlowDoc { protocol: Some(17), dst_port: Some(port), ..FlowDoc::default() };
            ask.parts.push(PartDoc {
                resource: format!("net/{INTERFACE}"),
                rate: Some(1_000_000),
                binding: Some(BindingDoc::Flow(flow)),
                ..PartDoc::default()
            });
        }
        self.open.insert(ask.key.clone(), ask.clone());
        self.ask(client, ask);
    }

    fn ask(&mut self, client: &mut Client, ask: AskDoc) {
        let key = ask.key.clone();
        match client.call(Request::BookCreate(ask)) {
            Ok(Answer::Book(BookAnswer::Reservation(doc))) => {
                self.open.remove(&key);
                let known = Known { counts: BTreeSet::from([count(&doc)]), cancelled: BTreeSet::from([false]) };
                self.known.insert(doc.handle, known);
            }
            // A refusal means that nothing changed; after a failed journal the outcome is unknown.
            Err(Error::Agent(problem)) if !problem.message.contains("start the agent again") => {
                self.open.remove(&key);
            }
            _ => {}
        }
    }

    fn modify(&mut self, client: &mut Client) {
        let Some(handle) = self.live().pop() else { return };
        self.serial += 1;
        let wanted = 1 + self.serial % 3;
        let Some(known) = self.known.get_mut(&handle) else { return };
        let before = known.counts.clone();
        known.counts.insert(wanted);
        let amounts = vec![AmountDoc { part: 0, count: Some(wanted), ..AmountDoc::default() }];
        let change = ChangeDoc { amounts, ..ChangeDoc::default() };
        match client.call(Request::BookModify { handle, change }) {
            Ok(_) => known.counts = BTreeSet::from([wanted]),
            Err(Error::Agent(problem)) if !problem.message.contains("start the agent again") => known.counts = before,
            Err(_) => {}
        }
    }

    fn cancel(&mut self, client: &mut Client) {
        let live = self.live();
        let Some(handle) = live.get(self.serial as usize % live.len().max(1)) else { return };
        let Some(known) = self.known.get_mut(handle) else { return };
        known.cancelled = BTreeSet::from([false, true]);
        match client.call(Request::BookCancel { handle: handle.clone() }) {
            Ok(_) => known.cancelled = BTreeSet::from([true]),
            Err(Error::Agent(problem)) if !problem.message.contains("start the agent again") => {
                known.cancelled = BTreeSet::from([false]);
            }
            Err(_) => {}
        }
    }

    /// Compares the agent's state with the acknowledgements and returns the differences in words. Resolves
    /// the doubts.
    pub fn check(&mut self, socket: &Path) -> Vec<String> {
        let Ok(mut client) = Client::connect(socket) else { return vec!["the agent is gone".to_owned()] };
        // The same key has one effect, whether or not it had it already.
        for ask in std::mem::take(&mut self.open).into_values() {
            self.ask(&mut client, ask);
        }
        let mut wrong: Vec<String> = self.open.keys().map(|key| format!("{key} asked again has no answer")).collect();
        let mut over = Vec::new();
        for (handle, known) in &mut self.known {
            let request = Request::BookShow { handle: Some(handle.clone()), filter: BookFilter::default() };
            let Ok(Answer::Book(BookAnswer::Reservation(doc))) = client.call(request) else {
                wrong.push(format!("{handle} was acknowledged and is not there"));
                over.push(handle.clone());
                continue;
            };
            let is = doc.state == "cancelled";
            if !known.cancelled.contains(&is) || !known.counts.contains(&count(&doc)) {
                wrong.push(format!("{handle} is {} with {}; acknowledged was {known:?}", doc.state, count(&doc)));
            }
            *known = Known { counts: BTreeSet::from([count(&doc)]), cancelled: BTreeSet::from([is]) };
            if is {
                over.push(handle.clone());
            }
        }
        for handle in over {
            self.known.remove(&handle);
            self.over.insert(handle);
        }
        match rows(&mut client) {
            Ok(rows) => {
                for doc in rows {
                    let over = matches!(doc.state.as_str(), "cancelled" | "ended");
                    if !over && !self.known.contains_key(&doc.handle) && self.over.insert(doc.handle.clone()) {
                        wrong.push(format!("{} was refused and is {}", doc.handle, doc.state));
                    }
                }
            }
            Err(why) => wrong.push(format!("the list has no answer: {why}")),
        }
        wrong
    }

    /// Creates one more reservation.
    pub fn create_one(&mut self, socket: &Path) {
        if let Ok(mut client) = Client::connect(socket) {
            self.create(&mut client, true);
        }
    }
}

fn rows(client: &mut Client) -> Result<Vec<ReservationDoc>, Error> {
    let mut filter = BookFilter::default();
    let mut all = Vec::new();
    loop {
        match client.call(Request::BookShow { handle: None, filter: filter.clone() })? {
            Answer::Book(BookAnswer::Reservations { rows, more }) => {
                filter.after = rows.last().map(|row| row.handle.clone());
                all.extend(rows);
                if !more || filter.after.is_none() {
                    return Ok(all);
                }
            }
            _ => return Ok(all),
        }
    }
}

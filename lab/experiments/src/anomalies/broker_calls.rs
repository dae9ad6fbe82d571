//! The calls that a broker gets under faults, and the checks afterwards: of its own answers, and of each
//! agent's bookings.

use super::http;
use crate::crash::{LICENCE, count};
use bed::error::Error;
use documents::agent::{Answer, BookAnswer, BookFilter, Request};
use documents::book::ReservationDoc;
use rpc::client::Client;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The agents' names.
pub const AGENTS: [&str; 2] = ["one", "two"];
/// The number of reservations, and of webhooks, that stay from one script to the next.
const KEPT: usize = 5;
const HOOKS: usize = 2;
/// The number of rounds in a script. A later round also uses what earlier ones made.
const ROUNDS: usize = 2;

/// The state of a reservation, as acknowledged.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Known {
    /// The idempotency key and the request. Sent again, they give the same reservation.
    key: String,
    wish: Value,
    /// The possible amounts of each part. Several: a change was not answered.
    counts: BTreeSet<u64>,
    /// The possible answers to "is it cancelled?". Both: a cancellation was not answered.
    cancelled: BTreeSet<bool>,
}

/// All calls and their outcome.
#[derive(Debug, Default)]
pub struct Wishes {
    known: BTreeMap<String, Known>,
    /// Requests without an answer, by key. Their reservations may exist.
    open: BTreeMap<String, Value>,
    /// Reservations that were seen to be over, or reported already.
    over: BTreeSet<String>,
    /// Webhooks by name, with the possible answers to "does it exist?". Both: a change was not answered.
    hooks: BTreeMap<String, BTreeSet<bool>>,
    /// The number of webhook requests without an answer.
    hooks_in_doubt: usize,
    /// Answers that contradict an acknowledgement, in words.
    wrong: Vec<String>,
    serial: u64,
}

/// The outcome of a call.
enum Said {
    Yes(Value),
    /// Refused: nothing has changed.
    No,
    /// No answer, or one that says that the outcome is not known yet.
    Nothing,
}

fn said(socket: &Path, method: &str, path: &str, key: &str, body: &Value) -> Said {
    match http::ask(socket, method, path, key, body) {
        Ok((200..=299, doc)) => Said::Yes(doc),
        // What is too much now was not begun; what is unavailable may be done later.
        Ok((400..=499, _)) => Said::No,
        _ => Said::Nothing,
    }
}

fn at(id: &str) -> String {
    format!("/v1/reservations/{id}")
}

impl Wishes {
    /// Creates, repeats with the same key, changes, cancels, lists. The broker may die meanwhile; calls
    /// without an answer stay in doubt.
    pub fn play(&mut self, socket: &Path) {
        for _ in 0..ROUNDS {
            self.create(socket, true);
            self.create(socket, false);
            self.again(socket);
            self.modify(socket);
            self.create(socket, true);
            self.cancel(socket);
            self.modify(socket);
            self.hook(socket);
            self.list(socket);
            self.cancel(socket);
        }
        for _ in KEPT..self.live().len() {
            self.cancel(socket);
        }
    }

    fn live(&self) -> Vec<String> {
        let live = self.known.iter().filter(|(_, known)| known.cancelled == BTreeSet::from([false]));
        live.map(|(id, _)| id.clone()).collect()
    }

    /// Reserves licences of both agents, or of the first alone.
    fn create(&mut self, socket: &Path, both: bool) {
        self.serial += 1;
        let count = 1 + self.serial % 2;
        let part = |agent: &&str| json!({"resource": format!("{agent}/{LICENCE}"), "count": count});
        let parts: Vec<Value> = AGENTS.iter().take(if both { 2 } else { 1 }).map(part).collect();
        let key = format!("anomaly-{}", self.serial);
        self.ask(socket, key, json!({"parts": parts, "duration_s": 7_200}));
    }

    /// Sends a reservation request. Without an answer it stays open.
    fn ask(&mut self, socket: &Path, key: String, wish: Value) -> Option<Value> {
        self.open.insert(key.clone(), wish.clone());
        match said(socket, "POST", "/v1/reservations", &key, &wish) {
            Said::Yes(doc) => {
                self.open.remove(&key);
                let (counts, cancelled) = (counts(&doc), BTreeSet::from([false]));
                self.known.insert(text(&doc, "id"), Known { key, wish, counts, cancelled });
                Some(doc)
            }
            Said::No => {
                self.open.remove(&key);
                None
            }
            Said::Nothing => None,
        }
    }

    /// Repeats a request. The same key and request must give the same reservation.
    fn again(&mut self, socket: &Path) {
        let Some(id) = self.live().into_iter().next_back() else { return };
        let Some(Known { key, wish, .. }) = self.known.get(&id).cloned() else { return };
        match said(socket, "POST", "/v1/reservations", &key, &wish) {
            Said::Yes(doc) if text(&doc, "id") == id => {}
            Said::Yes(doc) => self.wrong.push(format!("{key} made {id}, and asked again {}", text(&doc, "id"))),
            Said::No => self.wrong.push(format!("{key} made {id}, and asked again is refused")),
            Said::Nothing => {}
        }
    }

    fn modify(&mut self, socket: &Path) {
        self.serial += 1;
        let live = self.live();
        let Some(id) = live.get(self.serial as usize % live.len().max(1)) else { return };
        let wanted = 1 + self.serial % 3;
        let Some(known) = self.known.get_mut(id) else { return };
        let before = known.counts.clone();
        known.counts.insert(wanted);
        let parts = known.wish["parts"].as_array().map_or(0, Vec::len);
        let amounts: Vec<Value> = (0..parts).map(|part| json!({"part": part, "count": wanted})).collect();
        match said(socket, "PATCH", &at(id), "", &json!({"amounts": amounts})) {
            Said::Yes(_) => known.counts = BTreeSet::from([wanted]),
            Said::No => known.counts = before,
            Said::Nothing => {}
        }
    }

    fn cancel(&mut self, socket: &Path) {
        self.serial += 1;
        let live = self.live();
        let Some(id) = live.get(self.serial as usize % live.len().max(1)) else { return };
        let Some(known) = self.known.get_mut(id) else { return };
        known.cancelled = BTreeSet::from([false, true]);
        match said(socket, "DELETE", &at(id), "", &Value::Null) {
            Said::Yes(_) => known.cancelled = BTreeSet::from([true]),
            Said::No => known.cancelled = BTreeSet::from([false]),
            Said::Nothing => {}
        }
    }

    /// Adds or removes a webhook. No server listens at its address.
    fn hook(&mut self, socket: &Path) {
        let there: Vec<&String> = self.hooks.iter().filter(|(_, is)| !is.contains(&false)).map(|(id, _)| id).collect();
        if there.len() < HOOKS {
            match said(socket, "POST", "/v1/webhooks", "", &json!({"url": "https://127.0.0.1:9/hooks/x"})) {
                Said::Yes(doc) => drop(self.hooks.insert(text(&doc, "id"), BTreeSet::from([true]))),
                Said::No => {}
                Said::Nothing => self.hooks_in_doubt += 1,
            }
            return;
        }
        let id = there[0].clone();
        let is = match said(socket, "DELETE", &format!("/v1/webhooks/{id}"), "", &Value::Null) {
            Said::Yes(_) => BTreeSet::from([false]),
            Said::No => BTreeSet::from([true]),
            Said::Nothing => BTreeSet::from([false, true]),
        };
        self.hooks.insert(id, is);
    }

    /// Reads the list. A list that claims to be complete must contain every acknowledged reservation.
    fn list(&mut self, socket: &Path) {
        let Said::Yes(list) = said(socket, "GET", "/v1/reservations", "", &Value::Null) else { return };
        if list["away"].as_array().is_some_and(|away| !away.is_empty()) {
            return;
        }
        let ids: BTreeSet<String> = rows(&list, "reservations").iter().map(|row| text(row, "id")).collect();
        let missing = self.live().into_iter().filter(|id| !ids.contains(id));
        self.wrong
            .extend(missing.map(|id| format!("{id} was acknowledged and a list leaves it out")).collect::<Vec<_>>());
    }

    /// Compares the broker's state with the acknowledgements and returns the differences in words. Resolves
    /// the doubts.
    pub fn check(&mut self, socket: &Path) -> Vec<String> {
        let mut wrong = std::mem::take(&mut self.wrong);
        for (key, wish) in std::mem::take(&mut self.open) {
            self.ask(socket, key, wish);
        }
        wrong.extend(self.open.keys().map(|key| format!("{key} asked again has no answer")));
        let mut over = Vec::new();
        for (id, known) in &mut self.known {
            let Said::Yes(doc) = said(socket, "GET", &at(id), "", &Value::Null) else {
                wrong.push(format!("{id} was acknowledged and is not there"));
                over.push(id.clone());
                continue;
            };
            let (state, counts) = (text(&doc, "state"), counts(&doc));
            let is = state == "cancelled";
            let whole = counts.len() == 1 && (is || matches!(state.as_str(), "booked" | "active"));
            if !whole || !known.cancelled.contains(&is) || !counts.is_subset(&known.counts) {
                wrong.push(format!("{id} is {state} with {counts:?}; acknowledged was {known:?}"));
            }
            (known.counts, known.cancelled) = (counts, BTreeSet::from([is]));
            if is || !whole {
                over.push(id.clone());
            }
        }
        for id in over {
            self.known.remove(&id);
            self.over.insert(id);
        }
        self.check_list(socket, &mut wrong);
        self.check_hooks(socket, &mut wrong);
        wrong
    }

    /// Checks that no refused reservation exists. A reservation that is only held ends by itself.
    fn check_list(&mut self, socket: &Path, wrong: &mut Vec<String>) {
        let Said::Yes(list) = said(socket, "GET", "/v1/reservations", "", &Value::Null) else {
            return wrong.push("the list has no answer".to_owned());
        };
        for row in rows(&list, "reservations") {
            let (id, state) = (text(row, "id"), text(row, "state"));
            let over = matches!(state.as_str(), "cancelled" | "ended" | "expired" | "held");
            if !over && !self.known.contains_key(&id) && self.over.insert(id.clone()) {
                wrong.push(format!("{id} was refused and is {state}"));
            }
        }
    }

    fn check_hooks(&mut self, socket: &Path, wrong: &mut Vec<String>) {
        let Said::Yes(list) = said(socket, "GET", "/v1/webhooks", "", &Value::Null) else {
            return wrong.push("the list of webhooks has no answer".to_owned());
        };
        let there: BTreeSet<String> = rows(&list, "webhooks").iter().map(|row| text(row, "id")).collect();
        for (id, known) in &mut self.hooks {
            let is = there.contains(id);
            if !known.contains(&is) {
                wrong.push(format!("the webhook {id} is there: {is}; acknowledged was {known:?}"));
            }
            *known = BTreeSet::from([is]);
        }
        let unknown: Vec<&String> = there.iter().filter(|id| !self.hooks.contains_key(*id)).collect();
        if unknown.len() > self.hooks_in_doubt {
            wrong.push(format!("webhooks that were refused are there: {unknown:?}"));
        }
        self.hooks_in_doubt = 0;
        self.hooks = there.into_iter().map(|id| (id, BTreeSet::from([true]))).collect();
    }

    /// Returns reservations over both agents with a part missing or amounts that differ, as the agents report
    /// them.
    ///
    /// # Errors
    /// An agent does not answer.
    pub fn halves(&mut self, sockets: &[PathBuf]) -> Result<Vec<String>, Error> {
        let mut groups: BTreeMap<String, Vec<ReservationDoc>> = BTreeMap::new();
        for socket in sockets {
            let request = Request::BookShow { handle: None, filter: BookFilter::default() };
            match Client::connect(socket)?.call(request)? {
                Answer::Book(BookAnswer::Reservations { rows, more: false }) => {
                    rows.into_iter().for_each(|row| groups.entry(row.group.clone()).or_default().push(row));
                }
                other => return Err(Error::Void(format!("an agent answered {other:?}"))),
            }
        }
        let mut wrong = Vec::new();
        for (group, rows) in groups {
            let booked = rows.iter().filter(|row| row.state != "held").count();
            let members = rows[0].members.len().max(1);
            let amounts: BTreeSet<u64> = rows.iter().map(count).collect();
            if booked > 0 && (booked < members || amounts.len() > 1) && self.over.insert(group.clone()) {
                wrong.push(format!("of {group} {booked} of {members} members are booked, with {amounts:?}"));
            }
        }
        Ok(wrong)
    }

    /// Reserves over both agents and returns the handle at the second.
    pub fn create_one(&mut self, socket: &Path) -> Option<String> {
        self.serial += 1;
        let part = |agent: &str| json!({"resource": format!("{agent}/{LICENCE}"), "count": 1});
        let wish = json!({"parts": [part(AGENTS[0]), part(AGENTS[1])], "duration_s": 7_200});
        let doc = self.ask(socket, format!("anomaly-{}", self.serial), wish)?;
        let part = rows(&doc, "parts").iter().find(|part| text(part, "agent") == AGENTS[1])?;
        Some(text(part, "handle"))
    }
}

fn rows<'a>(doc: &'a Value, name: &str) -> &'a [Value] {
    doc[name].as_array().map_or(&[], Vec::as_slice)
}

fn text(doc: &Value, name: &str) -> String {
    doc[name].as_str().unwrap_or_default().to_owned()
}

/// Returns the amounts of the reservation's parts.
fn counts(doc: &Value) -> BTreeSet<u64> {
    let amount = |part: &Value| rows(part, "steps").first().and_then(|step| step["amount"].as_f64());
    rows(doc, "parts").iter().map(|part| amount(part).map_or(0, |amount| amount as u64)).collect()
}

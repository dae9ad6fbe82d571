//! Client applications of the broker: they reserve over one or more agents, change, bind and cancel, and record the
//! acknowledgements.

use super::site::{AGENTS, LICENCE};
use crate::anomalies::http;
use documents::book::Instant;
use linux::clock::Clock;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use terms::{Rng, Span};

/// The rate for each unit of a reservation's amount, bit/s. Of licences it is one piece.
pub const UNIT: u64 = 1_000_000;
/// The number of reservations that an application keeps.
const KEPT: usize = 6;
/// The most requests of an application without an answer. Beyond it, it asks again for one: a broker that is away for long would leave
/// thousands of them, and asking for all of them again would take minutes.
const MOST_OPEN: usize = 8;
/// The most calls of a reservation that are kept for a finding.
const MOST_TOLD: usize = 16;
/// The duration of a reservation, seconds: longer than a run.
const LASTS: u64 = 6 * 3_600;

/// The state of a reservation, as acknowledged. Several possible values: a change was not answered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Known {
    key: String,
    wish: Value,
    /// The parts, by their number, that are licences.
    licences: Vec<usize>,
    is_path: bool,
    port: u16,
    /// The possible amounts: every part has the same.
    pub counts: BTreeSet<u64>,
    /// The possible answers to "is it cancelled?".
    pub cancelled: BTreeSet<bool>,
    /// The possible answers to "are its packets bound?".
    pub bound: BTreeSet<bool>,
    /// The newest calls, and what was said to them.
    pub told: VecDeque<String>,
}

/// One application.
pub struct Application {
    number: u16,
    agents: usize,
    clock: Clock,
    chance: Rng,
    serial: u32,
    /// Acknowledged reservations by name.
    pub known: BTreeMap<String, Known>,
    /// Requests without an answer, by key: wish, and port.
    pub open: BTreeMap<String, (Value, u16)>,
    acknowledged: u64,
    refused: u64,
    in_doubt: u64,
}

/// All applications.
pub struct Applications(Vec<Application>);

/// The running threads of all applications.
pub struct ApplicationThreads {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Application>>,
}

/// The number of calls, by what became of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Calls {
    /// Changes that were acknowledged.
    pub acknowledged: u64,
    /// Changes that were refused.
    pub refused: u64,
    /// Changes whose answer did not come, or was that the outcome is not known.
    pub in_doubt: u64,
}

/// The outcome of a call.
enum Said {
    Yes(Value),
    /// Refused: nothing has changed.
    No(String),
    /// No answer, or one that says that the outcome is not known: which.
    Nothing(String),
}

fn said(socket: &Path, method: &str, path: &str, key: &str, body: &Value) -> Said {
    match http::ask(socket, method, path, key, body) {
        Ok((200..=299, doc)) => Said::Yes(doc),
        Ok((status @ 400..=499, doc)) => Said::No(format!("{status} {doc}")),
        Ok((status, doc)) => Said::Nothing(format!("{status} {doc}")),
        Err(error) => Said::Nothing(error.to_string()),
    }
}

impl Applications {
    /// Creates `count` applications of a broker over `agents`.
    pub fn new(count: u16, agents: usize, seed: u64) -> Applications {
        let one = |number| Application {
            number,
            agents,
            clock: Clock::start(),
            chance: Rng::seeded(seed.wrapping_add(number.into())),
            serial: 0,
            known: BTreeMap::new(),
            open: BTreeMap::new(),
            acknowledged: 0,
            refused: 0,
            in_doubt: 0,
        };
        Applications((0..count).map(one).collect())
    }

    /// Starts them: each makes one change after another.
    pub fn begin(&mut self, socket: &Path) -> ApplicationThreads {
        let stop = Arc::new(AtomicBool::new(false));
        let threads = self.0.drain(..).map(|mut application| {
            let (stop, socket) = (stop.clone(), socket.to_owned());
            std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    application.act(&socket);
                    // A broker that is gone refuses connections at once.
                    std::thread::sleep(Duration::from_micros(application.chance.below(2_000)));
                }
                application
            })
        });
        ApplicationThreads { threads: threads.collect(), stop }
    }

    /// Ends them, each after the answer that it waits for.
    pub fn end(&mut self, running: ApplicationThreads) {
        running.stop.store(true, Ordering::Relaxed);
        self.0 = running.threads.into_iter().filter_map(|thread| thread.join().ok()).collect();
    }

    /// All applications.
    pub fn all(&mut self) -> impl Iterator<Item = &mut Application> {
        self.0.iter_mut()
    }

    /// The results of all calls.
    pub fn calls(&self) -> Calls {
        let sum = |of: fn(&Application) -> u64| self.0.iter().map(of).sum();
        Calls {
            acknowledged: sum(|one| one.acknowledged),
            refused: sum(|one| one.refused),
            in_doubt: sum(|one| one.in_doubt),
        }
    }
}

impl Application {
    /// Makes one change.
    fn act(&mut self, socket: &Path) {
        if self.open.len() >= MOST_OPEN
            && let Some((key, (wish, port))) = self.open.pop_first()
        {
            self.create(socket, key, wish, port);
            return;
        }
        let sure = |known: &Known| known.cancelled == BTreeSet::from([false]);
        let live: Vec<String> = self.known.iter().filter(|(_, known)| sure(known)).map(|(id, _)| id.clone()).collect();
        let chosen = live.get(self.chance.below(live.len() as u64) as usize).cloned();
        match (self.chance.below(6), chosen) {
            (0 | 1, Some(id)) => self.modify(socket, &id),
            (2, Some(id)) => self.cancel(socket, &id),
            (3, Some(id)) => self.bind(socket, &id),
            (_, Some(id)) if live.len() >= KEPT => self.cancel(socket, &id),
            _ => {
                self.serial += 1;
                let key = format!("{}-{}", self.number, self.serial);
                let port = 1_024 + self.number * 8_000 + (self.serial % 8_000) as u16;
                let wish = self.wish();
                self.create(socket, key, wish, port);
            }
        }
    }

    /// Builds a request: a path over one or more agents, licences of some of them, or both.
    fn wish(&mut self) -> Value {
        let count = 1 + self.chance.below(3);
        let shape = self.chance.below(4);
        let some = 1 + self.chance.below((1 << self.agents) - 1);
        let part = |(_, name): (usize, &&str)| json!({"resource": format!("{name}/{LICENCE}"), "count": count});
        let chosen = AGENTS.iter().enumerate().filter(|(agent, _)| shape != 0 && some >> agent & 1 == 1);
        let parts: Vec<Value> = chosen.map(part).collect();
        let mut wish = json!({"parts": parts, "duration_s": LASTS});
        if shape != 1 {
            let last = 1 + self.chance.below(self.agents as u64);
            let to = format!("10.8.{last}.9");
            wish["path"] = json!({"from": "10.8.0.9", "to": to, "forward": count * UNIT});
        }
        if self.chance.below(2) == 0 {
            let later = Span::from_secs(3_600 * (1 + self.chance.below(3)));
            wish["start"] = json!(Instant(self.clock.now() + later).to_string());
        }
        wish
    }

    /// Sends a request for a reservation. Without an answer it stays open.
    ///
    /// Returns false if it has no answer.
    pub fn create(&mut self, socket: &Path, key: String, wish: Value, port: u16) -> bool {
        match said(socket, "POST", "/v1/reservations", &key, &wish) {
            // While an agent has not heard the decision its parts may not be shown: asked again, until all are there.
            Said::Yes(doc) if licences(&doc).len() < rows(&wish, "parts").len() => {
                self.open.insert(key, (wish, port));
                self.in_doubt += 1;
                return false;
            }
            Said::Yes(doc) => {
                self.open.remove(&key);
                let licences = licences(&doc);
                let known = Known {
                    licences,
                    is_path: !wish["path"].is_null(),
                    counts: counts(&doc),
                    cancelled: BTreeSet::from([false]),
                    bound: BTreeSet::from([false]),
                    told: VecDeque::from([format!("created, {}", text(&doc, "state"))]),
                    key,
                    wish,
                    port,
                };
                self.known.insert(text(&doc, "id"), known);
                self.acknowledged += 1;
            }
            Said::No(_) => {
                self.open.remove(&key);
                self.refused += 1;
            }
            Said::Nothing(_) => {
                self.open.insert(key, (wish, port));
                self.in_doubt += 1;
                return false;
            }
        }
        true
    }

    fn modify(&mut self, socket: &Path, id: &str) {
        let wanted = 1 + self.chance.below(4);
        let Some(known) = self.known.get_mut(id) else { return };
        let amounts: Vec<Value> = known.licences.iter().map(|part| json!({"part": part, "count": wanted})).collect();
        let mut change = json!({"amounts": amounts});
        if known.is_path {
            change["forward"] = json!(wanted * UNIT);
        }
        let said = said(socket, "PATCH", &at(id), "", &change);
        known.tell(&format!("modify to {wanted}"), &said);
        match said {
            Said::Yes(_) => {
                known.counts = BTreeSet::from([wanted]);
                self.acknowledged += 1;
            }
            Said::No(_) => self.refused += 1,
            Said::Nothing(_) => {
                known.counts.insert(wanted);
                self.in_doubt += 1;
            }
        }
    }

    fn bind(&mut self, socket: &Path, id: &str) {
        let Some(known) = self.known.get_mut(id).filter(|known| known.is_path) else { return };
        let flow = json!({"flow": {"protocol": 17, "to_port": known.port}});
        let said = said(socket, "POST", &format!("{}/bind", at(id)), "", &flow);
        known.tell("bind", &said);
        match said {
            Said::Yes(_) => {
                known.bound = BTreeSet::from([true]);
                self.acknowledged += 1;
            }
            Said::No(_) => self.refused += 1,
            Said::Nothing(_) => {
                known.bound.insert(true);
                self.in_doubt += 1;
            }
        }
    }

    fn cancel(&mut self, socket: &Path, id: &str) {
        let Some(known) = self.known.get_mut(id) else { return };
        let said = said(socket, "DELETE", &at(id), "", &Value::Null);
        known.tell("cancel", &said);
        match said {
            Said::Yes(_) => {
                known.cancelled = BTreeSet::from([true]);
                self.acknowledged += 1;
            }
            Said::No(_) => self.refused += 1,
            Said::Nothing(_) => {
                known.cancelled.insert(true);
                self.in_doubt += 1;
            }
        }
    }
}

impl Known {
    /// Records a call and what was said to it.
    fn tell(&mut self, what: &str, said: &Said) {
        if self.told.len() == MOST_TOLD {
            self.told.pop_front();
        }
        self.told.push_back(match said {
            Said::Yes(doc) => format!("{what}: {}", text(doc, "state")),
            Said::No(why) => format!("{what}: refused, {why}"),
            Said::Nothing(why) => format!("{what}: in doubt, {why}"),
        });
    }

    /// Sends the request again: the same key must give the reservation of this name. Returns what is wrong, and if
    /// there was no answer.
    pub fn again(&self, socket: &Path, id: &str) -> Option<(String, bool)> {
        match said(socket, "POST", "/v1/reservations", &self.key, &self.wish) {
            Said::Yes(doc) if text(&doc, "id") == id => None,
            Said::Yes(doc) => Some((format!("the key of {id} made {} too", text(&doc, "id")), false)),
            Said::No(why) => Some((format!("the key of {id} is refused: {why}"), false)),
            Said::Nothing(why) => Some((format!("the key of {id} has no answer: {why}"), true)),
        }
    }
}

/// The place of a reservation.
pub fn at(id: &str) -> String {
    format!("/v1/reservations/{id}")
}

/// The numbers of the parts that are licences: they belong to no path.
fn licences(doc: &Value) -> Vec<usize> {
    (0..).zip(rows(doc, "parts")).filter(|(_, part)| part["way"].is_null()).map(|(n, _)| n).collect()
}

/// The rows of a document.
pub fn rows<'a>(doc: &'a Value, name: &str) -> &'a [Value] {
    doc[name].as_array().map_or(&[], Vec::as_slice)
}

/// A text of a document.
pub fn text(doc: &Value, name: &str) -> String {
    doc[name].as_str().unwrap_or_default().to_owned()
}

/// The amount of a part in units.
pub fn amount(part: &Value) -> u64 {
    let amount = rows(part, "steps").first().and_then(|step| step["amount"].as_f64()).unwrap_or(0.0) as u64;
    if text(part, "resource").ends_with(LICENCE) { amount } else { amount / UNIT }
}

/// The amounts of all parts in units.
pub fn counts(doc: &Value) -> BTreeSet<u64> {
    rows(doc, "parts").iter().map(amount).collect()
}

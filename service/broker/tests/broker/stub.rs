//! A small agent in memory, for tests of the broker alone: the socket's language, owners, one amount per resource.
//!
//! It has no time: a reservation counts from when it is made until it is given back. Everything that it is told is kept, so that
//! a test can say what must not have happened.

use crate::promised::{Branch, Promise};
use documents::agent::{Answer, Call, EventDoc, HelloDoc, Problem, ReplyLine, Request};
use documents::book::*;
use documents::links::{CallerDoc, LinkRow, RouteRow};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use terms::Time;

/// An agent.
pub struct Stub {
    pub socket: PathBuf,
    pub book: Arc<Mutex<Book>>,
}

/// What it knows.
#[derive(Default)]
pub struct Book {
    pub node: String,
    /// How much there is.
    pub room: BTreeMap<String, f64>,
    pub links: Vec<LinkRow>,
    /// The ways out that it knows; of others it says nothing.
    pub ways_out: Vec<RouteRow>,
    pub rows: Vec<ReservationDoc>,
    pub events: Vec<BookEvent>,
    /// Every call, as `NAME call`.
    pub told: Vec<String>,
    /// The groups of everybody for whom the broker spoke.
    pub groups: Vec<Vec<String>>,
    /// Calls of this name fail once.
    pub fail_once: Option<&'static str>,
    /// Calls of this name are refused from this one on, once so many were answered.
    pub refuse_after: Option<(&'static str, usize)>,
    /// It goes away just before it is asked this (`true`: just after it has done it), as one that is cut off.
    pub leave_at: Option<(&'static str, bool)>,
    /// How far its clock is ahead, seconds.
    pub ahead: u64,
    /// What it has promised and is not decided.
    pub promises: BTreeMap<Branch, Promise>,
    /// The newest start of each broker that it has heard of.
    pub known: BTreeMap<String, EpochDoc>,
    keys: BTreeMap<(String, String), (AskDoc, String)>,
    followers: Vec<(UnixStream, CallerDoc, usize)>,
    connections: usize,
    streams: Vec<UnixStream>,
    gone: bool,
}

impl Stub {
    pub fn start(socket: &Path, node: &str, rooms: &[(&str, f64)], links: Vec<LinkRow>) -> Stub {
        let book = Book {
            node: node.to_owned(),
            room: rooms.iter().map(|(name, room)| ((*name).to_owned(), *room)).collect(),
            links,
            ..Book::default()
        };
        let stub = Stub { socket: socket.to_owned(), book: Arc::new(Mutex::new(book)) };
        stub.listen();
        stub
    }

    /// Comes (back) with what it knew.
    pub fn listen(&self) {
        let _ = std::fs::remove_file(&self.socket);
        let listener = UnixListener::bind(&self.socket).unwrap();
        let book = self.book.clone();
        book.lock().unwrap().gone = false;
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let mut now = book.lock().unwrap();
                if now.gone {
                    return;
                }
                now.streams.push(stream.try_clone().unwrap());
                now.connections += 1;
                let number = now.connections;
                drop(now);
                let book = book.clone();
                std::thread::spawn(move || {
                    serve(&book, stream, number);
                    book.lock().unwrap().followers.retain(|(_, _, of)| *of != number);
                });
            }
        });
    }

    /// Goes away: every connection breaks.
    pub fn go(&self) {
        self.book.lock().unwrap().go();
        let _ = UnixStream::connect(&self.socket);
        let _ = std::fs::remove_file(&self.socket);
    }

    pub fn states(&self) -> Vec<String> {
        self.book.lock().unwrap().rows.iter().map(|row| row.state.clone()).collect()
    }

    /// Who follows on a connection that is open.
    pub fn followers(&self) -> Vec<String> {
        let book = self.book.lock().unwrap();
        book.followers.iter().map(|(_, caller, _)| caller.name.clone()).collect()
    }

    pub fn told(&self) -> Vec<String> {
        self.book.lock().unwrap().told.clone()
    }
}

/// Whoever speaks for nobody.
fn itself() -> CallerDoc {
    CallerDoc { name: "peer".into(), groups: Vec::new(), role: "operator".into(), token: None }
}

fn serve(book: &Mutex<Book>, stream: UnixStream, number: usize) {
    let mut caller = itself();
    let mut writer = stream.try_clone().unwrap();
    for line in BufReader::new(stream.try_clone().unwrap()).lines() {
        let Ok(line) = line else { return };
        let call: Call = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        let name = serde_json::to_value(&call).unwrap()["call"].as_str().unwrap_or("").to_owned();
        let mut book = book.lock().unwrap();
        if book.gone {
            return;
        }
        book.told.push(format!("{} {name}", caller.name));
        let leaves = book.leave_at.filter(|(call, _)| *call == name);
        if leaves.is_some_and(|(_, after)| !after) {
            return book.go();
        }
        let answer = match call.request {
            Request::SpeakFor { who: Some(who) } => {
                book.groups.push(who.groups.clone());
                caller = who;
                Ok(Answer::Done)
            }
            Request::SpeakFor { who: None } => {
                caller = itself();
                Ok(Answer::Done)
            }
            Request::BookFollow { .. } => {
                let answer = book.answer(&caller, call.request);
                book.followers.push((stream.try_clone().unwrap(), caller.clone(), number));
                answer
            }
            _ if book.fail_once == Some(name.as_str()) => {
                book.fail_once = None;
                Err(refusal("not_written", "the disk is full"))
            }
            _ if book.refuses(&name) => {
                Err(Problem { kind: "refused".into(), message: "not now".into(), refusal: None })
            }
            request => book.answer(&caller, request),
        };
        if leaves.is_some() {
            return book.go();
        }
        let line = match answer {
            Ok(ok) => ReplyLine::Ok { id: call.id, ok: Box::new(ok) },
            Err(error) => ReplyLine::Error { id: call.id, error },
        };
        if writer.write_all((serde_json::to_string(&line).unwrap() + "\n").as_bytes()).is_err() {
            return;
        }
    }
}

pub fn refusal(reason: &str, message: &str) -> Problem {
    let doc = RefusalDoc {
        reason: reason.into(),
        message: message.into(),
        part: None,
        resource: None,
        asked: None,
        free: None,
        start: None,
        end: None,
        rule: None,
        known: None,
        alternatives: Vec::new(),
    };
    let kind = if reason == "meaningless" { "misuse" } else { "refused" };
    Problem { kind: kind.into(), message: message.into(), refusal: Some(Box::new(doc)) }
}

/// What its clock says: it stands still.
const NOW: u64 = 1_000_000_000_000;

pub fn over(row: &ReservationDoc) -> bool {
    matches!(row.state.as_str(), "cancelled" | "ended" | "expired")
}

pub fn amount_of(amount: &AmountDoc) -> f64 {
    amount.rate.map(|n| n as f64).or(amount.cores).unwrap_or(0.0)
}

fn amount(part: &PartDoc) -> f64 {
    part.rate.map(|n| n as f64).or(part.cores).or(part.count.map(|n| n as f64)).unwrap_or(0.0)
}

impl Book {
    fn go(&mut self) {
        (self.gone, self.leave_at) = (true, None);
        for stream in std::mem::take(&mut self.streams) {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
        self.followers.clear();
    }

    fn free(&self, resource: &str, but: Option<&str>) -> Option<f64> {
        let held =
            self.rows.iter().filter(|row| !over(row) && Some(row.handle.as_str()) != but).flat_map(|row| &row.parts);
        let held: f64 = held.filter(|part| part.resource == resource).map(|part| part.steps[0].amount).sum();
        self.room.get(resource).map(|room| room - held)
    }

    pub fn event(&mut self, handle: &str, event: &str) {
        let row = self.rows.iter().find(|row| row.handle == handle).unwrap();
        let event = BookEvent {
            seq: self.events.len() as u64 + 1,
            at: Instant(Time::from_nanos(self.events.len() as u64 * 1_000_000_000)),
            handle: handle.into(),
            owner: row.owner.clone(),
            group: row.group.clone(),
            event: event.into(),
            part: None,
            from: None,
            to: None,
            binding: None,
            text: (event == "created").then(|| row.state.clone()),
        };
        let line =
            serde_json::to_string(&ReplyLine::Event { at_ns: 0, event: EventDoc::Book(event.clone()) }).unwrap() + "\n";
        self.followers
            .retain_mut(|(stream, caller, _)| !sees(caller, &event.owner) || stream.write_all(line.as_bytes()).is_ok());
        self.events.push(event);
    }

    pub fn mine(&mut self, caller: &CallerDoc, handle: &str) -> Result<usize, Problem> {
        let at = self.rows.iter().position(|row| row.handle == handle && sees(caller, &row.owner));
        at.ok_or_else(|| refusal("unknown_handle", "no such reservation"))
    }

    fn enquire(&self, ask: &AskDoc) -> EnquiredDoc {
        let start = ask.when.start.unwrap_or(Instant(Time::from_nanos(1_000_000_000)));
        let mut doc =
            EnquiredDoc { accepted: true, granted: Vec::new(), refusal: None, free: Vec::new(), kinds: Vec::new() };
        for (number, part) in ask.parts.iter().enumerate() {
            let free = self.free(&part.resource, None);
            if free.is_none_or(|free| free < part.at_least.unwrap_or(amount(part))) {
                doc.accepted = false;
                let reason = if free.is_none() { "no_resource" } else { "no_room" };
                let mut why = *refusal(reason, "no").refusal.unwrap();
                (why.part, why.resource, why.free) = (Some(number), Some(part.resource.clone()), free);
                doc.refusal = Some(why);
            }
            doc.free.push(free.unwrap_or(0.0));
            doc.kinds.push("reserved".into());
            doc.granted.push(vec![StepDoc { start, end: ask.when.end, amount: amount(part).min(free.unwrap_or(0.0)) }]);
        }
        doc
    }

    pub fn create(&mut self, caller: &CallerDoc, ask: AskDoc, state: &str) -> Result<ReservationDoc, Problem> {
        let key = (caller.name.clone(), ask.key.clone());
        if let Some((before, handle)) = self.keys.get(&key).filter(|_| !ask.key.is_empty()) {
            let row = self.rows.iter().find(|row| row.handle == *handle).unwrap();
            if *before == ask && over(row) {
                return Err(refusal("key_over", "what this key made is over"));
            }
            return if *before == ask { Ok(row.clone()) } else { Err(refusal("key_used", "this key was used")) };
        }
        let said = self.enquire(&ask);
        if let Some(why) = said.refusal {
            return Err(Problem { kind: "refused".into(), message: "no room".into(), refusal: Some(Box::new(why)) });
        }
        let handle = format!("h{}-{}", self.rows.len(), self.node);
        let parts = ask.parts.iter().zip(said.granted).map(|(part, steps)| PartRow {
            resource: part.resource.clone(),
            unit: if part.rate.is_some() {
                "bit/s"
            } else if part.cores.is_some() {
                "cores"
            } else {
                "pieces"
            }
            .into(),
            kind: Some("reserved".into()),
            asked: steps[0].amount,
            now: steps[0].amount,
            installed: 0.0,
            means: None,
            measured: None,
            steps,
            background: part.background,
            packet_bytes: 1000,
            rtt_ms: 100.0,
            meter: part.meter.clone(),
            colors: None,
            binding: part.binding.clone(),
            enforced: "unbound".into(),
            fault: None,
        });
        let row = ReservationDoc {
            handle: handle.clone(),
            owner: caller.name.clone(),
            label: ask.label.clone(),
            group: ask.group.clone(),
            members: ask.members.clone(),
            state: state.into(),
            hold_until: None,
            notify_s: ask.notify_s,
            created: Instant(Time::from_nanos(NOW + self.ahead * 1_000_000_000 + self.rows.len() as u64)),
            version: 1,
            promise: None,
            parts: parts.collect(),
            more: false,
        };
        self.rows.push(row.clone());
        self.keys.insert(key, (ask, handle.clone()));
        self.event(&handle, "created");
        Ok(row)
    }

    /// Checks that there is room for a change.
    pub fn fits(&self, at: usize, change: &ChangeDoc) -> Result<(), Problem> {
        let row = &self.rows[at];
        for amount in &change.amounts {
            let free = self.free(&row.parts[amount.part].resource, Some(&row.handle)).unwrap();
            if amount_of(amount) > free {
                return Err(refusal("no_room", "no room"));
            }
        }
        Ok(())
    }

    pub fn change(&mut self, at: usize, change: &ChangeDoc) {
        for amount in &change.amounts {
            let part = &mut self.rows[at].parts[amount.part];
            part.steps[0].amount = amount_of(amount);
            part.now = part.steps[0].amount;
        }
        if let Some(label) = &change.label {
            self.rows[at].label = label.clone();
        }
    }

    fn about_one(&mut self, caller: &CallerDoc, request: Request) -> Result<ReservationDoc, Problem> {
        match request {
            Request::BookCommit { handle, decided } => {
                let at = self.mine(caller, &handle)?;
                if over(&self.rows[at]) {
                    return Err(refusal("wrong_state", "it is over"));
                }
                if self.rows[at].state != "held" {
                    return Ok(self.rows[at].clone());
                }
                // As a policy that has no rule for a broker.
                if !decided && caller.name == "broker" {
                    return Err(refusal("policy", "no rule allows it"));
                }
                self.rows[at].state = "active".into();
                self.event(&handle, "committed");
                Ok(self.rows[at].clone())
            }
            Request::BookCancel { handle } => {
                let at = self.mine(caller, &handle)?;
                if over(&self.rows[at]) || self.rows[at].promise.is_some() {
                    return Err(refusal("wrong_state", "it is over, or promised"));
                }
                self.rows[at].state = "cancelled".into();
                self.event(&handle, "cancelled");
                Ok(self.rows[at].clone())
            }
            Request::BookModify { handle, change } => {
                let at = self.mine(caller, &handle)?;
                self.fits(at, &change)?;
                self.change(at, &change);
                self.event(&handle, "modified");
                Ok(self.rows[at].clone())
            }
            Request::BookBind { handle, part, binding } => {
                let at = self.mine(caller, &handle)?;
                self.rows[at].parts[part].binding = binding;
                self.event(&handle, "bound");
                Ok(self.rows[at].clone())
            }
            other => panic!("the broker asks {other:?}"),
        }
    }

    fn answer(&mut self, caller: &CallerDoc, request: Request) -> Result<Answer, Problem> {
        let book = match request {
            Request::Hello => {
                let (node, version) = (self.node.clone(), "0".to_owned());
                return Ok(Answer::Hello(HelloDoc { node, version, pid: 1, uptime_ms: 1 }));
            }
            Request::Links => return Ok(Answer::Links(self.links.clone())),
            Request::Routes { to } => {
                let known = |to| self.ways_out.iter().find(|row| row.to == to).cloned();
                return Ok(Answer::Routes(to.into_iter().filter_map(known).collect()));
            }
            Request::BookEnquire(ask) => BookAnswer::Enquired(self.enquire(&ask)),
            Request::BookCreate(ask) => {
                let state = if ask.hold_s.is_some() { "held" } else { "active" };
                BookAnswer::Reservation(self.create(caller, ask, state)?)
            }
            Request::BookPrepare(doc) => BookAnswer::Reservation(self.prepare(caller, *doc)?),
            Request::BookDecide(doc) => self.decide(doc)?,
            Request::BookPromises(doc) => BookAnswer::Promises(self.promised(doc)?),
            Request::BookCommit { .. }
            | Request::BookCancel { .. }
            | Request::BookModify { .. }
            | Request::BookBind { .. } => BookAnswer::Reservation(self.about_one(caller, request)?),
            Request::BookShow { handle: Some(handle), .. } => {
                let at = self.mine(caller, &handle)?;
                BookAnswer::Reservation(self.rows[at].clone())
            }
            Request::BookShow { handle: None, filter } => self.list(caller, &filter)?,
            Request::BookHistory { handle, after } => {
                self.mine(caller, &handle)?;
                let its = self.events.iter().filter(|event| event.handle == handle && event.seq > after);
                let events = its.take(documents::show::PAGE).cloned().collect();
                BookAnswer::Events(BookEvents { events, last: self.events.len() as u64, lost: false })
            }
            Request::BookFollow { after } => {
                let last = self.events.len() as u64;
                let after = after.unwrap_or(last);
                let seen = self.events.iter().filter(|event| event.seq > after && sees(caller, &event.owner));
                BookAnswer::Events(BookEvents { events: seen.cloned().collect(), last, lost: false })
            }
            Request::Resources { .. } => {
                let row = |(name, room): (&String, &f64)| ResourceRow {
                    resource: name.clone(),
                    unit: "bit/s".into(),
                    kind: "reserved".into(),
                    capacity: *room,
                    free: self.free(name, None).unwrap(),
                    background: 0.0,
                    background_now: 0.0,
                    reservations: 0,
                    missing: None,
                    missing_from: None,
                    timeline: Vec::new(),
                    more: false,
                    next: false,
                };
                BookAnswer::Resources(self.room.iter().map(row).collect())
            }
            other => panic!("the broker asks {other:?}"),
        };
        Ok(Answer::Book(book))
    }

    /// True if this call is one that is refused now.
    fn refuses(&mut self, call: &str) -> bool {
        match &mut self.refuse_after {
            Some((name, 0)) => *name == call,
            Some((name, left)) if *name == call => {
                *left -= 1;
                false
            }
            _ => false,
        }
    }

    /// A page of what matches, in the order in which it was made.
    fn list(&mut self, caller: &CallerDoc, filter: &BookFilter) -> Result<BookAnswer, Problem> {
        let matches = |row: &&ReservationDoc| {
            sees(caller, &row.owner)
                && filter.group.as_ref().is_none_or(|group| *group == row.group)
                && filter.label.as_ref().is_none_or(|label| *label == row.label)
                && filter.resource.as_ref().is_none_or(|of| row.parts.iter().any(|part| part.resource == *of))
                && (if filter.states.is_empty() { !over(row) } else { filter.states.contains(&row.state) })
        };
        let after = filter.after.as_ref().map(|handle| self.mine(caller, handle)).transpose()?;
        let rows = self.rows.iter().skip(after.map_or(0, |at| at + 1)).filter(matches);
        let most = filter.limit.unwrap_or(usize::MAX);
        let mut rows: Vec<ReservationDoc> = rows.take(most.saturating_add(1)).cloned().collect();
        let more = rows.len() > most;
        rows.truncate(most);
        Ok(BookAnswer::Reservations { rows, more })
    }
}

fn sees(caller: &CallerDoc, owner: &str) -> bool {
    caller.name == owner || caller.role != "owner"
}

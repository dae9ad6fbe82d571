//! Co-reservations: several parts as one reservation, all or none, made and repaired by strategies (GARA, section 3.1).
//!
//! Each request has a key of its own, and the next one is sent when the last one is known to have failed: a program
//! that is killed leaves one reservation or none. `client/python` has the same, call by call.

use crate::broker::{BrokerCalls, BrokerRefusal};
use crate::connection::CallFailure;
use crate::needs::{self, NeededPart};
use crate::strategy::RequestOrder;
use documents::book::{Instant as Moment, WhenDoc};
use documents::rest::{Reservation, Wish};
use std::collections::{BTreeSet, VecDeque};
use std::io::Read;
use std::time::{Duration, Instant};
use terms::{Span, Time};

/// States of a reservation that is whole, or will be; and of one that is no more.
const WHOLE: [&str; 5] = ["held", "committing", "booked", "active", "suspended"];
const OVER: [&str; 3] = ["ended", "cancelled", "expired"];
/// The pause before the same request is sent again, where a broker is away, and the longest one.
const PAUSES: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(5));
/// The pause between two looks at a reservation that is watched.
const LOOKS: Duration = Duration::from_millis(500);
/// The most news that wait; the oldest go first.
const MOST_NEWS: usize = 4096;

/// A deed for a co-reservation, or an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i32)]
pub enum NewsKind {
    /// A request was refused.
    Refused = 1,
    /// There is a pause before the next request.
    Pause = 2,
    /// A reservation was given back.
    GaveBack = 3,
    /// A reservation was made, or found.
    Made = 4,
    /// A part of it is over or missing.
    Broken = 5,
    /// A new one is in its place.
    Repaired = 6,
    /// No strategy is left: it is over.
    Lost = 7,
    /// It is over.
    Over = 8,
    /// The broker does not answer; it is asked again.
    Away = 9,
}

/// One of the news.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewsItem {
    /// The kind.
    pub what: NewsKind,
    /// The part that it is about; empty: none.
    pub part: String,
    /// The place: a resource, an agent, or two hosts.
    pub place: String,
    /// In words.
    pub text: String,
}

/// When it is wanted.
#[derive(Clone, Copy, Debug, Default)]
pub struct WantedWindow {
    /// The start; `None`: now.
    pub start: Option<Time>,
    /// The end, perhaps never.
    pub end: Option<Time>,
    /// The duration, seconds, in place of the end.
    pub seconds: Option<f64>,
}

/// The limits of the first time, and of each repair.
#[derive(Clone, Copy, Debug)]
pub struct TryLimits {
    /// The most requests that are refused.
    pub attempts: usize,
    /// The longest time.
    pub patience: Duration,
}

/// A co-reservation.
#[derive(Debug)]
pub struct Together {
    broker: BrokerCalls,
    needs: Vec<NeededPart>,
    order: RequestOrder,
    window: WantedWindow,
    name: String,
    limits: TryLimits,
    /// Drawn at the start: the keys of this run are those of no other.
    run: String,
    sent: u64,
    until: Instant,
    tried: Vec<String>,
    owner: Option<String>,
    choices: Vec<usize>,
    reservation: Option<Reservation>,
    is_over: bool,
    news: VecDeque<NewsItem>,
}

/// Why something was not done: it was refused, or there is no more time.
enum Trouble {
    Refused(BrokerRefusal),
    GaveUp(CallFailure),
}

impl Trouble {
    fn failure(self) -> CallFailure {
        match self {
            Trouble::Refused(refusal) if refusal.is_unavailable() => CallFailure::Away(refusal.detail),
            Trouble::Refused(refusal) => CallFailure::Refused(refusal.detail),
            Trouble::GaveUp(failure) => failure,
        }
    }
}

impl Together {
    /// Finds what a program of the same name has made, or makes it.
    ///
    /// # Errors
    /// No strategy is left, the time is over, or the request makes no sense.
    pub fn make(
        broker: BrokerCalls,
        (needs, order): (Vec<NeededPart>, RequestOrder),
        window: WantedWindow,
        name: &str,
        limits: TryLimits,
    ) -> (Together, Result<(), CallFailure>) {
        let mut bytes = [0; 12];
        let drawn = std::fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
        let run = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut made = Together {
            broker,
            needs,
            order,
            window,
            name: name.to_owned(),
            limits,
            run,
            sent: 0,
            until: Instant::now() + limits.patience,
            tried: Vec::new(),
            owner: None,
            choices: Vec::new(),
            reservation: None,
            is_over: false,
            news: VecDeque::new(),
        };
        let result = match drawn {
            Err(error) => Err(CallFailure::Away(format!("no randomness: {error}"))),
            Ok(()) => made.begin_all(),
        };
        (made, result)
    }

    fn begin_all(&mut self) -> Result<(), CallFailure> {
        needs::check(&self.needs).map_err(CallFailure::Misuse)?;
        if self.order.can_be_later()
            && self.window.seconds.is_none()
            && self.window.end.is_none_or(|end| end == Time::FOREVER)
        {
            return Err(CallFailure::Misuse("what has no end cannot be later: say a duration".to_owned()));
        }
        if !self.name.is_empty() && self.found()? { Ok(()) } else { self.granted(None) }
    }

    /// The reservation as it was last seen; `None`: none was made.
    pub fn reservation(&self) -> Option<&Reservation> {
        self.reservation.as_ref()
    }

    /// The place of a part, in words.
    pub fn place(&self, part: usize) -> Option<String> {
        Some(self.needs.get(part)?.at(*self.choices.get(part)?))
    }

    /// Gives all of it back.
    ///
    /// # Errors
    /// The broker refuses, or is away.
    pub fn cancel(&mut self) -> Result<(), CallFailure> {
        let Some(kept) = &self.reservation else { return Err(CallFailure::Misuse("nothing was made".to_owned())) };
        let now = self.broker.cancel(&kept.id.clone()).map_err(|refusal| Trouble::Refused(refusal).failure())?;
        self.reservation = Some(now);
        Ok(())
    }

    /// The next of the news, after `patience` at most. What breaks is repaired meanwhile.
    ///
    /// # Errors
    /// Nothing happened; or it is lost, and all news were told.
    pub fn next(&mut self, patience: Duration) -> Result<NewsItem, CallFailure> {
        let end = Instant::now() + patience;
        loop {
            if let Some(news) = self.news.pop_front() {
                return Ok(news);
            }
            let Some(id) = self.reservation.as_ref().filter(|_| !self.is_over).map(|kept| kept.id.clone()) else {
                return Err(CallFailure::Nothing);
            };
            match self.broker.show(&id) {
                Ok(now) => self.seen(now),
                Err(refusal) if refusal.is_unavailable() => self.tell(NewsKind::Away, ("", ""), refusal.detail),
                Err(refusal) => return Err(Trouble::Refused(refusal).failure()),
            }
            let left = end.saturating_duration_since(Instant::now());
            if self.news.is_empty() || self.news.iter().all(|news| news.what == NewsKind::Away) {
                if left.is_zero() {
                    return self.news.pop_front().ok_or(CallFailure::Nothing);
                }
                std::thread::sleep(left.min(LOOKS));
            }
        }
    }

    /// Takes the present state, and repairs it if it is broken.
    fn seen(&mut self, now: Reservation) {
        let (id, state) = (now.id.clone(), now.state.clone());
        self.reservation = Some(now);
        if OVER.contains(&state.as_str()) {
            self.is_over = true;
            self.tell(NewsKind::Over, ("", ""), format!("{id} is {state}"));
        } else if state == "broken" {
            self.repair();
        }
    }

    fn tell(&mut self, what: NewsKind, (part, place): (&str, &str), text: String) {
        if self.news.len() == MOST_NEWS {
            self.news.pop_front();
        }
        self.news.push_back(NewsItem { what, part: part.to_owned(), place: place.to_owned(), text });
    }

    fn chosen(&self) -> String {
        needs::words(&self.needs, &self.choices, &vec![1.0; self.choices.len()], 0.0)
    }

    /// Takes over what the caller has by this name; several: the oldest that is whole, and the others are given back.
    fn found(&mut self) -> Result<bool, CallFailure> {
        if self.owner.is_none() {
            self.owner = Some(self.patient(BrokerCalls::who).map_err(Trouble::failure)?);
        }
        let (owner, name) = (self.owner.clone().unwrap_or_default(), self.name.clone());
        let mut known = loop {
            let known = self.patient(|broker| broker.list(&owner, &name)).map_err(Trouble::failure)?;
            if known.iter().all(|one| one.state != "preparing" && one.state != "aborting") {
                break known;
            }
            self.pause(PAUSES.0, "what was begun by this name has not come to its end")?;
        };
        let is_whole = |one: &Reservation| WHOLE.contains(&one.state.as_str());
        let is_ours = |one: &Reservation| {
            if is_whole(one) { needs::fits(&self.needs, one).is_some() } else { needs::could_be(&self.needs, one) }
        };
        if let Some(strange) = known.iter().find(|one| !is_ours(one)) {
            let what = format!("{} is called {name:?} as well, and has other parts: take another name", strange.id);
            return Err(CallFailure::Misuse(what));
        }
        known.sort_by_key(|one| (!is_whole(one), one.created.0, one.id.clone()));
        let kept = known.first().filter(|one| is_whole(one)).cloned();
        for other in known.iter().skip(usize::from(kept.is_some())) {
            self.give_back(&other.id)?;
        }
        let Some(kept) = kept else { return Ok(false) };
        self.choices = needs::fits(&self.needs, &kept).unwrap_or_default();
        let is_new = self.reservation.as_ref().is_none_or(|before| before.id != kept.id);
        let text = format!("{} is there: {}", kept.id, self.chosen());
        self.reservation = Some(kept);
        if is_new {
            self.tell(NewsKind::Made, ("", ""), text);
        }
        Ok(true)
    }

    /// Asks until all parts are granted. `before` is what broke: it is given back as soon as it is in the way.
    fn granted(&mut self, mut before: Option<Reservation>) -> Result<(), CallFailure> {
        loop {
            let choices = self.order.choices();
            match self.ask(&choices) {
                Ok(made) => {
                    self.choices = choices;
                    let text = format!("{}: {}", made.id, self.chosen());
                    self.reservation = Some(made);
                    self.tell(NewsKind::Made, ("", ""), text);
                    break;
                }
                Err(Trouble::GaveUp(failure)) => return Err(failure),
                Err(Trouble::Refused(refusal)) => {
                    let in_the_way = before.take_if(|before| is_in_the_way(&refusal, before));
                    match in_the_way {
                        Some(old) => self.give_back(&old.id)?,
                        None => self.refused(&choices, refusal)?,
                    }
                }
            }
        }
        if let Some(old) = before {
            self.give_back(&old.id)?;
        }
        if !self.name.is_empty() && !self.found()? {
            return Err(CallFailure::Refused("it was made, and is gone again".to_owned()));
        }
        Ok(())
    }

    /// Sends one request; the same again, by the same key, while its outcome is not known.
    fn ask(&mut self, choices: &[usize]) -> Result<Reservation, Trouble> {
        let mut wish =
            Wish { when: self.when().map_err(Trouble::GaveUp)?, label: self.name.clone(), ..Wish::default() };
        needs::put(&mut wish, &self.needs, choices, &self.order.shares());
        self.sent += 1;
        let key = format!("{}.{}", self.run, self.sent);
        self.patient(|broker| broker.create(&wish, &key))
    }

    fn when(&self) -> Result<WhenDoc, CallFailure> {
        let WantedWindow { start, end, seconds } = self.window;
        let later = self.order.later();
        if later <= 0.0 {
            let end = if seconds.is_some() { None } else { end.map(Moment) };
            return Ok(WhenDoc { start: start.map(Moment), end, duration_s: seconds, ..WhenDoc::default() });
        }
        let no_clock = || CallFailure::Away("the broker does not tell its clock: say a start".to_owned());
        let begin = start.or(self.broker.now()).ok_or_else(no_clock)?;
        let span = |seconds: f64| Span::from_nanos((seconds * 1e9) as u64);
        let long = seconds.map_or_else(|| end.unwrap_or(begin).since(begin), span);
        let seconds = long.as_nanos() as f64 / 1e9;
        let end = Some(Moment(begin.saturating_add(long).saturating_add(span(later))));
        Ok(WhenDoc { start: start.map(Moment), end, duration_s: Some(seconds), earliest: true, ..WhenDoc::default() })
    }

    /// Notes a refusal, moves on, and waits as long as the strategy says.
    fn refused(&mut self, choices: &[usize], refusal: BrokerRefusal) -> Result<(), CallFailure> {
        if !matches!(refusal.status, 403 | 409 | 422 | 503) {
            return Err(Trouble::Refused(refusal).failure());
        }
        let away = self.away(&refusal);
        let (blamed, place) = needs::blamed(&self.needs, choices, &refusal, &away);
        let part = blamed.map_or_else(String::new, |number| self.needs[number].name.clone());
        let asked = needs::words(&self.needs, choices, &self.order.shares(), self.order.later());
        let number = self.tried.len() + 1;
        self.tried.push(format!("{number}. {asked}: {}", refusal.detail));
        let text = self.tried.last().cloned().unwrap_or_default();
        self.tell(NewsKind::Refused, (&part, place.as_deref().unwrap_or_default()), text);
        let pause = self.order.refused(blamed);
        let why = match pause {
            None => "no strategy is left".to_owned(),
            Some(_) if number >= self.limits.attempts => format!("{number} requests were refused"),
            Some(seconds) => return self.pause(Duration::from_secs_f64(seconds), &refusal.detail),
        };
        let whose = if part.is_empty() { "any part".to_owned() } else { part };
        Err(CallFailure::Refused(format!("{why} for {whose}: {}; tried: {}", refusal.detail, self.tried.join(" | "))))
    }

    /// Makes a call; again, while the broker does not answer or has too much to do, and there is time.
    fn patient<T>(&mut self, call: impl Fn(&mut BrokerCalls) -> Result<T, BrokerRefusal>) -> Result<T, Trouble> {
        let mut pause = PAUSES.0;
        loop {
            let refusal = match call(&mut self.broker) {
                Ok(answer) => return Ok(answer),
                Err(refusal) => refusal,
            };
            // An agent that is away is a refusal of the parts there; a broker that is away is waited for.
            if !refusal.is_unavailable() || !self.away(&refusal).is_empty() {
                return Err(Trouble::Refused(refusal));
            }
            self.pause(pause, &refusal.detail).map_err(Trouble::GaveUp)?;
            pause = (2 * pause).min(PAUSES.1);
        }
    }

    /// The agents that do not answer, and because of which this was refused.
    fn away(&mut self, refusal: &BrokerRefusal) -> Vec<String> {
        if refusal.status != 503 {
            return Vec::new();
        }
        let is_named = |agent: &String| {
            let mut words = refusal.detail.split(|c: char| !c.is_alphanumeric() && !"_.-".contains(c));
            words.any(|word| word.trim_end_matches('.') == agent)
        };
        self.broker.away().unwrap_or_default().into_iter().filter(is_named).collect()
    }

    fn pause(&mut self, pause: Duration, why: &str) -> Result<(), CallFailure> {
        if Instant::now() + pause > self.until {
            let (seconds, tried) = (self.limits.patience.as_secs_f64(), self.tried.join(" | "));
            let tried = if tried.is_empty() { "nothing".to_owned() } else { tried };
            return Err(CallFailure::Away(format!("not granted within {seconds} s: {why}; tried: {tried}")));
        }
        if !pause.is_zero() {
            self.tell(NewsKind::Pause, ("", ""), format!("{} s", pause.as_secs_f64()));
            std::thread::sleep(pause);
        }
        Ok(())
    }

    fn give_back(&mut self, id: &str) -> Result<(), CallFailure> {
        match self.patient(|broker| broker.cancel(id)) {
            // It is over already, or is being given back.
            Err(Trouble::Refused(refusal)) if matches!(refusal.kind.as_str(), "not_found" | "wrong_state") => {}
            other => {
                other.map_err(Trouble::failure)?;
            }
        }
        self.tell(NewsKind::GaveBack, ("", ""), format!("{id} was given back"));
        Ok(())
    }

    /// Puts a new whole reservation in the place of the broken one.
    fn repair(&mut self) {
        let Some(kept) = self.reservation.clone() else { return };
        self.tried.clear();
        self.until = Instant::now() + self.limits.patience;
        let (broken, agents) = self.broken(&kept);
        let names: Vec<&str> = broken.iter().map(|number| self.needs[*number].name.as_str()).collect();
        let (names, places) = (names.join(", "), agents.into_iter().collect::<Vec<_>>().join(", "));
        self.tell(NewsKind::Broken, (&names, &places), format!("{} broke at {places}", kept.id));
        self.window = rest(&kept, self.broker.now());
        let pause = self.order.broken(&broken, &self.choices);
        let no_strategy = || CallFailure::Refused(format!("{} broke at {places}, and no strategy is left", kept.id));
        let made = pause
            .ok_or_else(no_strategy)
            .and_then(|seconds| self.pause(Duration::from_secs_f64(seconds), "it broke"))
            .and_then(|()| self.granted(Some(kept.clone())));
        match made {
            Ok(()) => {
                let id = self.reservation.as_ref().map(|now| now.id.clone()).unwrap_or_default();
                let text = format!("{id} in the place of {}: {}", kept.id, self.chosen());
                self.tell(NewsKind::Repaired, (&names, &places), text);
            }
            Err(failure) => {
                self.is_over = true;
                let left = self.give_back(&kept.id).err().map(|_| "; what is left of it was not given back");
                let text = format!("{}{}", failure.words(), left.unwrap_or_default());
                self.tell(NewsKind::Lost, (&names, &places), text);
            }
        }
    }

    /// The parts that are over or missing, and the agents.
    fn broken(&mut self, kept: &Reservation) -> (BTreeSet<usize>, BTreeSet<String>) {
        let mut agents: BTreeSet<String> = kept.missing.iter().cloned().collect();
        let mut broken = BTreeSet::new();
        for agent in &kept.missing {
            for way in [None, Some("forward")] {
                broken.extend(needs::at_agent(&self.needs, &self.choices, agent, way));
            }
        }
        let events = self.broker.history(&kept.id).map(|found| found.events).unwrap_or_default();
        for event in events.into_iter().filter(|event| OVER.contains(&event.event.event.as_str())) {
            broken.extend(needs::at_agent(&self.needs, &self.choices, &event.agent, event.way.as_deref()));
            agents.insert(event.agent);
        }
        (broken, agents)
    }
}

/// The rest of the time of a reservation.
fn rest(kept: &Reservation, now: Option<Time>) -> WantedWindow {
    let steps = || kept.parts.iter().flat_map(|part| &part.row.steps);
    let start = steps().map(|step| step.start.0).min().filter(|start| now.is_some_and(|now| *start > now));
    let end = steps().map(|step| step.end.map_or(Time::FOREVER, |end| end.0)).max().unwrap_or(Time::FOREVER);
    WantedWindow { start, end: Some(end), seconds: None }
}

/// True if what is left of a broken reservation may be what keeps the new one out: its room, or its flows.
fn is_in_the_way(refusal: &BrokerRefusal, before: &Reservation) -> bool {
    let ours = before.parts.iter().any(|part| Some(part.row.resource.as_str()) == refusal.resource());
    refusal.reason() == "taken" || (refusal.kind == "no_room" && ours)
}

//! The book against brute force: time is seconds, a resource is a row of sums, and every answer is predicted.

use crate::world::{Driver, T0, Tables, at};
use crate::{flow, part};
use booking::io::{BookingChange, CallResult, EventKind};
use booking::{BookingRequest, BookingState, BookingView, Call, Config, Refusal, RefusalReason, When};
use std::collections::BTreeMap;
use terms::book::{Handle, ResourceKind};
use terms::{Span, Time};

/// How far time goes, seconds.
pub const TICKS: u64 = 48;
pub const RESOURCES: [(&str, u64); 2] = [("net/eth1", 10), ("licence/x", 7)];

/// A part as the oracle knows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Row {
    pub resource: usize,
    pub start: u64,
    pub end: u64,
    pub amount: u64,
}

/// A reservation as the oracle knows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Known {
    pub owner: &'static str,
    pub rows: Vec<Row>,
    pub state: BookingState,
    pub until: u64,
    pub key: String,
    pub body: String,
    /// The notice before its end, seconds; and the end of which it was told.
    pub notice: Option<u64>,
    pub told: Option<u64>,
}

/// What may be done.
#[derive(Clone, Debug)]
pub enum Op {
    Create { owner: &'static str, rows: Vec<Row>, hold: Option<u64>, key: String, notice: Option<u64> },
    Commit(usize),
    Cancel(usize),
    Modify { k: usize, part: usize, amount: Option<u64>, start: Option<u64>, end: Option<u64> },
    Bind { k: usize, flow: u16 },
    Pass(u64),
}

/// The book and the oracle, side by side.
#[derive(Clone)]
pub struct Pair {
    pub driver: Driver,
    pub known: BTreeMap<usize, Known>,
    pub handles: Vec<Handle>,
    pub now: u64,
    /// Who must have been told of which end, in which second.
    pub notices: Vec<(usize, u64, u64)>,
}

fn seconds(t: Time) -> u64 {
    if t == Time::FOREVER { u64::MAX } else { t.since(T0).as_nanos() / Span::NANOS_PER_SEC }
}

impl Pair {
    pub fn new() -> Pair {
        let driver = Driver::with(Config::default(), Tables::new(&RESOURCES));
        Pair { driver, known: BTreeMap::new(), handles: Vec::new(), now: 0, notices: Vec::new() }
    }

    /// What is promised of a resource in a second, but for one reservation.
    fn level(&self, resource: usize, t: u64, but: Option<usize>) -> u64 {
        let live = self.known.iter().filter(|(k, known)| !known.state.is_over() && Some(**k) != but);
        let rows = live.flat_map(|(_, known)| &known.rows);
        rows.filter(|row| row.resource == resource && row.start <= t && t < row.end).map(|row| row.amount).sum()
    }

    fn fits(&self, rows: &[Row], but: Option<usize>) -> bool {
        (self.now..TICKS).all(|t| {
            (0..RESOURCES.len()).all(|resource| {
                let own = rows.iter().filter(|row| row.resource == resource && row.start <= t && t < row.end);
                let own: u64 = own.map(|row| row.amount).sum();
                own == 0 || self.level(resource, t, but) + own <= RESOURCES[resource].1
            })
        })
    }

    /// Does it with both and compares; whether it was done.
    pub fn run(&mut self, op: &Op) -> bool {
        let before = (self.driver.broker.digest(), self.driver.world.counted());
        let done = match op.clone() {
            Op::Create { owner, rows, hold, key, notice } => self.create(owner, rows, (hold, notice), key),
            Op::Commit(k) => self.commit(k),
            Op::Cancel(k) => self.cancel(k),
            Op::Modify { k, part, amount, start, end } => self.modify(k, part, amount, start, end),
            Op::Bind { k, flow } => self.bind(k, flow),
            Op::Pass(t) => {
                while self.now < t {
                    self.now += 1;
                    self.driver.until(self.now);
                    self.pass();
                }
                true
            }
        };
        if !done {
            let after = (self.driver.broker.digest(), self.driver.world.counted());
            assert_eq!(after, before, "{op:?}: a refusal changes nothing");
        }
        self.compare();
        done
    }

    fn pass(&mut self) {
        let now = self.now;
        for (k, known) in &mut self.known {
            let (start, end) = known.span();
            known.state = match known.state {
                BookingState::Held if now >= known.until || now >= end => BookingState::Expired,
                BookingState::Booked | BookingState::Active if now >= end => BookingState::Ended,
                BookingState::Booked | BookingState::Active if known.is_open(now) => BookingState::Active,
                BookingState::Active if now >= start => BookingState::Booked,
                state => state,
            };
            let near = known.notice.is_some_and(|notice| end.saturating_sub(notice) <= now && now < end);
            if near && known.state.is_booked() && known.told != Some(end) {
                known.told = Some(end);
                self.notices.push((*k, now, end));
            }
        }
    }

    fn create(
        &mut self,
        owner: &'static str,
        rows: Vec<Row>,
        (hold, notice): (Option<u64>, Option<u64>),
        key: String,
    ) -> bool {
        let body = format!("{rows:?} {hold:?} {notice:?}");
        let ask = BookingRequest {
            parts: rows.iter().map(|row| part(RESOURCES[row.resource].0, row.amount)).collect(),
            when: When::Window { start: Some(at(rows[0].start)), end: Some(at(rows[0].end)) },
            notice: notice.map(Span::from_secs).map(Box::new),
            ..BookingRequest::default()
        };
        let call = Call::Create { ask, hold: hold.map(Span::from_secs), key: key.clone() };
        let reply = self.driver.call(owner, call);
        let same = self.known.iter().find(|(_, known)| !key.is_empty() && known.key == key && known.owner == owner);
        if let Some((k, known)) = same {
            let told = reply.map(view_of).map(|view| view.handle);
            match known.body == body {
                true if known.state.is_over() => {
                    let over = RefusalReason::KeyOver { handle: self.handles[*k], state: known.state };
                    assert_eq!(told.map_err(|no| no.why), Err(over), "what is over does not come back");
                }
                true => assert_eq!(told, Ok(self.handles[*k]), "the same again"),
                false => assert_eq!(told.map_err(|no| no.why), Err(RefusalReason::KeyUsed)),
            }
            return false;
        }
        let (start, end) = (rows[0].start.max(self.now), rows[0].end);
        let sane = end > self.now && start < end && rows.iter().all(|row| row.amount > 0) && hold != Some(0);
        let rows: Vec<Row> = rows.into_iter().map(|row| Row { start, ..row }).collect();
        let fits = sane && self.fits(&rows, None);
        match reply {
            Ok(answer) => {
                assert!(fits, "it does not fit: {rows:?}");
                let view = view_of(answer);
                let until = hold.map_or(u64::MAX, |hold| self.now + hold);
                let state = if hold.is_some() { BookingState::Held } else { BookingState::Booked };
                let k = self.handles.len();
                self.handles.push(view.handle);
                self.known.insert(k, Known { owner, rows, state, until, key, body, notice, told: None });
                self.pass();
                true
            }
            Err(refusal) => {
                assert!(!fits, "it fits: {rows:?}: {refusal:?}");
                assert_eq!(matches!(refusal.why, RefusalReason::NoRoom { .. }), sane, "{refusal:?}");
                self.check_reason(&refusal);
                false
            }
        }
    }

    /// What a refusal says of what is free is true.
    fn check_reason(&self, refusal: &Refusal) {
        let RefusalReason::NoRoom { resource, free, window, asked, .. } = &refusal.why else { return };
        let place = RESOURCES.iter().position(|(name, _)| name == resource).expect("a resource of ours");
        let all = seconds(window.start())..seconds(window.end()).min(TICKS);
        let least = all.map(|t| RESOURCES[place].1 - self.level(place, t, None)).min().expect("a window of ours");
        assert!(*free <= least && free < asked, "{refusal:?}: {least} is free");
    }

    fn commit(&mut self, k: usize) -> bool {
        let Some(known) = self.known.get_mut(&k) else { return false };
        let reply = self.driver.call(known.owner, Call::Commit(self.handles[k]));
        assert_eq!(reply.is_ok(), !known.state.is_over(), "{known:?}: {reply:?}");
        let done = known.state == BookingState::Held;
        if done {
            known.state = BookingState::Booked;
            self.pass();
        }
        done
    }

    fn cancel(&mut self, k: usize) -> bool {
        let Some(known) = self.known.get_mut(&k) else { return false };
        let reply = self.driver.call(known.owner, Call::Cancel(self.handles[k]));
        let may = !known.state.is_over() || known.state == BookingState::Cancelled;
        assert_eq!(reply.is_ok(), may, "{known:?}: {reply:?}");
        let done = !known.state.is_over();
        if done {
            known.state = BookingState::Cancelled;
        }
        done
    }

    fn modify(&mut self, k: usize, part: usize, amount: Option<u64>, start: Option<u64>, end: Option<u64>) -> bool {
        let Some(known) = self.known.get(&k) else { return false };
        let part = part % known.rows.len();
        let kind = ResourceKind::of(RESOURCES[known.rows[part].resource].0);
        let change = BookingChange {
            amounts: amount.map(|amount| (part, kind, amount)).into_iter().collect(),
            start: start.map(at),
            end: end.map(at),
            label: None,
            without: Vec::new(),
        };
        let reply = self.driver.call(known.owner, Call::Modify { handle: self.handles[k], change });
        let mut rows = known.rows.clone();
        let mut sane = !known.state.is_over() && amount != Some(0) && end.is_none_or(|end| end > self.now);
        if let Some(amount) = amount {
            rows[part].amount = amount;
        }
        for row in &mut rows {
            let begun = row.start <= self.now;
            match start {
                Some(start) if begun => sane &= start <= self.now,
                Some(start) => row.start = start.max(self.now),
                None => {}
            }
            row.end = end.unwrap_or(row.end);
            sane &= row.start < row.end;
        }
        let fits = sane && self.fits(&rows, Some(k));
        let same = rows == known.rows;
        assert_eq!(reply.is_ok(), fits, "{known:?} to {rows:?} at {}: {reply:?}", self.now);
        if let Err(refusal) = &reply {
            self.check_changes(k, refusal, known.owner);
        }
        if fits && let Some(known) = self.known.get_mut(&k) {
            known.rows = rows;
            self.pass();
        }
        fits && !same
    }

    /// What a refused change offers instead would be accepted.
    fn check_changes(&self, k: usize, refusal: &Refusal, owner: &'static str) {
        let RefusalReason::NoRoom { asked, free, .. } = refusal.why else { return };
        assert!(free < asked, "{refusal:?}");
        for alternative in &refusal.alternatives {
            let of = |(n, part): (usize, &booking::refusal::OfferedPart)| (n, part.kind, part.steps[0].amount);
            let window = alternative.parts[0].steps[0].window;
            let change = BookingChange {
                amounts: alternative.parts.iter().enumerate().map(of).collect(),
                start: Some(window.start()),
                end: Some(window.end()),
                label: None,
                without: Vec::new(),
            };
            let mut other = self.driver.clone();
            let reply = other.call(owner, Call::Modify { handle: self.handles[k], change });
            assert!(reply.is_ok(), "{alternative:?} at {}: {reply:?}", self.now);
        }
    }

    fn bind(&mut self, k: usize, n: u16) -> bool {
        let Some(known) = self.known.get(&k) else { return false };
        let part = known.rows.iter().position(|row| row.resource == 0);
        let Some(part) = part else { return false };
        let call = Call::Bind { handle: self.handles[k], part, binding: Some(flow(n)) };
        self.driver.call(known.owner, call).is_ok_and(|answer| view_of(answer).version > 1)
    }

    /// Everything that can be seen from outside.
    pub fn compare(&mut self) {
        self.driver.check();
        for (resource, (name, capacity)) in RESOURCES.iter().enumerate() {
            let table = self.driver.world.table(resource as u32);
            for t in self.now..TICKS {
                let peak = table.peak(at(t), at(t + 1)).as_bps();
                assert_eq!(peak, self.level(resource, t, None), "{name} at {t}");
                assert!(peak <= *capacity, "over-booked");
            }
        }
        for (k, known) in &self.known {
            let view = self.driver.broker.peek(self.handles[*k]).expect("it is kept");
            assert_eq!(view, known.state, "{known:?} at {}", self.now);
        }
        self.compare_notices();
        let due: Vec<u64> = self.driver.broker.due().map(|due| due.amount.count()).collect();
        let open = |known: &&Known| known.state == BookingState::Active;
        let most: usize = self.known.values().filter(open).map(|known| known.rows.len()).sum();
        assert!(due.len() <= most, "more is enforced than is open");
        let kernel: Vec<u64> = self.driver.kernel.values().map(|(_, amount)| *amount).collect();
        assert_eq!(kernel.iter().sum::<u64>(), due.iter().sum::<u64>(), "the kernel has what is due");
    }
}

impl Pair {
    /// Everybody was told what they should be, and nothing twice.
    fn compare_notices(&self) {
        let told = self.driver.events.iter().filter_map(|event| match event.what {
            EventKind::EndsSoon { end } => Some((event.handle, seconds(event.at), seconds(end))),
            _ => None,
        });
        let mut told: Vec<_> = told.collect();
        let mut all: Vec<_> = self.notices.iter().map(|(k, at, end)| (self.handles[*k], *at, *end)).collect();
        told.sort_unstable();
        all.sort_unstable();
        assert_eq!(told, all, "at {}", self.now);
    }
}

impl Known {
    fn span(&self) -> (u64, u64) {
        let starts = self.rows.iter().map(|row| row.start);
        (starts.min().unwrap_or(0), self.rows.iter().map(|row| row.end).max().unwrap_or(0))
    }

    fn is_open(&self, now: u64) -> bool {
        self.rows.iter().any(|row| row.start <= now && now < row.end)
    }
}

fn view_of(answer: CallResult) -> BookingView {
    match answer {
        CallResult::Reservation(view) => view,
        other => panic!("{other:?}"),
    }
}

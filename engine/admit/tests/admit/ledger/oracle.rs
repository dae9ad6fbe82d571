//! The oracle: time is cut into ticks and everything is counted tick by tick, by the rules and by nothing else.
//! [`Pair`] runs the table and the oracle side by side and compares all that can be seen.

use admit::{Denied, Limits, Slot, SlotChange, SlotId, SlotNotice, SlotOffer, SlotState, SlotTable};
use std::collections::{BTreeMap, BTreeSet};
use terms::{Misuse, Rate, Span, Time, Window};

/// What is done; slots are named by the order in which they were created, ended ones included.
#[derive(Clone, Copy, Debug)]
pub enum Op {
    Hold { s: usize, e: usize, rate: u64, until: usize },
    Grant { s: usize, e: usize, rate: u64 },
    Open { rate: u64 },
    Promise(usize),
    Commit(usize),
    Release(usize),
    Modify { k: usize, rate: Option<u64>, s: Option<usize>, e: Option<usize> },
    Expire(usize),
    Capacity { s: usize, e: usize, rate: u64 },
}

/// A slot as the oracle sees it: ticks `s..e`, firm until `until` if it is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted {
    pub s: usize,
    pub e: usize,
    pub rate: u64,
    pub state: SlotState,
    pub until: usize,
    pub begun: bool,
}

/// Ticks `0..n`; the last one stands for all of time after it.
#[derive(Clone, Debug)]
pub struct Oracle {
    pub now: usize,
    pub cap: Vec<u64>,
    pub share: Option<u64>,
    pub holding: Option<usize>,
    pub slots: BTreeMap<usize, Counted>,
}

impl Oracle {
    /// What counts for sure, tick by tick.
    fn levels(&self) -> Vec<u64> {
        let mut levels = vec![0; self.cap.len()];
        for c in self.slots.values() {
            let end = if c.state == SlotState::Open { c.until.min(c.e) } else { c.e };
            levels[c.s.min(end)..end].iter_mut().for_each(|level| *level += c.rate);
        }
        levels
    }

    pub fn loose(&self) -> u64 {
        self.slots.values().filter(|c| c.state == SlotState::Open && c.until <= self.now).map(|c| c.rate).sum()
    }

    pub fn open_sum(&self) -> u64 {
        self.slots.values().filter(|c| c.state == SlotState::Open).map(|c| c.rate).sum()
    }

    pub fn peak(&self, s: usize, e: usize) -> u64 {
        self.levels()[s..e.max(s)].iter().copied().max().unwrap_or(0)
    }

    pub fn free(&self, s: usize, e: usize) -> u64 {
        let levels = self.levels();
        (s.max(self.now)..e).map(|t| self.cap[t].saturating_sub(levels[t])).min().unwrap_or(0)
    }

    pub fn free_to_open(&self, until: usize) -> u64 {
        let share = self.share.map_or(u64::MAX, |share| share.saturating_sub(self.open_sum()));
        let ahead = if until > self.now { self.free(self.now, until) } else { u64::MAX };
        let here = self.cap[self.now].saturating_sub(self.levels()[self.now] + self.loose());
        share.min(ahead).min(here)
    }

    pub fn find(&self, rate: u64, span: usize, earliest: usize, latest: usize) -> Option<usize> {
        let (n, levels) = (self.cap.len(), self.levels());
        let fits = |t: usize| levels[t].saturating_add(rate) <= self.cap[t];
        (earliest.max(self.now)..n)
            .filter(|s| latest == n || s + span <= latest)
            .find(|&s| (s..(s + span).min(n)).all(fits))
    }
}

/// The table beside the oracle. A tick lasts `scale` nanoseconds.
#[derive(Clone)]
pub struct Pair {
    pub table: SlotTable,
    pub oracle: Oracle,
    pub handles: Vec<SlotId>,
    pub limit: usize,
    opened: BTreeSet<SlotId>,
    scale: u64,
}

impl Pair {
    pub fn new(ticks: usize, scale: u64, cap: u64, share: Option<u64>, holding: Option<usize>, limit: usize) -> Pair {
        let offer = SlotOffer {
            capacity: Rate::from_bps(cap),
            signalled_share: share.map(Rate::from_bps),
            assumed_holding: holding.map(|h| Span::from_nanos(h as u64 * scale)),
        };
        let limits = Limits { slots: limit, ..Limits::default() };
        let oracle = Oracle { now: 0, cap: vec![cap; ticks], share, holding, slots: BTreeMap::new() };
        Pair {
            table: SlotTable::new(offer, limits),
            oracle,
            handles: Vec::new(),
            limit,
            opened: BTreeSet::new(),
            scale,
        }
    }

    pub fn time(&self, tick: usize) -> Time {
        if tick >= self.oracle.cap.len() { Time::FOREVER } else { Time::from_nanos(tick as u64 * self.scale) }
    }

    /// Does `op` on both, compares the answers, and checks that a refusal changed nothing.
    /// Returns whether it was done.
    pub fn run(&mut self, op: Op) -> bool {
        let before = self.table.digest();
        let count = self.handles.len();
        let said = self.table_does(op);
        let due = self.oracle_does(op);
        assert_eq!(said.as_ref().err().map(kind), due.err(), "{op:?}: {said:?}");
        if let Err(denied) = said {
            assert_eq!(self.table.digest(), before, "{op:?} was refused and changed something");
            assert_eq!(self.table.poll(), None, "{op:?} was refused and said something");
            self.compare_free(op, denied);
        }
        if self.handles.len() > count && due.is_ok() {
            let slot = self.table.get(self.handles[count]).unwrap();
            self.oracle.slots.insert(count, self.counted(slot));
        }
        self.oracle_settles();
        while let Some(notice) = self.table.poll() {
            self.check_notice(notice);
        }
        if let Op::Expire(_) = op {
            self.check_wake();
        }
        due.is_ok()
    }

    fn table_does(&mut self, op: Op) -> Result<(), Denied> {
        let unknown = SlotId::from_u64(u64::MAX);
        let id = |k: usize| self.handles.get(k).copied().unwrap_or(unknown);
        let rated = Rate::from_bps;
        match op {
            Op::Hold { s, e, rate, until } => {
                let window = Window::new(self.time(s), self.time(e))?;
                let id = self.table.hold(window, rated(rate), self.time(until))?;
                self.handles.push(id);
            }
            Op::Grant { s, e, rate } => {
                let window = Window::new(self.time(s), self.time(e))?;
                let id = self.table.grant(window, rated(rate))?;
                self.handles.push(id);
            }
            Op::Open { rate } => {
                let id = self.table.open(rated(rate))?;
                self.handles.push(id);
            }
            Op::Promise(k) => self.table.promise(id(k))?,
            Op::Commit(k) => self.table.commit(id(k))?,
            Op::Release(k) => drop(self.table.release(id(k))?),
            Op::Modify { k, rate, s, e } => {
                let (start, end) = (s.map(|s| self.time(s)), e.map(|e| self.time(e)));
                self.table.modify(id(k), SlotChange { amount: rate.map(rated), start, end })?;
            }
            Op::Expire(now) => self.table.expire(self.time(now)),
            Op::Capacity { s, e, rate } => {
                let window = Window::new(self.time(s), self.time(e))?;
                self.table.set_capacity(window, rated(rate))?;
            }
        }
        Ok(())
    }

    fn oracle_does(&mut self, op: Op) -> Result<(), &'static str> {
        let o = &mut self.oracle;
        let full = o.slots.len() >= self.limit;
        match op {
            Op::Hold { s, e, .. } | Op::Grant { s, e, .. } if s >= e => Err("empty"),
            Op::Hold { until, .. } if until <= o.now => Err("past"),
            Op::Hold { e, .. } | Op::Grant { e, .. } if e <= o.now => Err("past"),
            Op::Hold { rate: 0, .. } | Op::Grant { rate: 0, .. } | Op::Open { rate: 0 } => Err("zero"),
            Op::Hold { .. } | Op::Grant { .. } | Op::Open { .. } if full => Err("limit"),
            Op::Hold { s, e, rate, .. } | Op::Grant { s, e, rate } if rate > o.free(s, e) => Err("capacity"),
            Op::Open { rate } if rate > o.free_to_open(o.until()) => Err("capacity"),
            Op::Hold { .. } | Op::Grant { .. } | Op::Open { .. } => Ok(()),
            Op::Promise(k) => o.go(k, SlotState::Held, SlotState::Promised),
            Op::Commit(k) => o.go(k, SlotState::Promised, SlotState::Committed),
            Op::Release(k) => o.slots.remove(&k).map(drop).ok_or("stale"),
            Op::Modify { k, rate, s, e } => o.modify(k, rate, s, e),
            Op::Expire(now) => {
                o.expire(now);
                Ok(())
            }
            Op::Capacity { s, e, .. } if s >= e => Err("empty"),
            Op::Capacity { e, .. } if e <= o.now => Err("past"),
            Op::Capacity { s, e, rate } => {
                o.cap[s..e].fill(rate);
                Ok(())
            }
        }
    }

    /// Displaces loose slots in the order in which their shelter ended, until the rest fits at this tick.
    fn oracle_settles(&mut self) {
        let o = &mut self.oracle;
        while o.loose() > 0 && o.levels()[o.now] + o.loose() > o.cap[o.now] {
            let loose = o.slots.iter().filter(|(_, c)| c.state == SlotState::Open && c.until <= o.now);
            match loose.min_by_key(|(k, c)| (c.until, self.handles[**k])).map(|(k, _)| *k) {
                Some(k) => o.slots.remove(&k),
                None => return,
            };
        }
    }

    fn compare_free(&self, op: Op, denied: Denied) {
        let Denied::Capacity { asked, free } = denied else { return };
        assert!(free < asked, "{op:?}: refused although {free} is free");
        let o = &self.oracle;
        match op {
            Op::Hold { s, e, .. } | Op::Grant { s, e, .. } => assert_eq!(free.as_bps(), o.free(s, e), "{op:?}"),
            Op::Open { .. } => assert_eq!(free.as_bps(), o.free_to_open(o.until()), "{op:?}"),
            _ => {}
        }
    }

    fn check_notice(&mut self, notice: SlotNotice) {
        let (id, state) = match notice {
            SlotNotice::Expired { id, .. } => (id, None),
            SlotNotice::Closes { id, slot } => {
                assert!(slot.window.end() <= self.table.now());
                (id, None)
            }
            SlotNotice::Displaced { id, slot } => {
                assert_eq!(slot.state, SlotState::Open);
                (id, None)
            }
            SlotNotice::Opens { id, .. } => {
                assert!(self.opened.insert(id), "{id:?} opens twice");
                (id, Some(SlotState::Committed))
            }
        };
        let k = self.handles.iter().position(|h| *h == id).unwrap();
        assert_eq!(self.oracle.slots.get(&k).map(|c| c.state), state, "{notice:?}");
    }

    /// The table wakes no later than anything happens, and not at once again.
    fn check_wake(&self) {
        let wake = self.table.wake_at().unwrap_or(Time::FOREVER);
        assert!(wake > self.table.now(), "woken for nothing");
        for (k, c) in &self.oracle.slots {
            let next = match c.state {
                SlotState::Held => c.until.min(c.e),
                SlotState::Committed if c.begun => c.e,
                SlotState::Committed => c.s,
                SlotState::Promised | SlotState::Open => continue,
            };
            assert!(wake <= self.time(next), "slot {k} has something to do at {next}, and nobody wakes");
        }
        let levels = self.oracle.levels();
        let overfull = |t: &usize| levels[*t] + self.oracle.loose() > self.oracle.cap[*t];
        if self.oracle.loose() > 0
            && let Some(t) = (self.oracle.now..levels.len()).find(overfull)
        {
            assert!(wake <= self.time(t), "slots are displaced at {t}, and nobody wakes");
        }
    }

    /// Compares every slot, every tick and every aggregate.
    pub fn compare_all(&self) {
        assert_eq!(self.table.audit(), Ok(()));
        let seen: BTreeMap<SlotId, Counted> = self.table.slots().map(|(id, slot)| (id, self.counted(slot))).collect();
        let due: BTreeMap<SlotId, Counted> = self.oracle.slots.iter().map(|(k, c)| (self.handles[*k], *c)).collect();
        assert_eq!(seen, due);
        assert_eq!(self.table.open_sum().as_bps(), self.oracle.open_sum());
        assert_eq!(self.table.free_to_open().as_bps(), self.oracle.free_to_open(self.oracle.until()));
        let levels = self.oracle.levels();
        for (t, level) in levels.iter().enumerate().skip(self.oracle.now) {
            let (start, end) = (self.time(t), self.time(t + 1));
            assert_eq!(self.table.peak(start, end).as_bps(), *level, "peak at {t}");
        }
        let missing = |t: usize| levels[t].saturating_sub(self.oracle.cap[t]);
        let short: Vec<usize> = (self.oracle.now..self.oracle.cap.len()).filter(|t| missing(*t) > 0).collect();
        let due = short.first().map(|&t| (self.time(t), short.iter().map(|t| missing(*t)).max().unwrap_or(0)));
        assert_eq!(self.table.shortfall().map(|s| (s.first, s.worst.as_bps())), due);
    }

    /// Compares the answers about one window.
    pub fn compare_window(&self, s: usize, e: usize, rate: u64, span: usize) {
        let (start, end) = (self.time(s), self.time(e));
        assert_eq!(self.table.available(start, end).as_bps(), self.oracle.free(s, e), "available {s}..{e}");
        if s >= self.oracle.now {
            assert_eq!(self.table.peak(start, end).as_bps(), self.oracle.peak(s, e), "peak {s}..{e}");
        }
        let length = Span::from_nanos(span as u64 * self.scale);
        let found = self.table.find(Rate::from_bps(rate), length, start, end).unwrap();
        let due = self.oracle.find(rate, span, s, e).map(|t| self.time(t));
        assert_eq!(found, due, "find {rate} for {span} in {s}..{e} at {}", self.oracle.now);
    }

    fn counted(&self, slot: Slot) -> Counted {
        let n = self.oracle.cap.len();
        let tick = |t: Time| ((t.as_nanos() / self.scale) as usize).min(n);
        let (s, e) = (tick(slot.window.start()), tick(slot.window.end()));
        Counted { s, e, rate: slot.amount.as_bps(), state: slot.state, until: tick(slot.until), begun: slot.begun }
    }
}

impl Oracle {
    /// Until when an open slot that is opened now is safe.
    pub fn until(&self) -> usize {
        self.holding.map_or(self.cap.len(), |h| (self.now + h).min(self.cap.len()))
    }

    fn go(&mut self, k: usize, from: SlotState, to: SlotState) -> Result<(), &'static str> {
        let slot = self.slots.get_mut(&k).ok_or("stale")?;
        if slot.state != from {
            return Err("state");
        }
        (slot.state, slot.until) = (to, self.cap.len());
        Ok(())
    }

    fn modify(&mut self, k: usize, rate: Option<u64>, s: Option<usize>, e: Option<usize>) -> Result<(), &'static str> {
        let old = *self.slots.get(&k).ok_or("stale")?;
        let open = old.state == SlotState::Open;
        let moves = s.is_some_and(|s| s.max(self.now) != old.s.max(self.now));
        let mut new = Counted { rate: rate.unwrap_or(old.rate), e: e.unwrap_or(old.e), ..old };
        if moves {
            new.s = s.unwrap_or(old.s).max(self.now);
        }
        match () {
            () if old.state == SlotState::Promised => return Err("state"),
            () if new.rate == 0 => return Err("zero"),
            () if open && (s.is_some() || e.is_some()) => return Err("state"),
            () if old.begun && !open && moves => return Err("state"),
            () if new.e <= self.now => return Err("past"),
            () if new.s >= new.e => return Err("empty"),
            () => {}
        }
        let levels = self.levels();
        let fits = |t: usize| {
            let more = new.rate.saturating_sub(if old.s <= t && t < old.e { old.rate } else { 0 });
            more == 0 || levels[t].saturating_add(more) <= self.cap[t]
        };
        let fit = match open {
            true => new.rate.saturating_sub(old.rate) <= self.free_to_open(old.until) || new.rate <= old.rate,
            false => (new.s.max(self.now)..new.e).all(fits),
        };
        if !fit {
            return Err("capacity");
        }
        self.slots.insert(k, new);
        Ok(())
    }

    fn expire(&mut self, now: usize) {
        self.now = self.now.max(now);
        let now = self.now;
        self.slots.retain(|_, c| match c.state {
            SlotState::Held => c.until > now && c.e > now,
            SlotState::Committed => c.e > now,
            SlotState::Promised | SlotState::Open => true,
        });
        for c in self.slots.values_mut() {
            c.begun |= c.state == SlotState::Committed && c.s <= now;
        }
    }
}

fn kind(denied: &Denied) -> &'static str {
    match denied {
        Denied::Capacity { .. } | Denied::Pool { .. } => "capacity",
        Denied::Limit { .. } => "limit",
        Denied::Misuse(Misuse::ZeroRate) => "zero",
        Denied::Misuse(Misuse::Past { .. }) => "past",
        Denied::Misuse(Misuse::EmptyWindow { .. }) => "empty",
        Denied::Misuse(Misuse::UnknownHandle) => "stale",
        Denied::Misuse(Misuse::WrongState) => "state",
        Denied::Misuse(Misuse::OtherUnit { .. }) => "unit",
    }
}

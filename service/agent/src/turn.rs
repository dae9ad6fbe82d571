//! One turn of the agent's loop. Each kind of work has so many milliseconds of it, signalling first: a flood of messages
//! leaves time for calls, and calls leave time for the refreshes of what is reserved.

use crate::agent::{Agent, ECHO, JOURNAL, LOCAL, NOTICES, REMOTE, RSVP, SEQUENCES, SIGNALS, STATICS};
use crate::boomerang::BoomerangHost;
use crate::trace::Seen;
use documents::agent::Direction;
use documents::turns::{SpreadDoc, TurnsDoc, per_mille};
use linux::clock;
use linux::error::SystemError;
use linux::poll::{Ready, Token};
use node::io::Input;
use rsvp::overload::Incoming;
use std::collections::BTreeMap;
use terms::{Span, Time};

/// Time for reading the RSVP sockets: the most, because the kernel drops unread messages blindly.
const READING: Span = Span::from_millis(3);
/// Time for telling the node those messages; less while more waits in the kernel.
const TELLING: Span = Span::from_millis(2);
const TELLING_BEHIND: Span = Span::from_micros(700);
/// Most messages that are told together and make one batch: so many that its fixed cost is small beside theirs, and so
/// few that the answers do not wait long.
const TOGETHER: usize = 64;
/// Time for the calls of all clients together.
const CALLS: Span = Span::from_millis(2);

/// A call that lists all state may exceed its turn. After one that took more processor time than this, none
/// follows for nine times as long, so that all of them together have a tenth of the loop.
const SHORT_LOOK: Span = Span::from_millis(2);
const REST: u64 = 9;
/// The longest pause after such a call.
const LONGEST_REST: Span = Span::from_secs(10);

/// Time limits for the work of a turn, and statistics of its duration.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    calls_until: Time,
    looks_from: Time,
    /// The client that was served last: the next turn begins with the one after it.
    last: u64,
    count: u64,
    cpu: Spread,
    wall: Spread,
}

impl Turns {
    /// True if there is time for another call in this turn.
    pub fn calls_go_on(&self, now: Time) -> bool {
        now < self.calls_until
    }

    /// True if a call that lists all state may run now.
    pub fn may_look(&self, now: Time) -> bool {
        now >= self.looks_from
    }

    /// Records such a call and its time.
    pub fn looked(&mut self, took: Span, now: Time) {
        if took > SHORT_LOOK {
            self.looks_from = now + Span::from_nanos(took.as_nanos().saturating_mul(REST)).min(LONGEST_REST);
        }
    }

    /// The statistics for a status.
    pub fn doc(&self) -> TurnsDoc {
        TurnsDoc { turns: self.count, cpu: self.cpu.doc(), wall: self.wall.doc() }
    }
}

/// A histogram of durations, in eighths of an octave of microseconds.
#[derive(Debug, Default)]
struct Spread {
    counts: BTreeMap<u32, u64>,
    most_us: u64,
}

impl Spread {
    fn add(&mut self, nanos: u64) {
        let us = nanos.div_ceil(1000);
        *self.counts.entry(place(us)).or_insert(0) += 1;
        self.most_us = self.most_us.max(us);
    }

    fn doc(&self) -> SpreadDoc {
        let histogram: Vec<_> = self.counts.iter().map(|(&at, &n)| (upto(at), n)).collect();
        let (p50_us, p999_us) = (per_mille(&histogram, 500), per_mille(&histogram, 999));
        SpreadDoc {
            p50_us: p50_us.min(self.most_us),
            p999_us: p999_us.min(self.most_us),
            most_us: self.most_us,
            histogram,
        }
    }
}

/// The bucket of a duration: each microsecond below 16, then eighths of octaves.
fn place(us: u64) -> u32 {
    match us.checked_ilog2() {
        Some(octave) if octave >= 4 => octave * 8 + (us >> (octave - 3) & 7) as u32 - 16,
        _ => us as u32,
    }
}

/// The upper bound of a bucket, microseconds.
fn upto(place: u32) -> u64 {
    if place < 16 {
        return u64::from(place);
    }
    let (octave, eighth) = ((place + 16) / 8, u64::from((place + 16) % 8));
    ((9 + eighth) << (octave - 3)) - 1
}

impl Agent {
    /// One round: waits, then does whatever is ready.
    pub(crate) fn turn(&mut self) -> Result<(), SystemError> {
        self.send_batches();
        let ready = self.wait()?;
        let (begun, cpu) = (self.clock.now(), clock::thread_cpu());
        self.turns.calls_until = Time::FOREVER;
        let behind = ready.iter().any(|one| one.token == RSVP) && self.receive()?;
        self.take_in(if behind { TELLING_BEHIND } else { TELLING });
        if self.node.wake_at().is_some_and(|at| at <= self.clock.now()) {
            self.tell(Input::Wake);
        }
        let mut clients: BTreeMap<u64, bool> = self.local.waiting().into_iter().map(|client| (client, false)).collect();
        for one in ready {
            match one.token {
                RSVP => {}
                NOTICES => self.notice(),
                SIGNALS => self.signal(),
                LOCAL => self.accept(),
                JOURNAL => self.pick_up(),
                ECHO => self.take_echoes(),
                REMOTE => self.answer_door(),
                SEQUENCES => self.take_sequences(),
                STATICS => self.take_statics(),
                Token(client) => drop(clients.insert(client, one.readable)),
            }
        }
        if let Some(echo) = &self.echo {
            echo.is_alive(&self.clock);
        }
        self.sweep_fast();
        self.serve_all(&clients);
        self.turn_book();
        self.look_at_changes();
        if self.look_at <= self.clock.now() {
            self.look();
        }
        self.flush();
        self.turns.count += 1;
        self.turns.cpu.add(clock::thread_cpu().saturating_sub(cpu));
        self.turns.wall.add(self.clock.now().since(begun).as_nanos());
        match self.book.broken.take() {
            // What is in force stays in force, as if we had been killed: the next agent reads what is on the disk.
            Some(why) => Err(SystemError::because("go on", std::io::Error::other(why))),
            None => Ok(()),
        }
    }

    /// Waits until there is work.
    fn wait(&mut self) -> Result<Vec<Ready>, SystemError> {
        if self.local.holds() && self.turns.may_look(self.clock.now()) {
            self.local.go_on();
        }
        let held = self.local.holds().then_some(self.turns.looks_from);
        let sweep = self.echo.as_ref().and_then(BoomerangHost::wake_at);
        let premium = self.premium.wake_at(self.node.tc());
        let wakes = [
            self.node.wake_at(),
            self.book.wake_at(),
            premium,
            sweep,
            held,
            self.noticed.wake_at(),
            self.alive.wake_at(),
        ];
        let next = wakes.into_iter().flatten().fold(self.look_at, Time::min);
        let idle = self.local.waiting().is_empty() && self.intake.is_empty();
        Ok(self.poll.wait(Some(if idle { next } else { Time::ZERO }))?.to_vec())
    }

    /// Serves clients in turn while there is time for calls, beginning after the one that was served last.
    fn serve_all(&mut self, clients: &BTreeMap<u64, bool>) {
        self.turns.calls_until = self.clock.now() + CALLS;
        let last = self.turns.last;
        let after = clients.range(last.saturating_add(1)..).chain(clients.range(..=last));
        for (&client, &readable) in after {
            if !self.turns.calls_go_on(self.clock.now()) {
                return;
            }
            self.serve(client, readable);
            self.turns.last = client;
        }
    }

    /// Reads the received messages, so that the agent and not the kernel's queue chooses those that wait and
    /// those that are shed. True if there may be more.
    fn receive(&mut self) -> Result<bool, SystemError> {
        let Some(mut receiver) = self.receiver.take() else { return Ok(false) };
        let begun = self.clock.now();
        let mut filled = Ok(true);
        loop {
            filled = filled.and_then(|_| receiver.fill());
            let now = self.clock.now();
            for message in receiver.messages() {
                let linux::sockets::ReceivedMessage { iif, src, dst, ttl, bytes } = message;
                let seen = Seen { direction: Direction::In, interface: Some(iif), src, dst, ttl, router_alert: None };
                self.see(&seen, bytes);
                let incoming = Incoming { iif, src, dst, ttl, bytes };
                self.node.offer(now, &mut self.intake, &incoming);
                self.after();
            }
            if !matches!(filled, Ok(true)) || self.clock.now().since(begun) >= READING {
                break;
            }
        }
        self.receiver = Some(receiver);
        if let (Some(gate), Ok(false)) = (&self.gate, &filled) {
            gate.emptied();
        }
        filled
    }

    /// Tells the node some of the waiting messages; the rest comes in the next round, after another look at
    /// the sockets. Those that are told together make one batch for the plane.
    fn take_in(&mut self, length: Span) {
        let mut now = self.clock.now();
        let until = now + length;
        while now < until && !self.intake.is_empty() {
            now = self.take_in_together(now, until);
        }
    }

    /// Tells the node waiting messages up to a time and a number, and carries out what came of all of them. Returns
    /// the time at the end. Each message is charged with its own time and an equal part of the batch's.
    fn take_in_together(&mut self, mut now: Time, until: Time) -> Time {
        let mut told = Vec::new();
        while now < until
            && told.len() < TOGETHER
            && let Some(waiting) = self.intake.take()
        {
            self.tell_in_turn(Input::Waited(&waiting));
            let done = self.clock.now();
            told.push((waiting, done.since(now)));
            now = done;
        }
        self.end_turn();
        let done = self.clock.now();
        let part = Span::from_nanos(done.since(now).as_nanos() / (told.len() as u64).max(1));
        told.into_iter().for_each(|(waiting, took)| self.intake.give_back(waiting, took + part));
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_counted_to_an_eighth_of_an_octave() {
        let mut last = None;
        for us in (0..5_000).chain([9_999, 10_000, 1_000_000, u64::from(u32::MAX)]) {
            let at = place(us);
            assert!(upto(at) >= us && upto(at) <= us + us / 8, "{us} is counted as at most {}", upto(at));
            assert!(last.is_none_or(|last| at >= last), "in order");
            last = Some(at);
        }
        let mut spread = Spread::default();
        (0..999).for_each(|_| spread.add(100_000));
        spread.add(9_000_000);
        let doc = spread.doc();
        assert_eq!((doc.p50_us, doc.p999_us, doc.most_us), (103, 103, 9_000));
        spread.add(9_000_000);
        assert_eq!(spread.doc().p999_us, 9_000);
        assert_eq!(spread.doc().since(&doc), [(9_215, 1)]);
    }

    #[test]
    fn looks_have_a_tenth_of_the_loop() {
        let mut turns = Turns::default();
        let at = |ms: u64| Time::from_nanos(ms * 1_000_000);
        turns.looked(Span::from_millis(1), at(101));
        assert!(turns.may_look(at(101)), "a short one costs nothing");
        turns.looked(Span::from_millis(30), at(230));
        assert!(!turns.may_look(at(499)) && turns.may_look(at(500)));
        turns.looked(Span::from_millis(8_000), at(9_000));
        assert!(!turns.may_look(at(18_999)) && turns.may_look(at(19_000)), "and nobody waits for ever");
    }
}

//! One turn of the agent's loop. Each kind of work has so many milliseconds of it, signalling first: a flood of messages
//! leaves time for calls, and calls leave time for the refreshes of what is reserved.

use super::{Agent, ECHO, JOURNAL, LOCAL, MACE, NOTICES, REMOTE, RSVP, SEQUENCES, SIGNALS, STATICS};
use crate::boomerang::BoomerangHost;
use crate::boomerang::turn::BoomerangTurn;
use crate::drive::Drive;
use crate::mace::MaceHost;
use crate::mace::turn::MaceTurn;
use crate::statics::turn::StaticsTurn;
use crate::trace::Seen;
use documents::agent::Direction;
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

impl Agent {
    /// One round: waits, then does whatever is ready.
    pub(crate) fn turn(&mut self) -> Result<(), SystemError> {
        self.drive.send_batches();
        let ready = self.wait()?;
        let (begun, cpu) = (self.drive.clock.now(), clock::thread_cpu());
        self.turns.calls_until(Time::FOREVER);
        let behind = ready.iter().any(|one| one.token == RSVP) && self.receive()?;
        self.take_in(if behind { TELLING_BEHIND } else { TELLING });
        if self.drive.node.wake_at().is_some_and(|at| at <= self.drive.clock.now()) {
            self.drive.tell(Input::Wake);
        }
        let mut clients: BTreeMap<u64, bool> =
            self.drive.console.connections().waiting().into_iter().map(|client| (client, false)).collect();
        for one in ready {
            match one.token {
                RSVP => {}
                NOTICES => self.notice(),
                SIGNALS => self.signal(),
                LOCAL => self.accept(),
                JOURNAL => self.drive.pick_up(),
                ECHO => BoomerangTurn(&mut self.drive).take(),
                MACE => MaceTurn::of(&mut self.drive).take(),
                REMOTE => self.answer_door(),
                SEQUENCES => {
                    let answers = self.drive.sequences.answers();
                    self.tell_sequences(answers);
                }
                STATICS => StaticsTurn(&mut self.drive).written(),
                Token(client) => drop(clients.insert(client, one.readable)),
            }
        }
        if let Some(echo) = &self.drive.echo {
            echo.is_alive(&self.drive.clock);
        }
        BoomerangTurn(&mut self.drive).sweep_fast();
        MaceTurn::of(&mut self.drive).run();
        self.serve_all(&clients);
        self.drive.turn_book();
        self.look_at_changes();
        if self.noticed.look_at() <= self.drive.clock.now() {
            self.look();
        }
        self.drive.messages.flush(&mut self.drive.console);
        let wall = self.drive.clock.now().since(begun).as_nanos();
        self.turns.ended(clock::thread_cpu().saturating_sub(cpu), wall);
        match self.drive.book.broken.take() {
            // What is in force stays in force, as if we had been killed: the next agent reads what is on the disk.
            Some(why) => Err(SystemError::because("go on", std::io::Error::other(why))),
            None => Ok(()),
        }
    }

    /// Waits until there is work.
    fn wait(&mut self) -> Result<Vec<Ready>, SystemError> {
        if self.drive.console.connections().holds() && self.turns.may_look(self.drive.clock.now()) {
            self.drive.console.connections().go_on();
        }
        let held = self.drive.console.connections().holds().then_some(self.turns.looks_from());
        let sweep = self.drive.echo.as_ref().and_then(BoomerangHost::wake_at);
        let premium = self.drive.premium.wake_at(self.drive.node.tc());
        let wakes = [
            self.drive.node.wake_at(),
            self.drive.book.wake_at(),
            premium,
            self.drive.meter.wake_at(self.drive.plane.kernel()),
            sweep,
            self.drive.mace.as_ref().and_then(MaceHost::wake_at),
            held,
            self.noticed.wake_at(),
            self.alive.wake_at(),
        ];
        let next = wakes.into_iter().flatten().fold(self.noticed.look_at(), Time::min);
        let idle = self.drive.console.connections().waiting().is_empty() && self.intake.is_empty();
        self.drive.console.wait(if idle { next } else { Time::ZERO })
    }

    /// Serves clients in turn while there is time for calls, beginning after the one that was served last.
    fn serve_all(&mut self, clients: &BTreeMap<u64, bool>) {
        self.turns.calls_until(self.drive.clock.now() + CALLS);
        for (client, readable) in self.turns.in_turn(clients) {
            if !self.turns.calls_go_on(self.drive.clock.now()) {
                return;
            }
            self.serve(client, readable);
            self.turns.served(client);
        }
    }

    /// Reads the received messages, so that the agent and not the kernel's queue chooses those that wait and
    /// those that are shed. True if there may be more.
    fn receive(&mut self) -> Result<bool, SystemError> {
        let Some(mut receiver) = self.receiver.take() else { return Ok(false) };
        let begun = self.drive.clock.now();
        let mut filled = Ok(true);
        loop {
            filled = filled.and_then(|_| receiver.fill());
            let now = self.drive.clock.now();
            for message in receiver.messages() {
                let linux::sockets::ReceivedMessage { iif, src, dst, ttl, bytes } = message;
                let seen = Seen { direction: Direction::In, interface: Some(iif), src, dst, ttl, router_alert: None };
                let Drive { messages, names, console, .. } = &mut self.drive;
                messages.see(&seen, bytes, now, names, console);
                let incoming = Incoming { iif, src, dst, ttl, bytes };
                self.drive.node.offer(now, &mut self.intake, &incoming);
                self.drive.after();
            }
            if !matches!(filled, Ok(true)) || self.drive.clock.now().since(begun) >= READING {
                break;
            }
        }
        self.receiver = Some(receiver);
        if matches!(filled, Ok(false)) {
            self.drive.messages.queue_is_empty();
        }
        filled
    }

    /// Tells the node some of the waiting messages; the rest comes in the next round, after another look at
    /// the sockets. Those that are told together make one batch for the plane.
    fn take_in(&mut self, length: Span) {
        let mut now = self.drive.clock.now();
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
            self.drive.tell_in_turn(Input::Waited(&waiting));
            let done = self.drive.clock.now();
            told.push((waiting, done.since(now)));
            now = done;
        }
        self.drive.end_turn();
        let done = self.drive.clock.now();
        let part = Span::from_nanos(done.since(now).as_nanos() / (told.len() as u64).max(1));
        told.into_iter().for_each(|(waiting, took)| self.intake.give_back(waiting, took + part));
        done
    }
}

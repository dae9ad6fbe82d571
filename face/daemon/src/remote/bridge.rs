//! The thread that does the cryptography of callers from other machines, so that the agent's loop never waits for it.
//!
//! It takes TCP connections, does the handshakes, and passes what a caller says through a pair of local sockets to the
//! agent, which is told beside it who speaks there: for the loop it is one more local connection. Everything has a
//! bound: callers in all, of one address, and with unfinished handshakes, of which a new one displaces the oldest, so that whoever shows no
//! certificate keeps nobody out who does.

use super::News;
use super::guest::{Guest, Stage, Turn, Wants};
use api::agent::{Line, Problem};
use linux::bell::Bell;
use linux::clock::Clock;
use linux::error::Failed;
use linux::poll::{Poll, Token, Want};
use linux::tcp::keep_alive;
use rustls::{ServerConfig, ServerConnection};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::TcpListener;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;
use std::time::Duration;
use terms::{Span, Time};
use trust::{Gate, Identity};

/// Most callers.
pub(super) const MAX_GUESTS: usize = 128;
/// Most from one address.
pub(super) const MAX_OF_ONE: usize = 96;
/// Most whose handshake is not done.
pub(super) const MAX_GREETING: usize = 32;
/// Most that are taken before those who are there have their turn.
const AT_ONCE: usize = 8;
/// How often it is looked whose time is over.
const LOOK_EVERY: Span = Span::from_millis(250);
/// And whose certificate is good no more.
const ADMIT_EVERY: Span = Span::from_secs(1);
/// How long nobody is taken when the system has no more descriptors.
const DEAF: Span = Span::from_millis(100);
/// After so long a silence a caller's machine is asked whether it is still there.
const SILENCE: Duration = Duration::from_secs(30);
/// How long those who are there have to read the last words.
const FAREWELL: Span = Span::from_millis(500);

const STOP: Token = Token(0);
const FIRST_LISTENER: u64 = 1;
const FIRST_GUEST: u64 = 64;

/// What both threads have.
pub(super) struct Shared {
    /// Rung when there is news for the agent.
    pub(super) news: Bell,
    /// Rung when the agent stops.
    pub(super) end: Bell,
    pub(super) ending: AtomicBool,
}

/// The thread's state.
pub(super) struct Bridge {
    poll: Poll,
    clock: Clock,
    gate: Arc<Gate>,
    config: Arc<ServerConfig>,
    listeners: Vec<TcpListener>,
    deaf_until: Option<Time>,
    guests: BTreeMap<u64, Seat>,
    next: u64,
    admit_at: Time,
    /// What was wrong with the list of revocations when it was last looked at.
    complaint: Option<String>,
    door: SyncSender<News>,
    shared: Arc<Shared>,
}

/// A guest and what is waited for on its two sockets.
struct Seat {
    guest: Guest,
    outside: Wants,
    inside: Wants,
}

impl Bridge {
    pub(super) fn new(
        listeners: Vec<TcpListener>,
        config: Arc<ServerConfig>,
        gate: Arc<Gate>,
        door: SyncSender<News>,
        shared: Arc<Shared>,
    ) -> Result<Bridge, Failed> {
        let clock = Clock::start();
        let mut poll = Poll::new(clock)?;
        poll.add(&shared.end, STOP, Want::Read)?;
        for (number, listener) in (FIRST_LISTENER..).zip(&listeners) {
            poll.add(listener, Token(number), Want::Read)?;
        }
        let (guests, admit_at) = (BTreeMap::new(), clock.now());
        Ok(Bridge {
            poll,
            clock,
            gate,
            config,
            listeners,
            deaf_until: None,
            guests,
            next: 0,
            admit_at,
            complaint: None,
            door,
            shared,
        })
    }

    /// Until the agent stops.
    pub(super) fn run(mut self) {
        let mut last = None;
        loop {
            if let Err(failed) = self.turn(last) {
                return self.tell(News::Broken(failed.to_string()));
            }
            if self.shared.ending.load(Ordering::Acquire) && last.is_none() {
                self.listeners.clear();
                self.shared.end.hush();
                last = Some(self.clock.now().saturating_add(FAREWELL));
            }
            if last.is_some_and(|last| self.guests.is_empty() || last <= self.clock.now()) {
                return;
            }
        }
    }

    fn turn(&mut self, last: Option<Time>) -> Result<(), Failed> {
        let idle = self.guests.is_empty() && self.deaf_until.is_none() && last.is_none();
        let look = (!idle).then(|| self.clock.now().saturating_add(LOOK_EVERY).min(last.unwrap_or(Time::FOREVER)));
        let ready: Vec<u64> = self.poll.wait(look)?.iter().map(|ready| ready.token.0).collect();
        for token in ready {
            match token {
                0 => {}
                FIRST_LISTENER..FIRST_GUEST => self.accept((token - FIRST_LISTENER) as usize),
                _ => self.serve((token - FIRST_GUEST) / 2),
            }
        }
        self.look();
        Ok(())
    }

    fn accept(&mut self, number: usize) {
        for _ in 0..AT_ONCE {
            let Some(listener) = self.listeners.get(number) else { return };
            let (tcp, from) = match listener.accept() {
                Ok((tcp, from)) => (tcp, from.ip()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::ConnectionAborted) => continue,
                // No more descriptors: those who are there may leave first.
                Err(_) => return self.go_deaf(),
            };
            if self.guests.values().filter(|seat| seat.guest.from == from).count() >= MAX_OF_ONE || !self.make_room() {
                self.tell(News::Refused { from, why: "too many connections".to_owned() });
                continue;
            }
            let now = self.clock.now();
            let ready = tcp.set_nonblocking(true).and_then(|()| tcp.set_nodelay(true)).is_ok();
            let ready = ready && keep_alive(&tcp, SILENCE).is_ok();
            let Ok(tls) = ServerConnection::new(self.config.clone()) else { continue };
            let id = self.next;
            if ready && self.poll.add(&tcp, outside(id), Want::Read).is_ok() {
                self.next += 1;
                let guest = Guest::new(tcp, from, tls, now);
                self.guests.insert(id, Seat { guest, outside: (true, false), inside: (false, false) });
            }
        }
    }

    /// A free seat; the oldest of too many unfinished handshakes gives its own.
    fn make_room(&mut self) -> bool {
        let greeting = |seat: &Seat| !matches!(seat.guest.stage, Stage::Inside { .. });
        let unfinished = self.guests.values().filter(|seat| greeting(seat)).count();
        if unfinished >= MAX_GREETING
            && let Some((&oldest, _)) = self.guests.iter().find(|(_, seat)| greeting(seat))
        {
            self.guests.remove(&oldest);
        }
        self.guests.len() < MAX_GUESTS
    }

    fn go_deaf(&mut self) {
        for listener in &self.listeners {
            let _ = self.poll.remove(listener);
        }
        self.deaf_until = Some(self.clock.now().saturating_add(DEAF));
    }

    fn serve(&mut self, id: u64) {
        let now = self.clock.now();
        let Some(seat) = self.guests.get_mut(&id) else { return };
        match seat.guest.turn(now, &self.gate) {
            Turn::Stays => {}
            Turn::Is(identity) => self.enter(id, identity),
            Turn::Refused(why) => self.refuse(id, &why),
            Turn::Gone => return drop(self.guests.remove(&id)),
        }
        self.settle(id);
    }

    /// Into the agent, which is told who it is.
    fn enter(&mut self, id: u64, identity: Identity) {
        let Some(seat) = self.guests.get_mut(&id) else { return };
        let pair = UnixStream::pair().and_then(|(ours, theirs)| ours.set_nonblocking(true).map(|()| (ours, theirs)));
        let Ok((ours, theirs)) = pair else { return drop(self.guests.remove(&id)) };
        let from = seat.guest.from;
        seat.guest.enter(identity.clone(), ours);
        let news = News::Came { stream: theirs, identity, from };
        if self.door.try_send(news).is_err() {
            self.guests.remove(&id);
        }
        self.shared.news.ring();
        // What it has said already was read with its last words of the handshake.
        self.serve_again(id);
    }

    fn serve_again(&mut self, id: u64) {
        let now = self.clock.now();
        let Some(seat) = self.guests.get_mut(&id) else { return };
        match seat.guest.turn(now, &self.gate) {
            Turn::Gone => drop(self.guests.remove(&id)),
            Turn::Refused(why) => self.refuse(id, &why),
            Turn::Stays | Turn::Is(_) => {}
        }
    }

    fn refuse(&mut self, id: u64, why: &str) {
        let now = self.clock.now();
        let Some(seat) = self.guests.get_mut(&id) else { return };
        let from = seat.guest.from;
        let error = Problem { kind: "refused".to_owned(), message: why.to_owned(), refusal: None };
        let mut line = serde_json::to_vec(&Line::Error { id: 0, error }).unwrap_or_default();
        line.push(b'\n');
        seat.guest.refuse(now, &line);
        self.tell(News::Refused { from, why: why.to_owned() });
        self.serve_again(id);
    }

    /// Whose time is over, and whose certificate.
    fn look(&mut self) {
        let now = self.clock.now();
        if self.deaf_until.is_some_and(|until| until <= now) {
            self.deaf_until = None;
            for (number, listener) in (FIRST_LISTENER..).zip(&self.listeners) {
                let _ = self.poll.add(listener, Token(number), Want::Read);
            }
        }
        let late = |seat: &Seat| seat.guest.overdue().0 <= now;
        let over: Vec<u64> = self.guests.iter().filter(|(_, seat)| late(seat)).map(|(&id, _)| id).collect();
        for id in over {
            let Some(seat) = self.guests.remove(&id) else { continue };
            if !matches!(seat.guest.stage, Stage::Leaving { .. }) {
                self.tell(News::Refused { from: seat.guest.from, why: seat.guest.overdue().1.to_owned() });
            }
        }
        if now < self.admit_at {
            return;
        }
        self.admit_at = now.saturating_add(ADMIT_EVERY);
        let complaint = self.gate.complaint();
        if complaint != self.complaint {
            self.complaint.clone_from(&complaint);
            complaint.into_iter().for_each(|what| self.tell(News::Complaint(what)));
        }
        let bad = |seat: &Seat| match &seat.guest.stage {
            Stage::Inside { identity, .. } => self.gate.admit(identity).err().map(|error| error.to_string()),
            _ => None,
        };
        let bad: Vec<(u64, String)> = self.guests.iter().filter_map(|(&id, seat)| Some((id, bad(seat)?))).collect();
        for (id, why) in bad {
            self.refuse(id, &why);
            self.settle(id);
        }
    }

    /// Watches for what the guest's state asks for. A socket for which nothing is waited is not watched at all: its end would be
    /// told again and again.
    fn settle(&mut self, id: u64) {
        let Some(seat) = self.guests.get_mut(&id) else { return };
        let (out, inner) = seat.guest.wants();
        watch(&mut self.poll, &seat.guest.tcp, outside(id), seat.outside, out);
        if let Stage::Inside { inside: stream, .. } = &seat.guest.stage {
            watch(&mut self.poll, stream, inside(id), seat.inside, inner);
        }
        (seat.outside, seat.inside) = (out, inner);
    }

    fn tell(&self, news: News) {
        // News that finds no room is about callers that were refused: the agent has heard of enough of them.
        let _ = self.door.try_send(news);
        self.shared.news.ring();
    }
}

fn outside(id: u64) -> Token {
    Token(FIRST_GUEST + 2 * id)
}

fn inside(id: u64) -> Token {
    Token(FIRST_GUEST + 2 * id + 1)
}

fn want(wants: Wants) -> Option<Want> {
    match wants {
        (true, true) => Some(Want::ReadWrite),
        (true, false) => Some(Want::Read),
        (false, true) => Some(Want::Write),
        (false, false) => None,
    }
}

fn watch(poll: &mut Poll, fd: &impl AsRawFd, token: Token, before: Wants, now: Wants) {
    // What cannot be watched is closed when its time is over.
    let _ = match (want(before), want(now)) {
        _ if before == now => Ok(()),
        (None, Some(want)) => poll.add(fd, token, want),
        (Some(_), Some(want)) => poll.change(fd, token, want),
        (_, None) => poll.remove(fd),
    };
}

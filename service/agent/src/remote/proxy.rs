//! The front's loop: callers on one side, the agent on the other.
//!
//! It takes TCP connections, does the handshakes, and asks the agent for a seat for each caller with a good
//! certificate: one end of a pair of local sockets, which for the agent's loop is one more connection with a
//! known caller. Everything has a limit: callers in all, of one source (an address, or a /64 of IPv6), of one
//! certificate's name, and with unfinished handshakes. A new one of those displaces the oldest of the busiest
//! source, so that callers without a certificate keep none out that have one.

use super::frames::{self, Order, Shown, Word};
use super::said::RefusalKind;
use super::session::{RemoteSession, Stage, Turn, Wants};
use linux::channel::{Channel, ChannelMessage};
use linux::clock::Clock;
use linux::error::SystemError;
use linux::poll::{Poll, PollInterest, Token};
use linux::tcp::keep_alive;
use rustls::{ServerConfig, ServerConnection};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::ErrorKind;
use std::net::{IpAddr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;
use terms::{Span, Time};
use trust::{CertificateRole, Files, Handed, Identity, Speaks, TrustGate, displaced, source_of};

/// The most callers.
pub(super) const MAX_GUESTS: usize = 128;
/// The most callers from one source.
pub(super) const MAX_OF_ONE: usize = 96;
/// The most callers of one name, except brokers, which speak for many.
pub(super) const MAX_OF_NAME: usize = 32;
/// The most callers in the handshake.
pub(super) const MAX_GREETING: usize = 32;
/// The most callers that are accepted before the present ones have their turn.
const AT_ONCE: usize = 8;
/// The interval between checks for expired deadlines.
const LOOK_EVERY: Span = Span::from_millis(250);
/// The interval between checks of callers' certificates.
const ADMIT_EVERY: Span = Span::from_secs(1);
/// The pause in which no caller is accepted, after the system has run out of descriptors.
const DEAF: Span = Span::from_millis(100);
/// The silence after which TCP probes a caller's machine.
const SILENCE: Duration = Duration::from_secs(30);
/// The time that callers have to read the last messages.
const FAREWELL: Span = Span::from_millis(500);

/// The most refusals that the agent is told of in a second; further ones are counted in the next.
const MOST_TOLD: u64 = 100;

const CHANNEL: Token = Token(0);
const FIRST_LISTENER: u64 = 1;
const FIRST_GUEST: u64 = 64;

/// The loop's state.
pub(super) struct Proxy {
    poll: Poll,
    clock: Clock,
    channel: Channel,
    files: Files,
    handed: Handed,
    /// Set when every file was handed over; until then no caller is accepted.
    open: Option<(Arc<ServerConfig>, Arc<TrustGate>)>,
    listeners: Vec<TcpListener>,
    deaf_until: Option<Time>,
    sessions: BTreeMap<u64, Seat>,
    next: u64,
    admit_at: Time,
    /// The problem with the list of revocations at the last check, if any.
    complaint: Option<String>,
    /// Refusals since `admit_at`, and the number of them that were not reported.
    refusals: u64,
    untold: u64,
    closing: bool,
    /// True if system calls are restricted; reported when the front serves.
    restricted: bool,
}

/// A session and the wanted events of its two sockets.
struct Seat {
    session: RemoteSession,
    outside: Wants,
    inside: Wants,
}

impl Seat {
    fn is_greeting(&self) -> bool {
        matches!(self.session.stage, Stage::Greeting { .. } | Stage::Leaving { .. })
    }

    fn source(&self) -> IpAddr {
        source_of(self.session.from)
    }
}

impl Proxy {
    pub(super) fn new(channel: Channel, files: Files, clock: Clock) -> Result<Proxy, SystemError> {
        let mut poll = Poll::new(clock)?;
        poll.add(&channel, CHANNEL, PollInterest::Read)?;
        Ok(Proxy {
            poll,
            clock,
            channel,
            files,
            handed: Handed::default(),
            open: None,
            listeners: Vec::new(),
            deaf_until: None,
            sessions: BTreeMap::new(),
            next: 0,
            admit_at: clock.now(),
            complaint: None,
            refusals: 0,
            untold: 0,
            closing: false,
            restricted: false,
        })
    }

    /// Until the agent says so, or has gone.
    ///
    /// # Errors
    /// The kernel or the channel broke.
    pub(super) fn run(mut self, restricted: bool) -> Result<(), SystemError> {
        self.restricted = restricted;
        let mut last = None;
        loop {
            if !self.turn(last)? {
                return Ok(());
            }
            if self.closing && last.is_none() {
                self.listeners.clear();
                last = Some(self.clock.now().saturating_add(FAREWELL));
            }
            if last.is_some_and(|last| self.sessions.is_empty() || last <= self.clock.now()) {
                return Ok(());
            }
        }
    }

    /// Reads what the agent says; whether it is still there.
    fn obey(&mut self) -> Result<bool, SystemError> {
        loop {
            match self.channel.receive(true) {
                Ok(Some(ChannelMessage { bytes, fd })) => {
                    let order = frames::read(&bytes).map_err(|what| broken(&what))?;
                    self.carry_out(order, fd)?;
                }
                Ok(None) => return Ok(false),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(true),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(SystemError::because("hear the agent", error)),
            }
        }
    }

    fn carry_out(&mut self, order: Order, fd: Option<OwnedFd>) -> Result<(), SystemError> {
        match (order, fd) {
            (Order::Listener {}, Some(fd)) => {
                let listener = TcpListener::from(fd);
                listener.set_nonblocking(true).map_err(SystemError::doing("use a listening socket"))?;
                self.poll.add(&listener, Token(FIRST_LISTENER + self.listeners.len() as u64), PollInterest::Read)?;
                self.listeners.push(listener);
            }
            (Order::File { path, missing }, fd) => {
                let text = match (fd, missing) {
                    (Some(fd), None) => trust::take(&File::from(fd)).map_err(|error| error.to_string()),
                    (_, why) => Err(why.unwrap_or_else(|| "it was not handed over".to_owned())),
                };
                self.handed.put(path, text);
            }
            (Order::Open {}, _) => self.open()?,
            (Order::Seat { session }, Some(fd)) => self.enter(session, UnixStream::from(fd)),
            (Order::NoSeat { session, why }, _) => {
                self.refuse(session, RefusalKind::Busy, &why);
                self.settle(session);
            }
            (Order::Close {}, _) => self.closing = true,
            (other, _) => return Err(broken(&format!("{other:?} is not expected here"))),
        }
        Ok(())
    }

    /// Takes what was handed over into force. Where it is not what it should be, what was before stays.
    fn open(&mut self) -> Result<(), SystemError> {
        let clock = self.clock;
        let source = Arc::new(self.handed.clone());
        match trust::server_from(&self.files, source, Arc::new(move || clock.today()), Speaks::Agent) {
            Ok(opened) => {
                if self.open.replace(opened).is_none() {
                    self.tell(&Word::Ready { restricted: self.restricted });
                }
            }
            Err(error) if self.open.is_none() => return Err(broken(&error.to_string())),
            Err(error) => self.tell(&Word::Complaint { text: error.to_string() }),
        }
        Ok(())
    }

    fn turn(&mut self, last: Option<Time>) -> Result<bool, SystemError> {
        let idle = self.sessions.is_empty() && self.deaf_until.is_none() && last.is_none() && self.untold == 0;
        let look = (!idle).then(|| self.clock.now().saturating_add(LOOK_EVERY).min(last.unwrap_or(Time::FOREVER)));
        let ready: Vec<u64> = self.poll.wait(look)?.iter().map(|ready| ready.token.0).collect();
        for token in ready {
            match token {
                0 if !self.obey()? => return Ok(false),
                0 => {}
                FIRST_LISTENER..FIRST_GUEST => self.accept((token - FIRST_LISTENER) as usize),
                _ => self.serve((token - FIRST_GUEST) / 2),
            }
        }
        self.look();
        Ok(true)
    }

    fn accept(&mut self, number: usize) {
        let Some((config, _)) = self.open.clone() else { return self.go_deaf() };
        for _ in 0..AT_ONCE {
            let Some(listener) = self.listeners.get(number) else { return };
            let (tcp, from) = match listener.accept() {
                Ok((tcp, from)) => (tcp, from.ip()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::ConnectionAborted) => continue,
                // No more descriptors: those who are there may leave first.
                Err(_) => return self.go_deaf(),
            };
            if !self.make_room(from) {
                self.tell_refused(from, "too many connections");
                continue;
            }
            let now = self.clock.now();
            let ready = tcp.set_nonblocking(true).and_then(|()| tcp.set_nodelay(true)).is_ok();
            let ready = ready && keep_alive(&tcp, SILENCE).is_ok();
            let Ok(tls) = ServerConnection::new(config.clone()) else { continue };
            let id = self.next;
            if ready && self.poll.add(&tcp, outside(id), PollInterest::Read).is_ok() {
                self.next += 1;
                let session = RemoteSession::new(tcp, from, tls, now);
                self.sessions.insert(id, Seat { session, outside: (true, false), inside: (false, false) });
            }
        }
    }

    /// A free seat. Too many unfinished handshakes, of all or where all seats are taken: the oldest of the busiest source gives its
    /// own. Too many of this source: the oldest unfinished one of its own.
    fn make_room(&mut self, from: IpAddr) -> bool {
        let source = source_of(from);
        let waiting: Vec<(u64, IpAddr)> = self
            .sessions
            .iter()
            .filter(|(_, seat)| seat.is_greeting())
            .map(|(&id, seat)| (id, seat.source()))
            .collect();
        let of_one = self.sessions.values().filter(|seat| seat.source() == source).count();
        let goes = if of_one >= MAX_OF_ONE {
            waiting.iter().find(|(_, of)| *of == source).map(|(id, _)| *id)
        } else if waiting.len() >= MAX_GREETING || self.sessions.len() >= MAX_GUESTS {
            displaced(waiting)
        } else {
            return true;
        };
        goes.is_some_and(|goes| self.sessions.remove(&goes).is_some())
    }

    /// The number of callers with this name and role.
    fn of_name(&self, identity: &Identity) -> usize {
        let same = |seat: &&Seat| match &seat.session.stage {
            Stage::Asked { identity: one, .. } | Stage::Inside { identity: one, .. } => {
                one.role == identity.role && one.known_as() == identity.known_as()
            }
            Stage::Greeting { .. } | Stage::Leaving { .. } => false,
        };
        self.sessions.values().filter(same).count()
    }

    fn go_deaf(&mut self) {
        for listener in &self.listeners {
            let _ = self.poll.remove(listener);
        }
        self.deaf_until = Some(self.clock.now().saturating_add(DEAF));
    }

    fn serve(&mut self, id: u64) {
        let now = self.clock.now();
        let (Some(seat), Some((_, gate))) = (self.sessions.get_mut(&id), &self.open) else { return };
        match seat.session.turn(now, gate) {
            Turn::Stays => {}
            Turn::Is(identity)
                if identity.role != CertificateRole::Broker && self.of_name(&identity) >= MAX_OF_NAME =>
            {
                self.refuse(id, RefusalKind::Refused, &format!("{identity} has {MAX_OF_NAME} connections already"));
            }
            Turn::Is(identity) => self.ask(id, identity),
            Turn::Refused(why) => self.refuse(id, RefusalKind::Refused, &why),
            Turn::Gone => return drop(self.sessions.remove(&id)),
        }
        self.settle(id);
    }

    /// Asks the agent for a seat.
    fn ask(&mut self, id: u64, identity: Identity) {
        let now = self.clock.now();
        let Some(seat) = self.sessions.get_mut(&id) else { return };
        let word = Word::Enter { session: id, from: seat.session.from, who: Shown::from(&identity) };
        seat.session.ask(now, identity);
        if self.channel.send(&frames::write(&word), None).is_err() {
            self.refuse(id, RefusalKind::Busy, "the agent is busy: try again");
        }
    }

    /// Into the agent, which knows who it is.
    fn enter(&mut self, id: u64, inside: UnixStream) {
        let Some(seat) = self.sessions.get_mut(&id) else { return };
        if inside.set_nonblocking(true).is_err() || !seat.session.enter(inside) {
            return drop(self.sessions.remove(&id));
        }
        // What it has said already was read with its last words of the handshake.
        self.serve(id);
    }

    fn serve_again(&mut self, id: u64) {
        let now = self.clock.now();
        let (Some(seat), Some((_, gate))) = (self.sessions.get_mut(&id), &self.open) else { return };
        if let Turn::Gone = seat.session.turn(now, gate) {
            self.sessions.remove(&id);
        }
    }

    fn refuse(&mut self, id: u64, kind: RefusalKind, why: &str) {
        let now = self.clock.now();
        let Some(seat) = self.sessions.get_mut(&id) else { return };
        let from = seat.session.from;
        seat.session.refuse(now, kind, why);
        self.tell_refused(from, why);
        self.serve_again(id);
    }

    /// Ends the sessions whose deadline is over or whose certificate is no longer valid.
    fn look(&mut self) {
        let now = self.clock.now();
        if self.deaf_until.is_some_and(|until| until <= now) {
            self.deaf_until = None;
            for (number, listener) in (FIRST_LISTENER..).zip(&self.listeners) {
                let _ = self.poll.add(listener, Token(number), PollInterest::Read);
            }
        }
        let late = |seat: &Seat| seat.session.overdue().0 <= now;
        let over: Vec<u64> = self.sessions.iter().filter(|(_, seat)| late(seat)).map(|(&id, _)| id).collect();
        for id in over {
            let Some(seat) = self.sessions.remove(&id) else { continue };
            if !matches!(seat.session.stage, Stage::Leaving { .. }) {
                self.tell_refused(seat.session.from, seat.session.overdue().1);
            }
        }
        if now < self.admit_at {
            return;
        }
        self.admit_at = now.saturating_add(ADMIT_EVERY);
        self.count_refusals();
        let Some((_, gate)) = self.open.clone() else { return };
        let complaint = gate.complaint();
        if complaint != self.complaint {
            self.complaint.clone_from(&complaint);
            complaint.into_iter().for_each(|text| self.tell(&Word::Complaint { text }));
        }
        let bad = |seat: &Seat| match &seat.session.stage {
            Stage::Inside { identity, .. } => gate.admit(identity).err().map(|error| error.to_string()),
            _ => None,
        };
        let bad: Vec<(u64, String)> = self.sessions.iter().filter_map(|(&id, seat)| Some((id, bad(seat)?))).collect();
        for (id, why) in bad {
            self.refuse(id, RefusalKind::Refused, &why);
            self.settle(id);
        }
    }

    /// Watches for what the session's state asks for. A socket for which nothing is waited is not watched at all: its end would be
    /// told again and again.
    fn settle(&mut self, id: u64) {
        let Some(seat) = self.sessions.get_mut(&id) else { return };
        let (out, inner) = seat.session.wants();
        watch(&mut self.poll, &seat.session.tcp, outside(id), seat.outside, out);
        if let Stage::Inside { inside: stream, .. } = &seat.session.stage {
            watch(&mut self.poll, stream, inside(id), seat.inside, inner);
        }
        (seat.outside, seat.inside) = (out, inner);
    }

    fn tell(&self, word: &Word) {
        // One that finds no room is about callers that were refused: the agent has heard of enough of them.
        let _ = self.channel.send(&frames::write(word), None);
    }

    fn tell_refused(&mut self, from: IpAddr, why: &str) {
        self.refusals += 1;
        if self.refusals > MOST_TOLD {
            self.untold += 1;
            return;
        }
        self.tell(&Word::Refused { from, why: why.to_owned() });
    }

    /// Reports the refusals that were not reported one by one.
    fn count_refusals(&mut self) {
        let untold = std::mem::take(&mut self.untold);
        self.refusals = 0;
        if untold > 0 {
            let why = format!("{untold} more callers were refused in a second");
            self.tell(&Word::Refused { from: IpAddr::from([0; 4]), why });
        }
    }
}

fn broken(what: &str) -> SystemError {
    SystemError::because("serve callers", std::io::Error::other(what.to_owned()))
}

fn outside(id: u64) -> Token {
    Token(FIRST_GUEST + 2 * id)
}

fn inside(id: u64) -> Token {
    Token(FIRST_GUEST + 2 * id + 1)
}

fn want(wants: Wants) -> Option<PollInterest> {
    match wants {
        (true, true) => Some(PollInterest::ReadWrite),
        (true, false) => Some(PollInterest::Read),
        (false, true) => Some(PollInterest::Write),
        (false, false) => None,
    }
}

fn watch(poll: &mut Poll, fd: &impl AsFd, token: Token, before: Wants, now: Wants) {
    // What cannot be watched is closed when its time is over.
    let _ = match (want(before), want(now)) {
        _ if before == now => Ok(()),
        (None, Some(want)) => poll.add(fd, token, want),
        (Some(_), Some(want)) => poll.change(fd, token, want),
        (_, None) => poll.remove(fd),
    };
}

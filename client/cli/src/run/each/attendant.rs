//! Attends to a supervised command: takes its calls, asks for reservations, lets the calls go on.

use super::shares::{Shares, Verdict};
use super::tally::Tally;
use super::{Ends, RunArgs};
use crate::complain::Complaint;
use linux::clock::Clock;
use linux::netlink::diag::{EndedConnections, TcpConnections};
use linux::poll::{Poll, PollInterest, Token};
use linux::supervise::{Caught, CaughtCall, Supervisor, TargetSocket, source_towards};
use serde_json::Value;
use std::collections::{BTreeMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use terms::{Rate, Span};

const CALLS: Token = Token(0);
const AGENT: Token = Token(1);
const ENDED: Token = Token(2);
/// The first number of a listening socket.
const FIRST: u64 = 3;
/// The most calls that wait for a connection: each is a thread of the command, and a descriptor of ours.
const MOST_LISTENING: usize = 512;
/// The most connections that were accepted for a call that a signal interrupted.
const MOST_READY: usize = 64;
/// The interval between looks at the connections that there are.
const LOOK: Duration = Duration::from_millis(100);
/// The longest pause, and the one while the agent is asked about bookings, which tell no events.
const PAUSE: Span = Span::from_millis(50);
const ASKING: Span = Span::from_millis(2);

/// The payload of a full packet of IPv6, and the bytes of IP that the reservation counts for it, with one in a hundred for
/// packets that are smaller or sent again.
const PAYLOAD: u64 = 1_428 * 99;
const PACKET: u64 = 1_500 * 100;

/// A call that waits for its connection's reservation.
enum Then {
    Connect { call: Caught, socket: TargetSocket },
    Accept { call: Caught, listener: u64, socket: TargetSocket },
}

/// A call that waits for a connection.
struct Listening {
    call: Caught,
    socket: TargetSocket,
    nonblocking: bool,
}

/// The thread's state.
pub(super) struct Attendant {
    calls: Supervisor,
    poll: Poll,
    clock: Clock,
    shares: Shares,
    listening: BTreeMap<u64, Listening>,
    next: u64,
    waiting: BTreeMap<Ends, Then>,
    /// TcpConnections, with the number of the socket that they came by.
    ready: Vec<(u64, TargetSocket)>,
    list: TcpConnections,
    /// `None`: this kernel does not tell of ends, and the list must do.
    ended: Option<EndedConnections>,
    looked: Instant,
    tally: Tally,
    best_effort: bool,
    verbose: bool,
    /// Payload of each connection, bytes a second; `None`: as fast as it can.
    pace: Option<u64>,
}

impl Attendant {
    /// Before the command goes on.
    pub(super) fn new(args: &RunArgs, rate: Rate, calls: Supervisor) -> Result<Attendant, Complaint> {
        let world = |failed: &dyn std::fmt::Display| Complaint::world(failed.to_string());
        let clock = Clock::start();
        let mut poll = Poll::new(clock).map_err(|failed| world(&failed))?;
        poll.add(&calls, CALLS, PollInterest::Read).map_err(|failed| world(&failed))?;
        let ended = EndedConnections::open().ok();
        if let Some(ended) = &ended {
            poll.add(ended, ENDED, PollInterest::Read).map_err(|failed| world(&failed))?;
        }
        Ok(Attendant {
            ended,
            calls,
            poll,
            clock,
            shares: Shares::new(args, rate)?,
            listening: BTreeMap::new(),
            next: FIRST,
            waiting: BTreeMap::new(),
            ready: Vec::new(),
            list: TcpConnections::open().map_err(|failed| world(&failed))?,
            looked: Instant::now(),
            tally: Tally::default(),
            best_effort: args.or_best_effort,
            verbose: args.verbose,
            pace: (!args.each.unpaced).then(|| rate.as_bps() / 8 * PAYLOAD / PACKET),
        })
    }

    /// Attends until it is over. Returns the report.
    pub(super) fn attend(mut self, over: &AtomicBool) -> Value {
        while !over.load(Ordering::Relaxed) {
            if let Err(failed) = self.turn() {
                // Without us the command's calls fail; it is better told than left to wonder.
                eprintln!("sluice: {failed}: connections from now on fail");
                break;
            }
        }
        self.shares.give_all_back();
        self.tally.report()
    }

    fn turn(&mut self) -> Result<(), linux::error::SystemError> {
        if let Some(wire) = self.shares.new_wire() {
            self.poll.add(wire, AGENT, PollInterest::Read)?;
        }
        let pause = if self.shares.asks() { ASKING } else { PAUSE };
        let ready = self.poll.wait(Some(self.clock.now() + pause))?.to_vec();
        // First what has ended: what begins may need its share.
        if ready.iter().any(|ready| ready.token == ENDED) {
            self.let_go();
        }
        for token in ready.iter().map(|ready| ready.token) {
            match token {
                CALLS => self.take_calls()?,
                AGENT | ENDED => {}
                Token(number) => self.serve(number),
            }
        }
        for (ends, verdict) in self.shares.news() {
            self.decided(ends, verdict);
        }
        for _ in 0..self.shares.lost() {
            self.tally.lost();
        }
        if self.looked.elapsed() >= LOOK {
            self.looked = Instant::now();
            self.look();
        }
        Ok(())
    }

    /// Gives back what connections had that have ended.
    fn let_go(&mut self) {
        for one in self.ended.as_mut().map(EndedConnections::take).unwrap_or_default() {
            let (local, remote) = one.ends;
            self.shares.ended(&Ends { local, remote }, one.cookie);
        }
    }

    /// Takes the calls that wait. A supervised command of which nothing is left has no more.
    fn take_calls(&mut self) -> Result<(), linux::error::SystemError> {
        while let Some(call) = self.calls.next()? {
            match call.call() {
                CaughtCall::Connect => self.connects(call),
                CaughtCall::Accept { nonblocking, .. } => self.accepts(call, nonblocking),
            }
        }
        if self.calls.has_ended() {
            self.poll.remove(&self.calls)?;
        }
        Ok(())
    }

    /// The command connects: its socket gets an address and a port now, so that the reservation can name them.
    fn connects(&mut self, call: Caught) {
        let Some((socket, remote)) = self.calls.socket(&call).zip(self.calls.destination(&call)) else {
            return self.calls.go_on(&call);
        };
        let remote = SocketAddr::new(remote.ip().to_canonical(), remote.port());
        // One that connects already asks how far it is.
        if !socket.is_tcp() || remote.port() == 0 || socket.peer().is_some() {
            return self.calls.go_on(&call);
        }
        let Some(source) = source_towards(remote.ip()).filter(|source| leaves(*source, remote.ip())) else {
            return self.calls.go_on(&call);
        };
        let bound = socket.local().filter(|local| local.port() != 0);
        if bound.is_none()
            && let Err(errno) = socket.bind_to(source)
        {
            return self.calls.fail(&call, errno);
        }
        let Some(mut local) = socket.local() else { return self.calls.go_on(&call) };
        if local.ip().is_unspecified() {
            local.set_ip(source);
        }
        let ends = Ends { local, remote };
        if self.shares.stands(&ends) || self.waiting.contains_key(&ends) {
            return self.calls.go_on(&call);
        }
        self.ask(ends, socket.cookie(), Then::Connect { call, socket });
    }

    /// The command accepts.
    fn accepts(&mut self, call: Caught, nonblocking: bool) {
        let Some(socket) = self.calls.socket(&call).filter(TargetSocket::is_tcp) else {
            return self.calls.go_on(&call);
        };
        let cookie = socket.cookie();
        if let Some(at) = self.ready.iter().position(|(of, _)| *of == cookie) {
            let (_, connection) = self.ready.swap_remove(at);
            return self.give(&call, cookie, connection);
        }
        let waits = !socket.is_nonblocking();
        let one = Listening { call, socket, nonblocking };
        if let Some(one) = self.take_connection(one)
            && waits
        {
            self.listen(one);
        }
    }

    /// Waits for a connection in the command's place.
    fn listen(&mut self, one: Listening) {
        let number = self.next;
        self.next += 1;
        if self.listening.len() >= MOST_LISTENING
            || self.poll.add(&one.socket, Token(number), PollInterest::Read).is_err()
        {
            return self.calls.refuse(&one.call);
        }
        self.listening.insert(number, one);
    }

    /// A listening socket has a connection, or has ended.
    fn serve(&mut self, number: u64) {
        let Some(one) = self.listening.remove(&number) else { return };
        // It is watched under another number if it has to wait on.
        let _ = self.poll.remove(&one.socket);
        if self.calls.waits(&one.call)
            && let Some(one) = self.take_connection(one)
        {
            self.listen(one);
        }
    }

    /// Accepts for a call, if there is a connection; else a call that does not wait is answered so, and one that waits is
    /// handed back.
    fn take_connection(&mut self, one: Listening) -> Option<Listening> {
        let connection = match one.socket.accept(one.nonblocking) {
            Ok(Some(connection)) => connection,
            Ok(None) => {
                if one.socket.is_nonblocking() {
                    self.calls.nothing_yet(&one.call);
                    return None;
                }
                return Some(one);
            }
            Err(errno) => {
                self.calls.fail(&one.call, errno);
                return None;
            }
        };
        let listener = one.socket.cookie();
        match connection.local().zip(connection.peer()) {
            Some((local, remote)) if leaves(local.ip(), remote.ip()) => {
                let cookie = connection.cookie();
                self.ask(Ends { local, remote }, cookie, Then::Accept { call: one.call, listener, socket: connection });
            }
            // It stays on this host, or is over already.
            _ => self.give(&one.call, listener, connection),
        }
        None
    }

    fn ask(&mut self, ends: Ends, cookie: u64, then: Then) {
        self.waiting.insert(ends, then);
        if let Err(why) = self.shares.ask(ends, cookie) {
            self.decided(ends, Verdict::Refused(why));
        }
    }

    /// Lets the call of a connection go on, or not.
    fn decided(&mut self, ends: Ends, verdict: Verdict) {
        let Some(then) = self.waiting.remove(&ends) else { return };
        let goes_on = match verdict {
            Verdict::Stands { by_rsvp, took } => {
                self.tally.stands(by_rsvp, took, self.shares.standing());
                if self.verbose {
                    let means = if by_rsvp { "RSVP" } else { "a booking" };
                    eprintln!("sluice: {ends}: reserved by {means} in {} us", took.as_micros());
                }
                self.pace(&then);
                true
            }
            Verdict::Refused(why) => {
                self.tally.refused(self.best_effort);
                let so = if self.best_effort { "it goes on without" } else { "closed" };
                eprintln!("sluice: {ends}: {why}; {so}");
                self.best_effort
            }
        };
        match then {
            Then::Connect { call, .. } if goes_on => self.calls.go_on(&call),
            Then::Connect { call, .. } => self.calls.refuse(&call),
            Then::Accept { call, listener, socket } if goes_on => self.give(&call, listener, socket),
            Then::Accept { call, socket, .. } => {
                socket.reset();
                self.calls.refuse(&call);
            }
        }
    }

    /// Keeps a connection below its reservation: what exceeds it is best effort, and would be overtaken or lost.
    fn pace(&self, then: &Then) {
        let (Then::Connect { socket, .. } | Then::Accept { socket, .. }) = then;
        if let Some(rate) = self.pace {
            // A kernel without it sends as it likes.
            let _ = socket.pace(rate);
        }
    }

    /// Gives a call its connection; one that was interrupted comes again.
    fn give(&mut self, call: &Caught, listener: u64, connection: TargetSocket) {
        if !self.calls.give(call, &connection) && self.ready.len() < MOST_READY {
            self.ready.push((listener, connection));
        }
    }

    /// Forgets calls that went, and gives back the reservations of connections that are over.
    fn look(&mut self) {
        let gone: Vec<u64> =
            self.listening.iter().filter(|(_, one)| !self.calls.waits(&one.call)).map(|(&number, _)| number).collect();
        for one in gone.iter().filter_map(|number| self.listening.remove(number)) {
            let _ = self.poll.remove(&one.socket);
        }
        self.shares.tend();
        if self.shares.standing() == 0 {
            return;
        }
        // What cannot be listed now is looked at again.
        let Ok(all) = self.list.sending() else { return };
        let there: HashSet<Ends> = all.into_iter().map(|(local, remote)| Ends { local, remote }).collect();
        self.shares.keep(|ends| there.contains(ends) || self.waiting.contains_key(ends));
    }
}

/// True if packets between these addresses leave this host.
fn leaves(local: IpAddr, remote: IpAddr) -> bool {
    local != remote && !remote.is_loopback() && !remote.is_unspecified()
}

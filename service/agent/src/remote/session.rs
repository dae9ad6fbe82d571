//! One caller from another machine: TLS on one side, a pair of local sockets into the agent's loop on the
//! other, and a bounded buffer between them. Nothing here blocks; while one side does not read, the other is
//! not read.
//!
//! A caller's bytes end here. Each line is parsed as a call and written anew for the agent; a line that is no
//! call is answered at once.

use super::said::{RefusalKind, Said};
use rustls::ServerConnection;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use terms::{Span, Time};
use trust::{Identity, TrustGate};

/// The limit for a handshake.
const GREETING: Span = Span::from_secs(10);
/// The limit for the agent's reply to a request for a seat.
const SEATING: Span = Span::from_secs(10);
/// The longest time for which a caller may leave ready output unread.
const UNREAD: Span = Span::from_secs(30);
/// The time that a refused caller has to read the reason.
const LEAVING: Span = Span::from_secs(1);
/// The most pieces of an answer that are encrypted before others have their turn, and the size of one, bytes.
const PIECES: usize = 8;
const PIECE: usize = 16 << 10;

/// A caller.
pub(super) struct RemoteSession {
    pub(super) tcp: TcpStream,
    pub(super) from: IpAddr,
    pub(super) stage: Stage,
    tls: ServerConnection,
    /// The caller's input, as far as the agent has not yet taken it.
    said: Said,
    /// True if the agent's next byte begins a line.
    at_line: bool,
    /// True after the caller's last byte.
    heard_all: bool,
    /// True after the agent's last byte.
    said_all: bool,
    /// The time since which the caller has read none of its ready output.
    unread: Option<Time>,
}

/// The stage of a session.
pub(super) enum Stage {
    /// The handshake is under way.
    Greeting { until: Time },
    /// The certificate is good; the agent was asked for a seat.
    Asked { identity: Identity, until: Time },
    /// The caller has a seat: a connection into the agent.
    Inside { identity: Identity, inside: UnixStream },
    /// The caller was refused, and has time to read the reason.
    Leaving { until: Time },
}

/// The result of a turn.
pub(super) enum Turn {
    /// The session goes on.
    Stays,
    /// The handshake is done; the caller has this identity.
    Is(Identity),
    /// The session is refused, for this reason.
    Refused(String),
    /// The connection is gone.
    Gone,
}

/// The wanted events of a socket: readable, writable.
pub(super) type Wants = (bool, bool);

impl RemoteSession {
    pub(super) fn new(tcp: TcpStream, from: IpAddr, tls: ServerConnection, now: Time) -> RemoteSession {
        let stage = Stage::Greeting { until: now.saturating_add(GREETING) };
        let (said, at_line) = (Said::default(), true);
        RemoteSession { tcp, from, stage, tls, said, at_line, heard_all: false, said_all: false, unread: None }
    }

    /// The wanted events of the outer and of the inner socket.
    pub(super) fn wants(&self) -> (Wants, Wants) {
        let unsent = self.tls.wants_write();
        let outside = (!self.heard_all && self.said.takes_more(), unsent);
        match self.stage {
            Stage::Inside { .. } => (outside, (!unsent && !self.said_all, self.said.has_work())),
            Stage::Greeting { .. } => (outside, (false, false)),
            Stage::Asked { .. } => ((false, unsent), (false, false)),
            Stage::Leaving { .. } => ((!self.heard_all, unsent), (false, false)),
        }
    }

    /// Moves bytes in both directions.
    pub(super) fn turn(&mut self, now: Time, gate: &TrustGate) -> Turn {
        match self.moved(now, gate) {
            Ok(turn) => turn,
            Err(_) => Turn::Gone, // a broken connection is the caller's affair
        }
    }

    fn moved(&mut self, now: Time, gate: &TrustGate) -> io::Result<Turn> {
        self.send(now)?;
        if let Stage::Leaving { .. } = self.stage {
            return self.leave();
        }
        if let Stage::Asked { .. } = self.stage {
            return Ok(Turn::Stays);
        }
        if !self.heard_all && self.said.takes_more() {
            match self.hear() {
                Ok(()) => {}
                Err(error) if is_passing(&error) => {}
                Err(error) if error.kind() == ErrorKind::InvalidData => return Ok(Turn::Refused(error.to_string())),
                Err(error) => return Err(error),
            }
        }
        if let Stage::Greeting { .. } = self.stage {
            self.send(now)?;
            return Ok(self.greeted(gate));
        }
        if let (Stage::Inside { identity, .. }, true) = (&self.stage, self.said.has_work())
            && let Err(error) = gate.admit(identity)
        {
            return Ok(Turn::Refused(error.to_string()));
        }
        self.pass_in()?;
        self.pass_out(now)?;
        let done = self.said_all && !self.tls.wants_write();
        Ok(if done { Turn::Gone } else { Turn::Stays })
    }

    /// The result of the handshake, if it is done: the caller's identity, or a refusal.
    fn greeted(&self, gate: &TrustGate) -> Turn {
        if self.tls.is_handshaking() {
            return if self.heard_all { Turn::Gone } else { Turn::Stays };
        }
        let identity = gate.client(self.tls.peer_certificates());
        identity.map_or_else(|error| Turn::Refused(error.to_string()), Turn::Is)
    }

    /// Notes that the agent was asked for a seat.
    pub(super) fn ask(&mut self, now: Time, identity: Identity) {
        self.stage = Stage::Asked { identity, until: now.saturating_add(SEATING) };
    }

    /// Connects the caller to its seat. True if it was waiting for one.
    pub(super) fn enter(&mut self, inside: UnixStream) -> bool {
        let Stage::Asked { identity, .. } = &self.stage else { return false };
        self.stage = Stage::Inside { identity: identity.clone(), inside };
        true
    }

    /// Sends the reason if possible, and gives the caller a moment to read it.
    pub(super) fn refuse(&mut self, now: Time, kind: RefusalKind, why: &str) {
        if !self.tls.is_handshaking() {
            let _ = self.tls.writer().write_all(&super::said::refusal(kind, why));
        }
        self.tls.send_close_notify();
        self.said = Said::default();
        self.stage = Stage::Leaving { until: now.saturating_add(LEAVING) };
    }

    /// The deadline of the current stage, and the reason to give when it is over.
    pub(super) fn overdue(&self) -> (Time, &'static str) {
        let unread = self.unread.map_or(Time::FOREVER, |since| since.saturating_add(UNREAD));
        match self.stage {
            Stage::Greeting { until } => (until, "the handshake took too long"),
            Stage::Asked { until, .. } => (until, "the agent gave it no seat in time"),
            Stage::Leaving { until } => (until, "it was refused"),
            Stage::Inside { .. } => (unread, "it reads nothing"),
        }
    }

    /// Reads once and decrypts. The error kind `InvalidData` is the caller's fault, and is reported to it.
    fn hear(&mut self) -> io::Result<()> {
        let read = self.tls.read_tls(&mut self.tcp)?;
        let wrong = |error: rustls::Error| io::Error::new(ErrorKind::InvalidData, error);
        let state = self.tls.process_new_packets().map_err(wrong)?;
        let came = state.plaintext_bytes_to_read();
        if came > 0 {
            let mut bytes = vec![0; came];
            self.tls.reader().read_exact(&mut bytes)?;
            self.said.hear(&bytes);
        }
        if self.said.is_over() {
            self.heard_all = true; // what comes after too long a line means nothing
        }
        match (state.peer_has_closed(), read) {
            (true, _) => self.heard_all = true,
            // Cut off without a goodbye.
            (false, 0) => return Err(ErrorKind::UnexpectedEof.into()),
            _ => {}
        }
        Ok(())
    }

    fn send(&mut self, now: Time) -> io::Result<()> {
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut self.tcp) {
                Ok(_) => self.unread = None,
                Err(error) if is_passing(&error) => {
                    self.unread.get_or_insert(now);
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
        self.unread = None;
        Ok(())
    }

    fn pass_in(&mut self) -> io::Result<()> {
        let Stage::Inside { inside, .. } = &mut self.stage else { return Ok(()) };
        self.said.read();
        let mut done = 0;
        let inward = self.said.inward();
        while done < inward.len() {
            match inside.write(&inward[done..]) {
                Ok(n) => done += n,
                Err(error) if is_passing(&error) => break,
                Err(error) => return Err(error),
            }
        }
        self.said.taken(done);
        if self.heard_all && self.said.is_done() {
            // Its answers may still come. Doing it again does no harm.
            let _ = inside.shutdown(Shutdown::Write);
        }
        Ok(())
    }

    /// Writes the front's own answers between two lines of the agent's.
    fn interject(&mut self) -> io::Result<()> {
        if self.at_line && self.said.has_answers() {
            self.tls.writer().write_all(&self.said.answers())?;
        }
        Ok(())
    }

    fn say(&mut self, mut piece: &[u8]) -> io::Result<()> {
        if self.said.has_answers()
            && let Some(end) = piece.iter().position(|&byte| byte == b'\n')
        {
            self.tls.writer().write_all(&piece[..=end])?;
            self.at_line = true;
            self.interject()?;
            piece = &piece[end + 1..];
        }
        if let Some(&last) = piece.last() {
            self.tls.writer().write_all(piece)?;
            self.at_line = last == b'\n';
        }
        Ok(())
    }

    fn pass_out(&mut self, now: Time) -> io::Result<()> {
        let mut piece = [0; PIECE];
        for _ in 0..PIECES {
            self.interject()?;
            self.send(now)?;
            let Stage::Inside { inside, .. } = &mut self.stage else { return Ok(()) };
            if self.said_all || self.tls.wants_write() {
                return Ok(());
            }
            match inside.read(&mut piece) {
                Ok(0) => {
                    (self.said_all, self.at_line) = (true, true);
                    self.interject()?;
                    self.tls.send_close_notify();
                }
                Ok(n) => self.say(&piece[..n])?,
                Err(error) if is_passing(&error) => return Ok(()),
                Err(error) => return Err(error),
            }
            self.send(now)?;
        }
        Ok(())
    }

    /// Reads and drops further input: closing a socket with unread bytes would discard the reason on its way.
    fn leave(&mut self) -> io::Result<Turn> {
        if self.tls.wants_write() {
            return Ok(Turn::Stays);
        }
        let _ = self.tcp.shutdown(Shutdown::Write);
        match self.tcp.read(&mut [0; PIECE]) {
            Ok(0) => Ok(Turn::Gone),
            Ok(_) => Ok(Turn::Stays),
            Err(error) if is_passing(&error) => Ok(Turn::Stays),
            Err(error) => Err(error),
        }
    }
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

//! The blocking client of an agent, on this machine's socket or over mutual TLS.

use crate::place::{AgentStream, Endpoint};
use documents::agent::{Answer, Call, EventDoc, Problem, ReplyLine, Request};
use documents::book::BookAnswer;
use documents::book::pages::Pages;
use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// The longest line from an agent, bytes. The agent bounds its answers well below it.
pub const MAX_ANSWER: usize = 8 << 20;

/// A connection to an agent, which takes it for one application.
#[derive(Debug)]
pub struct Client {
    wire: BufReader<Box<dyn AgentStream>>,
    place: Endpoint,
    next_id: u64,
    partial: Vec<u8>,
    events: VecDeque<(u64, EventDoc)>,
}

/// The reason why a call failed.
#[derive(Debug)]
pub enum Error {
    /// No agent answers there, or it went away.
    Io {
        /// The address.
        place: Box<Endpoint>,
        /// The system's error.
        error: io::Error,
    },
    /// The agent refused.
    Agent(Problem),
    /// The answer is not in the agent's protocol.
    Protocol(String),
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Error::Io { place, error } => match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => write!(
                    f,
                    "no agent listens on {place} ({error}): start one with `sluice agent`, or name another with --socket"
                ),
                io::ErrorKind::PermissionDenied => {
                    write!(f, "not allowed to open {place}: be root or in the group `sluice`")
                }
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                    write!(f, "the agent on {place} did not answer in time")
                }
                // What rustls says of certificates, on either side.
                io::ErrorKind::InvalidData => write!(f, "no agreement with the agent on {place}: {error}"),
                _ => write!(f, "the agent on {place} went away: {error}"),
            },
            Error::Agent(problem) => f.write_str(&problem.message),
            Error::Protocol(what) => write!(f, "the agent's answer makes no sense: {what}"),
        }
    }
}

impl std::error::Error for Error {}

/// The longest time of a call.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

impl Client {
    /// Connects to the agent's socket.
    ///
    /// # Errors
    /// [`Error::Io`] if no agent listens there.
    pub fn connect(path: &Path) -> Result<Client, Error> {
        Client::reach(&path.into())
    }

    /// Connects to an agent on this machine or another.
    ///
    /// # Errors
    /// [`Error::Io`] if no agent listens there, or if we do not trust its certificate.
    pub fn reach(place: &Endpoint) -> Result<Client, Error> {
        let wire = place.connect().map_err(|error| Error::Io { place: Box::new(place.clone()), error })?;
        let (partial, events) = (Vec::new(), VecDeque::new());
        Ok(Client { wire: BufReader::new(wire), place: place.clone(), next_id: 1, partial, events })
    }

    /// A client on a connection that the caller made; `path` is for messages. The caller may keep a copy of the
    /// stream's descriptor, to wait for events with others.
    pub fn on(stream: UnixStream, path: &Path) -> Client {
        let (wire, partial, events): (Box<dyn AgentStream>, _, _) = (Box::new(stream), Vec::new(), VecDeque::new());
        Client { wire: BufReader::new(wire), place: path.into(), next_id: 1, partial, events }
    }

    /// The next event that is here already, with the agent's time in nanoseconds; never waits.
    ///
    /// # Errors
    /// [`Error::Io`] when the agent went away.
    pub fn event_here(&mut self) -> Result<Option<(u64, EventDoc)>, Error> {
        if let Some(event) = self.events.pop_front() {
            return Ok(Some(event));
        }
        self.wire.get_ref().set_nonblocking(true).map_err(|e| self.io(e))?;
        let found = loop {
            match self.read_line() {
                Ok(Some(ReplyLine::Event { at_ns, event })) => break Ok(Some((at_ns, event))),
                Ok(Some(_)) => {}
                Ok(None) => break Ok(None),
                Err(error) => break Err(error),
            }
        };
        self.wire.get_ref().set_nonblocking(false).map_err(|e| self.io(e))?;
        found
    }

    /// True if an event came with an answer and waits for [`Client::event_here`]; the descriptor does not tell.
    pub fn has_event(&self) -> bool {
        !self.events.is_empty() || self.wire.buffer().contains(&b'\n')
    }

    /// Calls, and waits for all pages of the answer. Events that come meanwhile are kept for
    /// [`Client::event`].
    ///
    /// # Errors
    /// Any [`Error`]; [`Error::Agent`] when the agent refused.
    pub fn call(&mut self, request: Request) -> Result<Answer, Error> {
        let pages = Pages::of(&request);
        let mut answer = self.page(request)?;
        if let (Answer::Book(answer), Some(mut pages)) = (&mut answer, pages) {
            let is_list = matches!(answer, BookAnswer::Reservations { .. });
            while let Some(next) = pages.next(answer) {
                match self.page(next) {
                    Ok(Answer::Book(page)) => pages.add(answer, page),
                    Ok(other) => return Err(Error::Protocol(format!("a page is no {other:?}"))),
                    // A reservation of the list is no longer kept.
                    Err(Error::Agent(_)) if is_list => pages.give_up(),
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(answer)
    }

    /// Calls, and waits for one answer, which may be the first of several pages.
    ///
    /// # Errors
    /// As [`Client::call`].
    pub fn page(&mut self, request: Request) -> Result<Answer, Error> {
        let id = self.next_id;
        self.next_id += 1;
        let mut line = serde_json::to_string(&Call { id, request }).map_err(|e| Error::Protocol(e.to_string()))?;
        line.push('\n');
        self.wire.get_mut().write_all(line.as_bytes()).map_err(|e| self.io(e))?;
        let deadline = Instant::now() + CALL_TIMEOUT;
        loop {
            match self.line(deadline)? {
                Some(ReplyLine::Ok { id: of, ok }) if of == id => return Ok(*ok),
                Some(ReplyLine::Error { id: of, error }) if of == id || of == 0 => return Err(Error::Agent(error)),
                Some(ReplyLine::Event { at_ns, event }) => self.events.push_back((at_ns, event)),
                Some(_) => {}
                None => return Err(self.io(io::ErrorKind::TimedOut.into())),
            }
        }
    }

    /// The next event, with the agent's time in nanoseconds; `None` if none comes within `patience`.
    ///
    /// # Errors
    /// [`Error::Io`] when the agent went away.
    pub fn event(&mut self, patience: Duration) -> Result<Option<(u64, EventDoc)>, Error> {
        if let Some(event) = self.events.pop_front() {
            return Ok(Some(event));
        }
        let deadline = Instant::now() + patience;
        loop {
            match self.line(deadline)? {
                Some(ReplyLine::Event { at_ns, event }) => return Ok(Some((at_ns, event))),
                Some(_) => {}
                None => return Ok(None),
            }
        }
    }

    fn line(&mut self, deadline: Instant) -> Result<Option<ReplyLine>, Error> {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            self.wire.get_ref().set_read_timeout(Some(left)).map_err(|e| self.io(e))?;
            if let Some(line) = self.read_line()? {
                return Ok(Some(line));
            }
        }
    }

    /// One line; `None`: it is not whole yet, and the stream waits no longer.
    fn read_line(&mut self) -> Result<Option<ReplyLine>, Error> {
        loop {
            let room = (MAX_ANSWER - self.partial.len().min(MAX_ANSWER)) as u64;
            match self.wire.by_ref().take(room).read_until(b'\n', &mut self.partial) {
                Ok(0) => return Err(self.io(io::ErrorKind::UnexpectedEof.into())),
                Ok(_) if self.partial.ends_with(b"\n") => {
                    let line = std::mem::take(&mut self.partial);
                    return serde_json::from_slice(&line).map(Some).map_err(|e| Error::Protocol(e.to_string()));
                }
                // The end of the stream, or of the room; the next read tells.
                Ok(_) => {}
                Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => return Ok(None),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(self.io(e)),
            }
        }
    }

    fn io(&self, error: io::Error) -> Error {
        Error::Io { place: Box::new(self.place.clone()), error }
    }
}

//! The blocking client of the agent's socket.

use crate::agent::{Answer, Call, EventDoc, Line, MAX_LINE, Problem, Request};
use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A connection: one application in the agent's eyes.
#[derive(Debug)]
pub struct Client {
    reader: BufReader<UnixStream>,
    writer: UnixStream,
    path: PathBuf,
    next_id: u64,
    partial: String,
    events: VecDeque<(u64, EventDoc)>,
}

/// Why a call failed.
#[derive(Debug)]
pub enum Error {
    /// No agent answers there, or it went away.
    Io {
        /// The socket.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// The agent said no.
    Agent(Problem),
    /// What came back is not the agent's language.
    Protocol(String),
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Error::Io { path, error } => match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                    write!(
                        f,
                        "no agent listens on {} ({error}): start one with `sluice agent`, or name another with --socket",
                        path.display()
                    )
                }
                io::ErrorKind::PermissionDenied => {
                    write!(f, "not allowed to open {}: be root or in the group `sluice`", path.display())
                }
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                    write!(f, "the agent on {} did not answer in time", path.display())
                }
                _ => write!(f, "the agent on {} went away: {error}", path.display()),
            },
            Error::Agent(problem) => f.write_str(&problem.message),
            Error::Protocol(what) => write!(f, "the agent's answer makes no sense: {what}"),
        }
    }
}

impl std::error::Error for Error {}

/// How long a call may take.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

impl Client {
    /// Connects to the agent's socket.
    ///
    /// # Errors
    /// [`Error::Io`] if nobody listens there.
    pub fn connect(path: &Path) -> Result<Client, Error> {
        let fail = |error| Error::Io { path: path.to_owned(), error };
        let writer = UnixStream::connect(path).map_err(fail)?;
        let reader = BufReader::new(writer.try_clone().map_err(fail)?);
        Ok(Client {
            reader,
            writer,
            path: path.to_owned(),
            next_id: 1,
            partial: String::new(),
            events: VecDeque::new(),
        })
    }

    /// Asks, and waits for the answer; events that come meanwhile are kept for [`Client::event`].
    ///
    /// # Errors
    /// Any [`Error`]; [`Error::Agent`] when the agent refused.
    pub fn call(&mut self, request: Request) -> Result<Answer, Error> {
        let id = self.next_id;
        self.next_id += 1;
        let mut line = serde_json::to_string(&Call { id, request }).map_err(|e| Error::Protocol(e.to_string()))?;
        line.push('\n');
        self.writer.write_all(line.as_bytes()).map_err(|e| self.io(e))?;
        let deadline = Instant::now() + CALL_TIMEOUT;
        loop {
            match self.line(deadline)? {
                Some(Line::Ok { id: of, ok }) if of == id => return Ok(*ok),
                Some(Line::Error { id: of, error }) if of == id || of == 0 => return Err(Error::Agent(error)),
                Some(Line::Event { at_ns, event }) => self.events.push_back((at_ns, event)),
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
                Some(Line::Event { at_ns, event }) => return Ok(Some((at_ns, event))),
                Some(_) => {}
                None => return Ok(None),
            }
        }
    }

    fn line(&mut self, deadline: Instant) -> Result<Option<Line>, Error> {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            self.reader.get_ref().set_read_timeout(Some(left)).map_err(|e| self.io(e))?;
            let room = (MAX_LINE - self.partial.len().min(MAX_LINE)) as u64;
            match self.reader.by_ref().take(room).read_line(&mut self.partial) {
                Ok(0) => return Err(self.io(io::ErrorKind::UnexpectedEof.into())),
                Ok(_) if self.partial.ends_with('\n') => {
                    let line = std::mem::take(&mut self.partial);
                    return serde_json::from_str(&line).map(Some).map_err(|e| Error::Protocol(e.to_string()));
                }
                Ok(_) => {}
                Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {}
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(self.io(e)),
            }
        }
    }

    fn io(&self, error: io::Error) -> Error {
        Error::Io { path: self.path.clone(), error }
    }
}

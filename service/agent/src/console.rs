//! The agent speaks to people and programs: its log, and the connections of its socket.
//!
//! Every line of the log and every event has the time of the agent's clock. The poll is here because what a connection
//! is watched for depends on what it has been told.

use crate::local::Local;
use crate::log::{Level, Log};
use documents::agent::{EventDoc, ReplyLine};
use linux::clock::Clock;
use linux::error::SystemError;
use linux::poll::{Poll, PollInterest, Ready, Token};
use linux::process::PeerProcess;
use std::fmt::Display;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use terms::Time;

/// The log, the connections, and the poll of the agent's loop.
pub(crate) struct Console {
    clock: Clock,
    log: Log,
    local: Local,
    poll: Poll,
}

impl Console {
    pub(crate) fn new(clock: Clock, log: Log, local: Local, poll: Poll) -> Console {
        Console { clock, log, local, poll }
    }

    /// Writes to the log, and to all clients that watch.
    pub(crate) fn announce(&mut self, level: Level, name: &str, text: &str) {
        self.line(level, name, &[("text", &text)]);
        let watchers = self.local.watchers();
        if watchers.is_empty() {
            return;
        }
        let event = EventDoc::Node { name: name.to_owned(), text: text.to_owned() };
        self.tell_all(watchers, event);
    }

    /// Writes one line to the log.
    pub(crate) fn line(&mut self, level: Level, event: &str, fields: &[(&str, &dyn Display)]) {
        self.log.line(self.clock.now(), level, event, fields);
    }

    /// True if a routine event would be read by anybody. If only room in the log is missing, it counts as suppressed.
    pub(crate) fn wants_routine(&mut self) -> bool {
        self.log.has_room_for(self.clock.now(), Level::Info) || self.local.is_watched()
    }

    /// Sends an event to a client.
    pub(crate) fn tell(&mut self, client: u64, event: EventDoc) {
        let at_ns = self.clock.now().as_nanos();
        self.say(client, &ReplyLine::Event { at_ns, event });
    }

    /// Sends one event to several clients.
    pub(crate) fn tell_all(&mut self, clients: Vec<u64>, event: EventDoc) {
        let line = ReplyLine::Event { at_ns: self.clock.now().as_nanos(), event };
        clients.into_iter().for_each(|client| self.say(client, &line));
    }

    /// Sends a line to a client. Answers are always kept; events only while it reads.
    pub(crate) fn say(&mut self, client: u64, line: &ReplyLine) {
        self.local.say(client, line, &mut self.poll);
    }

    /// Records that the answer to a call of this client comes later.
    pub(crate) fn owe(&mut self, client: u64) {
        self.local.owe(client);
    }

    /// Sends an answer that came later.
    pub(crate) fn pay(&mut self, client: u64, line: &ReplyLine) {
        self.local.pay(client, line, &mut self.poll);
    }

    /// True if a client reads its events.
    pub(crate) fn has_room(&self, client: u64) -> bool {
        self.local.has_room(client)
    }

    /// The connections, for their calls.
    pub(crate) fn connections(&mut self) -> &mut Local {
        &mut self.local
    }

    /// Takes new connections of this machine.
    pub(crate) fn accept(&mut self) -> Vec<(u64, PeerProcess)> {
        self.local.accept(&mut self.poll)
    }

    /// Takes a connection from another machine, if there are not too many already, and returns its number.
    pub(crate) fn adopt(&mut self, stream: UnixStream) -> Option<u64> {
        self.local.adopt(stream, &mut self.poll)
    }

    /// The end of a client's turn. `true`: it is gone, and its application has ended.
    pub(crate) fn end_turn(&mut self, client: u64, alive: bool) -> bool {
        self.local.end_turn(client, alive, &mut self.poll)
    }

    /// Wakes the loop when a descriptor becomes readable.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(crate) fn wake_for(&mut self, fd: &impl AsFd, token: Token) -> Result<(), SystemError> {
        self.poll.add(fd, token, PollInterest::Read)
    }

    /// Waits until a descriptor has work, or until a time.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(crate) fn wait(&mut self, until: Time) -> Result<Vec<Ready>, SystemError> {
        Ok(self.poll.wait(Some(until))?.to_vec())
    }

    /// Writes what clients can take at once, for the last time, and the last line of the log.
    pub(crate) fn farewell(&mut self) {
        self.local.farewell();
    }
}

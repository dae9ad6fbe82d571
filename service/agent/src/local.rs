//! The local socket: one connection is one application, one line is one call; events go the other way.
//!
//! Nothing here waits. A client that does not read gets no more answers until it does (its calls wait in its own
//! socket), and events beyond a limit are counted instead of kept: a slow client costs a bounded amount of memory
//! and no time.

use documents::agent::{EventDoc, MAX_LINE, Problem, ReplyLine};
use linux::error::SystemError;
use linux::poll::{Poll, PollInterest, Token};
use linux::process::{self, PeerProcess};
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// The most connections at once.
pub const MAX_CLIENTS: usize = 256;
/// The most connections from other machines, whatever limit the front has.
const MAX_ADOPTED: usize = 192;
/// The most unread output, bytes: above it a client's calls are not answered and its events not kept.
const MAX_UNREAD: usize = 1 << 20;
/// The most calls of one client that wait for the disk; the client is read again when there are fewer.
const MOST_OWED: usize = 1024;
/// The capacity that a connection's empty buffers keep, and that the common answer buffer keeps, bytes.
/// Without a limit, each of many connections would keep the memory of its largest answer.
const KEPT: usize = 1 << 12;
const KEPT_ANSWER: usize = 1 << 18;
/// The group that may connect, besides root.
const GROUP: &str = "sluice";

/// The socket and all its connections.
#[derive(Debug)]
pub struct Local {
    listener: UnixListener,
    path: PathBuf,
    clients: BTreeMap<u64, Client>,
    next: u64,
    /// The buffer for answers before they are sent. All connections share it, because most answers go at
    /// once.
    answer: Vec<u8>,
}

/// A connection.
#[derive(Debug)]
struct Client {
    stream: UnixStream,
    read: Vec<u8>,
    /// The number of its bytes that have been taken, and that have been searched for the end of a line.
    taken: usize,
    scanned: usize,
    /// True if its next call has to wait although it is complete.
    held: bool,
    write: Vec<u8>,
    lost_events: u64,
    /// True if it came through the front.
    adopted: bool,
    watches: bool,
    /// The number of answers that come later.
    owed: usize,
    /// True after its last byte, or unreadable input: the connection ends when everything is written.
    closing: bool,
    want: PollInterest,
}

impl Local {
    /// Listens at `path`, and replaces a socket on which no process listens. Mode 0660, group `sluice` where
    /// there is one.
    ///
    /// # Errors
    /// The socket cannot be made there.
    pub fn listen(path: &Path, poll: &mut Poll, token: Token, first: u64) -> Result<Local, SystemError> {
        let what = || format!("listen on {}", path.display());
        let listener = linux::files::listen(path, process::group_id(GROUP)).map_err(SystemError::doing(what()))?;
        listener.set_nonblocking(true).map_err(SystemError::doing(what()))?;
        poll.add(&listener, token, PollInterest::Read)?;
        Ok(Local { listener, path: path.to_owned(), clients: BTreeMap::new(), next: first, answer: Vec::new() })
    }

    /// Takes new connections, and returns the number and the peer of each. Those beyond the limit get a
    /// refusal.
    pub fn accept(&mut self, poll: &mut Poll) -> Vec<(u64, PeerProcess)> {
        let mut new = Vec::new();
        while let Ok((stream, _)) = self.listener.accept() {
            if self.clients.values().filter(|client| !client.adopted).count() >= MAX_CLIENTS {
                refuse(&stream);
                continue;
            }
            let Ok(peer) = process::peer(&stream) else { continue };
            new.extend(self.take(stream, false, poll).map(|id| (id, peer)));
        }
        new
    }

    /// Takes a connection from another machine, if there are not too many already, and returns its number.
    pub fn adopt(&mut self, stream: UnixStream, poll: &mut Poll) -> Option<u64> {
        if self.clients.values().filter(|client| client.adopted).count() >= MAX_ADOPTED {
            refuse(&stream);
            return None;
        }
        self.take(stream, true, poll)
    }

    fn take(&mut self, stream: UnixStream, adopted: bool, poll: &mut Poll) -> Option<u64> {
        let id = self.next;
        let watched = stream.set_nonblocking(true).is_ok() && poll.add(&stream, Token(id), PollInterest::Read).is_ok();
        let client = Client {
            stream,
            read: Vec::new(),
            taken: 0,
            scanned: 0,
            held: false,
            write: Vec::new(),
            lost_events: 0,
            adopted,
            watches: false,
            owed: 0,
            closing: false,
            want: PollInterest::Read,
        };
        watched.then(|| {
            self.next += 1;
            self.clients.insert(id, client);
            id
        })
    }

    /// Writes as much as a client takes, and reads its input. True if the client is still there.
    pub fn open_turn(&mut self, id: u64, readable: bool) -> bool {
        let Some(client) = self.clients.get_mut(&id) else { return false };
        let alive = client.flush();
        if alive && readable && client.has_room() {
            return client.fill();
        }
        alive
    }

    /// The next call of a client, if one may be carried out: a whole line, without its end.
    pub fn next_line(&mut self, id: u64) -> Option<Vec<u8>> {
        let client = self.clients.get_mut(&id)?;
        if client.takes_calls() { client.line() } else { None }
    }

    /// Puts the last call back, to wait until [`Local::go_on`].
    pub fn hold(&mut self, id: u64, line: &[u8]) {
        if let Some(client) = self.clients.get_mut(&id) {
            client.taken = client.taken.saturating_sub(line.len() + 1);
            client.scanned = client.taken;
            client.held = true;
        }
    }

    /// Lets all held calls go on.
    pub fn go_on(&mut self) {
        self.clients.values_mut().for_each(|client| client.held = false);
    }

    /// True if a call is held.
    pub fn holds(&self) -> bool {
        self.clients.values().any(|client| client.held)
    }

    /// The end of a client's turn. `true`: it is gone, and its application has ended.
    pub fn end_turn(&mut self, id: u64, alive: bool, poll: &mut Poll) -> bool {
        let Some(client) = self.clients.get_mut(&id) else { return false };
        // A client that closed its side may still want its answers; one that broke is gone.
        let over = client.closing && client.write.is_empty() && !client.has_line() && client.owed == 0;
        if !alive || over {
            self.clients.remove(&id);
            return true;
        }
        self.settle(id, poll);
        false
    }

    /// Queues a line for a client. Answers are always kept; events only while it reads.
    pub fn say(&mut self, id: u64, line: &ReplyLine, poll: &mut Poll) {
        let Some(client) = self.clients.get_mut(&id) else { return };
        if matches!(line, ReplyLine::Event { .. }) && client.write.len() >= MAX_UNREAD {
            client.lost_events += 1;
            return;
        }
        if client.lost_events > 0
            && let ReplyLine::Event { at_ns, .. } = line
        {
            let text = format!("{} events were lost because this connection did not read them", client.lost_events);
            client.lost_events = 0;
            let event = EventDoc::Node { name: "events_lost".to_owned(), text };
            client.push(&ReplyLine::Event { at_ns: *at_ns, event }, &mut self.answer);
        }
        client.push(line, &mut self.answer);
        self.answer.clear();
        self.answer.shrink_to(KEPT_ANSWER);
        self.settle(id, poll);
    }

    /// Records that the answer to a call of this client comes later.
    pub fn owe(&mut self, id: u64) {
        if let Some(client) = self.clients.get_mut(&id) {
            client.owed += 1;
        }
    }

    /// Sends an answer that came later.
    pub fn pay(&mut self, id: u64, line: &ReplyLine, poll: &mut Poll) {
        if let Some(client) = self.clients.get_mut(&id) {
            client.owed = client.owed.saturating_sub(1);
            self.say(id, line, poll);
        }
    }

    /// True if a client reads its events. One that does not has no room for more.
    pub fn has_room(&self, id: u64) -> bool {
        self.clients.get(&id).is_some_and(|client| client.write.len() < MAX_UNREAD)
    }

    /// Sends every node event to this client from now on.
    pub fn watch(&mut self, id: u64) {
        if let Some(client) = self.clients.get_mut(&id) {
            client.watches = true;
        }
    }

    /// The clients that watch events.
    pub fn watchers(&self) -> Vec<u64> {
        self.clients.iter().filter(|(_, client)| client.watches).map(|(&id, _)| id).collect()
    }

    /// True if a client watches events.
    pub fn is_watched(&self) -> bool {
        self.clients.values().any(|client| client.watches)
    }

    /// Writes what can be written at once, for the last time.
    pub fn farewell(&mut self) {
        for client in self.clients.values_mut() {
            client.flush();
        }
        self.clients.clear();
    }

    /// Clients with whole lines still waiting for their turn.
    pub fn waiting(&mut self) -> Vec<u64> {
        let ready = |client: &mut Client| client.takes_calls() && !client.held && client.has_line();
        self.clients.iter_mut().filter_map(|(&id, client)| ready(client).then_some(id)).collect()
    }

    /// Watches for what the client's state asks for.
    fn settle(&mut self, id: u64, poll: &mut Poll) {
        let Some(client) = self.clients.get_mut(&id) else { return };
        client.flush();
        let want = match (client.closing || client.held || !client.takes_calls(), client.write.is_empty()) {
            (false, true) => PollInterest::Read,
            (false, false) => PollInterest::ReadWrite,
            (true, false) => PollInterest::Write,
            // One that sent its last byte and waits for an answer that is still to come, or one that waits for all of them.
            (true, true) if client.owed > 0 || client.held => PollInterest::End,
            (true, true) => PollInterest::Write,
        };
        if want != client.want && poll.change(&client.stream, Token(id), want).is_ok() {
            client.want = want;
        }
    }
}

impl Drop for Local {
    /// The name goes with the agent.
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

impl Client {
    fn takes_calls(&self) -> bool {
        self.write.len() < MAX_UNREAD && self.owed < MOST_OWED
    }

    /// True if more may be read: the bytes read before hold no whole line any more.
    fn has_room(&mut self) -> bool {
        !self.closing && self.takes_calls() && !self.has_line()
    }

    /// True if a whole line waits in the bytes that were read. Each byte is examined once.
    fn has_line(&mut self) -> bool {
        let rest = self.read.get(self.scanned..).unwrap_or_default();
        let end = rest.iter().position(|&b| b == b'\n');
        self.scanned += end.unwrap_or(rest.len());
        end.is_some()
    }

    /// Reads once; false if the connection is broken. What is left is there the next time round.
    fn fill(&mut self) -> bool {
        self.read.drain(..self.taken);
        (self.taken, self.scanned) = (0, self.scanned - self.taken);
        spare(&mut self.read);
        let mut buffer = [0; 1 << 14];
        match self.stream.read(&mut buffer) {
            Ok(0) => self.closing = true,
            Ok(n) => self.read.extend_from_slice(&buffer[..n]),
            Err(error) => return is_passing(&error),
        }
        true
    }

    /// Takes the next whole line out of what was read; too long a one ends the connection.
    fn line(&mut self) -> Option<Vec<u8>> {
        let whole = self.has_line();
        if self.scanned - self.taken > MAX_LINE {
            let message = format!("a line is longer than {MAX_LINE} bytes");
            let error = Problem { kind: "malformed".to_owned(), message, refusal: None };
            self.push(&ReplyLine::Error { id: 0, error }, &mut Vec::new());
            self.read.clear();
            (self.taken, self.scanned, self.closing) = (0, 0, true);
            return None;
        }
        let line = self.read.get(self.taken..self.scanned).filter(|_| whole)?.to_vec();
        (self.taken, self.scanned) = (self.scanned + 1, self.scanned + 1);
        Some(line)
    }

    /// Writes a line, by way of `answer`; what does not go at once is kept.
    fn push(&mut self, line: &ReplyLine, answer: &mut Vec<u8>) {
        answer.clear();
        // Our own documents have string keys and finite numbers: they can always be written.
        if serde_json::to_writer(&mut *answer, line).is_err() {
            return;
        }
        answer.push(b'\n');
        // One that broke is found by the next flush.
        let done = if self.write.is_empty() { self.give(answer).0 } else { 0 };
        self.write.extend_from_slice(&answer[done..]);
    }

    /// Writes what goes; false if the connection is broken.
    fn flush(&mut self) -> bool {
        let (done, alive) = self.give(&self.write);
        self.write.drain(..done);
        spare(&mut self.write);
        alive
    }

    /// Writes these bytes. Returns the number written, and whether the connection still works.
    fn give(&self, bytes: &[u8]) -> (usize, bool) {
        let mut done = 0;
        loop {
            if done == bytes.len() {
                return (done, true);
            }
            match (&self.stream).write(&bytes[done..]) {
                Ok(0) => return (done, true),
                Ok(n) => done += n,
                Err(error) => return (done, is_passing(&error)),
            }
        }
    }
}

/// Gives the room of a buffer back that it does not need any more.
fn spare(buffer: &mut Vec<u8>) {
    if buffer.capacity() / 4 > buffer.len().max(KEPT) {
        buffer.shrink_to(buffer.len().max(KEPT));
    }
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

fn refuse(mut stream: &UnixStream) {
    let message = format!("too many connections: the limit is {MAX_CLIENTS}");
    let line = ReplyLine::Error { id: 0, error: Problem { kind: "refused".to_owned(), message, refusal: None } };
    if let Ok(mut text) = serde_json::to_vec(&line) {
        text.push(b'\n');
        let _ = stream.set_nonblocking(true).and_then(|()| stream.write_all(&text));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linux::clock::Clock;
    use std::io::{BufRead, BufReader};

    #[test]
    fn events_that_nobody_reads_are_counted_and_told_later() {
        let path = std::env::temp_dir().join(format!("agent-local-{}", std::process::id()));
        let mut poll = Poll::new(Clock::start()).unwrap();
        let mut local = Local::listen(&path, &mut poll, Token(1), 10).unwrap();
        let stream = UnixStream::connect(&path).unwrap();
        let id = local.accept(&mut poll)[0].0;
        let event = |n: u64| {
            let event = EventDoc::Node { name: "n".to_owned(), text: "x".repeat(10_000) };
            ReplyLine::Event { at_ns: n, event }
        };
        for n in 0..1000 {
            local.say(id, &event(n), &mut poll);
        }
        let kept = local.clients[&id].write.len();
        assert!(kept <= MAX_UNREAD + 20_000, "{kept} bytes are kept of 10 MB");
        let lost = local.clients[&id].lost_events;
        assert!(lost > 800, "{lost}");
        let mut reader = BufReader::new(stream);
        let mut next = |local: &mut Local, poll: &mut Poll| {
            local.open_turn(id, false);
            local.end_turn(id, true, poll);
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            serde_json::from_str::<ReplyLine>(&line).unwrap()
        };
        for n in 0..1000 - lost {
            assert!(matches!(next(&mut local, &mut poll), ReplyLine::Event { at_ns, .. } if at_ns == n), "in order");
        }
        local.say(id, &event(2000), &mut poll);
        match next(&mut local, &mut poll) {
            ReplyLine::Event { event: EventDoc::Node { name, text }, .. } => {
                assert_eq!((name.as_str(), text.starts_with(&lost.to_string())), ("events_lost", true), "{text}");
            }
            other => panic!("{other:?}"),
        }
        assert!(matches!(next(&mut local, &mut poll), ReplyLine::Event { at_ns: 2000, .. }));
        drop(local);
        assert!(!path.exists(), "the name goes with the agent");
    }

    /// A connection gives the memory of a large buffer back once it is empty.
    #[test]
    fn a_buffer_that_was_large_is_given_back() {
        let path = std::env::temp_dir().join(format!("agent-buffer-{}", std::process::id()));
        let mut poll = Poll::new(Clock::start()).unwrap();
        let mut local = Local::listen(&path, &mut poll, Token(1), 10).unwrap();
        let mut stream = UnixStream::connect(&path).unwrap();
        let id = local.accept(&mut poll)[0].0;
        let event = EventDoc::Node { name: "n".to_owned(), text: "x".repeat(900_000) };
        local.say(id, &ReplyLine::Event { at_ns: 1, event }, &mut poll);
        let waits = local.clients[&id].write.len();
        assert!((1..900_000).contains(&waits), "{waits}: what goes at once is not kept");
        assert!(local.answer.capacity() <= KEPT_ANSWER);
        let (mut got, mut buffer) = (0, vec![0; 1 << 16]);
        while got < 900_000 {
            got += stream.read(&mut buffer).unwrap();
            local.open_turn(id, false);
            local.end_turn(id, true, &mut poll);
        }
        assert!(local.clients[&id].write.capacity() <= 4 * KEPT + 3, "{}", local.clients[&id].write.capacity());
    }

    /// A line that comes in a thousand pieces is looked through once, and not once for each piece.
    #[test]
    fn a_line_in_pieces_is_looked_through_once() {
        let path = std::env::temp_dir().join(format!("agent-pieces-{}", std::process::id()));
        let mut poll = Poll::new(Clock::start()).unwrap();
        let mut local = Local::listen(&path, &mut poll, Token(1), 10).unwrap();
        let mut stream = UnixStream::connect(&path).unwrap();
        let id = local.accept(&mut poll)[0].0;
        let mut sent = 0;
        while sent < 200_000 {
            stream.write_all(&[b'x'; 200]).unwrap();
            sent += 200;
            assert!(local.open_turn(id, true));
            assert_eq!(local.next_line(id), None);
            assert_eq!(
                local.clients[&id].scanned, sent,
                "all of it has been looked at, nothing waits for another look"
            );
            assert!(!local.end_turn(id, true, &mut poll));
        }
        stream.write_all(b"y\nab\n\nrest").unwrap();
        assert!(local.open_turn(id, true));
        assert_eq!(local.waiting(), [id]);
        assert_eq!(local.next_line(id).map(|line| line.len()), Some(200_001));
        let second = local.next_line(id).unwrap();
        assert_eq!(second, b"ab");
        local.hold(id, &second);
        assert_eq!((local.waiting(), local.holds()), (vec![], true), "a call that is held waits");
        local.go_on();
        assert_eq!(local.next_line(id), Some(b"ab".to_vec()));
        assert_eq!((local.next_line(id), local.next_line(id)), (Some(vec![]), None));
        stream.set_nonblocking(true).unwrap();
        for _ in 0..MAX_LINE / 4000 {
            local.open_turn(id, true);
            assert_eq!(local.next_line(id), None);
            let _ = stream.write(&[b'z'; 16_000]);
        }
        assert!(local.clients[&id].closing, "a line without an end");
    }
}

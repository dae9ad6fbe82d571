//! The local socket: one connection is one application, one line is one call; events go the other way.
//!
//! Nothing here waits. A client that does not read gets no more answers until it does (its calls wait in its own
//! socket), and events beyond a limit are counted instead of kept: a slow client costs a bounded amount of memory
//! and no time.

use api::agent::{EventDoc, Line, MAX_LINE, Problem};
use linux::error::Failed;
use linux::poll::{Poll, Token, Want};
use linux::process::{self, Peer};
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// Most connections at once.
pub const MAX_CLIENTS: usize = 256;
/// Most that came through another door, whatever that door counts.
const MAX_ADOPTED: usize = 192;
/// Above this much unread, a client's calls are not answered and its events not kept, bytes.
const MAX_UNREAD: usize = 1 << 20;
/// Most calls of one client that are carried out before others have their turn.
const CALLS_PER_TURN: usize = 64;
/// Most calls of one client whose answers wait for the disk; it is read again when there are fewer.
const MOST_OWED: usize = 1024;
/// Who may speak to the agent besides root.
const GROUP: &str = "sluice";

/// The socket and everyone who is connected.
#[derive(Debug)]
pub struct Local {
    listener: UnixListener,
    path: PathBuf,
    clients: BTreeMap<u64, Client>,
    next: u64,
}

/// A connection.
#[derive(Debug)]
struct Client {
    stream: UnixStream,
    read: Vec<u8>,
    write: Vec<u8>,
    lost_events: u64,
    /// It came through another door.
    adopted: bool,
    watches: bool,
    /// Answers that come later.
    owed: usize,
    /// It sent its last byte, or something unreadable: it goes when all is written.
    closing: bool,
    want: Want,
}

/// What a turn of a client brought.
#[derive(Debug, Default)]
pub struct Turn {
    /// Whole lines, without their ends.
    pub lines: Vec<Vec<u8>>,
    /// It is gone: its application has ended.
    pub gone: bool,
}

impl Local {
    /// Listens at `path`, which is replaced if nobody does; mode 0660, group `sluice` where there is one.
    ///
    /// # Errors
    /// The socket cannot be made there.
    pub fn listen(path: &Path, poll: &mut Poll, token: Token, first: u64) -> Result<Local, Failed> {
        let what = || format!("listen on {}", path.display());
        if let Some(dir) = path.parent() {
            fs::create_dir_all(dir).map_err(Failed::doing(what()))?;
        }
        if UnixStream::connect(path).is_ok() {
            return Err(Failed::because(what(), io::Error::from(io::ErrorKind::AddrInUse)));
        }
        match fs::symlink_metadata(path) {
            // Only what an agent leaves when it is killed is in the way; anything else is not ours to remove.
            Ok(found) if found.file_type().is_socket() => fs::remove_file(path).map_err(Failed::doing(what()))?,
            Ok(_) => return Err(Failed::because(what(), io::Error::other("there is a file that is no socket"))),
            Err(_) => {}
        }
        let listener = UnixListener::bind(path).map_err(Failed::doing(what()))?;
        listener.set_nonblocking(true).map_err(Failed::doing(what()))?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o660)).map_err(Failed::doing(what()))?;
        if let Some(group) = process::group_id(GROUP) {
            std::os::unix::fs::chown(path, None, Some(group)).map_err(Failed::doing(what()))?;
        }
        poll.add(&listener, token, Want::Read)?;
        Ok(Local { listener, path: path.to_owned(), clients: BTreeMap::new(), next: first })
    }

    /// Takes new connections; for each its number and who it is. Those beyond the limit are told so and closed.
    pub fn accept(&mut self, poll: &mut Poll) -> Vec<(u64, Peer)> {
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

    /// Takes a connection that came through another door, if that door has not too many already; its number.
    pub fn adopt(&mut self, stream: UnixStream, poll: &mut Poll) -> Option<u64> {
        if self.clients.values().filter(|client| client.adopted).count() >= MAX_ADOPTED {
            refuse(&stream);
            return None;
        }
        self.take(stream, true, poll)
    }

    fn take(&mut self, stream: UnixStream, adopted: bool, poll: &mut Poll) -> Option<u64> {
        let id = self.next;
        let watched = stream.set_nonblocking(true).is_ok() && poll.add(&stream, Token(id), Want::Read).is_ok();
        let (read, write) = (Vec::new(), Vec::new());
        let (lost_events, watches, owed, closing, want) = (0, false, 0, false, Want::Read);
        let client = Client { stream, read, write, lost_events, adopted, watches, owed, closing, want };
        watched.then(|| {
            self.next += 1;
            self.clients.insert(id, client);
            id
        })
    }

    /// Reads what a client sent, and writes what it has room for.
    pub fn turn(&mut self, id: u64, readable: bool, poll: &mut Poll) -> Turn {
        let Some(client) = self.clients.get_mut(&id) else { return Turn::default() };
        let mut turn = Turn::default();
        let mut alive = client.flush();
        if alive && readable && client.has_room() {
            alive = client.fill();
        }
        if alive && client.takes_calls() {
            turn.lines = client.lines();
        }
        // A client that closed its side may still want its answers; one that broke is gone.
        turn.gone = !alive || (client.closing && client.write.is_empty() && turn.lines.is_empty() && client.owed == 0);
        if turn.gone {
            self.clients.remove(&id);
        } else {
            self.settle(id, poll);
        }
        turn
    }

    /// Queues a line for a client. Answers are always kept; events only while it reads.
    pub fn say(&mut self, id: u64, line: &Line, poll: &mut Poll) {
        let Some(client) = self.clients.get_mut(&id) else { return };
        if matches!(line, Line::Event { .. }) && client.write.len() >= MAX_UNREAD {
            client.lost_events += 1;
            return;
        }
        if client.lost_events > 0
            && let Line::Event { at_ns, .. } = line
        {
            let text = format!("{} events were lost because this connection did not read them", client.lost_events);
            client.lost_events = 0;
            let event = EventDoc::Node { name: "events_lost".to_owned(), text };
            client.push(&Line::Event { at_ns: *at_ns, event });
        }
        client.push(line);
        self.settle(id, poll);
    }

    /// The answer to a call of this client comes later.
    pub fn owe(&mut self, id: u64) {
        if let Some(client) = self.clients.get_mut(&id) {
            client.owed += 1;
        }
    }

    /// Here is one that was owed.
    pub fn pay(&mut self, id: u64, line: &Line, poll: &mut Poll) {
        if let Some(client) = self.clients.get_mut(&id) {
            client.owed = client.owed.saturating_sub(1);
            self.say(id, line, poll);
        }
    }

    /// Whether a client reads its events: one that does not has no room for more.
    pub fn has_room(&self, id: u64) -> bool {
        self.clients.get(&id).is_some_and(|client| client.write.len() < MAX_UNREAD)
    }

    /// Sends every node event to this client from now on.
    pub fn watch(&mut self, id: u64) {
        if let Some(client) = self.clients.get_mut(&id) {
            client.watches = true;
        }
    }

    /// Those who watch.
    pub fn watchers(&self) -> Vec<u64> {
        self.clients.iter().filter(|(_, client)| client.watches).map(|(&id, _)| id).collect()
    }

    /// Whether anybody watches.
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
    pub fn waiting(&self) -> Vec<u64> {
        let ready = |client: &Client| !client.closing && client.takes_calls() && client.read.contains(&b'\n');
        self.clients.iter().filter(|(_, client)| ready(client)).map(|(&id, _)| id).collect()
    }

    /// Watches for what the client's state asks for.
    fn settle(&mut self, id: u64, poll: &mut Poll) {
        let Some(client) = self.clients.get_mut(&id) else { return };
        client.flush();
        let want = match (client.closing || !client.takes_calls(), client.write.is_empty()) {
            (false, true) => Want::Read,
            (false, false) => Want::ReadWrite,
            (true, false) => Want::Write,
            // One that sent its last byte and waits for an answer that is still to come, or one that waits for all of them.
            (true, true) if client.owed > 0 => Want::End,
            (true, true) => Want::Write,
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

    /// Whether more may be read: what was read before has no whole line any more.
    fn has_room(&self) -> bool {
        !self.closing && self.takes_calls() && !self.read.contains(&b'\n')
    }

    /// Reads once; false if the connection is broken. What is left is there the next time round.
    fn fill(&mut self) -> bool {
        let mut buffer = [0; 1 << 14];
        match self.stream.read(&mut buffer) {
            Ok(0) => self.closing = true,
            Ok(n) => self.read.extend_from_slice(&buffer[..n]),
            Err(error) => return is_passing(&error),
        }
        true
    }

    /// Takes the whole lines out of what was read; too long a one ends the connection.
    fn lines(&mut self) -> Vec<Vec<u8>> {
        let mut lines = Vec::new();
        let mut start = 0;
        while let Some(len) = self.read[start..].iter().position(|&b| b == b'\n') {
            if lines.len() == CALLS_PER_TURN {
                break;
            }
            lines.push(self.read[start..start + len].to_vec());
            start += len + 1;
        }
        self.read.drain(..start);
        let endless = self.read.len() > MAX_LINE && !self.read.contains(&b'\n');
        if endless || lines.iter().any(|line| line.len() > MAX_LINE) {
            lines.retain(|line| line.len() <= MAX_LINE);
            let message = format!("a line is longer than {MAX_LINE} bytes");
            self.push(&Line::Error { id: 0, error: Problem { kind: "malformed".to_owned(), message, refusal: None } });
            self.read.clear();
            self.closing = true;
        }
        lines
    }

    fn push(&mut self, line: &Line) {
        // Our own documents have string keys and finite numbers: they can always be written.
        if serde_json::to_writer(&mut self.write, line).is_ok() {
            self.write.push(b'\n');
        }
    }

    /// Writes what goes; false if the connection is broken.
    fn flush(&mut self) -> bool {
        let mut done = 0;
        let alive = loop {
            if done == self.write.len() {
                break true;
            }
            match self.stream.write(&self.write[done..]) {
                Ok(0) => break true,
                Ok(n) => done += n,
                Err(error) => break is_passing(&error),
            }
        };
        self.write.drain(..done);
        alive
    }
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

fn refuse(mut stream: &UnixStream) {
    let message = format!("too many connections: the limit is {MAX_CLIENTS}");
    let line = Line::Error { id: 0, error: Problem { kind: "refused".to_owned(), message, refusal: None } };
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
            Line::Event { at_ns: n, event }
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
            local.turn(id, false, poll);
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            serde_json::from_str::<Line>(&line).unwrap()
        };
        for n in 0..1000 - lost {
            assert!(matches!(next(&mut local, &mut poll), Line::Event { at_ns, .. } if at_ns == n), "in order");
        }
        local.say(id, &event(2000), &mut poll);
        match next(&mut local, &mut poll) {
            Line::Event { event: EventDoc::Node { name, text }, .. } => {
                assert_eq!((name.as_str(), text.starts_with(&lost.to_string())), ("events_lost", true), "{text}");
            }
            other => panic!("{other:?}"),
        }
        assert!(matches!(next(&mut local, &mut poll), Line::Event { at_ns: 2000, .. }));
        drop(local);
        assert!(!path.exists(), "the name goes with the agent");
    }
}

//! The agent's side of its front: a thread that starts the process, hands it the files that it may not open
//! itself, gives seats, and replaces it when it dies.
//!
//! It reads only the front's own short messages, never a byte of a caller. Messages of the front above the
//! limit wait; an invalid one ends the front.

use super::config::ListenConfig;
use super::frames::{self, Order, VERSION, Word};
use super::{News, Shared};
use linux::channel::Channel;
use linux::clock::Clock;
use linux::error::SystemError;
use linux::poll::{Poll, PollInterest, Token};
use std::fs::File;
use std::io::{self, ErrorKind};
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};
use terms::{Span, Time};
use trust::{CertificateSource, DiskSource, Stamp};

/// This very program, also after its file was replaced by another version.
const PROGRAM: &str = "/proc/self/exe";
/// The command by which it becomes a front.
pub const COMMAND: &str = "remote-front";
/// The pause before a dead front is replaced: it doubles from the first value to the last, and is reset after
/// a long life.
const FIRST_PAUSE: Span = Span::from_millis(100);
const LAST_PAUSE: Span = Span::from_secs(10);
const LONG_LIFE: Span = Span::from_secs(60);
/// The interval between checks for changed files.
const LOOK_EVERY: Span = Span::from_secs(1);
/// The most messages of the front that are read in a second; the rest waits.
const MOST_WORDS: u32 = 1000;
/// The time that a front has to end its connections.
const PATIENCE: Duration = Duration::from_secs(2);

const CHANNEL: Token = Token(0);
const END: Token = Token(1);

/// The thread's state.
pub(super) struct Keeper {
    pub(super) config: ListenConfig,
    pub(super) listeners: Vec<TcpListener>,
    pub(super) door: SyncSender<News>,
    pub(super) shared: Arc<Shared>,
    pub(super) clock: Clock,
}

/// A front that runs; dropping this value ends it.
struct Front {
    child: Child,
    channel: Channel,
    stamps: Vec<(PathBuf, Stamp)>,
    /// The second in which messages are counted, and their number.
    second: Time,
    words: u32,
}

impl Keeper {
    /// Runs until the agent stops.
    pub(super) fn run(mut self) {
        let mut pause = FIRST_PAUSE;
        loop {
            let begun = self.clock.now();
            let life = catch_unwind(AssertUnwindSafe(|| self.live()));
            let why = match life {
                Ok(Ok(())) => return,
                Ok(Err(failed)) => failed.to_string(),
                Err(_) => "the thread that looks after it panicked".to_owned(),
            };
            if self.clock.now().since(begun) >= LONG_LIFE {
                pause = FIRST_PAUSE;
            }
            self.tell(News::Ended { why, again_in: pause });
            if self.wait(pause) {
                return;
            }
            pause = Span::from_nanos(pause.as_nanos().saturating_mul(2)).min(LAST_PAUSE);
        }
    }

    /// Runs one front, from its start to its end. `Ok`: the agent stops.
    fn live(&mut self) -> Result<(), SystemError> {
        let mut front = self.start()?;
        let mut poll = Poll::new(self.clock)?;
        poll.add(&front.channel, CHANNEL, PollInterest::Read)?;
        poll.add(&self.shared.end, END, PollInterest::Read)?;
        let mut look_at = self.clock.now();
        loop {
            self.shared.rounds.fetch_add(1, Ordering::Relaxed);
            if self.shared.ending.load(Ordering::Acquire) {
                front.end();
                return Ok(());
            }
            if self.shared.renew.swap(false, Ordering::AcqRel) {
                self.shared.end.clear();
                self.hand_over(&mut front, true)?;
            }
            let now = self.clock.now();
            if now >= look_at {
                look_at = now.saturating_add(LOOK_EVERY);
                self.hand_over(&mut front, false)?;
            }
            let busy = front.words >= MOST_WORDS && now < front.second.saturating_add(LOOK_EVERY);
            let ready: Vec<Token> = poll.wait(Some(look_at))?.iter().map(|ready| ready.token).collect();
            if ready.contains(&CHANNEL) && !busy {
                self.listen(&mut front)?;
            } else if ready.contains(&CHANNEL) {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }

    fn start(&mut self) -> Result<Front, SystemError> {
        let (channel, theirs) = Channel::pair()?;
        let mut command = Command::new(PROGRAM);
        command.arg(COMMAND).env_clear().stdin(OwnedFd::from(theirs)).stdout(Stdio::null());
        let child = command.spawn().map_err(SystemError::doing("start the front"))?;
        drop(command); // with the other end of the channel: when the front ends, nobody has it
        let mut front = Front { child, channel, stamps: Vec::new(), second: Time::ZERO, words: 0 };
        let (uid, gid) = (self.config.user.uid, self.config.user.gid);
        front.order(&Order::Begin { version: VERSION, uid, gid, files: self.config.files.clone() }, None)?;
        for listener in &self.listeners {
            front.order(&Order::Listener {}, Some(listener.as_fd()))?;
        }
        self.hand_over(&mut front, true)?;
        Ok(front)
    }

    /// Opens files for the front: all of them, or those that have changed. A new list of revocations is in
    /// force at once; a new certificate when all files are handed over.
    fn hand_over(&mut self, front: &mut Front, all: bool) -> Result<(), SystemError> {
        let files = &self.config.files;
        let lists = files.revoked.iter().chain(files.partners.iter().flat_map(|one| &one.revoked));
        let watched = if all { files.paths() } else { lists.map(PathBuf::as_path).collect() };
        for path in watched {
            let stamp = DiskSource.stamp(path);
            let before = front.stamps.iter().position(|(known, _)| known == path);
            if !all && before.is_some_and(|at| front.stamps[at].1 == stamp) {
                continue;
            }
            match before {
                Some(at) => front.stamps[at].1 = stamp,
                None => front.stamps.push((path.to_owned(), stamp)),
            }
            let opened = File::open(path);
            let missing = opened.as_ref().err().map(ToString::to_string);
            let file = opened.as_ref().ok().map(AsFd::as_fd);
            front.order(&Order::File { path: path.to_owned(), missing }, file)?;
        }
        if all { front.order(&Order::Open {}, None) } else { Ok(()) }
    }

    /// Handles the messages of the front.
    fn listen(&mut self, front: &mut Front) -> Result<(), SystemError> {
        let now = self.clock.now();
        if now >= front.second.saturating_add(LOOK_EVERY) {
            (front.second, front.words) = (now, 0);
        }
        while front.words < MOST_WORDS {
            // No descriptor is taken: it has none to give.
            let message = match front.channel.receive(false) {
                Ok(Some(message)) => message,
                Ok(None) => return Err(front.died()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(SystemError::because("hear the front", error)),
            };
            front.words += 1;
            let word = frames::read(&message.bytes);
            let word = word.map_err(|what| SystemError::because("hear the front", io::Error::other(what)))?;
            self.heard(front, word)?;
        }
        Ok(())
    }

    fn heard(&mut self, front: &mut Front, word: Word) -> Result<(), SystemError> {
        match word {
            Word::Ready { restricted } => self.tell(News::Ready { pid: front.child.id(), restricted }),
            Word::Refused { from, why } => self.tell(News::Refused { from, why: frames::plain(&why) }),
            Word::Complaint { text } => self.tell(News::Complaint(frames::plain(&text))),
            Word::Enter { session, from, who } => {
                let Some(identity) = who.identity(self.clock.today(), &self.config.files.partners) else {
                    return Err(SystemError::because("hear the front", io::Error::other("a caller who cannot be")));
                };
                let no = |why: &str| Order::NoSeat { session, why: why.to_owned() };
                let Ok((ours, theirs)) = UnixStream::pair() else {
                    return front.order(&no("the agent has no descriptor left"), None);
                };
                if self.door.try_send(News::Came { stream: ours, identity, from }).is_err() {
                    return front.order(&no("too many come at once"), None);
                }
                self.shared.news.notify();
                front.order(&Order::Seat { session }, Some(theirs.as_fd()))?;
            }
        }
        Ok(())
    }

    fn tell(&self, news: News) {
        // News that finds no room is about callers that were refused: the agent has heard of enough of them.
        let _ = self.door.try_send(news);
        self.shared.news.notify();
    }

    /// Waits. True if the agent stops.
    fn wait(&self, pause: Span) -> bool {
        let until = self.clock.now().saturating_add(pause);
        while self.clock.now() < until && !self.shared.ending.load(Ordering::Acquire) {
            self.shared.rounds.fetch_add(1, Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(10));
        }
        self.shared.ending.load(Ordering::Acquire)
    }
}

impl Front {
    fn order(&mut self, order: &Order, fd: Option<BorrowedFd<'_>>) -> Result<(), SystemError> {
        match self.channel.send(&frames::write(order), fd) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                Err(SystemError::because("speak to the front", io::Error::other("it does not listen")))
            }
            Err(_) => Err(self.died()),
        }
    }

    /// The error that describes how it died.
    fn died(&mut self) -> SystemError {
        let how = self.gone(Duration::from_millis(500)).map_or("it closed its channel".to_owned(), |how| how);
        SystemError::because("keep the front", io::Error::other(how))
    }

    /// The exit status as text, if it ends in time.
    fn gone(&mut self, patience: Duration) -> Option<String> {
        let begun = Instant::now();
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return Some(status.to_string()),
                Ok(None) if begun.elapsed() < patience => std::thread::sleep(Duration::from_millis(5)),
                Ok(None) | Err(_) => return None,
            }
        }
    }

    /// Ends the front; its callers get the last words.
    fn end(&mut self) {
        if self.order(&Order::Close {}, None).is_ok() {
            self.gone(PATIENCE);
        }
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        // One that has ended is not killed again: its number is kept until it is waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

//! The sessions of a process, by number, and their upcalls.

use rsvp_client::session::{RsvpSession, SessionUpcall};
use rsvp_client::{Code, Failure};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A session as C knows it.
#[derive(Debug)]
pub struct SessionEntry<R> {
    /// The session itself.
    pub session: RsvpSession,
    /// True for protocol ESP or AH: ports are security parameter indexes.
    pub gpi: bool,
    /// True if upcalls carry Intserv objects.
    pub intserv: bool,
    /// The program's routine, with its argument.
    pub routine: R,
}

/// An entry that its own thread may lock.
pub type Shared<R> = Arc<Mutex<SessionEntry<R>>>;

/// All sessions of this process.
#[derive(Debug)]
pub struct Table<R> {
    pid: u32,
    inside: Mutex<Inside<R>>,
    dispatching: Mutex<()>,
}

#[derive(Debug)]
struct Inside<R> {
    last: u32,
    sessions: BTreeMap<u32, Shared<R>>,
    socket: PathBuf,
}

/// Locks, also where another thread broke inside: each call leaves the entry valid.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<R: Clone> Table<R> {
    fn new() -> Table<R> {
        let socket = PathBuf::from(rpc::places::AGENT_SOCKET);
        let inside = Inside { last: 0, sessions: BTreeMap::new(), socket };
        Table { pid: std::process::id(), inside: Mutex::new(inside), dispatching: Mutex::new(()) }
    }

    /// The table of this process. A child of a fork has a new, empty one: the parent's may be locked for ever there.
    pub fn of_this_process(place: &'static AtomicPtr<Table<R>>) -> &'static Table<R> {
        loop {
            let seen = place.load(Ordering::Acquire);
            // SAFETY: the pointer is null or one that was leaked below, and is never freed.
            match unsafe { seen.as_ref() } {
                Some(table) if table.pid == std::process::id() => return table,
                _ => {}
            }
            let new = Box::into_raw(Box::new(Table::new()));
            if place.compare_exchange(seen, new, Ordering::AcqRel, Ordering::Acquire).is_err() {
                // SAFETY: another thread was faster, and nobody saw this one.
                drop(unsafe { Box::from_raw(new) });
            }
        }
    }

    /// The agent's socket of later sessions.
    pub fn set_socket(&self, socket: Option<&Path>) {
        lock(&self.inside).socket = socket.unwrap_or(Path::new(rpc::places::AGENT_SOCKET)).to_owned();
    }

    /// The agent's socket.
    pub fn socket(&self) -> PathBuf {
        lock(&self.inside).socket.clone()
    }

    /// Adds a session; its number is never 0 and not one of an open session.
    pub fn add(&self, entry: SessionEntry<R>) -> u32 {
        let mut inside = lock(&self.inside);
        loop {
            inside.last = inside.last.wrapping_add(1);
            let number = inside.last;
            if number != 0 && !inside.sessions.contains_key(&number) {
                inside.sessions.insert(number, Arc::new(Mutex::new(entry)));
                return number;
            }
        }
    }

    /// A session.
    ///
    /// # Errors
    /// [`Code::BadSid`].
    pub fn get(&self, number: u32) -> Result<Shared<R>, Failure> {
        let found = lock(&self.inside).sessions.get(&number).cloned();
        found.ok_or_else(|| Failure::of(Code::BadSid, "there is no such session"))
    }

    /// Ends a session.
    ///
    /// # Errors
    /// [`Code::BadSid`].
    pub fn remove(&self, number: u32) -> Result<(), Failure> {
        let gone = lock(&self.inside).sessions.remove(&number);
        gone.map(drop).ok_or_else(|| Failure::of(Code::BadSid, "there is no such session"))
    }

    /// Reads what has come for every session, and runs its upcalls. No lock is held while one runs, so that it may
    /// call everything. Returns at once where another thread does the same, or an upcall calls this.
    ///
    /// # Errors
    /// An agent went away; the upcalls have run nevertheless.
    pub fn dispatch(&self, mut run: impl FnMut(u32, &SessionUpcall, bool, bool, R)) -> Result<(), Failure> {
        let Ok(_guard) = self.dispatching.try_lock() else { return Ok(()) };
        let numbers: Vec<u32> = lock(&self.inside).sessions.keys().copied().collect();
        let mut result = Ok(());
        for number in numbers {
            let Ok(shared) = self.get(number) else { continue };
            let turned = lock(&shared).session.turn();
            result = result.and(turned);
            // An upcall may release the session, and with it the upcalls that still wait.
            while self.get(number).is_ok() {
                let mut entry = lock(&shared);
                let Some(upcall) = entry.session.next_upcall() else { break };
                let (intserv, gpi, routine) = (entry.intserv, entry.gpi, entry.routine.clone());
                drop(entry);
                run(number, &upcall, intserv, gpi, routine);
            }
        }
        result
    }
}

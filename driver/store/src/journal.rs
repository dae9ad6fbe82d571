//! Group commit: one thread writes all batches that wait in one transaction, so many callers share one wait
//! for the disk.
//!
//! Why a thread and a queue: a caller that waits for a disk must not hold up signalling. A disk that takes
//! 200 us for one transaction takes hardly more for one of a hundred batches.

use crate::{Batch, Error, Store, record};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{Builder, JoinHandle};

/// Maximum number of batches that wait.
pub const MOST_WAITING: usize = 1 << 16;
/// Maximum number of batches in one transaction. Batches that arrive meanwhile share the next one.
const MOST_TOGETHER: usize = 1 << 12;

/// The caller's number for a piece of work. The answer carries the same number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Ticket(pub u64);

/// The result of a piece of work.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Completion {
    /// The ticket of the work.
    pub ticket: Ticket,
    /// `Ok` if the work is done and on the disk.
    pub result: Result<(), Error>,
}

/// A store and the thread that writes to it.
pub struct Journal<S = Box<dyn Store>> {
    queue: Option<Sender<Work<S>>>,
    thread: Option<JoinHandle<()>>,
    waiting: Arc<AtomicUsize>,
    panicked: Arc<AtomicBool>,
}

impl<S> std::fmt::Debug for Journal<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Journal").field("waiting", &self.waiting).finish_non_exhaustive()
    }
}

/// The reason in the answer to all work that a panic interrupted.
const PANICKED: &str = "its thread panicked: nobody knows what of the last transaction is on the disk";

enum Work<S> {
    Append(Vec<PendingBatch>),
    Look(Look<S>),
}

/// A batch in the queue.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PendingBatch {
    /// The ticket of its answer.
    pub ticket: Ticket,
    /// The records to write.
    pub batch: Batch,
    /// True if the batch frees capacity or records something that has already happened. On a full disk it may
    /// use the room of the ballast.
    pub urgent: bool,
}

/// A function that reads the store.
type Look<S> = Box<dyn FnOnce(&mut S) + Send>;

impl<S> std::fmt::Debug for Work<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Work::Append(batches) => f.debug_tuple("Append").field(batches).finish(),
            Work::Look(_) => f.write_str("Look"),
        }
    }
}

impl<S: Store + 'static> Journal<S> {
    /// Starts the thread. The thread calls `answered` with the answers of one transaction at a time, in the
    /// order in which the work was queued. After a panic it may call it with no answers
    /// ([`Journal::has_panicked`]).
    ///
    /// # Errors
    /// The system cannot start a thread.
    pub fn start(store: S, answered: impl FnMut(&mut Vec<Completion>) + Send + 'static) -> Result<Journal<S>, Error> {
        let (queue, work) = mpsc::channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        let panicked = Arc::new(AtomicBool::new(false));
        let (group, answers, theirs) = (Vec::new(), Vec::new(), panicked.clone());
        let mut writer = Writer { store, answered, waiting: waiting.clone(), group, answers };
        let run = move || {
            if catch_unwind(AssertUnwindSafe(|| writer.run(&work))).is_err() {
                theirs.store(true, Ordering::Release);
                // What panics here again has nobody left to tell; the flag is set.
                let _ = catch_unwind(AssertUnwindSafe(|| writer.bury(&work)));
            }
        };
        let thread = Builder::new().name("journal".to_owned());
        let thread = thread.spawn(run).map_err(Error::doing("start the journal's thread"))?;
        Ok(Journal { queue: Some(queue), thread: Some(thread), waiting, panicked })
    }

    /// Queues a batch. Never waits. The result comes as a [`Completion`].
    ///
    /// # Errors
    /// The batch is too large ([`Error::TooLarge`]) or too many wait ([`Error::Busy`]). Then there is no
    /// [`Completion`].
    pub fn append(&self, ticket: Ticket, batch: Batch) -> Result<(), Error> {
        self.append_all(vec![PendingBatch { ticket, batch, urgent: false }])
            .pop()
            .map_or(Ok(()), |(_, error)| Err(error))
    }

    /// Queues several batches in one message, because to wake the thread costs more than its work for one
    /// batch. Never waits. Returns the refused batches with the reason; each other batch gets a
    /// [`Completion`].
    pub fn append_all(&self, mut batches: Vec<PendingBatch>) -> Vec<(Ticket, Error)> {
        let mut refused = Vec::new();
        batches.retain(|piece| match record::check(&piece.batch) {
            Ok(()) => true,
            Err(error) => {
                refused.push((piece.ticket, error));
                false
            }
        });
        if batches.is_empty() {
            return refused;
        }
        let tickets: Vec<Ticket> = batches.iter().map(|piece| piece.ticket).collect();
        if let Err(error) = self.queue(Work::Append(batches), tickets.len()) {
            refused.extend(tickets.into_iter().map(|ticket| (ticket, error.clone())));
        }
        refused
    }

    /// Calls `look` with the store on the journal's thread, after all work queued before it. Appends wait
    /// meanwhile, so `look` must be short.
    ///
    /// # Errors
    /// As [`Journal::append`].
    pub fn look(&self, look: impl FnOnce(&mut S) + Send + 'static) -> Result<(), Error> {
        self.queue(Work::Look(Box::new(look)), 1)
    }

    /// True if the thread has panicked. Nothing is written any more, and all waiting work gets
    /// [`Error::Dead`].
    pub fn has_panicked(&self) -> bool {
        self.panicked.load(Ordering::Acquire)
    }

    /// The number of pieces of work that wait or are being written.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    fn queue(&self, work: Work<S>, count: usize) -> Result<(), Error> {
        let before = self.waiting.fetch_add(count, Ordering::Relaxed);
        let ended = || Error::Dead("its thread has ended".to_owned());
        let queued = match &self.queue {
            _ if before + count > MOST_WAITING => Err(Error::Busy),
            Some(queue) => queue.send(work).map_err(|_| ended()),
            None => Err(ended()),
        };
        if queued.is_err() {
            self.waiting.fetch_sub(count, Ordering::Relaxed);
        }
        queued
    }
}

impl<S> Drop for Journal<S> {
    /// Waits until all queued work is answered.
    fn drop(&mut self) {
        drop(self.queue.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been printed; there is nobody left to tell.
            let _ = thread.join();
        }
    }
}

/// The state of the journal's thread.
struct Writer<S, F> {
    store: S,
    answered: F,
    waiting: Arc<AtomicUsize>,
    /// The batches to write next, or those being written when the thread panicked.
    group: Vec<PendingBatch>,
    answers: Vec<Completion>,
}

impl<S: Store, F: FnMut(&mut Vec<Completion>)> Writer<S, F> {
    fn run(&mut self, work: &Receiver<Work<S>>) {
        while let Ok(first) = work.recv() {
            let mut next = Some(first);
            while let Some(work_item) = next.take() {
                match work_item {
                    Work::Append(mut batches) => self.group.append(&mut batches),
                    Work::Look(look) => {
                        self.write();
                        look(&mut self.store);
                        self.waiting.fetch_sub(1, Ordering::Relaxed);
                    }
                }
                if self.group.len() < MOST_TOGETHER {
                    next = work.try_recv().ok();
                }
            }
            self.write();
            // How tidying went shows at the next transaction: a store that died says so then.
            let idle = self.waiting.load(Ordering::Relaxed) == 0;
            let _ = self.store.tidy(idle);
        }
    }

    /// After a panic: answers all work with [`Error::Dead`], interrupted work first, until the queue is
    /// closed.
    fn bury(&mut self, work: &Receiver<Work<S>>) {
        let dead = || Err(Error::Dead(PANICKED.to_owned()));
        for piece in std::mem::take(&mut self.group) {
            self.answer(piece.ticket, dead());
        }
        self.tell();
        while let Ok(item) = work.recv() {
            match item {
                Work::Append(pieces) => pieces.into_iter().for_each(|piece| self.answer(piece.ticket, dead())),
                Work::Look(_) => drop(self.waiting.fetch_sub(1, Ordering::Relaxed)),
            }
            self.tell();
        }
    }

    fn write(&mut self) {
        if self.group.is_empty() {
            return;
        }
        let group = &self.group;
        let mut result = Err(Error::Full);
        if !self.store.is_short() {
            result = self.store.commit(&mut group.iter().map(|piece| &piece.batch));
        }
        let mut urgent = result.clone();
        if result == Err(Error::Full) && group.iter().any(|piece| piece.urgent) {
            urgent = self.write_urgent();
        }
        for piece in std::mem::take(&mut self.group) {
            self.answer(piece.ticket, if piece.urgent { urgent.clone() } else { result.clone() });
        }
        self.tell();
    }

    /// The disk is full: writes the urgent batches alone. If they do not fit, the ballast is given up and
    /// they are tried once more.
    fn write_urgent(&mut self) -> Result<(), Error> {
        let group = &self.group;
        let mut urgent = || self.store.commit(&mut group.iter().filter(|piece| piece.urgent).map(|piece| &piece.batch));
        match urgent() {
            Err(Error::Full) if self.store.relieve() => {
                self.store.commit(&mut group.iter().filter(|piece| piece.urgent).map(|piece| &piece.batch))
            }
            result => result,
        }
    }

    fn answer(&mut self, ticket: Ticket, result: Result<(), Error>) {
        self.answers.push(Completion { ticket, result });
    }

    fn tell(&mut self) {
        self.waiting.fetch_sub(self.answers.len(), Ordering::Relaxed);
        (self.answered)(&mut self.answers);
        self.answers.clear();
    }
}

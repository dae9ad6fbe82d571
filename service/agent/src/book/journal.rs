//! The link between the bookings and their journal: batches go in, and word comes back of each that is on the
//! disk.

use super::audit::Wanted;
use crate::alive::Done;
use crate::config::AgentConfig;
use crate::start::StartError;
use crate::store_file::StoreConfig;
use booking::io::{Batch, BatchId, RecordTable};
use booking::{Input, JournalRecord};
use documents::book::AuditPage;
use linux::notifier::Notifier;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use store::sqlite::{Sqlite, SqliteOptions};
use store::{Completion, Error, Journal, PendingBatch, Store, Ticket};

/// The number of gathered batches that are handed in without waiting for more.
const MOST_GATHERED: usize = 32;

/// The journal's folder in the state directory.
pub const FOLDER: &str = "book";
/// Tables of the journal. These numbers never change.
const RESERVATIONS: store::TableId = store::TableId(1);
const EVENTS: store::TableId = store::TableId(2);
const PROMISES: store::TableId = store::TableId(3);

/// The handle of the journal's thread: takes batches, and gives answers when the notifier fires.
#[derive(Debug)]
pub struct JournalHandle {
    journal: Journal,
    mailbox: Arc<Tray>,
    /// Batches that the next [`JournalHandle::send`] hands in.
    gathered: Vec<PendingBatch>,
    /// The number of times that the thread was asked for a sign of life.
    asked: u64,
}

/// A page of the audit, with the number of the call that asked for it.
pub type Page = (u64, Result<AuditPage, Error>);

#[derive(Debug)]
struct Tray {
    answers: Mutex<Vec<Completion>>,
    pages: Mutex<Vec<Page>>,
    notifier: Notifier,
    /// The number of signs of life, and the number of batches that the thread has answered.
    pulse: AtomicU64,
    answered: AtomicU64,
}

impl JournalHandle {
    /// Opens the journal, reads it, and starts its thread.
    ///
    /// # Errors
    /// [`StartError::Store`].
    pub fn open(config: &AgentConfig) -> Result<(JournalHandle, Vec<JournalRecord>), StartError> {
        let StoreConfig { any_filesystem, audit_keep } = config.store;
        let options = SqliteOptions { any_filesystem, audit_keep, ..SqliteOptions::default() };
        JournalHandle::in_folder(&config.state.join(FOLDER), options)
    }

    /// The same in any folder, with other options.
    ///
    /// # Errors
    /// As [`JournalHandle::open`].
    pub fn in_folder(folder: &Path, options: SqliteOptions) -> Result<(JournalHandle, Vec<JournalRecord>), StartError> {
        JournalHandle::over(Sqlite::open(folder, options).map_err(StartError::Store)?)
    }

    /// The same over any store.
    ///
    /// # Errors
    /// As [`JournalHandle::open`].
    pub fn over(mut store: impl Store + 'static) -> Result<(JournalHandle, Vec<JournalRecord>), StartError> {
        let mut found = Vec::new();
        let mut keep = |table: store::TableId, key: &[u8], value: &[u8]| {
            let table = match table {
                RESERVATIONS => RecordTable::Reservation,
                EVENTS => RecordTable::Event,
                PROMISES => RecordTable::Promise,
                _ => return,
            };
            found.push(JournalRecord { table, key: key.to_vec(), value: Some(value.to_vec()) });
        };
        store.scan(&mut keep).map_err(StartError::Store)?;
        let (pulse, answered) = (AtomicU64::new(0), AtomicU64::new(0));
        let mailbox =
            Tray { answers: Mutex::default(), pages: Mutex::default(), notifier: Notifier::new()?, pulse, answered };
        let mailbox = Arc::new(mailbox);
        let theirs = mailbox.clone();
        let answered = move |answers: &mut Vec<Completion>| {
            theirs.answered.fetch_add(answers.len() as u64, Ordering::Relaxed);
            if let Ok(mut waiting) = theirs.answers.lock() {
                waiting.append(answers);
            }
            theirs.notifier.notify();
        };
        let store: Box<dyn Store> = Box::new(store);
        let journal = Journal::start(store, answered).map_err(StartError::Store)?;
        Ok((JournalHandle { journal, mailbox, gathered: Vec::new(), asked: 0 }, found))
    }

    /// The notifier to watch: it fires when there are answers.
    pub fn notifier(&self) -> &Notifier {
        &self.mailbox.notifier
    }

    /// Takes a batch for the next [`JournalHandle::send`], which must come before the loop waits. Returns the
    /// engine's inputs for batches that were refused at once.
    pub fn hand_in(&mut self, batch: Batch) -> Vec<Input> {
        let (ticket, urgent) = (Ticket(batch.id.0), batch.urgent);
        let batch = batch.records.into_iter().map(record).collect();
        self.gathered.push(PendingBatch { ticket, batch, urgent });
        if self.gathered.len() < MOST_GATHERED { Vec::new() } else { self.send() }
    }

    /// Hands the gathered batches in. Returns the engine's inputs for those that were refused.
    pub fn send(&mut self) -> Vec<Input> {
        if self.gathered.is_empty() {
            return Vec::new();
        }
        let refused = self.journal.append_all(std::mem::take(&mut self.gathered));
        let failed = |(ticket, error): (Ticket, Error)| {
            let Ticket(id) = ticket;
            Input::AppendFailed { id: BatchId(id), text: error.to_string() }
        };
        refused.into_iter().map(failed).collect()
    }

    /// Starts a read of the audit for the call of this number, after the batches handed in before.
    ///
    /// # Errors
    /// Too much work waits for the disk.
    pub fn read_audit(&self, call: u64, wanted: Wanted) -> Result<(), Error> {
        let mailbox = self.mailbox.clone();
        self.journal.look(move |store| {
            let page = wanted.read(store);
            if let Ok(mut pages) = mailbox.pages.lock() {
                pages.push((call, page));
            }
            mailbox.notifier.notify();
        })
    }

    /// Returns the thread's progress since the last call, and asks for another sign. The thread gives it
    /// after the work that is queued. Does not block.
    pub(crate) fn pulse(&mut self) -> Done {
        let (count, asked) = (self.mailbox.pulse.load(Ordering::Relaxed), self.asked);
        if count == asked {
            let mailbox = self.mailbox.clone();
            let look = move |_: &mut Box<dyn Store>| {
                mailbox.pulse.fetch_add(1, Ordering::Relaxed);
            };
            // Where too much waits for the disk, it is asked later.
            self.asked += u64::from(self.journal.look(look).is_ok());
        }
        Done { count: count + self.mailbox.answered.load(Ordering::Relaxed), all: count == asked }
    }

    /// Takes the pages of the audit that have been read since the last call.
    pub fn pages(&self) -> Vec<Page> {
        self.mailbox.pages.lock().map(|mut pages| std::mem::take(&mut *pages)).unwrap_or_default()
    }

    /// Takes the answers that have come, in order, as inputs of the engine; and the journal's failure, if it
    /// has failed.
    pub fn pick_up(&self) -> (Vec<Input>, Option<String>) {
        self.mailbox.notifier.clear();
        let answers = self.mailbox.answers.lock().map(|mut waiting| std::mem::take(&mut *waiting)).unwrap_or_default();
        let (mut inputs, mut dead) = (Vec::with_capacity(1), None);
        // Nothing may have been under way that could be answered.
        if self.journal.has_panicked() {
            dead = Some("the journal is dead: its thread panicked".to_owned());
        }
        for Completion { ticket, result } in answers {
            let id = BatchId(ticket.0);
            match result {
                // That one is on the disk says that all before it are.
                Ok(()) => match inputs.last_mut() {
                    Some(Input::Appended(last)) => *last = id,
                    _ => inputs.push(Input::Appended(id)),
                },
                Err(error) => {
                    let text = error.to_string();
                    if let Error::Dead(_) = error {
                        dead = Some(text.clone());
                    }
                    inputs.push(Input::AppendFailed { id, text });
                }
            }
        }
        (inputs, dead)
    }
}

impl Drop for JournalHandle {
    /// Hands in the gathered batches too.
    fn drop(&mut self) {
        self.send();
    }
}

fn record(record: JournalRecord) -> store::Record {
    let JournalRecord { table, key, value } = record;
    let table = match table {
        RecordTable::Reservation => RESERVATIONS,
        RecordTable::Event => EVENTS,
        RecordTable::Promise => PROMISES,
        RecordTable::Audit => return store::Record::Audit { body: value.unwrap_or_default() },
    };
    match value {
        Some(value) => store::Record::Put { table, key, value },
        None => store::Record::Delete { table, key },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linux::clock::Clock;
    use linux::poll::{Poll, PollInterest, Token};
    use std::sync::atomic::{AtomicU32, Ordering};
    use store::ChainLink;
    use terms::Span;

    /// A store with a good disk that panics at its n-th commit or when it is tidied.
    struct Panics {
        commits: AtomicU32,
        at: u32,
    }

    impl Store for Panics {
        fn commit(&mut self, batches: &mut dyn Iterator<Item = &store::Batch>) -> Result<(), Error> {
            let _ = batches.count();
            assert_ne!(self.commits.fetch_add(1, Ordering::Relaxed) + 1, self.at, "as this test has it");
            Ok(())
        }
        fn scan(&mut self, _: &mut store::Visit<'_>) -> Result<(), Error> {
            Ok(())
        }
        fn audit(&mut self, _: u64, _: u64, _: &mut dyn FnMut(&ChainLink, &[u8])) -> Result<(), Error> {
            Ok(())
        }
        fn tidy(&mut self, _: bool) -> Result<(), Error> {
            assert!(self.at > 0 || self.commits.load(Ordering::Relaxed) == 0, "as this test has it");
            Ok(())
        }
        fn epoch(&self) -> u64 {
            1
        }
        fn head(&self) -> ChainLink {
            ChainLink::default()
        }
    }

    /// Waits until the journal is dead. Returns the batches that were answered with a failure, and its
    /// reason.
    fn until_dead(desk: &JournalHandle) -> (Vec<BatchId>, String) {
        let clock = Clock::start();
        let mut poll = Poll::new(clock).unwrap();
        poll.add(desk.notifier(), Token(1), PollInterest::Read).unwrap();
        let (until, mut failed) = (clock.now() + Span::from_secs(10), Vec::new());
        loop {
            assert!(!poll.wait(Some(until)).unwrap().is_empty(), "the notifier does not ring");
            let (inputs, dead) = desk.pick_up();
            failed.extend(inputs.iter().filter_map(|input| match input {
                Input::AppendFailed { id, .. } => Some(*id),
                _ => None,
            }));
            if let Some(dead) = dead {
                return (failed, dead);
            }
        }
    }

    /// A store in which each commit waits until the test lets it go.
    struct Waits(std::sync::mpsc::Receiver<()>);

    impl Store for Waits {
        fn commit(&mut self, batches: &mut dyn Iterator<Item = &store::Batch>) -> Result<(), Error> {
            let _ = batches.count();
            self.0.recv().map_err(|_| Error::Dead("as this test has it".to_owned()))
        }
        fn scan(&mut self, _: &mut store::Visit<'_>) -> Result<(), Error> {
            Ok(())
        }
        fn audit(&mut self, _: u64, _: u64, _: &mut dyn FnMut(&ChainLink, &[u8])) -> Result<(), Error> {
            Ok(())
        }
        fn tidy(&mut self, _: bool) -> Result<(), Error> {
            Ok(())
        }
        fn epoch(&self) -> u64 {
            1
        }
        fn head(&self) -> ChainLink {
            ChainLink::default()
        }
    }

    /// The watchdog: a thread that waits for its disk has work and makes no progress; one that goes on
    /// reports it.
    #[test]
    fn a_thread_that_stands_still_does_nothing_and_one_that_goes_on_says_so() {
        let (go, waits) = std::sync::mpsc::channel();
        let (mut desk, _) = JournalHandle::over(Waits(waits)).unwrap();
        // It goes before the handle does, which waits for the thread: a test that fails here ends.
        let go = go;
        let begun = std::time::Instant::now();
        let soon = |what: &str, is: &dyn Fn(Done) -> bool, desk: &mut JournalHandle| loop {
            let done = desk.pulse();
            if is(done) {
                return done;
            }
            assert!(begun.elapsed().as_secs() < 20, "{what}: {done:?}");
            std::thread::yield_now();
        };
        assert_eq!(desk.pulse(), Done { count: 0, all: true });
        soon("it answers when it is asked", &|done| done.count > 3, &mut desk);
        desk.hand_in(batch(1));
        desk.send();
        let mut stands = soon("it has something to do", &|done| !done.all, &mut desk);
        // It may say so a few times more before it is at the disk; there it stands still.
        let mut still = 0;
        while still < 50 {
            std::thread::sleep(std::time::Duration::from_millis(1));
            let now = desk.pulse();
            assert!(begun.elapsed().as_secs() < 20, "{now:?} after {stands:?}");
            still = if !now.all && now.count == stands.count { still + 1 } else { 0 };
            stands = now;
        }
        go.send(()).unwrap();
        soon("it goes on", &|done| done.count > stands.count + 3, &mut desk);
    }

    fn batch(id: u64) -> Batch {
        let record = JournalRecord { table: RecordTable::Audit, key: Vec::new(), value: Some(vec![1]) };
        Batch { id: BatchId(id), records: vec![record], urgent: false }
    }

    #[test]
    fn a_panic_of_the_journals_thread_is_the_end_of_the_agent_and_not_of_its_answers() {
        let (mut desk, _) = JournalHandle::over(Panics { commits: AtomicU32::new(0), at: 1 }).unwrap();
        assert!(desk.hand_in(batch(7)).is_empty() && desk.send().is_empty());
        let (failed, dead) = until_dead(&desk);
        assert!(failed == [BatchId(7)] && dead.contains("panicked"), "{failed:?} {dead}");
        // Whoever hands in later is answered too.
        assert!(desk.hand_in(batch(8)).is_empty() && desk.send().is_empty());
        let later = until_dead(&desk);
        assert!(later.0 == [BatchId(8)] || later.0.is_empty(), "{later:?}");
    }

    #[test]
    fn also_when_nothing_waits_for_an_answer() {
        let (mut desk, _) = JournalHandle::over(Panics { commits: AtomicU32::new(0), at: 0 }).unwrap();
        desk.hand_in(batch(7));
        desk.send();
        let (failed, dead) = until_dead(&desk);
        assert!(failed.is_empty() && dead.contains("panicked"), "{failed:?} {dead}");
    }
}

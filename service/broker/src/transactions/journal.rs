//! The coordinator's journal: one folder of the broker's state, or a database that several brokers share. A decision
//! is on the disk before anybody hears of it.

use super::legs::LegRecord;
use commit::participant::ParticipantRecord;
use commit::record::CoordinatorRecord;
use commit::subordinate::SubordinateBatch;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use store::sqlite::{Sqlite, SqliteOptions};
use store::{Completion, Error, Journal, PendingBatch, Record, Store, TableId, Ticket};
use terms::{Span, Time};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;

/// The folder in the state folder.
pub const FOLDER: &str = "transactions";
/// The table of the coordinator's records. The number never changes.
const RECORDS: TableId = TableId(1);
/// The table of what was promised to brokers of other domains.
const PROMISES: TableId = TableId(2);
/// The table of legs: parts of reservations that go on in another domain, or come from one. JSON, by reservation.
const LEGS: TableId = TableId(3);
/// The table of small documents, by name, of brokers that share a database: see [`crate::shelf`].
const DOCUMENTS: TableId = TableId(4);
/// The bit that tickets of documents have, and those of the coordinator's batches, which are counted, never.
const OF_DOCUMENT: u64 = 1 << 63;
/// The longest time for which records that nothing waits for are gathered.
const GATHER: Span = Span::from_nanos(100_000_000);
/// The most batches that are gathered.
const MOST_GATHERED: usize = 64;

/// The journal, open and read, before its thread runs.
pub struct CommitStore(Box<dyn Store>);

impl std::fmt::Debug for CommitStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CommitStore").field("epoch", &self.0.epoch()).finish_non_exhaustive()
    }
}

/// The content of the journal.
#[derive(Debug, Default)]
pub struct CommitPast {
    /// The coordinator's records.
    pub records: Vec<CoordinatorRecord>,
    /// The promises to brokers of other domains.
    pub promises: Vec<ParticipantRecord>,
    /// Legs of reservations across domains.
    pub legs: Vec<LegRecord>,
    /// Small documents by name.
    pub documents: BTreeMap<String, Vec<u8>>,
}

/// Opens the journal of a state folder.
///
/// # Errors
/// A sentence for the operator.
pub fn in_folder(state: &Path) -> Result<Box<dyn Store>, String> {
    let folder = state.join(FOLDER);
    match Sqlite::open(&folder, SqliteOptions::default()) {
        Ok(store) => Ok(Box::new(store)),
        Err(error) => {
            Err(format!("the journal of transactions in {}: {error} (--state names another folder)", folder.display()))
        }
    }
}

/// Reads a journal.
///
/// # Errors
/// A sentence for the operator.
pub fn read(mut store: Box<dyn Store>) -> Result<(CommitStore, CommitPast), String> {
    let wrong = |why: String| format!("the journal of transactions: {why}");
    let mut rows = Vec::new();
    let mut keep = |table: TableId, key: &[u8], value: &[u8]| rows.push((table, key.to_vec(), value.to_vec()));
    store.scan(&mut keep).map_err(|error| wrong(error.to_string()))?;
    let mut past = CommitPast::default();
    for (table, key, value) in rows {
        let corrupt = |corrupt| wrong(format!("{corrupt:?}"));
        match table {
            RECORDS => past.records.push(CoordinatorRecord::read(&key, &value).map_err(corrupt)?),
            PROMISES => past.promises.push(ParticipantRecord::read(&key, &value).map_err(corrupt)?),
            DOCUMENTS => _ = past.documents.insert(String::from_utf8_lossy(&key).into_owned(), value),
            LEGS => past.legs.push(serde_json::from_slice(&value).map_err(|error| wrong(error.to_string()))?),
            _ => {}
        }
    }
    Ok((CommitStore(store), past))
}

/// Tells who waits for a document. True if the coordinator need not hear of this answer: it hears of a dead journal.
fn is_of_document(answer: &Completion, waiting: &WaitingDocuments) -> bool {
    let Ticket(ticket) = answer.ticket;
    if ticket & OF_DOCUMENT == 0 {
        return false;
    }
    if let Some(tell) = waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(&ticket) {
        let _ = tell.send(answer.result.clone().map_err(|error| error.to_string()));
    }
    !matches!(answer.result, Err(Error::Dead(_) | Error::Deposed(_)))
}

/// The records of a batch.
#[derive(Debug, Default)]
pub struct CommitBatch {
    /// The coordinator's.
    pub records: Vec<CoordinatorRecord>,
    /// The participant's.
    pub promises: Vec<ParticipantRecord>,
    /// Legs that are new or have changed.
    pub legs: Vec<LegRecord>,
    /// Names of reservations whose legs are forgotten.
    pub forgotten: Vec<String>,
}

impl CommitBatch {
    /// True if it only deletes: it is about what has already happened, and frees room.
    fn is_urgent(&self) -> bool {
        let ends = |record: &CoordinatorRecord| matches!(record, CoordinatorRecord::End(_));
        self.promises.is_empty() && self.legs.is_empty() && self.records.iter().all(ends)
    }

    fn rows(&self) -> Vec<Record> {
        let row = |table: TableId, key: Vec<u8>, value: Option<Vec<u8>>| match value {
            Some(value) => Record::Put { table, key, value },
            None => Record::Delete { table, key },
        };
        let records = self.records.iter().map(|record| row(RECORDS, record.key(), record.value()));
        let promises = self.promises.iter().map(|record| row(PROMISES, record.key(), record.value()));
        // Our own documents have string keys and finite numbers: they can always be written.
        let leg = |leg: &LegRecord| row(LEGS, leg.reservation.clone().into_bytes(), serde_json::to_vec(leg).ok());
        let forgotten = self.forgotten.iter().map(|name| row(LEGS, name.clone().into_bytes(), None));
        records.chain(promises).chain(self.legs.iter().map(leg)).chain(forgotten).collect()
    }
}

/// The journal's thread, and the batches that are handed to it next.
#[derive(Debug, Default)]
pub struct CommitLog {
    journal: Option<Journal>,
    gathered: Vec<PendingBatch>,
    /// The time at which gathered batches are handed in without more.
    hand_in: Option<Time>,
    /// Those who wait for a document to be written.
    documents: WaitingDocuments,
    written: u64,
}

/// Those who wait for a document to be written, by ticket.
type WaitingDocuments = Arc<Mutex<BTreeMap<u64, oneshot::Sender<Result<(), String>>>>>;

impl CommitLog {
    /// Starts the thread. Answers go to `answers`, which holds at most as many as batches wait.
    ///
    /// # Errors
    /// The system cannot start a thread.
    pub fn start(store: CommitStore, answers: UnboundedSender<Vec<Completion>>) -> Result<CommitLog, String> {
        let documents = WaitingDocuments::default();
        let theirs = documents.clone();
        let answered = move |done: &mut Vec<Completion>| {
            done.retain(|answer| !is_of_document(answer, &theirs));
            // Nobody listens any more: the broker ends.
            let _ = answers.send(std::mem::take(done));
        };
        let journal = Journal::start(store.0, answered).map_err(|error| error.to_string())?;
        Ok(CommitLog { journal: Some(journal), documents, ..CommitLog::default() })
    }

    /// Hands in a document, after all that was gathered. What comes of it is received when it is on the disk.
    pub fn keep(&mut self, name: &str, text: &[u8]) -> oneshot::Receiver<Result<(), String>> {
        let (tell, told) = oneshot::channel();
        self.written += 1;
        let ticket = OF_DOCUMENT | self.written;
        let record = Record::Put { table: DOCUMENTS, key: name.as_bytes().to_vec(), value: text.to_vec() };
        let waiting = || self.documents.lock().unwrap_or_else(PoisonError::into_inner);
        waiting().insert(ticket, tell);
        let refused = match &self.journal {
            Some(journal) => journal.append(Ticket(ticket), vec![record]).err().map(|error| error.to_string()),
            None => Some("the broker is ending".to_owned()),
        };
        if let Some(why) = refused
            && let Some(tell) = waiting().remove(&ticket)
        {
            let _ = tell.send(Err(why));
        }
        told
    }

    /// Takes a batch. One that nothing waits for is handed in with the next that is waited for, or a
    /// moment later. Returns the batches that were refused at once, with the reason.
    pub fn append(
        &mut self,
        now: Time,
        batch: SubordinateBatch,
        content: &CommitBatch,
        forced: bool,
    ) -> Vec<(SubordinateBatch, String)> {
        let (records, urgent) = (content.rows(), content.is_urgent());
        self.gathered.push(PendingBatch { ticket: Ticket(batch.0), batch: records, urgent });
        if forced || self.gathered.len() >= MOST_GATHERED {
            return self.flush();
        }
        self.hand_in.get_or_insert(now.saturating_add(GATHER));
        Vec::new()
    }

    /// The time at which [`CommitLog::flush`] is due.
    pub fn wake_at(&self) -> Option<Time> {
        self.hand_in
    }

    /// Hands the gathered batches in. Returns those that were refused, with the reason.
    pub fn flush(&mut self) -> Vec<(SubordinateBatch, String)> {
        self.hand_in = None;
        let batches = std::mem::take(&mut self.gathered);
        let Some(journal) = &self.journal else {
            let closed = |batch: PendingBatch| (SubordinateBatch(batch.ticket.0), "the broker is ending".to_owned());
            return batches.into_iter().map(closed).collect();
        };
        if batches.is_empty() {
            return Vec::new();
        }
        let refused = journal.append_all(batches);
        refused.into_iter().map(|(ticket, error)| (SubordinateBatch(ticket.0), error.to_string())).collect()
    }

    /// True if the thread has panicked: nothing is written any more.
    pub fn is_dead(&self) -> bool {
        self.journal.as_ref().is_some_and(|journal| journal.has_panicked())
    }

    /// Hands in what was gathered, and takes the journal away: dropping it waits until all is answered.
    pub fn close(&mut self) -> Option<Journal> {
        self.flush();
        self.journal.take()
    }
}

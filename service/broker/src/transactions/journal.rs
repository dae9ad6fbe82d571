//! The coordinator's journal: one folder of the broker's state. A decision is on the disk before anybody hears
//! of it.

use super::legs::LegRecord;
use commit::participant::ParticipantRecord;
use commit::record::CoordinatorRecord;
use commit::subordinate::SubordinateBatch;
use std::path::Path;
use store::sqlite::{Sqlite, SqliteOptions};
use store::{Completion, Journal, PendingBatch, Record, Store, TableId, Ticket};
use terms::{Span, Time};
use tokio::sync::mpsc::UnboundedSender;

/// The folder in the state folder.
pub const FOLDER: &str = "transactions";
/// The table of the coordinator's records. The number never changes.
const RECORDS: TableId = TableId(1);
/// The table of what was promised to brokers of other domains.
const PROMISES: TableId = TableId(2);
/// The table of legs: parts of reservations that go on in another domain, or come from one. JSON, by reservation.
const LEGS: TableId = TableId(3);
/// The longest time for which records that nothing waits for are gathered.
const GATHER: Span = Span::from_nanos(100_000_000);
/// The most batches that are gathered.
const MOST_GATHERED: usize = 64;

/// The journal, open and read, before its thread runs.
#[derive(Debug)]
pub struct CommitStore(Sqlite);

/// The content of the journal.
#[derive(Debug, Default)]
pub struct CommitPast {
    /// The coordinator's records.
    pub records: Vec<CoordinatorRecord>,
    /// The promises to brokers of other domains.
    pub promises: Vec<ParticipantRecord>,
    /// Legs of reservations across domains.
    pub legs: Vec<LegRecord>,
}

/// Opens the journal and reads it.
///
/// # Errors
/// A sentence for the operator.
pub fn open(state: &Path) -> Result<(CommitStore, CommitPast), String> {
    let folder = state.join(FOLDER);
    let wrong = |why: String| {
        format!("the journal of transactions in {}: {why} (--state names another folder)", folder.display())
    };
    let mut store = Sqlite::open(&folder, SqliteOptions::default()).map_err(|error| wrong(error.to_string()))?;
    let mut rows = Vec::new();
    let mut keep = |table: TableId, key: &[u8], value: &[u8]| rows.push((table, key.to_vec(), value.to_vec()));
    store.scan(&mut keep).map_err(|error| wrong(error.to_string()))?;
    let mut past = CommitPast::default();
    for (table, key, value) in rows {
        let corrupt = |corrupt| wrong(format!("{corrupt:?}"));
        match table {
            RECORDS => past.records.push(CoordinatorRecord::read(&key, &value).map_err(corrupt)?),
            PROMISES => past.promises.push(ParticipantRecord::read(&key, &value).map_err(corrupt)?),
            LEGS => past.legs.push(serde_json::from_slice(&value).map_err(|error| wrong(error.to_string()))?),
            _ => {}
        }
    }
    Ok((CommitStore(store), past))
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
}

impl CommitLog {
    /// Starts the thread. Answers go to `answers`, which holds at most as many as batches wait.
    ///
    /// # Errors
    /// The system cannot start a thread.
    pub fn start(store: CommitStore, answers: UnboundedSender<Vec<Completion>>) -> Result<CommitLog, String> {
        let answered = move |done: &mut Vec<Completion>| {
            // Nobody listens any more: the broker ends.
            let _ = answers.send(std::mem::take(done));
        };
        let journal = Journal::start(store.0, answered).map_err(|error| error.to_string())?;
        Ok(CommitLog { journal: Some(journal), gathered: Vec::new(), hand_in: None })
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
        self.journal.as_ref().is_some_and(Journal::has_panicked)
    }

    /// Hands in what was gathered, and takes the journal away: dropping it waits until all is answered.
    pub fn close(&mut self) -> Option<Journal> {
        self.flush();
        self.journal.take()
    }
}

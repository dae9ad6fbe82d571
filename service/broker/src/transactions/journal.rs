//! The coordinator's journal: one folder of the broker's state. A decision is on the disk before anybody hears
//! of it.

use commit::coordinator::LogBatchId;
use commit::record::CoordinatorRecord;
use std::path::Path;
use store::sqlite::{Sqlite, SqliteOptions};
use store::{Completion, Journal, PendingBatch, Record, Store, TableId, Ticket};
use terms::{Span, Time};
use tokio::sync::mpsc::UnboundedSender;

/// The folder in the state folder.
pub const FOLDER: &str = "transactions";
/// The table of the coordinator's records. The number never changes.
const RECORDS: TableId = TableId(1);
/// The longest time for which records that nothing waits for are gathered.
const GATHER: Span = Span::from_nanos(100_000_000);
/// The most batches that are gathered.
const MOST_GATHERED: usize = 64;

/// The journal, open and read, before its thread runs.
#[derive(Debug)]
pub struct CommitStore(Sqlite);

/// Opens the journal and reads it.
///
/// # Errors
/// A sentence for the operator.
pub fn open(state: &Path) -> Result<(CommitStore, Vec<CoordinatorRecord>), String> {
    let folder = state.join(FOLDER);
    let wrong = |why: String| {
        format!("the journal of transactions in {}: {why} (--state names another folder)", folder.display())
    };
    let mut store = Sqlite::open(&folder, SqliteOptions::default()).map_err(|error| wrong(error.to_string()))?;
    let mut rows = Vec::new();
    let mut keep = |table: TableId, key: &[u8], value: &[u8]| {
        if table == RECORDS {
            rows.push((key.to_vec(), value.to_vec()));
        }
    };
    store.scan(&mut keep).map_err(|error| wrong(error.to_string()))?;
    let read = |(key, value): &(Vec<u8>, Vec<u8>)| CoordinatorRecord::read(key, value);
    let records = rows.iter().map(read).collect::<Result<Vec<_>, _>>();
    Ok((CommitStore(store), records.map_err(|corrupt| wrong(format!("{corrupt:?}")))?))
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
        batch: LogBatchId,
        records: &[CoordinatorRecord],
        forced: bool,
    ) -> Vec<(LogBatchId, String)> {
        // Deletions alone: they are about what has already happened, and free room.
        let urgent = records.iter().all(|record| matches!(record, CoordinatorRecord::End(_)));
        let row = |record: &CoordinatorRecord| match record.value() {
            Some(value) => Record::Put { table: RECORDS, key: record.key(), value },
            None => Record::Delete { table: RECORDS, key: record.key() },
        };
        let records = records.iter().map(row).collect();
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
    pub fn flush(&mut self) -> Vec<(LogBatchId, String)> {
        self.hand_in = None;
        let batches = std::mem::take(&mut self.gathered);
        let Some(journal) = &self.journal else {
            let closed = |batch: PendingBatch| (LogBatchId(batch.ticket.0), "the broker is ending".to_owned());
            return batches.into_iter().map(closed).collect();
        };
        if batches.is_empty() {
            return Vec::new();
        }
        let refused = journal.append_all(batches);
        refused.into_iter().map(|(ticket, error)| (LogBatchId(ticket.0), error.to_string())).collect()
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

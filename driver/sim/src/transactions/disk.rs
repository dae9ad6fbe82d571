//! A disk with a journal: batches that wait are written together, in one transaction. What a transaction held
//! when its process died is on the disk whole, or not at all.

use std::collections::{BTreeMap, VecDeque};
use terms::Time;

/// A batch on its way.
#[derive(Clone, Debug)]
pub(super) struct DiskBatch<K> {
    pub(super) id: u64,
    /// Each key with its value; `None`: it is deleted.
    pub(super) changes: Vec<(K, Option<Vec<u8>>)>,
    /// True if it may use the room that is kept for the end of space.
    pub(super) urgent: bool,
}

/// The answers of one transaction: each batch, and true if it is on the disk.
pub(super) type Answers<K> = Vec<(DiskBatch<K>, bool)>;

/// A disk.
#[derive(Clone, Debug)]
pub(super) struct Disk<K> {
    kept: BTreeMap<K, Vec<u8>>,
    waiting: VecDeque<DiskBatch<K>>,
    writing: Vec<DiskBatch<K>>,
    /// It has no space until then.
    full_until: Time,
    copy: Option<BTreeMap<K, Vec<u8>>>,
}

impl<K: Ord + Clone> Disk<K> {
    pub(super) fn new() -> Disk<K> {
        let (kept, waiting) = (BTreeMap::new(), VecDeque::new());
        Disk { kept, waiting, writing: Vec::new(), full_until: Time::ZERO, copy: None }
    }

    /// Everything on it.
    pub(super) fn kept(&self) -> &BTreeMap<K, Vec<u8>> {
        &self.kept
    }

    /// Takes a batch.
    pub(super) fn queue(&mut self, batch: DiskBatch<K>) {
        self.waiting.push_back(batch);
    }

    /// Begins a transaction with all that waits. False: one is under way, or nothing waits.
    pub(super) fn begin(&mut self) -> bool {
        if !self.writing.is_empty() || self.waiting.is_empty() {
            return false;
        }
        self.writing = self.waiting.drain(..).collect();
        true
    }

    /// True while a transaction is under way.
    pub(super) fn is_writing(&self) -> bool {
        !self.writing.is_empty()
    }

    /// Ends the transaction.
    pub(super) fn end(&mut self, now: Time) -> Answers<K> {
        let full = now < self.full_until;
        let batches = std::mem::take(&mut self.writing);
        let answer = |batch: DiskBatch<K>| {
            let kept = !full || batch.urgent;
            (batch, kept)
        };
        let answers: Answers<K> = batches.into_iter().map(answer).collect();
        answers.iter().filter(|(_, is)| *is).for_each(|(batch, _)| self.keep(batch));
        answers
    }

    /// Its process dies. Returns the batches of the transaction under way, if they are on the disk after all.
    pub(super) fn die(&mut self, now: Time, lucky: bool) -> Vec<DiskBatch<K>> {
        self.waiting.clear();
        let batches = std::mem::take(&mut self.writing);
        if !lucky || now < self.full_until {
            return Vec::new();
        }
        batches.iter().for_each(|batch| self.keep(batch));
        batches
    }

    /// Has no space for so long.
    pub(super) fn fill(&mut self, until: Time) {
        self.full_until = until;
    }

    /// Makes a copy of it, for [`Disk::restore`].
    pub(super) fn back_up(&mut self) {
        self.copy = Some(self.kept.clone());
    }

    /// Goes back to the copy. Returns the content before; `None`: there is no copy.
    pub(super) fn restore(&mut self) -> Option<BTreeMap<K, Vec<u8>>> {
        Some(std::mem::replace(&mut self.kept, self.copy.take()?))
    }

    fn keep(&mut self, batch: &DiskBatch<K>) {
        for (key, value) in &batch.changes {
            match value {
                Some(value) => _ = self.kept.insert(key.clone(), value.clone()),
                None => _ = self.kept.remove(key),
            }
        }
    }
}

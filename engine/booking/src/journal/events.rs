//! The events that are kept for queries, in the order of their numbers, with a limit.

use crate::io::{Event, JournalRecord, RecordTable};
use alloc::collections::VecDeque;

/// The written events, oldest first.
#[derive(Clone)]
pub(crate) struct EventLog {
    most: usize,
    events: VecDeque<Event>,
    next_seq: u64,
    /// True if the oldest events are no longer kept.
    lost: bool,
}

impl EventLog {
    pub(super) fn new(most: usize) -> EventLog {
        EventLog { most, events: VecDeque::new(), next_seq: 1, lost: false }
    }

    /// The next number of an event or of an audit record.
    pub(super) fn number(&mut self) -> u64 {
        let seq = self.next_seq;
        self.next_seq += 1;
        seq
    }

    /// An event of an earlier run.
    pub(super) fn restore(&mut self, event: Event) {
        self.next_seq = self.next_seq.max(event.seq.saturating_add(1));
        self.events.push_back(event);
    }

    /// Ends the reading of an earlier run's events.
    pub(super) fn restored(&mut self) {
        self.events.make_contiguous().sort_unstable_by_key(|event| event.seq);
        self.lost = self.events.front().is_some_and(|event| event.seq > 1);
    }

    /// Keeps a written event.
    pub(super) fn keep(&mut self, event: Event) {
        self.events.push_back(event);
    }

    /// Drops the oldest event if there are too many, and returns the record to delete.
    pub(super) fn drop_oldest(&mut self) -> Option<JournalRecord> {
        if self.events.len() <= self.most {
            return None;
        }
        let old = self.events.pop_front()?;
        self.lost = true;
        Some(JournalRecord { table: RecordTable::Event, key: old.seq.to_be_bytes().to_vec(), value: None })
    }

    /// The events after this number, oldest first.
    pub(crate) fn after(&self, seq: u64) -> impl Iterator<Item = &Event> {
        let from = self.events.partition_point(|event| event.seq <= seq);
        self.events.range(from..)
    }

    /// The number of the newest event.
    pub(crate) fn last(&self) -> u64 {
        self.events.back().map_or(0, |event| event.seq)
    }

    /// True if an event after this number is no longer kept.
    pub(crate) fn has_lost_after(&self, seq: u64) -> bool {
        let oldest = self.events.front().map_or(self.next_seq, |event| event.seq);
        self.lost && seq.saturating_add(1) < oldest
    }
}

//! Calls that wait until a change of their reservation is written: in order, and not without end.

use crate::io::{Call, CallId};
use crate::refusal::{Refusal, RefusalReason};
use crate::reservations::Number;
use alloc::collections::{BTreeMap, VecDeque};
use terms::book::Caller;

/// The calls that wait, by reservation.
#[derive(Clone)]
pub(crate) struct Waiting {
    most: usize,
    queues: BTreeMap<Number, VecDeque<(CallId, Caller, Call)>>,
}

impl Waiting {
    /// Nothing waits; at most so many calls may wait for one reservation.
    pub(crate) fn new(most: usize) -> Waiting {
        Waiting { most, queues: BTreeMap::new() }
    }

    /// Lets a call wait.
    ///
    /// # Errors
    /// [`Refusal`]: too many wait for this reservation.
    pub(crate) fn push(&mut self, number: Number, id: CallId, caller: Caller, call: Call) -> Result<(), Refusal> {
        let limit = self.most;
        let queue = self.queues.entry(number).or_default();
        if queue.len() >= limit {
            return Err(Refusal::plain(RefusalReason::Limit { what: "calls that wait for one reservation", limit }));
        }
        queue.push_back((id, caller, call));
        Ok(())
    }

    /// The next call that waits for a reservation.
    pub(crate) fn pop(&mut self, number: Number) -> Option<(CallId, Caller, Call)> {
        let queue = self.queues.get_mut(&number)?;
        let call = queue.pop_front();
        if queue.is_empty() {
            self.queues.remove(&number);
        }
        call
    }
}

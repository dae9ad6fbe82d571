//! Messages that wait for their acknowledgement: exponential back-off, RFC 2961 section 6.

use super::Exchange;
use crate::io::Datagram;
use alloc::collections::{BTreeMap, VecDeque};
use terms::{Span, Time};
use wire::MessageType;

/// Rf: the time until the first repetition. Delta is 1: each interval is twice the one before.
pub(crate) const RAPID: Span = Span::from_millis(500);

/// Rl: the most times that a message is sent without being acknowledged.
pub(crate) const RETRY_LIMIT: usize = 3;

/// Most messages to one neighbour that wait. Further ones are sent once, and refreshed.
pub(super) const MOST_WAITING: usize = 16_384;

/// The messages that a neighbour has not acknowledged.
#[derive(Default)]
pub(super) struct Waiting {
    messages: BTreeMap<u32, (MessageType, Datagram)>,
    /// Names of messages sent once, twice, and so on; each list is in the order of due times, as the
    /// intervals of a stage are equal.
    stages: [VecDeque<(Time, u32)>; RETRY_LIMIT],
}

impl Waiting {
    /// Keeps a message that was sent once. False if too many wait already.
    pub fn keep(&mut self, now: Time, name: u32, kind: MessageType, datagram: Datagram) -> bool {
        if self.messages.len() >= MOST_WAITING || self.stages[0].len() >= 2 * MOST_WAITING {
            return false;
        }
        self.messages.insert(name, (kind, datagram));
        self.stages[0].push_back((now + RAPID, name));
        true
    }

    /// Forgets a message that was acknowledged, or has no meaning any more.
    pub fn done(&mut self, name: u32) {
        self.messages.remove(&name);
    }

    pub fn holds(&self, name: u32) -> bool {
        self.messages.contains_key(&name)
    }

    /// The time at which the next message is due. Messages acknowledged meanwhile still count.
    pub fn next(&self) -> Time {
        let dues = self.stages.iter().filter_map(|stage| stage.front().map(|(t, _)| *t));
        dues.min().unwrap_or(Time::FOREVER)
    }

    /// A message that is due: to be sent again, or (`None`) given up.
    fn due(&mut self, now: Time) -> Option<Option<(MessageType, Datagram)>> {
        for sent in 0..RETRY_LIMIT {
            while let Some((_, name)) = self.stages[sent].front().copied().filter(|(t, _)| *t <= now) {
                self.stages[sent].pop_front();
                if sent + 1 == RETRY_LIMIT {
                    if self.messages.remove(&name).is_some() {
                        return Some(None);
                    }
                } else if let Some((kind, datagram)) = self.messages.get(&name) {
                    let interval = Span::from_nanos(RAPID.as_nanos() << (sent + 1));
                    self.stages[sent + 1].push_back((now + interval, name));
                    return Some(Some((*kind, datagram.clone())));
                }
            }
        }
        None
    }
}

impl Exchange<'_> {
    /// Sends the messages again that are due.
    pub(super) fn repeat_unacknowledged(&mut self, n: usize) {
        while let Some(due) = self.neighbours.all[n].waiting.due(self.now) {
            let Some((kind, datagram)) = due else {
                self.transport.out().count(|c| c.unacknowledged += 1);
                continue;
            };
            self.transport.out().count(|c| c.repeated += 1);
            self.neighbours.all[n].batch.push((kind, datagram));
            self.neighbours.mark(n);
        }
    }
}

//! Connections that follow bookings: each gets each event once, in order, at its own speed. A slow reader
//! costs no memory: its position in the list of events is kept, and it continues from there when it has room
//! again.

use super::shown;
use crate::drive::Drive;
use booking::Event;
use documents::agent::{EventDoc, ReplyLine};
use std::collections::BTreeMap;

/// The number of events that are fetched at once for a client that is behind.
const AT_ONCE: usize = 256;

/// The connections that follow, each with its position.
#[derive(Debug, Default)]
pub(super) struct Followers {
    /// The number of the last event that each client has seen, or need not see.
    seen: BTreeMap<u64, u64>,
}

impl Followers {
    pub(super) fn add(&mut self, client: u64, seen: u64) {
        self.seen.insert(client, seen);
    }
}

impl Drive {
    /// Removes a connection that has ended.
    pub(crate) fn forget_follower(&mut self, client: u64) {
        self.book.followers.seen.remove(&client);
    }

    /// Sends an event to all clients that follow; those that are behind get the earlier events first.
    pub(crate) fn tell_followers(&mut self, event: Event) {
        let last = event.seq;
        let clients: Vec<u64> = self.book.followers.seen.keys().copied().collect();
        if clients.is_empty() {
            return;
        }
        let visible = |client: &u64| event.is_for(&self.speakers.of(*client)) && self.console.has_room(*client);
        let ready: Vec<u64> = clients.into_iter().filter(visible).collect();
        let at_ns = self.clock.now().as_nanos();
        // One who is behind is sent the events between from the book's list first; this one is the last of them.
        let line = ReplyLine::Event { at_ns, event: EventDoc::Book(shown::event(event)) };
        for client in ready {
            let behind = self.behind(client, last);
            if behind {
                self.catch_up(client);
            } else if let Some(seen) = self.book.followers.seen.get_mut(&client) {
                *seen = last;
                self.console.say(client, &line);
            }
        }
    }

    /// True if the client has yet to see an event before the one of this number.
    fn behind(&self, client: u64, number: u64) -> bool {
        let Some(&seen) = self.book.followers.seen.get(&client) else { return false };
        seen + 1 < number && self.events_after(client, seen, 1).0.first().is_some_and(|event| event.seq < number)
    }

    /// Sends a follower what it has not seen, as long as it has room.
    pub(crate) fn catch_up(&mut self, client: u64) {
        while self.console.has_room(client) {
            let Some(&seen) = self.book.followers.seen.get(&client) else { return };
            let (events, last) = self.events_after(client, seen, AT_ONCE);
            let done = events.len() < AT_ONCE;
            let seen = if done { last.max(seen) } else { events.last().map_or(seen, |event| event.seq) };
            self.book.followers.seen.insert(client, seen);
            let at_ns = self.clock.now().as_nanos();
            for event in events {
                let line = ReplyLine::Event { at_ns, event: EventDoc::Book(shown::event(event)) };
                self.console.say(client, &line);
            }
            if done {
                return;
            }
        }
    }

    /// Events that a client may see after this number, and the number of the last event that there is.
    fn events_after(&self, client: u64, seq: u64, most: usize) -> (Vec<Event>, u64) {
        self.node.bookings().events_after(&self.speakers.of(client), seq, most)
    }
}

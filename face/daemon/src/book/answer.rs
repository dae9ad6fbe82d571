//! Calls of the book on the local socket: the answer to one that changes something comes when it is on the disk.

use crate::agent::Agent;
use crate::calls::problem;
use api::agent::{Answer, BookAnswer, Line, Problem, Request};
use broker::io::{Answer as Said, CallId};
use broker::{Input, Reply};

/// Most calls whose answers are to come, of all connections.
const MOST_CALLS: usize = 1 << 16;

/// Who waits for an answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    client: u64,
    /// The number that the client gave its call.
    id: u64,
    /// Whether it follows the book from there on.
    follows: bool,
}

impl Agent {
    /// Hands a call to the book, if it is one of the book's; its answer is said by [`Agent::reply_book`].
    ///
    /// # Errors
    /// It is no good call, and has been handed to nobody.
    pub(crate) fn call_book(&mut self, client: u64, id: u64, request: &Request) -> Result<bool, Problem> {
        let Some(call) = api::book::convert::call(request)? else { return Ok(false) };
        if self.book.calls.len() >= MOST_CALLS {
            return Err(problem("refused", "too many calls wait for the disk: try again"));
        }
        let number = self.book.next_call;
        self.book.next_call += 1;
        let follows = matches!(request, Request::BookFollow { .. });
        self.book.calls.insert(number, Waiting { client, id, follows });
        self.local.owe(client);
        let caller = self.speakers.of(client);
        self.tell_book(Input::Call { id: CallId(number), caller, call });
        Ok(true)
    }

    /// The answer to a call, for whoever waits for it.
    pub(super) fn reply_book(&mut self, id: CallId, reply: Reply) {
        let Some(waiting) = self.book.calls.remove(&id.0) else { return };
        let Waiting { client, id, follows } = waiting;
        let line = match reply {
            Ok(said) => {
                if let (true, Said::Events { events, last, .. }) = (follows, &said) {
                    let seen = events.last().map_or(*last, |event| event.seq);
                    self.book.followers.add(client, seen);
                }
                Line::Ok { id, ok: Box::new(Answer::Book(BookAnswer::from(said))) }
            }
            Err(refusal) => Line::Error { id, error: Problem::from(&refusal) },
        };
        self.local.pay(client, &line, &mut self.poll);
        if follows {
            self.catch_up(client);
        }
    }
}

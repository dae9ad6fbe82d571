//! Input of a caller: parsed as calls here, in the process without rights, and written anew for the agent.
//!
//! The agent sees the front's reading of a call, in the single form in which our own types are written; a
//! line that is no call never reaches it. An answer of the front waits until a line of the agent's has ended.

use crate::calls::{self, problem};
use documents::agent::{MAX_LINE, Problem, ReplyLine};

/// The most lines that are read before others have their turn.
const MOST_LINES: usize = 64;

/// The input of one caller on its way.
#[derive(Debug, Default)]
pub(super) struct Said {
    /// Received and not yet parsed; at most one line that is too long and the bytes behind it.
    heard: Vec<u8>,
    /// Up to here the buffer has no end of a line.
    searched: usize,
    /// Calls for the agent.
    inward: Vec<u8>,
    /// Answers for the caller.
    answers: Vec<u8>,
    /// True after a line that was too long.
    over: bool,
}

impl Said {
    /// True if more may be read from the caller: all of its earlier input is used up.
    pub(super) fn takes_more(&self) -> bool {
        !self.over && self.inward.is_empty() && self.answers.is_empty() && !self.has_line()
    }

    /// True if there is, or may be, input for the agent.
    pub(super) fn has_work(&self) -> bool {
        !self.inward.is_empty() || (self.has_line() && self.answers.is_empty())
    }

    /// True if all input was passed on.
    pub(super) fn is_done(&self) -> bool {
        self.inward.is_empty() && !self.has_line()
    }

    /// True if no more input will be read.
    pub(super) fn is_over(&self) -> bool {
        self.over
    }

    /// Takes bytes of the caller.
    pub(super) fn hear(&mut self, bytes: &[u8]) {
        self.heard.extend_from_slice(bytes);
        let fresh = &self.heard[self.searched..];
        self.searched += fresh.iter().position(|&byte| byte == b'\n').unwrap_or(fresh.len());
        if self.searched > MAX_LINE {
            self.too_long();
        }
    }

    /// Parses whole lines, while no output of earlier ones waits.
    pub(super) fn read(&mut self) {
        let mut start = 0;
        for _ in 0..MOST_LINES {
            let waits = !self.answers.is_empty() || self.inward.len() > MAX_LINE;
            let Some(len) = self.heard[start..].iter().position(|&byte| byte == b'\n').filter(|_| !waits) else {
                break;
            };
            if len > MAX_LINE {
                return self.too_long();
            }
            match calls::read(&self.heard[start..start + len]) {
                // Our own documents have string keys and finite numbers: they can always be written.
                Ok(call) => {
                    if serde_json::to_writer(&mut self.inward, &call).is_ok() {
                        self.inward.push(b'\n');
                    }
                }
                Err((id, error)) => self.answers.extend(line(id, error)),
            }
            start += len + 1;
        }
        self.heard.drain(..start);
        self.searched = self.heard.iter().position(|&byte| byte == b'\n').unwrap_or(self.heard.len());
    }

    /// Calls that the agent has not yet taken.
    pub(super) fn inward(&self) -> &[u8] {
        &self.inward
    }

    /// Removes bytes that the agent took.
    pub(super) fn taken(&mut self, bytes: usize) {
        self.inward.drain(..bytes);
    }

    /// True if there are answers of the front.
    pub(super) fn has_answers(&self) -> bool {
        !self.answers.is_empty()
    }

    /// Takes the front's answers, to be sent to the caller.
    pub(super) fn answers(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.answers)
    }

    fn has_line(&self) -> bool {
        self.searched < self.heard.len()
    }

    fn too_long(&mut self) {
        (self.over, self.searched) = (true, 0);
        self.heard.clear();
        self.answers.extend(line(0, problem("malformed", format!("a line is longer than {MAX_LINE} bytes"))));
    }
}

/// The kinds of refusals of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RefusalKind {
    /// The caller has no right to it, or used its right up.
    Refused,
    /// The agent has no room at this moment: the same may be granted in the next.
    Busy,
}

/// The line with the reason of a refusal.
pub(super) fn refusal(kind: RefusalKind, why: &str) -> Vec<u8> {
    let kind = match kind {
        RefusalKind::Refused => "refused",
        RefusalKind::Busy => "busy",
    };
    line(0, problem(kind, why))
}

fn line(id: u64, error: Problem) -> Vec<u8> {
    let mut line = serde_json::to_vec(&ReplyLine::Error { id, error }).unwrap_or_default();
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: &[u8]) -> &str {
        std::str::from_utf8(bytes).unwrap()
    }

    #[test]
    fn calls_are_written_anew_and_the_rest_is_answered_here() {
        let mut said = Said::default();
        said.hear(b"{ \"call\" : \"hello\", \"more\": [[1]],\n");
        assert!(said.has_work());
        said.read();
        assert!(said.inward().is_empty() && text(&said.answers()).contains("malformed"));
        said.hear(b"{ \"call\" : \"hello\", \"id\": 7, \"more\": [[1]] }\n{\"id\":8,\"call\":\"st");
        said.read();
        assert_eq!(text(said.inward()), "{\"id\":7,\"call\":\"hello\"}\n");
        assert!(!said.takes_more() && !said.is_done());
        said.taken(said.inward().len());
        assert!(said.takes_more() && said.is_done(), "half a line is nothing yet");
        said.hear(b"atus\"}\n{\"id\":9,\"call\":\"conquer\"}\n{\"id\":10,\"call\":\"status\"}\n");
        said.read();
        assert_eq!(text(said.inward()), "{\"id\":8,\"call\":\"status\"}\n");
        said.taken(said.inward().len());
        // The order is kept: what comes after an answer of ours waits for it.
        assert!(!said.has_work() && !said.takes_more());
        assert!(text(&said.answers()).starts_with("{\"id\":9,\"error\""));
        assert!(said.has_work());
        said.read();
        assert_eq!(text(said.inward()), "{\"id\":10,\"call\":\"status\"}\n");
    }

    #[test]
    fn a_line_without_an_end_is_the_last() {
        let mut said = Said::default();
        said.hear(&vec![b'x'; MAX_LINE]);
        assert!(said.takes_more());
        said.hear(b"xx");
        assert!(said.is_over() && !said.takes_more() && said.is_done());
        assert!(text(&said.answers()).contains("longer than"));
    }

    #[test]
    fn a_flood_of_lines_is_read_in_turns() {
        let mut said = Said::default();
        said.hear(&b"{\"id\":1,\"call\":\"hello\"}\n".repeat(1000));
        said.read();
        assert_eq!(said.inward().len(), MOST_LINES * 24);
        said.taken(MOST_LINES * 24);
        assert!(said.has_work() && !said.takes_more());
        let mut said = Said::default();
        said.hear(&[b'\n'; 1000]);
        said.read();
        assert!(text(&said.answers()).lines().count() == 1, "no more is answered than is taken");
    }
}

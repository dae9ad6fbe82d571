//! The outputs that wait for the driver, in one queue, because their order matters.

use crate::io::{CallId, Output, Reply};
use alloc::collections::VecDeque;

/// The outputs of one input.
#[derive(Clone, Default)]
pub(crate) struct Outbox(VecDeque<Output>);

impl Outbox {
    pub(crate) fn say(&mut self, output: Output) {
        self.0.push_back(output);
    }

    pub(crate) fn reply(&mut self, id: CallId, reply: Reply) {
        self.say(Output::Reply { id, reply });
    }

    pub(crate) fn next(&mut self) -> Option<Output> {
        self.0.pop_front()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

//! Captures: every packet of a direction as bytes that Wireshark opens.

use crate::scenario::CaptureSpec;
use crate::world::World;

/// A capture at work.
#[derive(Clone, Debug)]
pub(crate) struct Capture {
    file: Vec<u8>,
}

impl Capture {
    pub(crate) fn new(_: &CaptureSpec) -> Capture {
        Capture { file: Vec::new() }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.file
    }
}

impl World {
    /// A packet whose `at` is set leaves the node; `playable` refuses captures.
    pub(crate) fn capture(&mut self, _: usize, _: u32) {}
}

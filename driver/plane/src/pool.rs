//! Buffers of frames on their way, all made at the start.

use linux::frames::FrameBuffer;

/// Buffers by number.
#[derive(Debug)]
pub(crate) struct Pool {
    frames: Vec<FrameBuffer>,
    free: Vec<u32>,
}

impl Pool {
    /// So many buffers for frames of up to `room` bytes.
    pub(crate) fn new(count: u32, room: usize) -> Pool {
        Pool { frames: (0..count).map(|_| FrameBuffer::new(room)).collect(), free: (0..count).rev().collect() }
    }

    /// A free buffer's number; `None`: all are in use.
    pub(crate) fn take(&mut self) -> Option<u32> {
        self.free.pop()
    }

    /// The buffer is free again.
    pub(crate) fn give(&mut self, number: u32) {
        self.free.push(number);
    }

    /// A buffer. The number is one that [`Pool::take`] gave.
    pub(crate) fn at(&mut self, number: u32) -> &mut FrameBuffer {
        &mut self.frames[number as usize]
    }

    /// The number of buffers.
    pub(crate) fn len(&self) -> usize {
        self.frames.len()
    }

    /// The number of free buffers.
    pub(crate) fn free(&self) -> usize {
        self.free.len()
    }
}

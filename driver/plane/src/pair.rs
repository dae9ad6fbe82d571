//! Two interfaces and both directions between them. It is told the time and never waits.

use crate::way::FrameWay;
use linux::error::SystemError;
use linux::frames::FrameIo;
use terms::Time;

/// The result of a turn, and the time of the next useful one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PairTurn {
    /// Frames that came in or went out.
    pub moved: usize,
    /// The time of the next turn if nothing comes in; `None`: only then.
    pub wake: Option<Time>,
}

/// A forwarding element between two interfaces.
#[derive(Debug)]
pub struct FramePair<I> {
    ends: [I; 2],
    ways: [FrameWay; 2],
}

impl<I: FrameIo> FramePair<I> {
    /// The first way leads from the first end to the second, the other back.
    pub fn new(ends: [I; 2], ways: [FrameWay; 2]) -> FramePair<I> {
        FramePair { ends, ways }
    }

    /// Moves what came in and what is due, one burst each way.
    ///
    /// # Errors
    /// An interface is gone.
    pub fn turn(&mut self, now: Time) -> Result<PairTurn, SystemError> {
        let [a, b] = &mut self.ends;
        let [there, back] = &mut self.ways;
        let moved = there.turn(now, a, b)? + back.turn(now, b, a)?;
        let wake = [there.wake_at(now), back.wake_at(now)].into_iter().flatten().min();
        Ok(PairTurn { moved, wake })
    }

    /// Asks the kernel what it dropped.
    pub fn count_missed(&mut self) {
        for (end, way) in self.ends.iter_mut().zip(&mut self.ways) {
            way.missed(end.missed());
        }
    }

    /// The two interfaces.
    pub fn ends(&self) -> &[I; 2] {
        &self.ends
    }

    /// A direction, for changes of its plan: 0 leads from the first end to the second.
    pub fn way_mut(&mut self, nth: usize) -> Option<&mut FrameWay> {
        self.ways.get_mut(nth)
    }

    /// The two directions.
    pub fn ways(&self) -> &[FrameWay; 2] {
        &self.ways
    }
}

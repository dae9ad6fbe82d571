//! Half-open windows of time, `[start, end)`.

use crate::{Misuse, Span, Time};

/// `[start, end)`, never empty; `end` may be [`Time::FOREVER`].
/// Two windows that touch (`[a, b)` and `[b, c)`) do not overlap.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Window {
    start: Time,
    end: Time,
}

impl Window {
    /// From `start` to `end`.
    ///
    /// # Errors
    /// [`Misuse::EmptyWindow`] unless `start < end`.
    pub fn new(start: Time, end: Time) -> Result<Window, Misuse> {
        if start < end { Ok(Window { start, end }) } else { Err(Misuse::EmptyWindow { start, end }) }
    }

    /// From `start` on, open at the end.
    pub fn open(start: Time) -> Result<Window, Misuse> {
        Window::new(start, Time::FOREVER)
    }

    /// The first instant inside.
    pub fn start(&self) -> Time {
        self.start
    }

    /// The first instant after it.
    pub fn end(&self) -> Time {
        self.end
    }

    /// Its length; [`Span::MAX`]-like if open.
    pub fn span(&self) -> Span {
        self.end.since(self.start)
    }

    /// True if `t` is inside.
    pub fn contains(&self, t: Time) -> bool {
        self.start <= t && t < self.end
    }

    /// True if some instant is inside both.
    pub fn overlaps(&self, other: &Window) -> bool {
        self.start < other.end && other.start < self.end
    }
}

//! Calendar time and the agent's clock.

use crate::io::CalendarOffset;
use crate::refusal::{Refusal, RefusalReason};
use terms::{Span, Time, Window};

/// The agent's clock as of the last input, and calendar time beside it. The clock never runs backwards.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Calendar {
    now: Time,
    offset: CalendarOffset,
}

impl Calendar {
    /// The clock goes on to this instant.
    pub(crate) fn advance(&mut self, now: Time) {
        self.now = self.now.max(now);
    }

    /// The agent's clock.
    pub(crate) fn now(&self) -> Time {
        self.now
    }

    /// Calendar time.
    pub(crate) fn today(&self) -> Time {
        self.offset.calendar(self.now)
    }

    /// The difference of calendar time and the agent's clock.
    pub(crate) fn offset(&self) -> CalendarOffset {
        self.offset
    }

    /// Sets the difference, unless it has changed by no more than `tolerated` nanoseconds; true if it is set. The
    /// uncertainty is set in any case.
    pub(crate) fn set(&mut self, offset: CalendarOffset, tolerated: u64) -> bool {
        self.offset.uncertainty = offset.uncertainty;
        let moved = offset.ahead_ns.abs_diff(self.offset.ahead_ns) > tolerated;
        if moved {
            self.offset.ahead_ns = offset.ahead_ns;
        }
        moved
    }

    /// Checks the clock's uncertainty: promises about times of day need a clock that knows them.
    pub(crate) fn is_certain(&self, bound: Span) -> Result<(), Refusal> {
        let uncertainty = self.offset.uncertainty;
        if uncertainty > bound { Err(Refusal::plain(RefusalReason::Clock { uncertainty, bound })) } else { Ok(()) }
    }
}

impl CalendarOffset {
    /// Calendar time at this instant of the agent's clock.
    pub fn calendar(&self, now: Time) -> Time {
        shift(now, self.ahead_ns)
    }

    /// The instant of the agent's clock at this calendar time.
    pub fn agents(&self, calendar: Time) -> Time {
        shift(calendar, self.ahead_ns.saturating_neg())
    }

    /// A window of calendar time on the agent's clock; `None`: it lies wholly before the clock's zero.
    pub fn agents_window(&self, window: Window) -> Option<Window> {
        Window::new(self.agents(window.start()), self.agents(window.end())).ok()
    }

    /// A window of the agent's clock in calendar time.
    pub fn calendar_window(&self, window: Window) -> Option<Window> {
        Window::new(self.calendar(window.start()), self.calendar(window.end())).ok()
    }
}

/// Shifts an instant. [`Time::FOREVER`] stays, and no other instant becomes it.
fn shift(t: Time, by: i64) -> Time {
    if t == Time::FOREVER {
        return t;
    }
    Time::from_nanos(t.as_nanos().saturating_add_signed(by).min(Time::FOREVER.as_nanos() - 1))
}

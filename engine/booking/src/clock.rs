//! Calendar time and the agent's clock.

use crate::io::CalendarOffset;
use terms::{Time, Window};

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

//! The notice before a reservation's end: once for each end, also over a crash.

use terms::{Span, Time};

/// A notice that the owner of a reservation asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Notice {
    /// How long before the end it is told.
    pub before: Span,
    /// The end of which it was told; [`Time::ZERO`]: of none.
    pub told: Time,
}

impl Notice {
    /// A notice that was not told yet.
    pub(crate) fn new(before: Span) -> Notice {
        Notice { before, told: Time::ZERO }
    }

    /// When it is told of this end; `None`: it was told, or there is no end.
    pub(crate) fn due(self, end: Time) -> Option<Time> {
        (end != Time::FOREVER && end != self.told).then(|| end.saturating_sub(self.before))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_end_is_told_once() {
        let at = |s: u64| Time::from_nanos(s * Span::NANOS_PER_SEC);
        let notice = Notice::new(Span::from_secs(10));
        assert_eq!(notice.due(at(50)), Some(at(40)));
        assert_eq!(notice.due(at(5)), Some(Time::ZERO), "it is late already");
        assert_eq!(notice.due(Time::FOREVER), None);
        let told = Notice { told: at(50), ..notice };
        assert_eq!((told.due(at(50)), told.due(at(60))), (None, Some(at(50))));
    }
}

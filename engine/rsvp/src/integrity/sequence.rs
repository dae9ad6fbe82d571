//! Our own sequence numbers: RFC 2747 section 3.1. They only grow, and no number is used in two lives of this node.
//!
//! They begin at the time in nanoseconds, and count messages: as long as fewer than 10^9 messages a second
//! leave and the clock does not go backwards between two lives, that alone is enough. Against a clock that
//! does, a driver keeps the reserved numbers on disk: no message gets a number that was not reserved.

use terms::{Span, Time};

/// The count of numbers that are reserved at a time.
pub(super) const BLOCK: u64 = 1 << 20;
/// The pause after a failed reservation before the next request: after the first failure, and at most after
/// many in a row.
const AGAIN: Span = Span::from_secs(1);
const AGAIN_AT_MOST: Span = Span::from_secs(32);

#[derive(Debug, Default)]
pub(super) struct Sequences {
    next: u64,
    reserved: u64,
    asked: u64,
    /// The pause after the latest failure; the next failure doubles it.
    patience: Span,
    /// After a failure: the time before which no reservation is requested.
    again: Option<Time>,
}

impl Sequences {
    /// The driver has written that numbers below `upto` may have been used; those below `from` were reserved
    /// in an earlier life.
    pub fn reserved(&mut self, from: u64, upto: u64) {
        self.next = self.next.max(from);
        self.reserved = self.reserved.max(upto);
        self.asked = self.asked.max(self.reserved);
        (self.patience, self.again) = (Span::ZERO, None);
    }

    /// The driver could not write: numbers reserved before stay usable, and more are requested after a pause.
    pub fn failed(&mut self, now: Time) {
        self.asked = self.reserved;
        self.patience = self.patience.saturating_add(self.patience).clamp(AGAIN, AGAIN_AT_MOST);
        self.again = Some(now.saturating_add(self.patience));
    }

    /// After a failure, the latest time at which [`Sequences::ask`] requests numbers again.
    pub fn wake_at(&self) -> Option<Time> {
        self.again
    }

    /// A number that was never used; `None` until more are reserved.
    pub fn take(&mut self) -> Option<u64> {
        if self.next >= self.reserved {
            return None;
        }
        self.next += 1;
        Some(self.next - 1)
    }

    /// The bound up to which to reserve numbers, if it is time.
    pub fn ask(&mut self, now: Time) -> Option<u64> {
        if self.reserved == 0 && self.asked == 0 {
            self.next = self.next.max(now.as_nanos());
        }
        if self.asked.saturating_sub(self.next) > BLOCK / 2 {
            self.again = None;
            return None;
        }
        if self.again.is_some_and(|again| now < again) {
            return None;
        }
        self.again = None;
        self.asked = self.next.max(self.asked).saturating_add(BLOCK);
        Some(self.asked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Many short lives with a clock that jumps about: no number is used twice.
    #[test]
    fn no_number_is_used_in_two_lives() {
        let mut pcg = terms::Rng::seeded(1);
        let (mut disk, mut highest) = (0u64, None);
        for _ in 0..10_000 {
            let now = Time::from_nanos(pcg.next_u64() % (1 << 40));
            let (mut life, born) = (Sequences::default(), disk);
            for _ in 0..pcg.next_u64() % 5 {
                if let Some(upto) = life.ask(now) {
                    disk = disk.max(upto).max(born + BLOCK);
                    // It dies before it hears that it may.
                    if pcg.next_u64().is_multiple_of(4) {
                        break;
                    }
                    life.reserved(born, disk);
                }
                for _ in 0..pcg.next_u64() % 8 {
                    let number = life.take();
                    assert!(number > highest, "{number:?} after {highest:?}");
                    highest = number.max(highest);
                }
            }
        }
    }

    /// A disk that is full for an hour while the numbers run out: numbers come again within the longest wait
    /// after there is room, and in between the disk is not asked more often than the waits allow.
    #[test]
    fn a_failed_reservation_is_asked_for_again() {
        let mut s = Sequences::default();
        let at = |seconds: u64| Time::from_nanos(seconds * 1_000_000_000);
        assert!(s.ask(at(0)).is_some());
        s.reserved(0, BLOCK);
        let (mut asked, mut room, mut mute) = (0, None, None);
        for second in 1..7200 {
            // The block runs out within two minutes.
            let taken = (0..10_000).all(|_| s.take().is_some());
            if !taken {
                mute = Some(second);
            }
            if let Some(upto) = s.ask(at(second)) {
                match second < 3600 {
                    true => {
                        asked += 1;
                        s.failed(at(second));
                        assert!(s.wake_at().is_some_and(|wake| wake > at(second)), "no wake-up after a failure");
                    }
                    false => {
                        room = room.or(Some(second));
                        s.reserved(0, upto);
                    }
                }
            }
        }
        assert!((3600 / 32..3600 / 32 + 12).contains(&asked), "asked {asked} times in an hour");
        assert!(room.is_some_and(|second| second <= 3600 + 32), "asked again {room:?}");
        assert!(mute.is_some_and(|second| second <= 3600 + 32), "without a number until {mute:?}");
    }

    #[test]
    fn nothing_is_sent_beyond_what_is_reserved() {
        let mut s = Sequences::default();
        assert_eq!(s.take(), None);
        assert_eq!(s.ask(Time::from_nanos(5)), Some(5 + BLOCK));
        assert_eq!(s.ask(Time::from_nanos(6)), None, "asked once");
        s.reserved(0, 8);
        assert_eq!([s.take(), s.take(), s.take(), s.take()], [Some(5), Some(6), Some(7), None]);
    }
}

//! Our own sequence numbers: RFC 2747 section 3.1. They only grow, and no number is used in two lives of this node.
//!
//! They begin at the time in nanoseconds, and count messages: as long as fewer than 10^9 messages a second leave and the
//! clock does not go backwards between two lives, that alone is enough. Against a clock that does, a driver keeps on disk
//! what it has reserved: nothing is sent with a number that was not reserved before.

use terms::Time;

/// How many numbers are reserved at a time.
pub(super) const BLOCK: u64 = 1 << 20;

#[derive(Debug, Default)]
pub(super) struct Sequences {
    next: u64,
    reserved: u64,
    asked: u64,
}

impl Sequences {
    /// The driver has written that numbers below `upto` may be gone; those below `from` are, from an earlier life.
    pub fn reserved(&mut self, from: u64, upto: u64) {
        self.next = self.next.max(from);
        self.reserved = self.reserved.max(upto);
        self.asked = self.asked.max(self.reserved);
    }

    /// A number that was never used; `None` until more are reserved.
    pub fn take(&mut self) -> Option<u64> {
        if self.next >= self.reserved {
            return None;
        }
        self.next += 1;
        Some(self.next - 1)
    }

    /// What to reserve, if it is time.
    pub fn ask(&mut self, now: Time) -> Option<u64> {
        if self.reserved == 0 && self.asked == 0 {
            self.next = self.next.max(now.as_nanos());
        }
        if self.asked.saturating_sub(self.next) > BLOCK / 2 {
            return None;
        }
        self.asked = self.next.max(self.asked).saturating_add(BLOCK);
        Some(self.asked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Many short lives with a clock that jumps about: no number twice.
    #[test]
    fn no_number_is_used_in_two_lives() {
        let mut pcg = crate::pcg::Pcg::new(1);
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

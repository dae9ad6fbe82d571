//! The sequence numbers seen of a sender: RFC 2747 section 4.2, with a window for reordered messages.

/// Most numbers below the highest that a window remembers.
pub(super) const WIDEST: u32 = 64;

/// The highest number seen, and the set of those seen just below it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Window {
    high: u64,
    /// Bit `i`: `high - i` was seen.
    seen: u64,
}

impl Window {
    /// The window of a sender that begins with this number: no number below it is taken, as that message may
    /// be of any age.
    pub fn new(first: u64) -> Window {
        Window { high: first, seen: u64::MAX }
    }

    /// Takes a number once; false if it was seen, or is `width` or more below the highest. Numbers are compared modulo
    /// 2^64: a leap of 2^63 or more is backwards.
    #[must_use]
    pub fn take(&mut self, number: u64, width: u32) -> bool {
        let ahead = number.wrapping_sub(self.high);
        if ahead != 0 && ahead < 1 << 63 {
            self.seen = if ahead < 64 { self.seen << ahead } else { 0 } | 1;
            self.high = number;
            return true;
        }
        let behind = self.high.wrapping_sub(number);
        if behind >= u64::from(width.clamp(1, WIDEST)) || self.seen >> behind & 1 == 1 {
            return false;
        }
        self.seen |= 1 << behind;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;

    #[test]
    fn each_number_is_taken_once_and_only_within_the_window() {
        for width in [1, 2, 63, 64] {
            let mut pcg = terms::Rng::seeded(u64::from(width));
            for start in [1_000, u64::MAX - 50, 1 << 63, 0] {
                let mut window = Window::new(start);
                // The same by the book: all that was seen, and how far ahead of the start the highest is.
                let (mut seen, mut high): (BTreeSet<i64>, i64) = ((-64..=0).collect(), 0);
                for _ in 0..20_000 {
                    let step = high + (pcg.next_u64() % 80) as i64 - 70;
                    let expected = step > high || (high - step < i64::from(width) && !seen.contains(&step));
                    assert_eq!(window.take(start.wrapping_add(step as u64), width), expected, "{step} after {high}");
                    if expected {
                        seen.insert(step);
                        high = high.max(step);
                    }
                }
            }
        }
    }

    #[test]
    fn leaps() {
        let mut window = Window::new(7);
        assert!(!window.take(7 + (1 << 63), 64), "half of all numbers ahead is behind");
        assert!(!window.take(6, 64), "what was before the beginning");
        assert!(window.take(6 + (1 << 63), 64));
        assert!(!window.take(7, 64) && !window.take(6 + (1 << 63), 64));
    }
}

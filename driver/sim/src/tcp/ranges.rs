//! Segments that have arrived out of order, as sorted disjoint ranges that do not touch.
//!
//! There are as many ranges as holes, so the cost of an acknowledgement does not grow with the window.
//! Without loss there are no ranges, nothing is allocated, and the set is a null pointer.

/// A set of segment numbers.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Ranges(Option<Box<Members>>);

#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Members {
    /// Each range: its first segment, and the first one after it; ascending.
    list: Vec<(u32, u32)>,
    total: u32,
}

/// A change in the number of members, gained or lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RangeChange {
    /// The change in all.
    pub all: u32,
    /// The change below the mark.
    pub below: u32,
}

impl Ranges {
    /// The number of segments.
    #[inline]
    pub fn total(&self) -> u32 {
        self.0.as_ref().map_or(0, |members| members.total)
    }

    /// True if the set is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.total() == 0
    }

    fn list(&self) -> &[(u32, u32)] {
        self.0.as_ref().map_or(&[], |members| &members.list)
    }

    /// The ranges, ascending.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (u32, u32)> {
        self.list().iter().copied()
    }

    /// Removes all members.
    pub fn clear(&mut self) {
        if let Some(members) = &mut self.0 {
            members.list.clear();
            members.total = 0;
        }
    }

    /// One past the highest member.
    pub fn end(&self) -> Option<u32> {
        self.list().last().map(|range| range.1)
    }

    /// The range that contains a segment.
    pub fn around(&self, segment: u32) -> Option<(u32, u32)> {
        let at = self.after(segment);
        self.list().get(at.wrapping_sub(1)).copied().filter(|range| segment < range.1)
    }

    /// The first segment from `segment` on that is not a member.
    pub fn gap_from(&self, segment: u32) -> u32 {
        self.around(segment).map_or(segment, |range| range.1)
    }

    /// The last segment below `end` that is not a member.
    pub fn gap_below(&self, end: u32) -> Option<u32> {
        let last = end.checked_sub(1)?;
        match self.around(last) {
            Some((from, _)) => from.checked_sub(1),
            None => Some(last),
        }
    }

    /// The member above which there are exactly `n - 1` others; `None` if there are fewer than `n` in all.
    pub fn nth_highest(&self, n: u32) -> Option<u32> {
        let mut left = n;
        for &(from, to) in self.list().iter().rev() {
            if to - from >= left {
                return Some(to - left);
            }
            left -= to - from;
        }
        None
    }

    /// Adds `from..to`. Returns the number of new members.
    pub fn insert(&mut self, from: u32, to: u32, mark: u32) -> RangeChange {
        if from >= to {
            return RangeChange::default();
        }
        let Members { list, total } = &mut **self.0.get_or_insert_default();
        // Those that overlap or touch.
        let low = match list.last() {
            // What arrives mostly belongs to the highest.
            Some(last) if from >= last.0 => list.len() - usize::from(from <= last.1),
            _ => list.partition_point(|range| range.1 < from),
        };
        let (mut start, mut end, mut high) = (from, to, low);
        let mut known = RangeChange::default();
        while let Some(&(a, b)) = list.get(high).filter(|range| range.0 <= to) {
            known.all += overlap((a, b), (from, to));
            known.below += overlap((a, b), (from, to.min(mark)));
            (start, end) = (start.min(a), end.max(b));
            high += 1;
        }
        if low == high {
            list.insert(low, (start, end));
        } else {
            list[low] = (start, end);
            list.drain(low + 1..high);
        }
        let new = RangeChange { all: to - from - known.all, below: to.min(mark).saturating_sub(from) - known.below };
        *total += new.all;
        new
    }

    /// Removes all members below `edge`. Returns the number removed.
    pub fn advance(&mut self, edge: u32, mark: u32) -> RangeChange {
        let mut gone = RangeChange::default();
        let Some(members) = &mut self.0 else { return gone };
        let Members { list, total } = &mut **members;
        let mut whole = 0;
        for range in &mut *list {
            if range.0 >= edge {
                break;
            }
            let cut = (range.0, range.1.min(edge));
            gone.all += cut.1 - cut.0;
            gone.below += overlap(cut, (0, mark));
            if range.1 > edge {
                range.0 = edge;
                break;
            }
            whole += 1;
        }
        if whole > 0 {
            list.drain(..whole);
        }
        *total -= gone.all;
        gone
    }

    fn after(&self, segment: u32) -> usize {
        self.list().partition_point(|range| range.0 <= segment)
    }
}

fn overlap(a: (u32, u32), b: (u32, u32)) -> u32 {
    a.1.min(b.1).saturating_sub(a.0.max(b.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use std::collections::BTreeSet;

    /// The oracle: a set of numbers.
    #[test]
    fn ranges_are_a_set_of_numbers() {
        for seed in 0..300 {
            let mut chance = Rng::new(seed, 9);
            let (mut ranges, mut set) = (Ranges::default(), BTreeSet::new());
            let mut floor = 0;
            for _ in 0..120 {
                let mark = floor + chance.below(60) as u32;
                if chance.below(8) == 0 {
                    floor += chance.below(12) as u32;
                    let gone: Vec<u32> = set.range(..floor).copied().collect();
                    let below = gone.iter().filter(|n| **n < mark).count() as u32;
                    assert_eq!(ranges.advance(floor, mark), RangeChange { all: gone.len() as u32, below });
                    set = set.split_off(&floor);
                } else {
                    let from = floor + chance.below(50) as u32;
                    let to = from + chance.below(9) as u32;
                    let new: Vec<u32> = (from..to).filter(|n| set.insert(*n)).collect();
                    let below = new.iter().filter(|n| **n < mark).count() as u32;
                    assert_eq!(
                        ranges.insert(from, to, mark),
                        RangeChange { all: new.len() as u32, below },
                        "seed {seed}"
                    );
                }
                assert_eq!(ranges.total() as usize, set.len());
                assert_eq!(
                    ranges.iter().flat_map(|(a, b)| a..b).collect::<Vec<_>>(),
                    set.iter().copied().collect::<Vec<_>>()
                );
                assert!(ranges.iter().zip(ranges.iter().skip(1)).all(|(a, b)| a.1 < b.0), "ranges touch");
                for n in floor..floor + 60 {
                    assert_eq!(ranges.gap_from(n), (n..).find(|n| !set.contains(n)).unwrap());
                    assert_eq!(ranges.gap_below(n), (0..n).rev().find(|n| !set.contains(n)));
                }
                assert_eq!(ranges.nth_highest(3), set.iter().rev().nth(2).copied());
            }
        }
    }
}

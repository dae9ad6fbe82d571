//! Inner nodes: for each child its first key, its change of level, and its greatest and least level.
//!
//! All sums are relative to the level at which the node begins, so a change touches only the path from the root to
//! its boundary, and within each node of that path only what lies to the right.

use super::leaf::UNUSED;
use core::hint::black_box;

#[derive(Clone, Debug)]
#[repr(align(64))]
pub(super) struct Inner<const N: usize> {
    /// No boundary of child `i` is before `keys[i]`; the first is 0, unused ones are [`UNUSED`].
    keys: [u64; N],
    /// The level after child `i`.
    after: [i64; N],
    /// The greatest level of a boundary in child `i`.
    high: [i64; N],
    child: [u32; N],
    len: u32,
    /// The least level of a boundary in child `i`.
    low: [i64; N],
}

/// The summary of a child that its parent keeps.
#[derive(Clone, Copy, Debug)]
pub(super) struct Branch {
    key: u64,
    child: u32,
    total: i64,
    high: i64,
    low: i64,
}

impl Branch {
    /// The summary of a child that begins at `key`: its change of level, and the greatest and least level in it.
    #[inline]
    pub(super) fn new(key: u64, child: u32, total: i64, (high, low): (i64, i64)) -> Branch {
        Branch { key, child, total, high, low }
    }
}

impl<const N: usize> Inner<N> {
    pub(super) const EMPTY: Inner<N> =
        Inner { keys: [UNUSED; N], after: [0; N], high: [0; N], low: [0; N], child: [0; N], len: 0 };

    /// A node over one child.
    pub(super) fn over(only: Branch) -> Inner<N> {
        let mut node = Inner::EMPTY;
        node.insert(0, Branch { key: 0, ..only });
        node
    }

    pub(super) fn len(&self) -> usize {
        self.len as usize
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn is_full(&self) -> bool {
        self.len() == N
    }

    /// The key at which child `i` begins.
    #[inline]
    pub(super) fn key(&self, i: usize) -> u64 {
        self.keys[i]
    }

    /// The node number of child `i`.
    #[inline]
    pub(super) fn child(&self, i: usize) -> u32 {
        self.child[i]
    }

    /// The greatest level of a boundary in child `i`.
    #[inline]
    pub(super) fn high(&self, i: usize) -> i64 {
        self.high[i]
    }

    /// The least level of a boundary in child `i`.
    #[inline]
    pub(super) fn low(&self, i: usize) -> i64 {
        self.low[i]
    }

    /// True if the keys begin at 0 and places without a child are marked.
    pub(super) fn is_well_formed(&self) -> bool {
        let len = self.len();
        len > 0 && self.keys[0] == 0 && self.keys[len..].iter().all(|key| *key == UNUSED)
    }

    /// True if the node says of child `i` what its summary says.
    pub(super) fn agrees(&self, i: usize, branch: &Branch) -> bool {
        let before = self.before(i);
        let summary = (before + branch.total, before + branch.high, before + branch.low);
        (self.after[i], self.high[i], self.low[i]) == summary
    }

    pub(super) fn is_sparse(&self) -> bool {
        self.len() <= N / 4
    }

    /// Reads from every cache line with the path to a child, so that all are fetched before the first is
    /// needed. It is only a hint.
    pub(super) fn touch(&self) {
        for i in (0..N).step_by(8) {
            black_box(self.keys[i]);
            black_box(self.after[i]);
            black_box(self.child[i]);
        }
    }

    /// The index of the child that contains `t`. Reads the first key of each cache line, then one line.
    pub(super) fn index(&self, t: u64) -> usize {
        const LINE: usize = 8;
        if N < 2 * LINE {
            return self.keys.iter().filter(|key| **key <= t).count() - 1;
        }
        let mut line = 0;
        for first in (LINE..N).step_by(LINE) {
            line += usize::from(self.keys[first] <= t);
        }
        let from = line * LINE;
        let inside = self.keys[from..from + LINE].iter().filter(|key| **key <= t).count();
        from + inside - 1
    }

    /// The level at which child `i` begins.
    pub(super) fn before(&self, i: usize) -> i64 {
        if i == 0 { 0 } else { self.after[i - 1] }
    }

    /// The greatest level of a boundary in children `from..to`, or `i64::MIN`.
    pub(super) fn high_of(&self, from: usize, to: usize) -> i64 {
        if from >= to {
            return i64::MIN;
        }
        self.high[from..to].iter().fold(i64::MIN, |high, h| high.max(*h))
    }

    /// The greatest and the least level of a boundary; zeros if there is no child (the node is about to be
    /// removed).
    pub(super) fn extremes(&self) -> (i64, i64) {
        if self.len == 0 {
            return (0, 0);
        }
        let mut high = i64::MIN;
        let mut low = i64::MAX;
        for (h, l) in self.high[..self.len()].iter().zip(&self.low[..self.len()]) {
            high = high.max(*h);
            low = low.min(*l);
        }
        (high, low)
    }

    /// Adds a step of `delta` inside child `i`, whose extremes are `high` and `low` now.
    pub(super) fn stepped(&mut self, i: usize, delta: i64, (high, low): (i64, i64)) {
        let (before, len) = (self.before(i), self.len());
        self.after[i..len].iter_mut().for_each(|level| *level += delta);
        self.high[i + 1..len].iter_mut().for_each(|level| *level += delta);
        self.low[i + 1..len].iter_mut().for_each(|level| *level += delta);
        self.high[i] = before + high;
        self.low[i] = before + low;
    }

    /// Inserts a child at place `i`. The levels after later children stay: the new child splits off its left
    /// neighbour, so the level after it is the old one, or `i` is the end.
    fn insert(&mut self, i: usize, branch: Branch) {
        let before = self.before(i);
        let len = self.len();
        self.keys.copy_within(i..len, i + 1);
        self.after.copy_within(i..len, i + 1);
        self.high.copy_within(i..len, i + 1);
        self.low.copy_within(i..len, i + 1);
        self.child.copy_within(i..len, i + 1);
        self.keys[i] = branch.key;
        self.after[i] = before + branch.total;
        self.high[i] = before + branch.high;
        self.low[i] = before + branch.low;
        self.child[i] = branch.child;
        self.len += 1;
    }

    /// Splits child `i`: it keeps the part that `left` sums up, and `right` becomes its neighbour.
    pub(super) fn divide(&mut self, i: usize, left: Branch, right: Branch) {
        let before = self.before(i);
        self.after[i] = before + left.total;
        self.high[i] = before + left.high;
        self.low[i] = before + left.low;
        self.insert(i + 1, right);
    }

    /// Removes child `i + 1`, whose boundaries child `i` has taken over.
    pub(super) fn unite(&mut self, i: usize) {
        let high = self.high[i].max(self.high[i + 1]);
        let low = self.low[i].min(self.low[i + 1]);
        self.remove(i + 1);
        self.high[i] = high;
        self.low[i] = low;
    }

    /// Removes the child at place `i`. Its change of level goes to its left neighbour, unless it has none.
    pub(super) fn remove(&mut self, i: usize) {
        let len = self.len();
        if i > 0 {
            self.after[i - 1] = self.after[i];
        }
        self.keys.copy_within(i + 1..len, i);
        self.after.copy_within(i + 1..len, i);
        self.high.copy_within(i + 1..len, i);
        self.low.copy_within(i + 1..len, i);
        self.child.copy_within(i + 1..len, i);
        self.len -= 1;
        self.keys[len - 1] = UNUSED;
        if self.len > 0 {
            self.keys[0] = 0;
        }
    }

    /// Moves the upper half into a new node. Returns that node and the key at which it begins.
    pub(super) fn split(&mut self) -> (Inner<N>, u64) {
        let (half, len) = (self.len() / 2, self.len());
        let base = self.after[half - 1];
        let mut right = Inner::EMPTY;
        right.take(0, self, half, len, -base);
        let key = right.keys[0];
        right.keys[0] = 0;
        self.keys[half..].fill(UNUSED);
        self.len = half as u32;
        (right, key)
    }

    /// Takes over all children of the node to the right, which begins at `key`. Both together fit.
    pub(super) fn absorb(&mut self, right: &Inner<N>, key: u64) {
        let len = self.len();
        let base = self.before(len);
        self.take(len, right, 0, right.len(), base);
        self.keys[len] = key;
    }

    fn take(&mut self, at: usize, other: &Inner<N>, from: usize, to: usize, offset: i64) {
        for (into, i) in (at..).zip(from..to) {
            self.keys[into] = other.keys[i];
            self.after[into] = other.after[i] + offset;
            self.high[into] = other.high[i] + offset;
            self.low[into] = other.low[i] + offset;
            self.child[into] = other.child[i];
        }
        self.len = (at + to - from) as u32;
    }
}

//! Leaves: boundaries in order, each with the level that begins there.
//!
//! Levels are relative to the level at which the leaf begins. Unused places at the end have the key
//! [`UNUSED`] and repeat the last level. So loops run over the whole node without a length, and the last
//! place always has the change of level across the leaf.

use core::hint::black_box;

/// The key of a place that holds no boundary; no boundary is at the end of time.
pub(super) const UNUSED: u64 = u64::MAX;

#[derive(Clone, Debug)]
#[repr(align(64))]
pub(super) struct Leaf<const N: usize> {
    keys: [u64; N],
    levels: [i64; N],
}

impl<const N: usize> Leaf<N> {
    pub(super) const EMPTY: Leaf<N> = Leaf { keys: [UNUSED; N], levels: [0; N] };

    pub(super) fn len(&self) -> usize {
        self.keys.iter().filter(|key| **key != UNUSED).count()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.keys[0] == UNUSED
    }

    pub(super) fn is_full(&self) -> bool {
        self.keys[N - 1] != UNUSED
    }

    /// True if the leaf has so few boundaries that it should join a neighbour.
    pub(super) fn is_sparse(&self) -> bool {
        self.keys[N / 4] == UNUSED
    }

    /// Every place: the key and the level from it on. Unused places have the key [`UNUSED`].
    #[inline]
    pub(super) fn places(&self) -> impl Iterator<Item = (u64, i64)> + '_ {
        self.keys.iter().copied().zip(self.levels.iter().copied())
    }

    /// The boundary at place `i`.
    #[inline]
    pub(super) fn place(&self, i: usize) -> (u64, i64) {
        (self.keys[i], self.levels[i])
    }

    /// Checks the order of the boundaries, which must all lie in `range`, and the unused places.
    pub(super) fn audit(&self, range: (u64, u64)) -> Result<(), &'static str> {
        let len = self.len();
        let keys = &self.keys[..len];
        let ordered = keys.is_sorted_by(|a, b| a < b) && keys.iter().all(|key| range.0 <= *key && *key < range.1);
        if !ordered || self.keys[len..].iter().any(|key| *key != UNUSED) {
            return Err("boundaries of the profile are out of order");
        }
        let mut level = 0;
        for &next in &self.levels[..len] {
            if next == level {
                return Err("a boundary of the profile at which nothing changes");
            }
            level = next;
        }
        if self.levels[len..].iter().any(|l| *l != level) {
            return Err("unused levels of a leaf of the profile are wrong");
        }
        Ok(())
    }

    /// Reads from every cache line, so that all are fetched before the first is needed. It is only a hint.
    pub(super) fn touch(&self) {
        for i in (0..N).step_by(8) {
            black_box(self.keys[i]);
            black_box(self.levels[i]);
        }
    }

    /// The change of level across the leaf.
    pub(super) fn total(&self) -> i64 {
        self.levels[N - 1]
    }

    /// The greatest and the least level of a boundary.
    pub(super) fn extremes(&self) -> (i64, i64) {
        let mut high = self.levels[0];
        let mut low = self.levels[0];
        for &level in &self.levels {
            high = high.max(level);
            low = low.min(level);
        }
        (high, low)
    }

    /// The level at `t`.
    pub(super) fn level(&self, t: u64) -> i64 {
        let mut at = 0;
        for (&key, &level) in self.keys.iter().zip(&self.levels) {
            at = if key <= t { level } else { at };
        }
        at
    }

    /// The level at `start`, or the greatest of a boundary in `(start, end)` if that is more. Reads every
    /// place in any case, so that all cache lines of the leaf are fetched at once.
    pub(super) fn peak(&self, start: u64, end: u64) -> i64 {
        let mut at = 0;
        let mut high = i64::MIN;
        for (&key, &level) in self.keys.iter().zip(&self.levels) {
            at = if key <= start { level } else { at };
            let inside = key > start && key < end;
            high = high.max(if inside { level } else { i64::MIN });
        }
        high.max(at)
    }

    /// The greatest level of a boundary before `end`, or `i64::MIN`.
    pub(super) fn peak_before(&self, end: u64) -> i64 {
        let mut high = i64::MIN;
        for (&key, &level) in self.keys.iter().zip(&self.levels) {
            high = high.max(if key < end { level } else { i64::MIN });
        }
        high
    }

    /// The number of boundaries at or before `t`.
    pub(super) fn count(&self, t: u64) -> usize {
        self.keys.iter().filter(|key| **key <= t).count()
    }

    /// True if a step at `at` needs a place and the leaf is full.
    pub(super) fn lacks_room(&self, at: u64) -> bool {
        self.is_full() && !self.keys.contains(&at)
    }

    /// Raises the level by `delta` from `at` on. Removes the boundary if it no longer changes the level, and
    /// then returns true. The caller has made room.
    pub(super) fn step(&mut self, at: u64, delta: i64) -> bool {
        let count = self.count(at);
        if count == 0 || self.keys[count - 1] != at {
            let before = if count == 0 { 0 } else { self.levels[count - 1] };
            self.keys.copy_within(count..N - 1, count + 1);
            self.levels.copy_within(count..N - 1, count + 1);
            self.keys[count] = at;
            self.levels[count] = before;
            self.levels[count..].iter_mut().for_each(|level| *level += delta);
            return false;
        }
        let place = count - 1;
        self.levels[place..].iter_mut().for_each(|level| *level += delta);
        let before = if place == 0 { 0 } else { self.levels[place - 1] };
        if self.levels[place] != before {
            return false;
        }
        self.keys.copy_within(count.., place);
        self.levels.copy_within(count.., place);
        self.keys[N - 1] = UNUSED;
        true
    }

    /// Moves the upper half into a new leaf. Returns that leaf and its first key.
    pub(super) fn split(&mut self) -> (Leaf<N>, u64) {
        let half = N / 2;
        let mut right = Leaf::EMPTY;
        right.keys[..N - half].copy_from_slice(&self.keys[half..]);
        right.levels[..N - half].copy_from_slice(&self.levels[half..]);
        let (base, last) = (self.levels[half - 1], self.levels[N - 1]);
        right.levels[N - half..].fill(last);
        right.levels.iter_mut().for_each(|level| *level -= base);
        self.keys[half..].fill(UNUSED);
        self.levels[half..].fill(base);
        let first = right.keys[0];
        (right, first)
    }

    /// Takes over all boundaries of the leaf to the right. Both together fit.
    pub(super) fn absorb(&mut self, right: &Leaf<N>) {
        let (count, base) = (self.len(), self.total());
        let more = N - count;
        self.keys[count..].copy_from_slice(&right.keys[..more]);
        self.levels[count..].copy_from_slice(&right.levels[..more]);
        self.levels[count..].iter_mut().for_each(|level| *level += base);
    }
}

//! Questions to the profile: the value at an instant, the maximum of a stretch, the first instant above a
//! ceiling, a stretch under a ceiling.

use super::change::MAX_HEIGHT;
use super::{Search, UseProfile};
use terms::Time;

impl Search {
    /// Returns `since` if a stretch from there to `t` is long enough.
    pub fn found(&self, t: Time) -> Option<Time> {
        self.since.filter(|since| t.since(*since).as_nanos() >= self.length)
    }

    /// Notes that at `t` the function steps to a level above the ceiling or not. Returns the start of the
    /// stretch before, if it is long enough by then.
    fn visit(&mut self, t: Time, above: bool) -> Option<Time> {
        let found = self.found(t);
        if above {
            self.since = None;
        } else {
            self.since = self.since.or(Some(t));
        }
        found
    }
}

/// A subtree that a search visits.
#[derive(Clone, Copy)]
struct Part {
    node: u32,
    height: usize,
    /// The level at which the subtree begins.
    base: i64,
}

/// The two ends of a stretch on one level of the tree: nodes, child indices, and the levels at which the
/// nodes begin.
#[derive(Clone, Copy, Default)]
struct Fork {
    left: u32,
    right: u32,
    i: u32,
    j: u32,
    left_base: i64,
    right_base: i64,
}

/// The window and the ceiling of a search.
#[derive(Clone, Copy)]
struct Scope {
    start: u64,
    end: u64,
    ceiling: i64,
}

impl<const N: usize> UseProfile<N> {
    /// The value at `t`.
    pub fn level(&self, t: Time) -> u64 {
        let t = t.as_nanos().min(u64::MAX - 1);
        let (mut node, mut base) = (self.root, 0);
        for _ in 0..self.height {
            let inner = self.inners.get(node);
            let i = inner.index(t);
            base += inner.before(i);
            node = inner.child(i);
        }
        (base + self.leaves.get(node).level(t)) as u64
    }

    /// The greatest value in `[start, end)`, which is not empty.
    ///
    /// The search goes down to both ends together, and reads what is between them only when both leaves are
    /// being fetched from memory. With a million slots, the time is that of the cache misses that follow one
    /// another.
    pub fn peak(&self, start: Time, end: Time) -> u64 {
        let (start, end) = (start.as_nanos(), end.as_nanos());
        let mut forks: [Fork; MAX_HEIGHT] = [Fork::default(); MAX_HEIGHT];
        let whole = Fork { left: self.root, right: self.root, ..Fork::default() };
        let mut at = whole;
        for fork in &mut forks[..self.height] {
            let (l, r) = (self.inners.get(at.left), self.inners.get(at.right));
            l.touch();
            r.touch();
            (at.i, at.j) = (l.index(start) as u32, r.index(end - 1) as u32);
            *fork = at;
            let (i, j) = (at.i as usize, at.j as usize);
            at = Fork { left: l.child(i), right: r.child(j), ..at };
            at.left_base += l.before(i);
            at.right_base += r.before(j);
        }
        let (l, r) = (self.leaves.get(at.left), self.leaves.get(at.right));
        l.touch();
        r.touch();
        let mut high = i64::MIN;
        for fork in &forks[..self.height] {
            high = high.max(self.between(fork));
        }
        if at.left == at.right {
            return high.max(at.left_base + l.peak(start, end)) as u64;
        }
        let high_left = at.left_base + l.peak(start, u64::MAX);
        high.max(high_left).max(at.right_base.saturating_add(r.peak_before(end))) as u64
    }

    /// The greatest level of a boundary in the children between the two ends.
    fn between(&self, fork: &Fork) -> i64 {
        let (l, r) = (self.inners.get(fork.left), self.inners.get(fork.right));
        let (i, j) = (fork.i as usize, fork.j as usize);
        if fork.left == fork.right {
            return fork.left_base.saturating_add(l.high_of(i + 1, j));
        }
        let high_left = fork.left_base.saturating_add(l.high_of(i + 1, l.len()));
        high_left.max(fork.right_base.saturating_add(r.high_of(0, j)))
    }

    /// The first instant in `[start, end)` with a value above `ceiling`.
    pub fn first_above(&self, start: Time, end: Time, ceiling: u64) -> Option<Time> {
        if start >= end {
            return None;
        }
        if self.level(start) > ceiling {
            return Some(start);
        }
        let ceiling = i64::try_from(ceiling).unwrap_or(i64::MAX);
        let scope = Scope { start: start.as_nanos(), end: end.as_nanos(), ceiling };
        self.first_in(self.whole(), scope).map(Time::from_nanos)
    }

    fn first_in(&self, part: Part, scope: Scope) -> Option<u64> {
        if part.height == 0 {
            let leaf = self.leaves.get(part.node);
            return leaf
                .places()
                .find(|&(key, level)| key > scope.start && key < scope.end && part.base + level > scope.ceiling)
                .map(|(key, _)| key);
        }
        let inner = self.inners.get(part.node);
        (inner.index(scope.start)..=inner.index(scope.end - 1))
            .filter(|&i| part.base + inner.high(i) > scope.ceiling)
            .find_map(|i| self.first_in(self.child(part, i), scope))
    }

    /// Continues `search` over `[start, end)`. Returns the start of the first stretch that is long enough.
    pub fn search(&self, search: &mut Search, start: Time, end: Time, ceiling: u64) -> Option<Time> {
        if start >= end {
            return None;
        }
        if let Some(found) = search.visit(start, self.level(start) > ceiling) {
            return Some(found);
        }
        let ceiling = i64::try_from(ceiling).unwrap_or(i64::MAX);
        let scope = Scope { start: start.as_nanos(), end: end.as_nanos(), ceiling };
        self.search_in(self.whole(), scope, search).or_else(|| search.found(end))
    }

    fn search_in(&self, part: Part, scope: Scope, search: &mut Search) -> Option<Time> {
        if part.height == 0 {
            let leaf = self.leaves.get(part.node);
            for (key, level) in leaf.places().filter(|(key, _)| *key > scope.start && *key < scope.end) {
                if let Some(found) = search.visit(Time::from_nanos(key), part.base + level > scope.ceiling) {
                    return Some(found);
                }
            }
            return None;
        }
        let inner = self.inners.get(part.node);
        for i in inner.index(scope.start)..=inner.index(scope.end - 1) {
            let begins = Time::from_nanos(inner.key(i).max(scope.start));
            if let Some(found) = search.found(begins) {
                return Some(found);
            }
            let nothing_changes = match search.since {
                Some(_) => part.base + inner.high(i) <= scope.ceiling,
                None => part.base + inner.low(i) > scope.ceiling,
            };
            if !nothing_changes && let Some(found) = self.search_in(self.child(part, i), scope, search) {
                return Some(found);
            }
        }
        None
    }

    /// Visits every boundary inside `(start, end)` in order, with the value from there on, until `see`
    /// returns false.
    pub fn walk(&self, start: Time, end: Time, mut see: impl FnMut(Time, u64) -> bool) {
        if start < end {
            let scope = Scope { start: start.as_nanos(), end: end.as_nanos(), ceiling: 0 };
            self.walk_in(self.whole(), scope, &mut see);
        }
    }

    fn walk_in(&self, part: Part, scope: Scope, see: &mut impl FnMut(Time, u64) -> bool) -> bool {
        if part.height == 0 {
            let leaf = self.leaves.get(part.node);
            let mut inside = leaf.places().filter(|(key, _)| *key > scope.start && *key < scope.end);
            return inside.all(|(key, level)| see(Time::from_nanos(key), (part.base + level) as u64));
        }
        let inner = self.inners.get(part.node);
        (inner.index(scope.start)..=inner.index(scope.end - 1)).all(|i| self.walk_in(self.child(part, i), scope, see))
    }

    /// Every boundary in order, with the value from there on.
    pub fn steps(&self) -> impl Iterator<Item = (Time, u64)> + '_ {
        let mut to_do = alloc::vec![self.whole()];
        let mut leaf: Option<(Part, usize)> = None;
        core::iter::from_fn(move || {
            loop {
                if let Some((part, i)) = &mut leaf {
                    let node = self.leaves.get(part.node);
                    if *i < node.len() {
                        *i += 1;
                        let (key, level) = node.place(*i - 1);
                        return Some((Time::from_nanos(key), (part.base + level) as u64));
                    }
                }
                let part = to_do.pop()?;
                if part.height == 0 {
                    leaf = Some((part, 0));
                } else {
                    let len = self.inners.get(part.node).len();
                    to_do.extend((0..len).rev().map(|i| self.child(part, i)));
                }
            }
        })
    }

    fn whole(&self) -> Part {
        Part { node: self.root, height: self.height, base: 0 }
    }

    fn child(&self, part: Part, i: usize) -> Part {
        let inner = self.inners.get(part.node);
        Part { node: inner.child(i), height: part.height - 1, base: part.base + inner.before(i) }
    }
}

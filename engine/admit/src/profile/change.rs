//! Changes to the profile: a step at each end of a stretch, and the splits and merges that keep the tree in
//! shape.

use super::UseProfile;
use super::inner::{Branch, Inner};
use super::leaf::Leaf;
use terms::Time;

/// A bound on the height of the tree. Of two neighbours one is over a quarter full, so a node of 32 places
/// has 4 children or more on average, and 2^33 boundaries need 16 levels at most.
pub(super) const MAX_HEIGHT: usize = 20;

/// The inner nodes from the root down and the child taken in each.
type Path = [(u32, u32); MAX_HEIGHT];

impl<const N: usize> UseProfile<N> {
    /// Adds `rate` to every instant of `[start, end)`, which is not empty.
    pub fn add(&mut self, start: Time, end: Time, rate: i64) {
        self.raised += u64::from(rate > 0);
        self.step(start.as_nanos(), rate);
        if end != Time::FOREVER {
            self.step(end.as_nanos(), -rate);
        }
    }

    /// The number of additions. Between two equal numbers the function has nowhere grown.
    pub fn raised(&self) -> u64 {
        self.raised
    }

    /// Raises the function by `delta` from `at` on.
    fn step(&mut self, at: u64, delta: i64) {
        let (mut path, mut leaf) = self.path(at);
        if self.leaves.get(leaf).lacks_room(at) {
            self.make_room(at);
            (path, leaf) = self.path(at);
        }
        let node = self.leaves.get_mut(leaf);
        let went = node.step(at, delta);
        let mut extremes = node.extremes();
        for (below, &(node, i)) in path[..self.height].iter().rev().enumerate() {
            let inner = self.inners.get_mut(node);
            inner.stepped(i as usize, delta, extremes);
            if went {
                self.tidy(node, i as usize, below);
            }
            extremes = self.inners.get(node).extremes();
        }
        if went {
            self.lower_root();
        }
    }

    fn path(&self, at: u64) -> (Path, u32) {
        let mut path: Path = [(0, 0); MAX_HEIGHT];
        let mut node = self.root;
        for place in &mut path[..self.height] {
            let inner = self.inners.get(node);
            let i = inner.index(at);
            *place = (node, i as u32);
            node = inner.child(i);
        }
        (path, node)
    }

    /// Splits every full node on the way to `at`, from the root down, so that each split finds room above it.
    fn make_room(&mut self, at: u64) {
        if self.is_full(self.root, self.height) {
            let branch = self.branch(0, self.root, self.height);
            self.root = self.inners.insert(Inner::over(branch));
            self.height += 1;
            assert!(self.height < MAX_HEIGHT, "the fill of the nodes bounds the height");
        }
        let mut node = self.root;
        for below in (0..self.height).rev() {
            let i = self.inners.get(node).index(at);
            let child = self.inners.get(node).child(i);
            if self.is_full(child, below) {
                self.split(node, i, below);
            }
            let inner = self.inners.get(node);
            node = inner.child(inner.index(at));
        }
    }

    /// Splits child `i` of a node that has room; the child has `below` levels under it.
    fn split(&mut self, node: u32, i: usize, below: usize) {
        let child = self.inners.get(node).child(i);
        let (right, key) = if below == 0 {
            let (right, key) = self.leaves.get_mut(child).split();
            (self.leaves.insert(right), key)
        } else {
            let (right, key) = self.inners.get_mut(child).split();
            (self.inners.insert(right), key)
        };
        let (left, right) = (self.branch(0, child, below), self.branch(key, right, below));
        self.inners.get_mut(node).divide(i, left, right);
    }

    /// The summary of a node that its parent keeps.
    pub(super) fn branch(&self, key: u64, child: u32, height: usize) -> Branch {
        let (total, extremes) = if height == 0 {
            let leaf: &Leaf<N> = self.leaves.get(child);
            (leaf.total(), leaf.extremes())
        } else {
            let inner = self.inners.get(child);
            (inner.before(inner.len()), inner.extremes())
        };
        Branch::new(key, child, total, extremes)
    }

    fn is_full(&self, node: u32, height: usize) -> bool {
        if height == 0 { self.leaves.get(node).is_full() } else { self.inners.get(node).is_full() }
    }

    /// Removes child `i` if it is empty, or joins it with a neighbour if it is sparse.
    fn tidy(&mut self, node: u32, i: usize, below: usize) {
        let child = self.inners.get(node).child(i);
        let (empty, sparse) = match below {
            0 => (self.leaves.get(child).is_empty(), self.leaves.get(child).is_sparse()),
            _ => (self.inners.get(child).is_empty(), self.inners.get(child).is_sparse()),
        };
        if empty {
            self.drop_child(node, i, child, below);
        } else if sparse {
            if i + 1 < self.inners.get(node).len() && self.join(node, i, below) {
                return;
            }
            if i > 0 {
                self.join(node, i - 1, below);
            }
        }
    }

    fn drop_child(&mut self, node: u32, i: usize, child: u32, below: usize) {
        self.inners.get_mut(node).remove(i);
        self.give_back(child, below);
    }

    /// Gives the place of a node that is used no more back.
    fn give_back(&mut self, child: u32, below: usize) {
        if below == 0 { self.leaves.remove(child) } else { self.inners.remove(child) }
    }

    /// Joins children `i` and `i + 1` if that leaves room to grow.
    fn join(&mut self, node: u32, i: usize, below: usize) -> bool {
        let parent = self.inners.get(node);
        let (left, right, key) = (parent.child(i), parent.child(i + 1), parent.key(i + 1));
        let most = N / 4 * 3;
        if below == 0 {
            if self.leaves.get(left).len() + self.leaves.get(right).len() > most {
                return false;
            }
            let absorbed = core::mem::replace(self.leaves.get_mut(right), Leaf::EMPTY);
            self.leaves.get_mut(left).absorb(&absorbed);
        } else {
            if self.inners.get(left).len() + self.inners.get(right).len() > most {
                return false;
            }
            let absorbed = core::mem::replace(self.inners.get_mut(right), Inner::EMPTY);
            self.inners.get_mut(left).absorb(&absorbed, key);
        }
        self.inners.get_mut(node).unite(i);
        self.give_back(right, below);
        true
    }

    /// Lowers the tree while its root has fewer than two children.
    fn lower_root(&mut self) {
        while self.height > 0 && self.inners.get(self.root).len() == 1 {
            let only = self.inners.get(self.root).child(0);
            self.inners.remove(self.root);
            self.root = only;
            self.height -= 1;
        }
        if self.height > 0 && self.inners.get(self.root).is_empty() {
            self.inners.remove(self.root);
            self.root = self.leaves.insert(Leaf::EMPTY);
            self.height = 0;
        }
    }
}

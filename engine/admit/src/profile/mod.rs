//! How much is booked at every instant: a step function of time, changed by stretches and asked for maxima.
//!
//! A B+tree over the boundaries, the instants at which the function changes. Every node counts relative to the level
//! at which it begins: a leaf has the level from each boundary on, an inner node has for each child the level after
//! it and its greatest and least level. So a change of a stretch touches the two paths to its ends and nothing
//! between them; a maximum over a stretch is read on the same two paths, both ends going down together so that their
//! cache misses overlap. All costs are logarithmic in the number of boundaries, [`Profile::search`] excepted, which
//! also visits the gaps that are too short.
//!
//! Reading order: `leaf`, `inner`, `change`, `ask`, `audit`.

mod ask;
mod audit;
mod change;
mod inner;
mod leaf;

use alloc::vec::Vec;
use inner::Inner;
use leaf::Leaf;
use terms::Time;

/// Places in a node: at 32 a leaf is eight cache lines.
pub const NODE: usize = 32;

/// A step function of time, zero before its first boundary and nowhere negative; values in bit/s.
/// `N` is the number of places in a node, a power of two of at least 4; other sizes than [`NODE`] are for tests.
#[derive(Clone, Debug)]
pub struct Profile<const N: usize = NODE> {
    leaves: Arena<Leaf<N>>,
    inners: Arena<Inner<N>>,
    /// A leaf if the height is 0, otherwise an inner node.
    root: u32,
    height: usize,
}

/// A search for a stretch that is long enough and nowhere above a ceiling; it may go on over several calls.
#[derive(Clone, Copy, Debug)]
pub struct Search {
    /// The least length of the stretch, ns.
    pub length: u64,
    /// Since when the function has been at or under its ceiling; `None`: it is above.
    pub since: Option<Time>,
}

impl<const N: usize> Profile<N> {
    /// Zero everywhere.
    pub fn new() -> Profile<N> {
        let mut leaves = Arena::new();
        let root = leaves.insert(Leaf::EMPTY);
        Profile { leaves, inners: Arena::new(), root, height: 0 }
    }
}

impl<const N: usize> Default for Profile<N> {
    fn default() -> Profile<N> {
        Profile::new()
    }
}

/// Nodes by number; numbers of nodes that went are used again.
#[derive(Clone, Debug)]
struct Arena<T> {
    nodes: Vec<T>,
    vacant: Vec<u32>,
}

impl<T> Arena<T> {
    fn new() -> Arena<T> {
        Arena { nodes: Vec::new(), vacant: Vec::new() }
    }

    fn insert(&mut self, node: T) -> u32 {
        if let Some(number) = self.vacant.pop() {
            self.nodes[number as usize] = node;
            return number;
        }
        self.nodes.push(node);
        (self.nodes.len() - 1) as u32
    }

    fn remove(&mut self, number: u32) {
        self.vacant.push(number);
    }

    fn get(&self, number: u32) -> &T {
        &self.nodes[number as usize]
    }

    fn get_mut(&mut self, number: u32) -> &mut T {
        &mut self.nodes[number as usize]
    }

    fn len(&self) -> usize {
        self.nodes.len() - self.vacant.len()
    }

    fn bytes(&self) -> usize {
        self.nodes.capacity() * size_of::<T>() + self.vacant.capacity() * size_of::<u32>()
    }
}

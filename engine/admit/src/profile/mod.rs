//! The booked rate at every instant: a step function of time that can be raised over a stretch and asked for
//! maxima.
//!
//! A B+tree over the boundaries, the instants at which the function changes. Every node counts relative to the level
//! at which it begins: a leaf has the level from each boundary on, an inner node has for each child the level after
//! it and its greatest and least level. So a change of a stretch touches the two paths to its ends and nothing
//! between them; a maximum over a stretch is read on the same two paths, both ends going down together so that their
//! cache misses overlap. All costs are logarithmic in the number of boundaries, [`UseProfile::search`] excepted, which
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
pub struct UseProfile<const N: usize = NODE> {
    leaves: Arena<Leaf<N>>,
    inners: Arena<Inner<N>>,
    /// A leaf if the height is 0, otherwise an inner node.
    root: u32,
    height: usize,
    /// The number of additions. Between two equal numbers the function has nowhere grown.
    raised: u64,
}

/// A search for a stretch that is long enough and nowhere above a ceiling; it may go on over several calls.
#[derive(Clone, Copy, Debug)]
pub struct Search {
    /// The least length of the stretch, ns.
    pub length: u64,
    /// The instant from which the function has been at or under the ceiling; `None` while it is above.
    pub since: Option<Time>,
}

impl<const N: usize> UseProfile<N> {
    /// A profile that is zero everywhere.
    pub fn new() -> UseProfile<N> {
        let mut leaves = Arena::new();
        let root = leaves.insert(Leaf::EMPTY);
        UseProfile { leaves, inners: Arena::new(), root, height: 0, raised: 0 }
    }
}

impl<const N: usize> Default for UseProfile<N> {
    fn default() -> UseProfile<N> {
        UseProfile::new()
    }
}

/// Nodes by number. Numbers of removed nodes are used again. Nodes are kept in pieces, so growth never moves
/// them, and no operation waits for a copy of the whole.
#[derive(Clone, Debug)]
struct Arena<T> {
    pieces: Vec<Vec<T>>,
    vacant: Vec<u32>,
}

/// Number of nodes in a piece.
const PIECE: usize = 256;

impl<T> Arena<T> {
    fn new() -> Arena<T> {
        Arena { pieces: Vec::new(), vacant: Vec::new() }
    }

    fn insert(&mut self, node: T) -> u32 {
        if let Some(number) = self.vacant.pop() {
            *self.get_mut(number) = node;
            return number;
        }
        let number = self.made();
        match self.pieces.last_mut() {
            Some(last) if last.len() < PIECE => last.push(node),
            last => {
                // The first piece grows as it must: most tables are small.
                let room = if last.is_some() { PIECE } else { 1 };
                let mut piece = Vec::with_capacity(room);
                piece.push(node);
                self.pieces.push(piece);
            }
        }
        number as u32
    }

    fn remove(&mut self, number: u32) {
        self.vacant.push(number);
    }

    fn get(&self, number: u32) -> &T {
        &self.pieces[number as usize / PIECE][number as usize % PIECE]
    }

    fn get_mut(&mut self, number: u32) -> &mut T {
        &mut self.pieces[number as usize / PIECE][number as usize % PIECE]
    }

    /// The number of nodes, in use or vacant.
    fn made(&self) -> usize {
        self.pieces.last().map_or(0, |last| (self.pieces.len() - 1) * PIECE + last.len())
    }

    fn len(&self) -> usize {
        self.made() - self.vacant.len()
    }

    fn bytes(&self) -> usize {
        let nodes: usize = self.pieces.iter().map(Vec::capacity).sum();
        let pieces = self.pieces.capacity() * size_of::<Vec<T>>();
        nodes * size_of::<T>() + pieces + self.vacant.capacity() * size_of::<u32>()
    }
}

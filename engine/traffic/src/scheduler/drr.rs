//! Deficit round robin (Shreedhar and Varghese, SIGCOMM 1995).
//!
//! Classes take turns; each turn adds the class's quantum to its deficit, and it sends packets while the deficit
//! lasts. Over any number of rounds a backlogged class sends its quanta to within one largest packet, so bytes go in
//! proportion to the quanta at all packet sizes. The price is delay: a class waits for the turns of all others.
//! Constant cost if each quantum is at least the largest packet; with smaller ones, turns pass without a packet.

use super::{Misplaced, Scheduler, SchedulerClass};
use alloc::vec::Vec;
use terms::Time;

const NONE: u32 = u32::MAX;

/// The scheduler.
#[derive(Clone, Debug)]
pub struct Drr {
    nodes: Vec<Leaf>,
    free: Vec<u32>,
    /// The class whose turn it is.
    turn: u32,
}

#[derive(Clone, Copy, Debug)]
struct Leaf {
    known: bool,
    waiting: bool,
    /// True if this turn's quantum was added.
    credited: bool,
    quantum: u32,
    deficit: u64,
    head: u32,
    next: u32,
    prev: u32,
}

impl Default for Drr {
    fn default() -> Self {
        Drr::new()
    }
}

impl Drr {
    /// A scheduler with no classes but the root.
    pub fn new() -> Drr {
        let root = Leaf { known: false, ..Leaf::new(1) };
        Drr { nodes: alloc::vec![root], free: Vec::new(), turn: NONE }
    }

    /// Adds a class with this many bytes a turn (at least one).
    pub fn add(&mut self, quantum: u32) -> SchedulerClass {
        match self.free.pop() {
            Some(at) => {
                self.nodes[at as usize] = Leaf::new(quantum);
                SchedulerClass(at)
            }
            None => {
                self.nodes.push(Leaf::new(quantum));
                SchedulerClass(self.nodes.len() as u32 - 1)
            }
        }
    }

    /// Changes the quantum, from the class's next turn on.
    ///
    /// # Errors
    /// [`Misplaced::Unknown`].
    pub fn change(&mut self, node: SchedulerClass, quantum: u32) -> Result<(), Misplaced> {
        self.known(node)?;
        self.nodes[node.index()].quantum = quantum.max(1);
        Ok(())
    }

    /// Forgets a class. Its queue must have been purged.
    ///
    /// # Errors
    /// [`Misplaced`].
    pub fn remove(&mut self, node: SchedulerClass) -> Result<(), Misplaced> {
        if self.known(node)?.waiting {
            return Err(Misplaced::Backlogged(node));
        }
        self.nodes[node.index()].known = false;
        self.free.push(node.0);
        Ok(())
    }

    /// The bytes that the class may still send in this turn.
    pub fn deficit(&self, node: SchedulerClass) -> Option<u64> {
        self.known(node).ok().map(|leaf| leaf.deficit)
    }

    fn known(&self, node: SchedulerClass) -> Result<Leaf, Misplaced> {
        self.nodes.get(node.index()).copied().filter(|l| l.known).ok_or(Misplaced::Unknown(node))
    }

    /// Adds a class at the end of the round.
    fn link(&mut self, at: u32) {
        let (prev, next) = if self.turn == NONE { (at, at) } else { (self.nodes[self.turn as usize].prev, self.turn) };
        let leaf = &mut self.nodes[at as usize];
        (leaf.prev, leaf.next, leaf.waiting, leaf.credited, leaf.deficit) = (prev, next, true, false, 0);
        self.nodes[prev as usize].next = at;
        self.nodes[next as usize].prev = at;
        if self.turn == NONE {
            self.turn = at;
        }
    }

    /// Removes a class from the round; the rest of its deficit is lost.
    fn unlink(&mut self, at: u32) {
        let Leaf { prev, next, .. } = self.nodes[at as usize];
        self.nodes[prev as usize].next = next;
        self.nodes[next as usize].prev = prev;
        let leaf = &mut self.nodes[at as usize];
        (leaf.waiting, leaf.deficit) = (false, 0);
        if self.turn == at {
            self.turn = if next == at { NONE } else { next };
        }
    }
}

impl Leaf {
    fn new(quantum: u32) -> Leaf {
        let quantum = quantum.max(1);
        Leaf { known: true, waiting: false, credited: false, quantum, deficit: 0, head: 0, next: NONE, prev: NONE }
    }
}

impl Scheduler for Drr {
    fn backlogged(&mut self, _now: Time, leaf: SchedulerClass, head: u32) {
        self.link(leaf.0);
        self.nodes[leaf.index()].head = head;
    }

    fn choose(&mut self, _now: Time) -> Option<SchedulerClass> {
        if self.turn == NONE {
            return None;
        }
        loop {
            let leaf = &mut self.nodes[self.turn as usize];
            if !leaf.credited {
                leaf.credited = true;
                leaf.deficit = leaf.deficit.saturating_add(u64::from(leaf.quantum));
            }
            if u64::from(leaf.head) <= leaf.deficit {
                return Some(SchedulerClass(self.turn));
            }
            leaf.credited = false;
            self.turn = leaf.next;
        }
    }

    fn served(&mut self, _now: Time, leaf: SchedulerClass, len: u32, next: Option<u32>) {
        let class = &mut self.nodes[leaf.index()];
        class.deficit = class.deficit.saturating_sub(u64::from(len));
        match next {
            Some(head) => class.head = head,
            None => self.unlink(leaf.0),
        }
    }

    fn purged(&mut self, _now: Time, leaf: SchedulerClass) {
        if self.nodes[leaf.index()].waiting {
            self.unlink(leaf.0);
        }
    }

    fn wake_at(&self) -> Option<Time> {
        None
    }
}

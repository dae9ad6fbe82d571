//! Strict priority: the backlogged class of the lowest number sends; among equals, packet by packet in turn.
//!
//! No class is protected from higher ones, whose traffic must be policed. Constant cost: a bitmap of 256
//! priorities, and one ring per priority.

use super::{Misplaced, Scheduler, SchedulerClass};
use alloc::vec::Vec;
use terms::Time;

const NONE: u32 = u32::MAX;

/// The scheduler.
#[derive(Clone, Debug)]
pub struct Priority {
    nodes: Vec<Leaf>,
    free: Vec<u32>,
    /// The last class of each ring; its successor is the first.
    last: Vec<u32>,
    /// The bits of the rings that are not empty.
    map: [u64; 4],
}

#[derive(Clone, Copy, Debug)]
struct Leaf {
    known: bool,
    waiting: bool,
    priority: u8,
    next: u32,
}

impl Default for Priority {
    fn default() -> Self {
        Priority::new()
    }
}

impl Priority {
    /// A scheduler with no classes but the root.
    pub fn new() -> Priority {
        let root = Leaf { known: false, waiting: false, priority: 0, next: NONE };
        Priority { nodes: alloc::vec![root], free: Vec::new(), last: alloc::vec![NONE; 256], map: [0; 4] }
    }

    /// Adds a class; 0 is served first.
    pub fn add(&mut self, priority: u8) -> SchedulerClass {
        let leaf = Leaf { known: true, waiting: false, priority, next: NONE };
        match self.free.pop() {
            Some(at) => {
                self.nodes[at as usize] = leaf;
                SchedulerClass(at)
            }
            None => {
                self.nodes.push(leaf);
                SchedulerClass(self.nodes.len() as u32 - 1)
            }
        }
    }

    /// Changes the priority; a waiting class goes to the end of its new ring.
    ///
    /// # Errors
    /// [`Misplaced::Unknown`].
    pub fn change(&mut self, node: SchedulerClass, priority: u8) -> Result<(), Misplaced> {
        let leaf = self.known(node)?;
        if leaf.priority == priority {
            return Ok(());
        }
        if leaf.waiting {
            self.unlink(node.0);
        }
        self.nodes[node.index()].priority = priority;
        if leaf.waiting {
            self.append(node.0);
        }
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

    fn known(&self, node: SchedulerClass) -> Result<Leaf, Misplaced> {
        self.nodes.get(node.index()).copied().filter(|l| l.known).ok_or(Misplaced::Unknown(node))
    }

    fn append(&mut self, at: u32) {
        let p = self.nodes[at as usize].priority as usize;
        let last = self.last[p];
        if last == NONE {
            self.nodes[at as usize].next = at;
            self.map[p / 64] |= 1 << (p % 64);
        } else {
            self.nodes[at as usize].next = self.nodes[last as usize].next;
            self.nodes[last as usize].next = at;
        }
        self.last[p] = at;
        self.nodes[at as usize].waiting = true;
    }

    /// Takes a class out of its ring; walks the ring unless the class is its first.
    fn unlink(&mut self, at: u32) {
        let p = self.nodes[at as usize].priority as usize;
        let last = self.last[p];
        let mut before = last;
        while self.nodes[before as usize].next != at {
            before = self.nodes[before as usize].next;
        }
        if before == at {
            self.last[p] = NONE;
            self.map[p / 64] &= !(1 << (p % 64));
        } else {
            self.nodes[before as usize].next = self.nodes[at as usize].next;
            if last == at {
                self.last[p] = before;
            }
        }
        self.nodes[at as usize].waiting = false;
    }
}

impl Scheduler for Priority {
    fn backlogged(&mut self, _now: Time, leaf: SchedulerClass, _head: u32) {
        self.append(leaf.0);
    }

    fn choose(&mut self, _now: Time) -> Option<SchedulerClass> {
        let word = self.map.iter().position(|w| *w != 0)?;
        let p = word * 64 + self.map[word].trailing_zeros() as usize;
        Some(SchedulerClass(self.nodes[self.last[p] as usize].next))
    }

    fn served(&mut self, _now: Time, leaf: SchedulerClass, _len: u32, next: Option<u32>) {
        let p = self.nodes[leaf.index()].priority as usize;
        if next.is_none() {
            self.unlink(leaf.0);
        } else if self.nodes[self.last[p] as usize].next == leaf.0 {
            // The first becomes the last: the ring turns by one.
            self.last[p] = leaf.0;
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

//! WF2Q+, worst-case fair weighted fair queueing (Bennett and Zhang, "Hierarchical packet fair queueing algorithms",
//! IEEE/ACM Transactions on Networking 5(5), 1997).
//!
//! Each class has a rate; the rates should sum to at most the link's. The packet at the head of class `i` starts at
//! `S = F` (or `max(F, V)` if it came to an empty queue) and finishes at `F = S + L / r_i`; among those that have
//! started (`S <= V`) the one with the least finish goes. Virtual time `V` grows by `L / r` with each packet and is
//! never behind the least start. So a class is never more than one packet ahead of its share, and at the end of each
//! of its packets it is behind by at most `L_i,max + (L_max - L_i,max) r_i / r`, from wherever one counts.
//!
//! Arithmetic: `S`, `F` and `V` are whole ns and an exact fraction (remainders are carried), so shares are exact at any
//! rate and for ever; only comparisons round, starts and finishes up, `V` down: below 1 ns, never adding up.
//! O(log n): two heaps, by start and by finish.

use super::heap::{ABSENT, Heap};
use super::{Misplaced, Scheduler, SchedulerClass};
use crate::work;
use alloc::vec::Vec;
use terms::{Rate, Time};

/// The scheduler.
#[derive(Clone, Debug)]
pub struct Wf2q {
    nodes: Vec<Leaf>,
    free: Vec<u32>,
    /// The link's rate; it is also the denominator of the fraction in `now`.
    rate: u64,
    now: Instant,
    /// The last packet: its class, its time, and the virtual time then. `now` is the virtual time at its end.
    last: (SchedulerClass, Time, Instant),
    /// Classes that have not started, by start.
    early: Heap<u64>,
    /// Classes that have started, by finish.
    started: Heap<u64>,
    places: Vec<u32>,
}

/// Virtual time: `ns + part / rate` ns, with `part` below the rate of its class or link.
#[derive(Clone, Copy, Default, Debug)]
struct Instant {
    ns: u64,
    part: u64,
}

/// Virtual time is moved back by this much at twice that value, so that it never overflows: 73 years of a
/// busy link, but only some thousand packets of a class of 1 bit/s alone on a fast link.
const EPOCH: u64 = 1 << 61;

#[derive(Clone, Copy, Debug)]
struct Leaf {
    known: bool,
    place: Place,
    rate: u64,
    start: Instant,
    finish: Instant,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    Idle,
    Early,
    Started,
}

impl Instant {
    /// The instant after `bytes` at `rate`: exact.
    fn after(self, bytes: u32, rate: u64) -> Instant {
        let work = work::of_bytes(bytes) + u128::from(self.part);
        let (ns, part) = match u64::try_from(work) {
            Ok(short) => (short / rate, short % rate),
            Err(_) => ((work / u128::from(rate)) as u64, (work % u128::from(rate)) as u64),
        };
        Instant { ns: self.ns.saturating_add(ns), part }
    }

    fn moved_back(self) -> Instant {
        Instant { ns: self.ns.saturating_sub(EPOCH), ..self }
    }

    fn rounded_up(self) -> u64 {
        self.ns + u64::from(self.part != 0)
    }
}

impl Wf2q {
    /// A link of `rate` (at least 1 bit/s), without classes.
    pub fn new(rate: Rate) -> Wf2q {
        let root = Leaf { known: false, ..Leaf::new(Rate::ZERO) };
        Wf2q {
            nodes: alloc::vec![root],
            free: Vec::new(),
            rate: rate.as_bps().max(1),
            now: Instant::default(),
            last: (SchedulerClass::ROOT, Time::ZERO, Instant::default()),
            early: Heap::default(),
            started: Heap::default(),
            places: alloc::vec![ABSENT],
        }
    }

    /// Adds a class of `rate` (at least 1 bit/s).
    pub fn add(&mut self, rate: Rate) -> SchedulerClass {
        let leaf = Leaf::new(rate);
        let at = match self.free.pop() {
            Some(at) => {
                self.nodes[at as usize] = leaf;
                at
            }
            None => {
                self.nodes.push(leaf);
                self.places.push(ABSENT);
                self.nodes.len() as u32 - 1
            }
        };
        self.early.reserve(self.nodes.len());
        self.started.reserve(self.nodes.len());
        SchedulerClass(at)
    }

    /// Changes the rate, from the next packet on: the one at the head keeps its start and finish.
    ///
    /// # Errors
    /// [`Misplaced::Unknown`].
    pub fn change(&mut self, node: SchedulerClass, rate: Rate) -> Result<(), Misplaced> {
        self.known(node)?;
        let leaf = &mut self.nodes[node.index()];
        leaf.rate = rate.as_bps().max(1);
        // A fraction of the old rate means nothing to the new one.
        leaf.finish = Instant { ns: leaf.finish.rounded_up(), part: 0 };
        Ok(())
    }

    /// Changes the rate of the link, from the next packet on.
    pub fn change_link(&mut self, rate: Rate) {
        let rate = rate.as_bps().max(1);
        if rate != self.rate {
            self.rate = rate;
            // A fraction of the old rate means nothing to the new one.
            self.now = Instant { ns: self.now.rounded_up(), part: 0 };
        }
    }

    /// Forgets a class. Its queue must have been purged.
    ///
    /// # Errors
    /// [`Misplaced`].
    pub fn remove(&mut self, node: SchedulerClass) -> Result<(), Misplaced> {
        if self.known(node)?.place != Place::Idle {
            return Err(Misplaced::Backlogged(node));
        }
        self.nodes[node.index()].known = false;
        self.free.push(node.0);
        Ok(())
    }

    /// The virtual time, in ns, rounded down.
    pub fn virtual_time(&self) -> u64 {
        self.now.ns
    }

    /// The start and the finish of the packet at the head of a class, in virtual ns, rounded up. (Virtual
    /// times are moved back every 2^61 ns.)
    pub fn head(&self, node: SchedulerClass) -> Option<(u64, u64)> {
        let leaf = self.known(node).ok().filter(|leaf| leaf.place != Place::Idle)?;
        Some((leaf.start.rounded_up(), leaf.finish.rounded_up()))
    }

    fn known(&self, node: SchedulerClass) -> Result<Leaf, Misplaced> {
        self.nodes.get(node.index()).copied().filter(|l| l.known).ok_or(Misplaced::Unknown(node))
    }

    /// Adds the class to the heap where it belongs now.
    fn enter(&mut self, at: u32) {
        let leaf = &mut self.nodes[at as usize];
        if leaf.start.rounded_up() <= self.now.ns {
            leaf.place = Place::Started;
            self.started.insert(&mut self.places, leaf.finish.rounded_up(), at);
        } else {
            leaf.place = Place::Early;
            self.early.insert(&mut self.places, leaf.start.rounded_up(), at);
        }
    }

    fn leave(&mut self, at: u32) {
        match core::mem::replace(&mut self.nodes[at as usize].place, Place::Idle) {
            Place::Idle => {}
            Place::Early => self.early.remove(&mut self.places, at),
            Place::Started => self.started.remove(&mut self.places, at),
        }
    }

    /// Starts a new epoch: moves every virtual time back by the same amount.
    fn move_back(&mut self) {
        self.now = self.now.moved_back();
        self.last.2 = self.last.2.moved_back();
        for leaf in &mut self.nodes {
            leaf.start = leaf.start.moved_back();
            leaf.finish = leaf.finish.moved_back();
        }
        for heap in [&mut self.early, &mut self.started] {
            heap.map_keys(|key| key.saturating_sub(EPOCH));
        }
    }

    /// Moves the classes that have started by now.
    fn start_due(&mut self) {
        while let Some((start, at)) = self.early.first() {
            if start > self.now.ns {
                return;
            }
            self.early.remove(&mut self.places, at);
            let leaf = &mut self.nodes[at as usize];
            leaf.place = Place::Started;
            self.started.insert(&mut self.places, leaf.finish.rounded_up(), at);
        }
    }
}

impl Leaf {
    fn new(rate: Rate) -> Leaf {
        let (start, finish) = (Instant::default(), Instant::default());
        Leaf { known: true, place: Place::Idle, rate: rate.as_bps().max(1), start, finish }
    }
}

impl Scheduler for Wf2q {
    fn backlogged(&mut self, now: Time, leaf: SchedulerClass, head: u32) {
        // While a packet is on the wire, virtual time is between that of its start and that of its end.
        let (owner, sent_at, before) = self.last;
        let present = before.rounded_up().saturating_add(now.since(sent_at).as_nanos());
        let on_the_wire = present < self.now.rounded_up();
        let present = present.min(self.now.rounded_up());
        let class = &mut self.nodes[leaf.index()];
        // An equal or later whole ns: the fraction of the class's own finish stays exact. A class whose packet is
        // still on the wire was never idle.
        let goes_on = class.finish.ns >= present || (on_the_wire && owner == leaf);
        class.start = if goes_on { class.finish } else { Instant { ns: present, part: 0 } };
        class.finish = class.start.after(head, class.rate);
        self.enter(leaf.0);
    }

    fn choose(&mut self, _now: Time) -> Option<SchedulerClass> {
        self.start_due();
        if self.started.is_empty() {
            // V is never behind the least start.
            let (start, _) = self.early.first()?;
            self.now = Instant { ns: start, part: 0 };
            self.start_due();
        }
        self.started.first().map(|(_, at)| SchedulerClass(at))
    }

    fn served(&mut self, now: Time, leaf: SchedulerClass, len: u32, next: Option<u32>) {
        self.last = (leaf, now, self.now);
        self.now = self.now.after(len, self.rate);
        if self.now.ns >= 2 * EPOCH {
            self.move_back();
        }
        let Some(head) = next else {
            self.leave(leaf.0);
            return;
        };
        let class = &mut self.nodes[leaf.index()];
        class.start = class.finish;
        class.finish = class.start.after(head, class.rate);
        if class.place == Place::Started && class.start.rounded_up() <= self.now.ns {
            let finish = class.finish.rounded_up();
            self.started.update(&mut self.places, finish, leaf.0);
        } else {
            self.leave(leaf.0);
            self.enter(leaf.0);
        }
    }

    fn purged(&mut self, _now: Time, leaf: SchedulerClass) {
        self.leave(leaf.0);
        // What was not sent does not count.
        self.nodes[leaf.index()].finish = self.nodes[leaf.index()].start;
    }

    fn wake_at(&self) -> Option<Time> {
        None
    }
}

//! A hierarchical token bucket after the kernel's `sch_htb`, with one level of classes below the link.
//!
//! If the kernel plane is HTB, the simulator must run the same plan by the same rules. A class is *green* while its
//! rate's tokens last: it sends by its own right. It is *yellow* while only its ceil's tokens last: it may borrow
//! from the link. Otherwise it is *red* and waits. Green before yellow; within a colour the lowest priority number
//! first; within that deficit round robin by quantum. As in the kernel, tokens are charged after a packet is sent, so
//! they may go below zero by one packet, a borrowed packet is charged to ceil and link only, and green classes send
//! even if the sum of their rates exceeds the link (the installer checks the sums).
//!
//! Unlike the kernel's, tokens are exact (10^-9 bit), and colours change at the exact nanosecond.

use super::heap::{ABSENT, Heap};
use super::{Misplaced, Scheduler, SchedulerClass};
use crate::plan::{ClassSpec, LinkSpec};
use crate::work::PER_BYTE;
use alloc::vec::Vec;
use terms::{Bytes, Rate, Span, Time};

/// Priorities, as in the kernel (`TC_HTB_NUMPRIO`). A higher number counts as the last.
pub const PRIORITIES: usize = 8;

const NONE: u32 = u32::MAX;

/// The service of a class, with wire rates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HtbSpec {
    /// The rate by its own right; zero: none.
    pub rate: Rate,
    /// The largest rate, with borrowing.
    pub ceil: Rate,
    /// The burst at its rate's expense.
    pub burst: Bytes,
    /// The burst at its ceil's expense.
    pub cburst: Bytes,
    /// The priority, 0 first.
    pub priority: u8,
    /// The bytes a turn among equals.
    pub quantum: u32,
}

impl HtbSpec {
    /// The specification for a class of the plan: `rate` = the second slope of the real-time curve, `burst` =
    /// its first piece's bytes if that is the steeper one, and one packet at least; `ceil` = the upper limit,
    /// or the link; `quantum` = 10 ms of the link share, between one packet and 60,000 bytes.
    pub fn of(class: &ClassSpec, link: &LinkSpec) -> HtbSpec {
        let packet = Bytes::new(u64::from(link.mtu) + u64::from(link.overhead));
        let rate = class.real_time.map_or(Rate::ZERO, |curve| curve.m2);
        let burst = match class.real_time {
            Some(curve) if curve.is_concave() => curve.m1.supplies(curve.d).max(packet),
            _ => packet,
        };
        let quantum = class.link_share.supplies(Span::from_millis(10)).get().min(60_000).max(packet.get());
        HtbSpec {
            rate,
            ceil: class.upper_limit.unwrap_or(link.rate).max(rate),
            burst,
            cburst: packet,
            priority: class.priority,
            quantum: quantum.min(u64::from(u32::MAX)) as u32,
        }
    }
}

/// The scheduler.
#[derive(Clone, Debug)]
pub struct Htb {
    link: Bucket,
    nodes: Vec<Leaf>,
    free: Vec<u32>,
    /// The class whose turn it is: by colour (green, yellow), by priority.
    turn: [[u32; PRIORITIES]; 2],
    /// Classes that are not green, by the time of their next change of colour.
    waiting: Heap<Time>,
    places: Vec<u32>,
    now: Time,
    lent: bool,
}

#[derive(Clone, Copy, Debug)]
struct Leaf {
    known: bool,
    backlogged: bool,
    spec: HtbSpec,
    rate: Bucket,
    ceil: Bucket,
    /// The ring that holds the class.
    colour: Colour,
    deficit: [i64; 2],
    next: u32,
    prev: u32,
}

/// The right of a class to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Colour {
    /// It sends by its own right.
    Green = 0,
    /// It sends by borrowing.
    Yellow = 1,
    /// It waits for its ceil's tokens.
    Red = 2,
}

/// The state of a class, for tables, tests and people.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LeafState {
    /// The colour at the last look.
    pub colour: Colour,
    /// The tokens of its rate at that time, in 10^-9 bit.
    pub tokens: i64,
    /// The tokens of its ceil.
    pub ctokens: i64,
}

/// A bucket whose tokens may go below zero, in 10^-9 bit.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    rate: u64,
    depth: i64,
    tokens: i64,
    at: Time,
}

impl Bucket {
    fn new(rate: Rate, depth: Bytes, now: Time) -> Bucket {
        let depth = i64::try_from(depth.get().saturating_mul(PER_BYTE)).unwrap_or(i64::MAX);
        Bucket { rate: rate.as_bps(), depth, tokens: depth, at: now }
    }

    fn change(&mut self, rate: Rate, depth: Bytes, now: Time) {
        self.fill(now);
        let fresh = Bucket::new(rate, depth, now);
        *self = Bucket { tokens: self.tokens.min(fresh.depth), ..fresh };
    }

    fn fill(&mut self, now: Time) {
        let gain = u128::from(self.rate) * u128::from(now.since(self.at).as_nanos());
        let room = self.depth.abs_diff(self.tokens);
        // What does not fit is lost; what fits is below 2^64, and the sum below `depth`.
        self.tokens =
            if gain >= u128::from(room) { self.depth } else { self.tokens.wrapping_add_unsigned(gain as u64) };
        self.at = self.at.max(now);
    }

    fn charge(&mut self, bytes: u32) {
        let cost = i64::try_from(u64::from(bytes).saturating_mul(PER_BYTE)).unwrap_or(i64::MAX);
        self.tokens = self.tokens.saturating_sub(cost);
    }

    /// True if a packet may be sent now; the bucket must have been filled.
    fn open(&self) -> bool {
        self.tokens >= 0 && self.rate > 0
    }

    /// The time at which the bucket opens.
    fn opens(&self) -> Time {
        if self.rate == 0 {
            return Time::FOREVER;
        }
        let debt = self.tokens.min(0).unsigned_abs();
        self.at + Span::from_nanos(debt.div_ceil(self.rate))
    }
}

impl Htb {
    /// A link of `rate`, at most `burst` ahead, without classes.
    pub fn new(rate: Rate, burst: Bytes, now: Time) -> Htb {
        let spec = HtbSpec { rate, ceil: rate, burst, cburst: burst, priority: 0, quantum: 0 };
        let root = Leaf { known: false, ..Leaf::new(spec, now) };
        Htb {
            link: Bucket::new(rate, burst, now),
            nodes: alloc::vec![root],
            free: Vec::new(),
            turn: [[NONE; PRIORITIES]; 2],
            waiting: Heap::default(),
            places: alloc::vec![ABSENT],
            now,
            lent: false,
        }
    }

    /// Changes the rate of the link.
    pub fn change_link(&mut self, now: Time, rate: Rate, burst: Bytes) {
        self.link.change(rate, burst, now);
    }

    /// Adds a class.
    pub fn add(&mut self, now: Time, spec: HtbSpec) -> SchedulerClass {
        let leaf = Leaf::new(spec, now);
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
        self.waiting.reserve(self.nodes.len());
        SchedulerClass(at)
    }

    /// Changes a class in place; its tokens stay, up to the new bursts.
    ///
    /// # Errors
    /// [`Misplaced::Unknown`].
    pub fn change(&mut self, now: Time, node: SchedulerClass, spec: HtbSpec) -> Result<(), Misplaced> {
        let backlogged = self.known(node)?.backlogged;
        if backlogged {
            self.leave(node.0);
        }
        let leaf = &mut self.nodes[node.index()];
        leaf.rate.change(spec.rate, spec.burst, now);
        leaf.ceil.change(spec.ceil, spec.cburst, now);
        leaf.spec = spec;
        if backlogged {
            self.enter(node.0);
        }
        Ok(())
    }

    /// Forgets a class. Its queue must have been purged.
    ///
    /// # Errors
    /// [`Misplaced`].
    pub fn remove(&mut self, node: SchedulerClass) -> Result<(), Misplaced> {
        if self.known(node)?.backlogged {
            return Err(Misplaced::Backlogged(node));
        }
        self.nodes[node.index()].known = false;
        self.free.push(node.0);
        Ok(())
    }

    /// The state of a class.
    pub fn state(&self, node: SchedulerClass) -> Option<LeafState> {
        let leaf = self.known(node).ok()?;
        Some(LeafState { colour: leaf.colour, tokens: leaf.rate.tokens, ctokens: leaf.ceil.tokens })
    }

    fn known(&self, node: SchedulerClass) -> Result<&Leaf, Misplaced> {
        self.nodes.get(node.index()).filter(|l| l.known).ok_or(Misplaced::Unknown(node))
    }

    /// Adds the class to the ring of its colour, and to the heap unless it is green. Its buckets must have been
    /// filled.
    fn enter(&mut self, at: u32) {
        let leaf = &mut self.nodes[at as usize];
        leaf.colour = leaf.colour_now();
        leaf.backlogged = true;
        match leaf.colour {
            Colour::Green => {}
            Colour::Yellow => self.waiting.insert(&mut self.places, leaf.rate.opens(), at),
            Colour::Red => self.waiting.insert(&mut self.places, leaf.ceil.opens(), at),
        }
        let leaf = &self.nodes[at as usize];
        if leaf.colour == Colour::Red {
            return;
        }
        let (colour, priority) = (leaf.colour as usize, leaf.priority());
        let turn = self.turn[colour][priority];
        let (prev, next) = if turn == NONE { (at, at) } else { (self.nodes[turn as usize].prev, turn) };
        self.nodes[at as usize].prev = prev;
        self.nodes[at as usize].next = next;
        self.nodes[prev as usize].next = at;
        self.nodes[next as usize].prev = at;
        if turn == NONE {
            self.turn[colour][priority] = at;
        }
    }

    /// Removes the class from ring and heap.
    fn leave(&mut self, at: u32) {
        let leaf = self.nodes[at as usize];
        self.nodes[at as usize].backlogged = false;
        if self.places[at as usize] != ABSENT {
            self.waiting.remove(&mut self.places, at);
        }
        if leaf.colour == Colour::Red {
            return;
        }
        let turn = &mut self.turn[leaf.colour as usize][leaf.priority()];
        if leaf.next == at {
            *turn = NONE;
            return;
        }
        if *turn == at {
            *turn = leaf.next;
        }
        self.nodes[leaf.prev as usize].next = leaf.next;
        self.nodes[leaf.next as usize].prev = leaf.prev;
    }

    fn first(&self, colour: Colour) -> Option<SchedulerClass> {
        self.turn[colour as usize].iter().find(|at| **at != NONE).map(|at| SchedulerClass(*at))
    }
}

impl Leaf {
    fn new(spec: HtbSpec, now: Time) -> Leaf {
        Leaf {
            known: true,
            backlogged: false,
            spec,
            rate: Bucket::new(spec.rate, spec.burst, now),
            ceil: Bucket::new(spec.ceil, spec.cburst, now),
            colour: Colour::Red,
            deficit: [0; 2],
            next: NONE,
            prev: NONE,
        }
    }

    fn priority(&self) -> usize {
        usize::from(self.spec.priority).min(PRIORITIES - 1)
    }

    fn fill(&mut self, now: Time) {
        self.rate.fill(now);
        self.ceil.fill(now);
    }

    fn colour_now(&self) -> Colour {
        match (self.ceil.open(), self.rate.open()) {
            (false, _) => Colour::Red,
            (true, true) => Colour::Green,
            (true, false) => Colour::Yellow,
        }
    }
}

impl Scheduler for Htb {
    fn backlogged(&mut self, now: Time, leaf: SchedulerClass, _head: u32) {
        self.now = now;
        self.nodes[leaf.index()].fill(now);
        self.enter(leaf.0);
    }

    fn choose(&mut self, now: Time) -> Option<SchedulerClass> {
        self.now = now;
        while let Some((when, at)) = self.waiting.first().filter(|(when, _)| *when <= now) {
            debug_assert!(when <= now);
            self.leave(at);
            self.nodes[at as usize].fill(now);
            self.enter(at);
        }
        if let Some(node) = self.first(Colour::Green) {
            self.lent = false;
            return Some(node);
        }
        self.link.fill(now);
        self.lent = true;
        if self.link.open() { self.first(Colour::Yellow) } else { None }
    }

    fn served(&mut self, now: Time, node: SchedulerClass, len: u32, next: Option<u32>) {
        self.link.fill(now);
        self.link.charge(len);
        let level = usize::from(self.lent);
        let leaf = &mut self.nodes[node.index()];
        leaf.fill(now);
        if !self.lent {
            leaf.rate.charge(len);
        }
        leaf.ceil.charge(len);
        leaf.deficit[level] -= i64::from(len);
        let turn_is_over = leaf.deficit[level] < 0;
        if turn_is_over {
            leaf.deficit[level] += i64::from(leaf.spec.quantum.max(1));
        }
        let (ring, priority, successor) = (leaf.colour, leaf.priority(), leaf.next);
        if next.is_none() {
            self.leave(node.0);
            return;
        }
        if turn_is_over {
            self.turn[ring as usize][priority] = successor;
        }
        let leaf = &self.nodes[node.index()];
        match leaf.colour_now() {
            same if same == ring => {
                if same == Colour::Yellow {
                    self.waiting.update(&mut self.places, leaf.rate.opens(), node.0);
                }
            }
            _ => {
                self.leave(node.0);
                self.enter(node.0);
            }
        }
    }

    fn purged(&mut self, _now: Time, leaf: SchedulerClass) {
        if self.nodes[leaf.index()].backlogged {
            self.leave(leaf.0);
        }
    }

    fn wake_at(&self) -> Option<Time> {
        if self.first(Colour::Green).is_some() {
            return Some(self.now);
        }
        let change = self.waiting.first().map(|(when, _)| when);
        let loan = self.first(Colour::Yellow).map(|_| self.link.opens());
        [change, loan].into_iter().flatten().min().filter(|when| *when != Time::FOREVER)
    }
}

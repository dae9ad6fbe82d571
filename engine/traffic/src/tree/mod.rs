//! A queue tree: the algorithms of this crate, combined by one closed description, [`TreeSpec`].
//!
//! A packet is classified to a leaf by multi-field rules, waits in the leaf's shaper, is coloured by its meter, gets its
//! code point by the marker, passes the dropper into the queue (the order of RFC 2475 figure 1, with the shaper in front of
//! the meter as in RFC 2963 figure 1), and leaves when the schedulers between leaf and link choose it.
//!
//! **Bytes.** Shapers, meters, droppers and queues count bytes of the IP packet; schedulers and the link count those and
//! [`LinkShape::overhead`] per packet.
//!
//! **Time.** The tree paces nothing: [`Tree::dequeue`] returns a packet whenever it is called and one may go, so the
//! driver calls it when its link is free. Shapers release packets between two calls at the packets' own instants, in
//! order, so results do not depend on how often the driver calls. Time that runs backwards is a programming error in
//! debug builds; in release builds the latest time known is used, and the event counted.
//!
//! **Memory** is reserved when the tree is made or changed, for queues in one pool and for shapers in
//! another: no packet allocates.

mod change;
mod check;
mod check_leaf;
mod counters;
mod egress;
mod fault;
mod inner;
mod leaf;
mod pipeline;
mod rules;
mod serve;
mod spec;

pub use check::{MAX_DEPTH, MAX_NODES, MAX_OVERHEAD, MAX_QUANTUM, MAX_RATE, check};
pub use check_leaf::{MAX_BUFFER, MAX_QUEUE};
pub use counters::{ColorTally, LeafCounters, Tally, TreeCounters};
pub use egress::TreeEgress;
pub use fault::{TreeFault, Unworkable};
pub use rules::{MAX_EXACT_RULES, MAX_RULES};
pub use spec::{
    DropperSpec, LeafSpec, LinkShape, MeterKind, MeterSpec, MultiFieldRule, NodeKind, QueueUnit, RasSpec, ShaperSpec,
    Sharing, TreeNodeSpec, TreeShare, TreeSpec,
};

use self::check::Survey;
use self::inner::{Child, Inner, ROOT};
use self::leaf::{Buffers, Leaf};
use self::rules::Rules;
use crate::meter::Color;
use crate::queue::Pool;
use crate::scheduler::SchedulerClass;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use terms::{Dscp, PacketMeta, Time};
use wheel::Wheel;

/// The most packets in all queues of a tree, and the most in all its shapers; one may be full because the tree is.
pub const MAX_POOL: u32 = 1 << 20;
/// The shortest IP packet: bytes of an IPv4 header without options.
pub const MIN_PACKET: u32 = 20;
/// The most losses that are kept for [`Tree::poll_loss`]; older ones are forgotten (counters are not).
pub const MAX_LOSSES: usize = 1 << 16;

/// The index of a leaf among the leaves of [`TreeSpec::nodes`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LeafId(pub u32);

/// The result for a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TreeVerdict {
    /// The packet is in a shaper.
    Held,
    /// The packet is in a queue, with this colour.
    Queued(Color),
    /// The packet is dropped.
    Dropped(Drop),
}

/// The reason for which a packet was dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Drop {
    /// It is shorter than [`MIN_PACKET`].
    Runt,
    /// The shaper's buffer is full.
    ShaperFull,
    /// It is larger than the shaper's token bucket, so it would never leave.
    OverDepth,
    /// Dropped by chance, with the average queue between its thresholds.
    Early(Color),
    /// The average queue is above the upper threshold.
    Forced(Color),
    /// The queue, or the pool of all queues, is full.
    QueueFull(Color),
}

/// A packet that was held by a shaper and then dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Loss {
    /// The packet.
    pub packet: PacketMeta,
    /// The leaf.
    pub leaf: LeafId,
    /// The reason.
    pub why: Drop,
}

/// A packet that goes to the link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Departure {
    /// The packet as it came.
    pub packet: PacketMeta,
    /// The code point of the outgoing packet.
    pub dscp: Dscp,
    /// Its colour.
    pub color: Color,
    /// The leaf.
    pub leaf: LeafId,
}

/// A queue tree at work.
#[derive(Clone, Debug)]
pub struct Tree {
    spec: TreeSpec,
    survey: Survey,
    /// By node: its index among the leaves or inner nodes.
    places: Vec<u32>,
    /// Nodes by name.
    names: Vec<u32>,
    leaves: Vec<Seat>,
    inners: Vec<Inner>,
    rules: Rules,
    buffers: Buffers,
    /// Leaves with packets in their shapers, by the time at which the head may leave, to the nanosecond.
    due: Wheel,
    losses: VecDeque<Loss>,
    counters: TreeCounters,
    now: Time,
    random: u64,
}

/// A leaf and its position in the tree.
#[derive(Clone, Debug)]
struct Seat {
    leaf: Leaf,
    /// The index in [`TreeSpec::nodes`].
    node: usize,
    parent: u32,
    class: SchedulerClass,
    /// The time at which the head of its shaper may leave, if a packet waits there.
    due: Time,
}

impl Tree {
    /// A tree without packets. `seed` is for droppers and TSWTCM, which decide by chance.
    ///
    /// # Errors
    /// [`Unworkable`], as [`check`].
    pub fn new(spec: TreeSpec, now: Time, seed: u64) -> Result<Tree, Unworkable> {
        let survey = check::survey(&spec)?;
        let root = Inner::new(spec.link.scheduler, spec.link.rate, None, ROOT, SchedulerClass::ROOT);
        let mut names: Vec<u32> = (0..spec.nodes.len() as u32).collect();
        names.sort_unstable_by_key(|&node| &spec.nodes[node as usize].name);
        let mut tree = Tree {
            spec,
            survey,
            places: Vec::new(),
            names,
            leaves: Vec::new(),
            inners: alloc::vec![root],
            rules: Rules::new([draw(seed), draw(!seed)]),
            buffers: Buffers { queued: Pool::new(MAX_POOL), held: Pool::new(MAX_POOL) },
            due: Wheel::new(0, now, 0),
            losses: VecDeque::with_capacity(MAX_LOSSES),
            counters: TreeCounters::default(),
            now,
            random: seed,
        };
        tree.grow(now)?;
        tree.due.reserve(tree.leaves.len());
        tree.index_rules();
        tree.reserve();
        Ok(tree)
    }

    /// The description of the tree, with all changes.
    pub fn spec(&self) -> &TreeSpec {
        &self.spec
    }

    /// The leaves with their names, in order.
    pub fn leaves(&self) -> impl Iterator<Item = (LeafId, &str)> {
        let name = |seat: &Seat| self.spec.nodes[seat.node].name.as_str();
        self.leaves.iter().enumerate().map(move |(i, seat)| (LeafId(i as u32), name(seat)))
    }

    /// A leaf's counters.
    pub fn counters(&self, leaf: LeafId) -> Option<LeafCounters> {
        self.leaves.get(leaf.0 as usize).map(|seat| seat.leaf.counters())
    }

    /// The tree's own counters.
    pub fn totals(&self) -> TreeCounters {
        self.counters
    }

    /// The number of packets in all queues, without shapers.
    pub fn queued(&self) -> u32 {
        self.buffers.queued.len()
    }

    /// The wire bytes of a packet of `len` IP bytes.
    pub fn wire_bytes(&self, len: u32) -> u32 {
        len.saturating_add(self.spec.link.overhead)
    }

    /// The leaf of a packet.
    pub fn classify(&self, packet: &PacketMeta) -> LeafId {
        self.rules.leaf_of(packet)
    }

    /// The next packet that a shaper held and the leaf then dropped; drivers free its buffer.
    pub fn poll_loss(&mut self) -> Option<Loss> {
        self.losses.pop_front()
    }

    /// Makes inner nodes and leaves, each after its parent.
    fn grow(&mut self, now: Time) -> Result<(), Unworkable> {
        let (line, survey) = (self.spec.link.rate, &self.survey);
        // Leaves are numbered as they are written, whatever the order of making.
        let mut seats: Vec<Option<Seat>> = Vec::new();
        let mut numbers = alloc::vec![0u32; self.spec.nodes.len()];
        for (node, found) in self.spec.nodes.iter().enumerate() {
            if let NodeKind::Leaf(_) = found.kind {
                numbers[node] = seats.len() as u32;
                seats.push(None);
            }
        }
        for &node in &survey.order {
            let found = &self.spec.nodes[node];
            let parent = survey.parents[node].map_or(ROOT, |p| numbers[p]);
            let child = match found.kind {
                NodeKind::Inner(_) => Child::Inner(self.inners.len() as u32),
                NodeKind::Leaf(_) => Child::Leaf(numbers[node]),
            };
            let fault = |fault| check::at(&self.spec, &survey.parents, node, "", fault);
            let scheduler = check::sharing(&self.spec, survey.parents[node]);
            let class = self.inners[parent as usize]
                .adopt(now, found.share, child)
                .ok_or_else(|| fault(TreeFault::WrongShare { scheduler, stated: found.share.name() }))?;
            match &found.kind {
                NodeKind::Inner(sharing) => {
                    numbers[node] = self.inners.len() as u32;
                    self.inners.push(Inner::new(*sharing, survey.rates[node], Some(node), parent, class));
                }
                NodeKind::Leaf(spec) => {
                    let leaf = Leaf::new(spec, line, now, &self.buffers).map_err(fault)?;
                    seats[numbers[node] as usize] = Some(Seat { leaf, node, parent, class, due: now });
                }
            }
        }
        self.leaves = seats.into_iter().flatten().collect();
        self.places = numbers;
        Ok(())
    }

    /// The leaves' rules, in order.
    fn index_rules(&mut self) {
        let nodes = &self.spec.nodes;
        self.rules.set(self.leaves.iter().enumerate().filter_map(|(i, seat)| match &nodes[seat.node].kind {
            NodeKind::Leaf(spec) => Some((LeafId(i as u32), spec.rules.as_slice())),
            NodeKind::Inner(_) => None,
        }));
    }

    /// Reserves room for every queue's and every shaper's packets, as if they were the shortest.
    fn reserve(&mut self) {
        let leaves = || {
            self.spec.nodes.iter().filter_map(|node| match &node.kind {
                NodeKind::Leaf(leaf) => Some(leaf),
                NodeKind::Inner(_) => None,
            })
        };
        self.buffers.queued.reserve(leaves().map(|leaf| u64::from(leaf.queue.packets)).sum());
        let held = leaves().filter_map(|leaf| leaf.shaper.as_ref()).map(|shaper| shaper.buffer().get());
        self.buffers.held.reserve(held.map(|bytes| bytes / u64::from(MIN_PACKET)).sum());
    }

    /// Two uniform draws.
    fn draw(&mut self) -> [u32; 2] {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = draw(self.random);
        [(z >> 32) as u32, z as u32]
    }
}

/// SplitMix64 (Steele, Lea and Flood 2014).
const fn draw(state: u64) -> u64 {
    let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

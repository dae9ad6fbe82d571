//! A queue tree: one closed description, [`TreeSpec`], with names, rules and nested schedulers, run by a
//! [`crate::path::PacketPath`].
//!
//! A packet is classified to a leaf by multi-field rules; the packet path does the rest (the order of RFC 2475 figure 1,
//! with the shaper in front of the meter as in RFC 2963 figure 1).
//!
//! **Bytes.** Shapers, meters, droppers and queues count bytes of the IP packet; schedulers and the link count those and
//! [`LinkShape::overhead`] per packet. Time, packets and memory are as [`crate::path`] says.

mod change;
mod check;
mod counters;
mod egress;
mod fault;
mod rules;
mod spec;

pub use crate::conditioner::{
    DropperSpec, MAX_BUFFER, MAX_QUEUE, MeterKind, MeterSpec, QueueUnit, RasSpec, ShaperSpec,
};
pub use crate::path::{
    ColorTally, Departure, Drop, LeafCounters, LeafId, Loss, MAX_QUANTUM, MIN_PACKET, PathVerdict, Tally, TreeShare,
};
pub use crate::scheduler::SchedulerKind;
pub use check::{MAX_DEPTH, MAX_NODES, MAX_OVERHEAD, MAX_RATE, check};
pub use counters::TreeCounters;
pub use egress::TreeEgress;
pub use fault::{TreeFault, Unworkable};
pub use rules::{MAX_EXACT_RULES, MAX_RULES};
pub use spec::{LeafSpec, LinkShape, MultiFieldRule, NodeKind, TreeNodeSpec, TreeSpec};

use self::check::Survey;
use self::rules::Rules;
use crate::path::{InnerId, PacketPath, mix};
use crate::plan::LinkSpec;
use alloc::vec::Vec;
use terms::{PacketMeta, Time};

/// The most packets in all queues of a tree, and the most in all its shapers; one may be full because the tree is.
pub const MAX_POOL: u32 = 1 << 20;
/// The MTU of a link whose description states none.
const MTU: u32 = 1500;

/// A queue tree at work.
#[derive(Clone, Debug)]
pub struct Tree {
    spec: TreeSpec,
    survey: Survey,
    path: PacketPath,
    /// By node: its leaf or inner node.
    places: Vec<Place>,
    /// Nodes by name.
    names: Vec<u32>,
    /// By leaf: its index in [`TreeSpec::nodes`].
    nodes: Vec<usize>,
    rules: Rules,
    counters: TreeCounters,
}

/// The part of the path that a node is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    Inner(InnerId),
    Leaf(LeafId),
}

impl Tree {
    /// A tree without packets. `seed` is for droppers and TSWTCM, which decide by chance.
    ///
    /// # Errors
    /// [`Unworkable`], as [`check`].
    pub fn new(spec: TreeSpec, now: Time, seed: u64) -> Result<Tree, Unworkable> {
        let survey = check::survey(&spec)?;
        let mut names: Vec<u32> = (0..spec.nodes.len() as u32).collect();
        names.sort_unstable_by_key(|&node| &spec.nodes[node as usize].name);
        let LinkShape { rate, overhead, scheduler } = spec.link;
        let link = LinkSpec { rate, overhead, mtu: MTU, scheduler };
        let mut tree = Tree {
            path: PacketPath::new(link, MAX_POOL, now, seed),
            places: alloc::vec![Place::Inner(InnerId::LINK); spec.nodes.len()],
            nodes: Vec::new(),
            rules: Rules::new([mix(seed), mix(!seed)]),
            counters: TreeCounters::default(),
            spec,
            survey,
            names,
        };
        tree.grow(now)?;
        tree.path.reserve();
        tree.index_rules();
        Ok(tree)
    }

    /// The description of the tree, with all changes.
    pub fn spec(&self) -> &TreeSpec {
        &self.spec
    }

    /// The leaves with their names, in order.
    pub fn leaves(&self) -> impl Iterator<Item = (LeafId, &str)> {
        let name = |node: &usize| self.spec.nodes[*node].name.as_str();
        self.nodes.iter().enumerate().map(move |(i, node)| (LeafId(i as u32), name(node)))
    }

    /// A leaf's counters.
    pub fn counters(&self, leaf: LeafId) -> Option<LeafCounters> {
        self.path.counters(leaf)
    }

    /// The tree's own counters.
    pub fn totals(&self) -> TreeCounters {
        TreeCounters { backwards: self.path.backwards(), ..self.counters }
    }

    /// The number of packets in all queues, without shapers.
    pub fn queued(&self) -> u32 {
        self.path.queued()
    }

    /// The wire bytes of a packet of `len` IP bytes.
    pub fn wire_bytes(&self, len: u32) -> u32 {
        self.path.wire_bytes(len)
    }

    /// The leaf of a packet.
    pub fn classify(&self, packet: &PacketMeta) -> LeafId {
        self.rules.leaf_of(packet)
    }

    /// Takes an incoming packet.
    ///
    /// # Panics
    /// In debug builds, if `now` is before that of an earlier call.
    pub fn enqueue(&mut self, now: Time, packet: PacketMeta) -> PathVerdict {
        if packet.len < MIN_PACKET {
            self.counters.runts.add(packet.len);
            return PathVerdict::Dropped(Drop::Runt);
        }
        let leaf = self.classify(&packet);
        self.path.enqueue(now, leaf, packet)
    }

    /// The packet that goes now, if one may: [`PacketPath::dequeue`].
    ///
    /// # Panics
    /// In debug builds, if `now` is before that of an earlier call.
    pub fn dequeue(&mut self, now: Time) -> Option<Departure> {
        self.path.dequeue(now)
    }

    /// The time of the next useful call of [`Tree::dequeue`]: [`PacketPath::wake_at`].
    pub fn wake_at(&self, now: Time) -> Option<Time> {
        self.path.wake_at(now)
    }

    /// The next packet that was taken and then lost; drivers free its buffer.
    pub fn poll_loss(&mut self) -> Option<Loss> {
        self.path.poll_loss()
    }

    /// Makes inner nodes and leaves, each after its parent. Leaves are numbered as they are written.
    fn grow(&mut self, now: Time) -> Result<(), Unworkable> {
        let is_leaf = |node: &usize| matches!(self.spec.nodes[*node].kind, NodeKind::Leaf(_));
        self.nodes = (0..self.spec.nodes.len()).filter(is_leaf).collect();
        self.path.number_leaves(self.nodes.len());
        for (number, &node) in self.nodes.iter().enumerate() {
            self.places[node] = Place::Leaf(LeafId(number as u32));
        }
        for &node in &self.survey.order {
            let found = &self.spec.nodes[node];
            let above = self.survey.parents[node];
            let parent = match above.map(|p| self.places[p]) {
                Some(Place::Inner(inner)) => inner,
                _ => InnerId::LINK,
            };
            let fault = |fault| check::at(&self.spec, &self.survey.parents, node, "", fault);
            let (scheduler, stated) = (check::sharing(&self.spec, above), found.share.name());
            let wrong = || fault(TreeFault::WrongShare { scheduler, stated });
            match (&found.kind, self.places[node]) {
                (NodeKind::Leaf(leaf), Place::Leaf(id)) => {
                    let added = self.path.put_leaf(now, id, parent, found.share, &leaf.parts());
                    added.map_err(|wrong| fault(wrong.into()))?.then_some(()).ok_or_else(wrong)?;
                }
                (NodeKind::Inner(kind), _) => {
                    let added = self.path.add_inner(parent, found.share, *kind, self.survey.rates[node]);
                    self.places[node] = Place::Inner(added.ok_or_else(wrong)?);
                }
                (NodeKind::Leaf(_), Place::Inner(_)) => {}
            }
        }
        Ok(())
    }

    /// The leaves' rules, in order.
    fn index_rules(&mut self) {
        let nodes = &self.spec.nodes;
        self.rules.set(self.nodes.iter().enumerate().filter_map(|(i, node)| match &nodes[*node].kind {
            NodeKind::Leaf(spec) => Some((LeafId(i as u32), spec.rules.as_slice())),
            NodeKind::Inner(_) => None,
        }));
    }
}

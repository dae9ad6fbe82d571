//! The data plane of one interface, as the simulator and the user-space plane run it.
//!
//! classifier -> policer (the excess over the flow's bucket goes to best effort) -> the class's queue ->
//! scheduler. Either side of it may be an edge, which drops the excess over a rule and marks the rest
//! ([`crate::edge`]); a packet without a flow goes to the class of its code point, if there is one. It is
//! told [`PlanOp`]s, packets, and that the link is free; it says packets, and when to ask again. It knows the
//! link's speed only from the plan: the owner of the link asks for the next packet when the last one is out.
//!
//! Before the interface is made ours ([`PlanOp::Link`]) it is one FIFO, as on a host without traffic control.
//! The same FIFO takes best-effort packets while there is no best-effort class; it is served before all
//! classes, as the kernel serves packets without a class.
//!
//! Bytes: queues, schedulers and class counters count the IP packet plus the link's overhead; policers and flow
//! counters count IP bytes.

mod discipline;
mod flows;
mod refused;

pub use self::discipline::SchedulerKind;
pub use self::refused::PortRefused;

use self::discipline::Discipline;
use self::flows::{Flows, TooMany};
use crate::edge::{Conditioned, Edge, EdgeAt, EdgeFull, EdgeRule, MultiField, Side};
use crate::plan::{ClassId, ClassSpec, Counters, FlowSpecEntry, LinkSpec, PlanOp, QueueSpec};
use crate::queue::{Fifo, Full, Pool};
use crate::scheduler::{Scheduler, SchedulerClass};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use terms::{Bytes, FlowKey, IfIndex, PacketMeta, Time};

/// IP protocol of RSVP, whose packets go to [`ClassId::CONTROL`].
const RSVP: u8 = 46;
/// The value that a packet reader stores as ports for an ICMP echo with Boomerang's magic, half of it in
/// each. Such packets go to [`ClassId::CONTROL`] too.
pub const BOOMERANG: u16 = 0x4711;

/// The size limits of a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// The most flows.
    pub flows: usize,
    /// The most classes.
    pub classes: usize,
    /// The most packets in all queues together.
    pub packets: u32,
    /// The limits of the FIFO of an interface without classes.
    pub plain: QueueSpec,
}

impl Default for Limits {
    /// A million flows, the kernel's 65,535 classes, 65,536 packets, a plain FIFO of 1,000.
    fn default() -> Self {
        Limits {
            flows: 1 << 20,
            classes: 65_535,
            packets: 65_536,
            plain: QueueSpec { packets: 1_000, bytes: Bytes::MAX },
        }
    }
}

/// The result for a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The packet waits in a class.
    Queued {
        /// The class; [`ClassId::LINK`]: the plain FIFO.
        class: ClassId,
        /// True if it exceeded its flow's bucket and is best effort.
        excess: bool,
    },
    /// The packet was dropped.
    Dropped {
        /// The class of the full queue.
        class: ClassId,
        /// The reason.
        reason: Full,
    },
    /// The packet exceeded a rule of the edge at this interface's way out.
    Policed,
}

/// The fates of all packets so far: `received = sent + dropped + policed + purged + queued`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    /// Packets that came.
    pub received: u64,
    /// Packets that went out.
    pub sent: u64,
    /// Packets that found their queue full.
    pub dropped: u64,
    /// Packets that exceeded a rule of the edge on their way out.
    pub policed: u64,
    /// Packets that were lost with their class or link.
    pub purged: u64,
    /// Calls with a time before the last one; the last time was used instead.
    pub backwards: u64,
}

/// One interface.
#[derive(Clone, Debug)]
pub struct Port {
    oif: IfIndex,
    kind: SchedulerKind,
    limits: Limits,
    link: Option<LinkSpec>,
    discipline: Option<Discipline>,
    plain: Fifo,
    pool: Pool<PacketMeta>,
    classes: BTreeMap<ClassId, SchedulerClass>,
    /// The classes for packets without a flow entry.
    best_effort: Option<SchedulerClass>,
    control: Option<SchedulerClass>,
    /// The leaves, by node number.
    leaves: Vec<Leaf>,
    flows: Flows,
    edges: BTreeMap<Side, Edge>,
    key: [u64; 2],
    totals: Totals,
    now: Time,
}

#[derive(Clone, Debug)]
struct Leaf {
    class: ClassId,
    spec: ClassSpec,
    queue: Fifo,
    counters: Counters,
    flows: usize,
}

impl Port {
    /// The interface `oif`, not ours yet. `key` keys the classifier's hash.
    pub fn new(oif: IfIndex, kind: SchedulerKind, limits: Limits, key: [u64; 2]) -> Port {
        let mut port = Port {
            oif,
            kind,
            limits,
            link: None,
            discipline: None,
            plain: Fifo::new(limits.plain),
            pool: Pool::new(limits.packets),
            classes: BTreeMap::new(),
            best_effort: None,
            control: None,
            leaves: Vec::new(),
            flows: Flows::new(key, limits.flows),
            edges: BTreeMap::new(),
            key,
            totals: Totals::default(),
            now: Time::ZERO,
        };
        port.reserve();
        port
    }

    /// Carries out one operation of the plan.
    ///
    /// # Errors
    /// [`PortRefused`]; the port is unchanged.
    pub fn apply(&mut self, now: Time, op: &PlanOp) -> Result<(), PortRefused> {
        let now = self.clock(now);
        let oif = op.oif();
        if oif != self.oif {
            return Err(PortRefused::OtherInterface(oif));
        }
        match *op {
            PlanOp::Link { spec, .. } => {
                self.set_link(now, spec);
                Ok(())
            }
            PlanOp::DropLink { .. } => {
                self.drop_link();
                Ok(())
            }
            PlanOp::Class { class, spec, .. } => self.set_class(now, class, spec),
            PlanOp::DropClass { class, .. } => self.drop_class(now, class),
            PlanOp::Flow { flow, entry, .. } => self.set_flow(now, flow, entry),
            PlanOp::DropFlow { flow, .. } => {
                if let Some(had) = self.flows.remove(&flow) {
                    self.leaves[had.index()].flows -= 1;
                }
                Ok(())
            }
            PlanOp::Edge { at } => {
                let key = self.key;
                self.edges.entry(at.side).or_insert_with(|| Edge::new(key));
                Ok(())
            }
            PlanOp::DropEdge { at } => {
                self.edges.remove(&at.side);
                Ok(())
            }
            PlanOp::Rule { at, fields, rule } => self.set_rule(now, at, fields, rule),
            PlanOp::DropRule { at, fields } => {
                self.edges.get_mut(&at.side).into_iter().for_each(|edge| edge.remove(&fields));
                Ok(())
            }
        }
    }

    /// Takes an incoming packet: returns it as it goes on, or `None` if the edge dropped it.
    pub fn arrive(&mut self, now: Time, packet: PacketMeta) -> Option<PacketMeta> {
        let now = self.clock(now);
        self.pass(Side::Ingress, now, packet)
    }

    /// Takes an outgoing packet.
    pub fn enqueue(&mut self, now: Time, packet: PacketMeta) -> Verdict {
        let now = self.clock(now);
        self.totals.received += 1;
        let Some(packet) = self.pass(Side::Egress, now, packet) else {
            self.totals.policed += 1;
            return Verdict::Policed;
        };
        let (class, excess) = self.classify(now, &packet);
        let wire = packet.len.saturating_add(self.link.map_or(0, |link| link.overhead));
        let verdict = match class.and_then(|node| self.discipline.as_mut().map(|d| (node, d))) {
            Some((node, discipline)) => {
                let leaf = &mut self.leaves[node.index()];
                let was_empty = leaf.queue.is_empty();
                match leaf.queue.push(&mut self.pool, wire, packet) {
                    Ok(()) => {
                        if was_empty {
                            discipline.backlogged(now, node, wire);
                        }
                        Verdict::Queued { class: leaf.class, excess }
                    }
                    Err(reason) => {
                        leaf.counters.over_packets += 1;
                        leaf.counters.over_bytes += u64::from(wire);
                        Verdict::Dropped { class: leaf.class, reason }
                    }
                }
            }
            None => match self.plain.push(&mut self.pool, wire, packet) {
                Ok(()) => Verdict::Queued { class: ClassId::LINK, excess },
                Err(reason) => Verdict::Dropped { class: ClassId::LINK, reason },
            },
        };
        self.totals.dropped += u64::from(matches!(verdict, Verdict::Dropped { .. }));
        verdict
    }

    /// The packet that goes out now, when the link is free. `None`: ask again at [`Port::wake_at`], or after a
    /// packet.
    pub fn dequeue(&mut self, now: Time) -> Option<PacketMeta> {
        let now = self.clock(now);
        if let Some((_, packet)) = self.plain.pop(&mut self.pool) {
            self.totals.sent += 1;
            return Some(packet);
        }
        let discipline = self.discipline.as_mut()?;
        let node = discipline.choose(now)?;
        let leaf = &mut self.leaves[node.index()];
        // A scheduler chooses only classes that it was told hold packets.
        let (wire, packet) = leaf.queue.pop(&mut self.pool).expect("a chosen class holds a packet");
        discipline.served(now, node, wire, leaf.queue.head_bytes(&self.pool));
        leaf.counters.packets += 1;
        leaf.counters.bytes += u64::from(wire);
        self.totals.sent += 1;
        Some(packet)
    }

    /// The time at which [`Port::dequeue`] can succeed after it said `None`; `None`: not before a packet
    /// comes. A time in the past means at once.
    pub fn wake_at(&self) -> Option<Time> {
        if !self.plain.is_empty() {
            return Some(self.now);
        }
        self.discipline.as_ref().and_then(Scheduler::wake_at)
    }

    /// The number of waiting packets.
    pub fn queued(&self) -> u32 {
        self.pool.len()
    }

    /// The number of waiting packets in one class.
    pub fn queued_in(&self, class: ClassId) -> Option<u32> {
        if class == ClassId::LINK {
            return Some(self.plain.packets());
        }
        self.leaf(class).map(|leaf| leaf.queue.packets())
    }

    /// The fates of all packets.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// The counters of a class: sent (wire bytes) and dropped.
    pub fn class_counters(&self, class: ClassId) -> Option<Counters> {
        self.leaf(class).map(|leaf| leaf.counters)
    }

    /// The conforming and the excess packets of a flow (IP bytes); of all flows that share its bucket.
    pub fn flow_counters(&self, flow: &FlowKey) -> Option<Counters> {
        self.flows.counters(flow)
    }

    /// The root, once the interface is ours.
    pub fn link(&self) -> Option<&LinkSpec> {
        self.link.as_ref()
    }

    /// Every class with its installed specification.
    pub fn classes(&self) -> impl Iterator<Item = (ClassId, &ClassSpec)> {
        self.classes.iter().map(|(class, node)| (*class, &self.leaves[node.index()].spec))
    }

    /// The installed entry of a flow.
    pub fn flow(&self, flow: &FlowKey) -> Option<&FlowSpecEntry> {
        self.flows.get(flow)
    }

    /// The edge on one side, with its rules and their counters, if there is one.
    pub fn edge(&self, side: Side) -> Option<&Edge> {
        self.edges.get(&side)
    }

    /// Every flow with its installed entry, in no particular order.
    pub fn flows(&self) -> impl Iterator<Item = (&FlowKey, &FlowSpecEntry)> {
        self.flows.iter()
    }

    fn leaf(&self, class: ClassId) -> Option<&Leaf> {
        self.classes.get(&class).map(|node| &self.leaves[node.index()])
    }

    fn clock(&mut self, now: Time) -> Time {
        if now < self.now {
            self.totals.backwards += 1;
        }
        self.now = self.now.max(now);
        self.now
    }

    /// The class of a packet, and true if it exceeds its flow's bucket. No class: the plain FIFO.
    fn classify(&mut self, now: Time, packet: &PacketMeta) -> (Option<SchedulerClass>, bool) {
        match self.flows.charge(now, packet) {
            Some((node, true)) => (Some(node), false),
            Some((_, false)) => (self.best_effort, true),
            None if is_signalling(&packet.flow) && self.control.is_some() => (self.control, false),
            None => {
                let premium = ClassId::of_code_point(packet.dscp).and_then(|class| self.classes.get(&class).copied());
                (premium.or(self.best_effort), false)
            }
        }
    }

    /// The packet after the edge on that side, if there is one.
    fn pass(&mut self, side: Side, now: Time, packet: PacketMeta) -> Option<PacketMeta> {
        let Some(edge) = self.edges.get_mut(&side) else { return Some(packet) };
        match edge.condition(now, &packet) {
            Conditioned::Passed(dscp) => Some(PacketMeta { dscp, ..packet }),
            Conditioned::Dropped => None,
        }
    }

    fn set_rule(&mut self, now: Time, at: EdgeAt, fields: MultiField, rule: EdgeRule) -> Result<(), PortRefused> {
        let edge = self.edges.get_mut(&at.side).ok_or(PortRefused::NoEdge)?;
        if !fields.is_possible() {
            return Err(PortRefused::Impossible);
        }
        edge.set(now, fields, rule).map_err(|full| match full {
            EdgeFull::Rules => PortRefused::Rules,
            EdgeFull::Kinds => PortRefused::Kinds,
        })
    }

    fn set_link(&mut self, now: Time, spec: LinkSpec) {
        if self.link == Some(spec) {
            return;
        }
        self.link = Some(spec);
        let kind = self.kind;
        let discipline = self.discipline.get_or_insert_with(|| Discipline::new(kind, now, &spec));
        discipline.change_link(now, &spec);
        for node in self.classes.values() {
            let unchanged = discipline.change(now, &spec, *node, &self.leaves[node.index()].spec);
            debug_assert!(unchanged.is_ok(), "every class of the port is in its scheduler");
        }
    }

    /// Goes back to one FIFO; it takes the packets of the classes as far as there is room.
    fn drop_link(&mut self) {
        for leaf in &mut self.leaves {
            while let Some((wire, packet)) = leaf.queue.pop(&mut self.pool) {
                if self.plain.push(&mut self.pool, wire, packet).is_err() {
                    self.totals.purged += 1;
                }
            }
        }
        self.link = None;
        self.discipline = None;
        self.classes.clear();
        self.name_defaults();
        self.leaves.clear();
        self.flows = Flows::new(self.key, self.limits.flows);
    }

    fn set_class(&mut self, now: Time, class: ClassId, spec: ClassSpec) -> Result<(), PortRefused> {
        let (Some(link), Some(discipline)) = (self.link, self.discipline.as_mut()) else {
            return Err(PortRefused::NoLink);
        };
        if class == ClassId::LINK {
            return Err(PortRefused::Root);
        }
        if let Some(node) = self.classes.get(&class) {
            let leaf = &mut self.leaves[node.index()];
            if leaf.spec != spec {
                discipline.change(now, &link, *node, &spec).map_err(|_| PortRefused::UnknownClass(class))?;
                leaf.spec = spec;
                leaf.queue.set_spec(spec.queue);
                self.reserve();
            }
            return Ok(());
        }
        if self.classes.len() >= self.limits.classes {
            return Err(PortRefused::Classes);
        }
        let node = discipline.add(now, &link, &spec).map_err(|_| PortRefused::Classes)?;
        let leaf = Leaf { class, spec, queue: Fifo::new(spec.queue), counters: Counters::default(), flows: 0 };
        // Nodes are numbered without gaps, so at most the root's place is filled with a copy.
        while self.leaves.len() <= node.index() {
            self.leaves.push(leaf.clone());
        }
        self.leaves[node.index()] = leaf;
        self.classes.insert(class, node);
        self.name_defaults();
        self.reserve();
        Ok(())
    }

    fn drop_class(&mut self, now: Time, class: ClassId) -> Result<(), PortRefused> {
        let (Some(node), Some(discipline)) = (self.classes.get(&class).copied(), self.discipline.as_mut()) else {
            return Ok(());
        };
        let leaf = &mut self.leaves[node.index()];
        if leaf.flows > 0 {
            return Err(PortRefused::FlowsRemain(class));
        }
        while leaf.queue.pop(&mut self.pool).is_some() {
            self.totals.purged += 1;
        }
        discipline.purged(now, node);
        discipline.remove(node).map_err(|_| PortRefused::UnknownClass(class))?;
        self.classes.remove(&class);
        self.name_defaults();
        Ok(())
    }

    fn set_flow(&mut self, now: Time, key: FlowKey, entry: FlowSpecEntry) -> Result<(), PortRefused> {
        if self.link.is_none() {
            return Err(PortRefused::NoLink);
        }
        let node = *self.classes.get(&entry.class).ok_or(PortRefused::UnknownClass(entry.class))?;
        let had = self.flows.set(now, key, entry, node).map_err(|TooMany| PortRefused::Flows)?;
        if let Some(had) = had {
            self.leaves[had.index()].flows -= 1;
        }
        self.leaves[node.index()].flows += 1;
        Ok(())
    }

    fn name_defaults(&mut self) {
        self.best_effort = self.classes.get(&ClassId::BEST_EFFORT).copied();
        self.control = self.classes.get(&ClassId::CONTROL).copied();
    }

    /// Reserves memory for as many packets as the queues may hold together, so that no packet allocates.
    fn reserve(&mut self) {
        let queues = self.classes.values().map(|node| u64::from(self.leaves[node.index()].spec.queue.packets));
        self.pool.reserve(queues.sum::<u64>() + u64::from(self.limits.plain.packets));
    }
}

fn is_signalling(flow: &FlowKey) -> bool {
    let echo = matches!(flow.protocol, 1 | 58) && (flow.src_port, flow.dst_port) == (BOOMERANG, BOOMERANG);
    flow.protocol == RSVP || echo
}

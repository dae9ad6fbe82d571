//! The data plane of one interface, as the simulator and the user-space plane run it: a plan, compiled to a packet path.
//!
//! classifier -> policer (the excess over the flow's bucket goes to best effort) -> the class's leaf (conditioner, if it
//! has one, and queue) -> scheduler ([`crate::path`]). Either side of it may be an edge, which drops the excess over a rule
//! and marks the rest ([`crate::edge`]); a packet without a flow goes to the class of its code point, if there is one. It is
//! told [`PlanOp`]s, packets, and that the link is free; it says packets, and when to ask again. It knows the
//! link's speed only from the plan: the owner of the link asks for the next packet when the last one is out.
//!
//! Before the interface is made ours ([`PlanOp::Link`]) it is one FIFO, as on a host without traffic control.
//! The same FIFO takes best-effort packets while there is no best-effort class; it is served before all
//! classes, as the kernel serves packets without a class.
//!
//! Every packet that was taken is said again: it goes ([`Port::dequeue`]) or is lost ([`Port::poll_loss`]).
//!
//! Bytes: queues, schedulers and class counters count the IP packet plus the link's overhead; policers, conditioners and
//! flow counters count IP bytes.

mod change;
mod flows;
mod joined;
mod plane;
mod refused;
mod serve;

pub use self::plane::{PortPlane, PortSet, counters_of, plan_of};
pub use self::refused::PortRefused;
pub use self::serve::PortEgress;
pub use crate::path::Drop;
pub use crate::scheduler::SchedulerKind;

use self::flows::Flows;
use crate::conditioner::ConditionerSpec;
use crate::edge::{Conditioned, Edge, Side};
use crate::meter::Color;
use crate::path::{LeafId, PacketPath, PathVerdict};
use crate::plan::{ClassId, ClassSpec, Counters, EdgePlan, FlowSpecEntry, LinkPlan, LinkSpec, QueueSpec};
use crate::queue::{Fifo, Full, Pool};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use terms::signalling::SignallingPackets;
use terms::{Bytes, FlowKey, IfIndex, PacketMeta, Time};

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
    /// The packet is in a class's shaper.
    Held {
        /// The class.
        class: ClassId,
        /// True if it exceeded its flow's bucket and is best effort.
        excess: bool,
    },
    /// The packet waits in a class.
    Queued {
        /// The class; [`ClassId::LINK`]: the plain FIFO.
        class: ClassId,
        /// True if it exceeded its flow's bucket and is best effort.
        excess: bool,
    },
    /// The packet was dropped.
    Dropped {
        /// The class.
        class: ClassId,
        /// The reason.
        reason: Drop,
    },
    /// The packet exceeded a rule of the edge at this interface's way out.
    Policed,
}

/// The fates of all packets so far: `received = sent + dropped + policed + purged + inside`, with [`Port::inside`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    /// Packets that came.
    pub received: u64,
    /// Packets that went out.
    pub sent: u64,
    /// Packets that found their queue full, or that the class's shaper or dropper refused.
    pub dropped: u64,
    /// Packets that exceeded a rule of the edge on their way out.
    pub policed: u64,
    /// Packets that were lost with their class or link, and claimed.
    pub purged: u64,
    /// Calls with a time before the last one, in release builds; the last time was used instead.
    pub backwards: u64,
}

/// A packet that was taken and then lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PortLoss {
    /// The packet.
    pub packet: PacketMeta,
    /// The class; [`ClassId::LINK`]: the plain FIFO.
    pub class: ClassId,
    /// The reason.
    pub why: Drop,
}

/// One interface.
#[derive(Clone, Debug)]
pub struct Port {
    oif: IfIndex,
    limits: Limits,
    signalling: &'static [SignallingPackets],
    /// The classes at work, once the interface is ours.
    path: Option<PacketPath>,
    plain: Fifo,
    pool: Pool<PacketMeta>,
    classes: BTreeMap<ClassId, LeafId>,
    /// The classes for packets without a flow entry.
    best_effort: Option<LeafId>,
    control: Option<LeafId>,
    /// The classes, by leaf.
    members: Vec<Member>,
    flows: Flows,
    /// The classes that have one place of the link together: [`ClassId::MEASURED`] and best effort.
    joined: Option<[LeafId; 2]>,
    /// True if the last packet belonged to a flow.
    claimed: bool,
    edges: BTreeMap<Side, Edge>,
    key: [u64; 2],
    lost: VecDeque<PortLoss>,
    totals: Totals,
    now: Time,
}

/// A class of the plan.
#[derive(Clone, Copy, Debug)]
struct Member {
    class: ClassId,
    spec: ClassSpec,
    conditioner: Option<ConditionerSpec>,
    counters: Counters,
    flows: usize,
}

impl Port {
    /// The interface `oif`, not ours yet. Packets of `signalling` go to [`ClassId::CONTROL`]. `key` keys the classifier's
    /// hash and the chance of droppers.
    pub fn new(oif: IfIndex, limits: Limits, signalling: &'static [SignallingPackets], key: [u64; 2]) -> Port {
        let mut pool = Pool::new(limits.plain.packets);
        pool.reserve(u64::from(limits.plain.packets));
        Port {
            oif,
            limits,
            signalling,
            path: None,
            plain: Fifo::new(limits.plain),
            pool,
            classes: BTreeMap::new(),
            best_effort: None,
            control: None,
            members: Vec::new(),
            flows: Flows::new(key, limits.flows),
            joined: None,
            claimed: false,
            edges: BTreeMap::new(),
            key,
            lost: VecDeque::new(),
            totals: Totals::default(),
            now: Time::ZERO,
        }
    }

    /// The interface.
    pub fn interface(&self) -> IfIndex {
        self.oif
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
        let (leaf, excess) = self.classify(now, &packet);
        self.put(now, packet, leaf, excess)
    }

    /// Takes an outgoing packet for a link that is free. If nothing waits it goes at once, returned with its class: no
    /// scheduler has a choice then, and the work is spared. Otherwise as [`Port::enqueue`].
    ///
    /// Such a packet counts in no curve. That is as if its class had been idle: from the next packet that waits on, every class
    /// has its curve from that moment, and no packet waits longer than the rest of one.
    ///
    /// # Errors
    /// The verdict of a packet that does not go at once.
    pub fn enqueue_free(&mut self, now: Time, packet: PacketMeta) -> Result<(ClassId, PacketMeta), Verdict> {
        let idle = self.plain.is_empty() && self.edges.is_empty() && self.lost.is_empty();
        let straight = idle && self.path.as_ref().is_some_and(PacketPath::is_idle);
        if !straight {
            return Err(self.enqueue(now, packet));
        }
        let now = self.clock(now);
        self.totals.received += 1;
        let (leaf, excess) = self.classify(now, &packet);
        let sent = leaf.zip(self.path.as_mut()).and_then(|(leaf, path)| {
            let member = &mut self.members[leaf.0 as usize];
            // A limit counts every packet.
            let gone = (member.spec.upper_limit.is_none()).then(|| path.carry(now, leaf, packet.len))?;
            gone.then(|| {
                member.counters.packets += 1;
                member.counters.bytes += u64::from(path.wire_bytes(packet.len));
                member.class
            })
        });
        match sent {
            Some(class) => {
                self.totals.sent += 1;
                Ok((class, packet))
            }
            None => Err(self.put(now, packet, leaf, excess)),
        }
    }

    /// Takes an outgoing frame of the link's own signalling (ARP, neighbour discovery), which no edge and no flow is about:
    /// it goes to [`ClassId::CONTROL`].
    pub fn enqueue_link_frame(&mut self, now: Time, packet: PacketMeta) -> Verdict {
        let now = self.clock(now);
        self.totals.received += 1;
        self.put(now, packet, self.control.or(self.best_effort), false)
    }

    fn put(&mut self, now: Time, packet: PacketMeta, leaf: Option<LeafId>, excess: bool) -> Verdict {
        let room = leaf.is_none_or(|leaf| self.make_room(now, leaf, packet.len));
        let verdict = match leaf.zip(self.path.as_mut()) {
            Some((leaf, path)) => {
                let wire = path.wire_bytes(packet.len);
                let verdict = match room {
                    true => path.enqueue(now, leaf, packet),
                    false => PathVerdict::Dropped(Drop::QueueFull(Color::Green, Full::Packets)),
                };
                let member = &mut self.members[leaf.0 as usize];
                let class = member.class;
                match verdict {
                    PathVerdict::Queued(_) => Verdict::Queued { class, excess },
                    PathVerdict::Held => Verdict::Held { class, excess },
                    PathVerdict::Dropped(reason) => {
                        member.counters.over_packets += 1;
                        member.counters.over_bytes += u64::from(wire);
                        Verdict::Dropped { class, reason }
                    }
                }
            }
            None => self.enqueue_plain(packet, excess),
        };
        self.totals.dropped += u64::from(matches!(verdict, Verdict::Dropped { .. }));
        verdict
    }

    fn enqueue_plain(&mut self, packet: PacketMeta, excess: bool) -> Verdict {
        let class = ClassId::LINK;
        if self.lost.len() >= self.limits.packets as usize {
            return Verdict::Dropped { class, reason: Drop::Unclaimed };
        }
        let wire = self.path.as_ref().map_or(packet.len, |path| path.wire_bytes(packet.len));
        match self.plain.push(&mut self.pool, wire, packet) {
            Ok(()) => Verdict::Queued { class, excess },
            Err(full) => Verdict::Dropped { class, reason: Drop::QueueFull(Color::Green, full) },
        }
    }

    /// The packet that goes out now, when the link is free. `None`: ask again at [`Port::wake_at`], or after a
    /// packet.
    pub fn dequeue(&mut self, now: Time) -> Option<PacketMeta> {
        self.depart(now).map(|(_, packet)| packet)
    }

    /// The same with its class; [`ClassId::LINK`]: the plain FIFO.
    pub fn depart(&mut self, now: Time) -> Option<(ClassId, PacketMeta)> {
        let now = self.clock(now);
        if let Some((_, packet)) = self.plain.pop(&mut self.pool) {
            self.totals.sent += 1;
            return Some((ClassId::LINK, packet));
        }
        let path = self.path.as_mut()?;
        let gone = path.dequeue(now)?;
        let member = &mut self.members[gone.leaf.0 as usize];
        member.counters.packets += 1;
        member.counters.bytes += u64::from(path.wire_bytes(gone.packet.len));
        self.totals.sent += 1;
        Some((member.class, PacketMeta { dscp: gone.dscp, ..gone.packet }))
    }

    /// The time at which [`Port::dequeue`] can succeed after it said `None`; `None`: not before a packet
    /// comes. A time in the past means at once.
    pub fn wake_at(&self) -> Option<Time> {
        if !self.plain.is_empty() {
            return Some(self.now);
        }
        self.path.as_ref().and_then(|path| path.wake_at(self.now))
    }

    /// The next packet that was taken and then lost; drivers free its buffer.
    pub fn poll_loss(&mut self) -> Option<PortLoss> {
        let loss = self.lost.pop_front().or_else(|| {
            let (path, members) = (self.path.as_mut()?, &mut self.members);
            let loss = path.poll_loss()?;
            let member = &mut members[loss.leaf.0 as usize];
            if loss.why != Drop::Purged {
                member.counters.over_packets += 1;
                member.counters.over_bytes += u64::from(path.wire_bytes(loss.packet.len));
            }
            Some(PortLoss { packet: loss.packet, class: member.class, why: loss.why })
        })?;
        match loss.why {
            Drop::Purged => self.totals.purged += 1,
            _ => self.totals.dropped += 1,
        }
        Some(loss)
    }

    /// The number of packets that the port holds: in queues and shapers, and lost ones that are not claimed yet.
    pub fn inside(&self) -> u32 {
        let path = self.path.as_ref().map_or(0, |path| path.queued() + path.held() + path.unclaimed());
        self.plain.packets() + path + self.lost.len() as u32
    }

    /// The number of packets in queues.
    pub fn queued(&self) -> u32 {
        self.plain.packets() + self.path.as_ref().map_or(0, PacketPath::queued)
    }

    /// The number of waiting packets in one class.
    pub fn queued_in(&self, class: ClassId) -> Option<u32> {
        if class == ClassId::LINK {
            return Some(self.plain.packets());
        }
        self.classes.get(&class).zip(self.path.as_ref()).map(|(leaf, path)| path.queued_in(*leaf))
    }

    /// The fates of all packets.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// The counters of a class: sent (wire bytes) and dropped.
    pub fn class_counters(&self, class: ClassId) -> Option<Counters> {
        self.member(class).map(|member| member.counters)
    }

    /// The conforming and the excess packets of a flow (IP bytes); of all flows that share its bucket.
    pub fn flow_counters(&self, flow: &FlowKey) -> Option<Counters> {
        self.flows.counters(flow)
    }

    /// The root, once the interface is ours.
    pub fn link(&self) -> Option<&LinkSpec> {
        self.path.as_ref().map(PacketPath::link)
    }

    /// Every class with its installed specification.
    pub fn classes(&self) -> impl Iterator<Item = (ClassId, &ClassSpec)> {
        self.classes.iter().map(|(class, leaf)| (*class, &self.members[leaf.0 as usize].spec))
    }

    /// The plan of the interface as it is installed; `None`: it is not ours.
    pub fn plan(&self) -> Option<LinkPlan> {
        let mut plan = LinkPlan::new(*self.link()?);
        plan.classes.extend(self.classes().map(|(class, spec)| (class, *spec)));
        let conditioner = |leaf: &LeafId| self.members[leaf.0 as usize].conditioner;
        plan.conditioners.extend(self.classes.iter().filter_map(|(class, leaf)| Some((*class, conditioner(leaf)?))));
        plan.flows.extend(self.flows().map(|(flow, entry)| (*flow, *entry)));
        Some(plan)
    }

    /// The installed rules of the edge on one side; `None`: it is no edge.
    pub fn edge_plan(&self, side: Side) -> Option<EdgePlan> {
        self.edges.get(&side).map(|edge| edge.iter().collect())
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

    /// The flows of a class, each with the time of the last packet that its bucket saw, in no particular order.
    pub fn flows_of(&self, class: ClassId) -> impl Iterator<Item = (&FlowKey, Time)> {
        let any = self.member(class).is_some_and(|member| member.flows > 0);
        any.then(|| self.flows.last_packets(class)).into_iter().flatten()
    }

    /// True if the last outgoing packet belonged to an installed flow.
    pub fn was_claimed(&self) -> bool {
        self.claimed
    }

    fn member(&self, class: ClassId) -> Option<&Member> {
        self.classes.get(&class).map(|leaf| &self.members[leaf.0 as usize])
    }

    fn clock(&mut self, now: Time) -> Time {
        debug_assert!(now >= self.now, "time runs backwards: {now:?} after {:?}", self.now);
        if now < self.now {
            self.totals.backwards += 1;
        }
        self.now = self.now.max(now);
        self.now
    }

    /// The class of a packet, and true if it exceeds its flow's bucket. No class: the plain FIFO.
    fn classify(&mut self, now: Time, packet: &PacketMeta) -> (Option<LeafId>, bool) {
        let charged = self.flows.charge(now, packet);
        self.claimed = charged.is_some();
        match charged {
            Some((leaf, true)) => (Some(leaf), false),
            Some((_, false)) => (self.best_effort, true),
            None if self.control.is_some() && self.is_signalling(&packet.flow) => (self.control, false),
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

    fn is_signalling(&self, packet: &FlowKey) -> bool {
        self.signalling.iter().any(|of| of.contains(packet))
    }
}

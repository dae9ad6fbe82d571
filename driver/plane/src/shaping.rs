//! The packet path of one direction: none, a queue tree, or the port of a plan.

use crate::delays::LeafDelay;
use crate::packet;
use crate::port::PortShaping;
use crate::way::{Frames, MAX_ARP};
use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr};
use terms::{Bytes, Dscp, FlowKey, PacketMeta, Span, Time, Wild};
use traffic::tree::{
    Departure, LeafSpec, LinkShape, Loss, MIN_PACKET, NodeKind, PathVerdict, Tree, TreeEgress, TreeSpec, Unworkable,
};

/// Marks the number of a frame that has no IP header to write to.
pub(crate) const PLAIN: u64 = 1 << 32;

/// The packet path of a direction.
#[derive(Debug)]
pub(crate) enum Shaping {
    /// Frames pass as they come.
    Plain,
    /// A queue tree.
    Tree(Box<TreeShaping>),
    /// The plan of an interface.
    Port(Box<PortShaping>),
}

impl Shaping {
    /// A frame in its buffer that came at some time and is looked at now: to its leaf, or straight to the wire.
    pub(crate) fn enter(&mut self, path: &mut Frames, (came, now): (Time, Time), number: u32) {
        match self {
            Shaping::Plain => path.put_on_wire(came, number),
            Shaping::Tree(shaping) => shaping.enter(path, came, number),
            Shaping::Port(shaping) => shaping.enter(path, (came, now), number),
        }
    }

    /// Lets go what the link begins to send before `until`.
    pub(crate) fn serve(&mut self, now: Time, until: Time, path: &mut Frames) {
        match self {
            Shaping::Plain => {}
            Shaping::Tree(shaping) => shaping.serve(now, until, path),
            Shaping::Port(shaping) => shaping.serve(now, until, path),
        }
    }

    /// The time of the next useful call of [`Shaping::serve`].
    pub(crate) fn wake_at(&self) -> Option<Time> {
        match self {
            Shaping::Plain => None,
            Shaping::Tree(shaping) => shaping.tree.wake_at(shaping.free),
            Shaping::Port(shaping) => shaping.wake_at(),
        }
    }
}

/// A tree at work.
#[derive(Debug)]
pub(crate) struct TreeShaping {
    tree: Tree,
    /// The time at which its link is free.
    free: Time,
    delays: Vec<LeafDelay>,
    arp: (Time, u32),
}

impl TreeShaping {
    pub(crate) fn new(spec: TreeSpec, seed: u64, now: Time) -> Result<TreeShaping, Unworkable> {
        let tree = Tree::new(spec, now, seed)?;
        let delays = tree.leaves().map(|_| LeafDelay::default()).collect();
        Ok(TreeShaping { tree, free: now, delays, arp: (now, 0) })
    }

    pub(crate) fn tree(&self) -> &Tree {
        &self.tree
    }

    pub(crate) fn delays(&self) -> &[LeafDelay] {
        &self.delays
    }

    fn enter(&mut self, path: &mut Frames, now: Time, number: u32) {
        let (frame, counters) = path.counted(number);
        let bytes = frame.bytes();
        let found = packet::ip_at(bytes).and_then(|at| packet::meta(&bytes[at..], now, u64::from(number)));
        if found.is_none() && packet::is_arp(bytes) && allowed(&mut self.arp, now) {
            counters.arp += 1;
            return path.put_on_wire(now, number);
        }
        let meta = found.unwrap_or_else(|| {
            counters.not_ip += 1;
            plain(bytes.len(), now, number)
        });
        if let PathVerdict::Dropped(_) = self.tree.enqueue(now, meta) {
            path.give(number);
        }
    }

    fn serve(&mut self, now: Time, until: Time, path: &mut Frames) {
        let TreeShaping { tree, free, delays, .. } = self;
        let shape = tree.spec().link;
        let mut egress = Egress { shape, now, delays, path };
        let Ok(next) = tree.serve(*free, until, &mut egress);
        *free = next;
    }
}

/// The link of a tree: the wire.
struct Egress<'a> {
    shape: LinkShape,
    now: Time,
    delays: &'a mut [LeafDelay],
    path: &'a mut Frames,
}

impl TreeEgress for Egress<'_> {
    type Error = Infallible;

    fn send(&mut self, at: Time, departure: &Departure) -> Result<Time, Infallible> {
        let packet = &departure.packet;
        let number = packet.id as u32;
        if packet.id & PLAIN == 0 && departure.dscp != packet.dscp {
            packet::mark_frame(self.path.at(number).bytes_mut(), departure.dscp);
        }
        if let Some(delay) = self.delays.get_mut(departure.leaf.0 as usize) {
            delay.add(self.now.since(packet.arrival));
        }
        self.path.put_on_wire(at, number);
        let wire = packet.len.saturating_add(self.shape.overhead);
        Ok(at + self.shape.rate.span_for(Bytes::new(u64::from(wire))))
    }

    fn lost(&mut self, loss: &Loss) {
        self.path.give(loss.packet.id as u32);
    }
}

/// A frame without a whole IP packet, as a packet that only the class without rules takes, or one with a rule for all.
pub(crate) fn plain(len: usize, arrival: Time, number: u32) -> PacketMeta {
    let nobody = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
    let flow = FlowKey { src: nobody, dst: nobody, protocol: 255, src_port: 0, dst_port: 0, wild: Wild::NONE };
    let len = (len.saturating_sub(14) as u32).max(MIN_PACKET);
    PacketMeta { flow, len, dscp: Dscp(0), arrival, group: None, id: u64::from(number) | PLAIN }
}

/// One more ARP frame within this second.
fn allowed((since, count): &mut (Time, u32), now: Time) -> bool {
    if now.since(*since) >= Span::from_secs(1) {
        (*since, *count) = (now, 0);
    }
    *count += 1;
    *count <= MAX_ARP
}

/// The most packets that wait in a tree: its queues full, its shapers full of frames of 64 bytes.
pub(crate) fn packets(spec: &TreeSpec) -> u64 {
    let leaves = spec.nodes.iter().filter_map(|node| match &node.kind {
        NodeKind::Leaf(leaf) => Some(leaf),
        NodeKind::Inner(_) => None,
    });
    let held = |leaf: &LeafSpec| {
        u64::from(leaf.queue.packets) + leaf.shaper.as_ref().map_or(0, |shaper| shaper.buffer().get() / 46)
    };
    leaves.map(|leaf| held(leaf)).sum()
}

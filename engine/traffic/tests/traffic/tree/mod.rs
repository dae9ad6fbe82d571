//! The queue tree: what it refuses, what its schedulers share out, what its leaves do to packets, and that nothing is lost.

mod conserve;
mod live;
mod pipeline;
mod refuse;
mod rules;
mod share;

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr};
use terms::{Bytes, Dscp, FlowKey, PacketMeta, Rate, Span, Time};
use traffic::plan::QueueSpec;
use traffic::tree::*;

/// Ethernet with preamble and gap, for instance.
const OVERHEAD: u32 = 38;

/// A packet to a UDP port of ours.
fn packet(id: u64, port: u16, len: u32, arrival: Time) -> PacketMeta {
    let host = |last| IpAddr::V4(Ipv4Addr::new(10, 0, 0, last));
    let flow =
        FlowKey { src: host(1), dst: host(2), protocol: 17, src_port: 1000, dst_port: port, wild: terms::Wild::NONE };
    PacketMeta { flow, len, dscp: Dscp(0), arrival, group: None, id }
}

/// A plain queue for a port; `None`: for what nobody else takes.
fn queue(port: Option<u16>) -> LeafSpec {
    let rules = port.map(|p| MultiFieldRule { dst_ports: Some((p, p)), ..MultiFieldRule::default() });
    LeafSpec {
        rules: rules.into_iter().collect(),
        shaper: None,
        meter: None,
        marker: None,
        dropper: None,
        queue: QueueSpec { packets: 10_000, bytes: Bytes::new(100_000_000) },
    }
}

fn leaf(name: &str, parent: Option<&str>, share: TreeShare, spec: LeafSpec) -> TreeNodeSpec {
    TreeNodeSpec { name: name.into(), parent: parent.map(Into::into), share, kind: NodeKind::Leaf(Box::new(spec)) }
}

fn inner(name: &str, parent: Option<&str>, share: TreeShare, scheduler: SchedulerKind) -> TreeNodeSpec {
    TreeNodeSpec { name: name.into(), parent: parent.map(Into::into), share, kind: NodeKind::Inner(scheduler) }
}

fn tree(rate: Rate, scheduler: SchedulerKind, nodes: Vec<TreeNodeSpec>) -> TreeSpec {
    TreeSpec { link: LinkShape { rate, overhead: OVERHEAD, scheduler }, nodes }
}

/// A link that sends what the tree gives it.
struct Link {
    tree: Tree,
    free: Time,
    sent: Vec<(Time, Departure)>,
    lost: Vec<Loss>,
}

/// Takes as long for a packet as its bytes and the overhead take at the rate.
struct Paced<'a> {
    rate: Rate,
    overhead: u32,
    sent: &'a mut Vec<(Time, Departure)>,
    lost: &'a mut Vec<Loss>,
}

impl TreeEgress for Paced<'_> {
    type Error = Infallible;

    fn send(&mut self, now: Time, departure: &Departure) -> Result<Time, Infallible> {
        self.sent.push((now, *departure));
        Ok(now + self.rate.span_for(Bytes::new(u64::from(departure.packet.len + self.overhead))))
    }

    fn lost(&mut self, loss: &Loss) {
        self.lost.push(*loss);
    }
}

impl Link {
    fn new(spec: TreeSpec) -> Link {
        Link { tree: Tree::new(spec, Time::ZERO, 7).unwrap(), free: Time::ZERO, sent: Vec::new(), lost: Vec::new() }
    }

    /// Sends whatever starts before `until`; nothing does any more.
    fn run(&mut self, until: Time) {
        let LinkShape { rate, overhead, .. } = self.tree.spec().link;
        let mut wire = Paced { rate, overhead, sent: &mut self.sent, lost: &mut self.lost };
        let Ok(free) = self.tree.serve(self.free, until, &mut wire);
        self.free = free;
    }

    /// The next packet comes in, behind what the link did until then.
    fn offer(&mut self, packet: PacketMeta) -> PathVerdict {
        self.run(packet.arrival);
        self.tree.enqueue(packet.arrival, packet)
    }

    /// Wire bytes of a leaf that started before `until`.
    fn bytes(&self, leaf: &str, until: Time) -> u64 {
        let id = self.tree.leaf(leaf).unwrap();
        let own = self.sent.iter().filter(|(when, d)| *when < until && d.leaf == id);
        own.map(|(_, d)| u64::from(self.tree.wire_bytes(d.packet.len))).sum()
    }
}

fn ms(ms: u64) -> Time {
    Time::ZERO + Span::from_millis(ms)
}

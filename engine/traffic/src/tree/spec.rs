//! The closed description of a queue tree: plain data that the command line, scenario files and control plane share.
//!
//! Units: rates and sizes of shapers, meters, droppers and queues are bytes of the IP packet, as the RFCs
//! count; rates of the link and of shares are bytes on the wire, [`LinkShape::overhead`] more per packet.

use crate::conditioner::{ConditionerSpec, DropperSpec, MeterSpec, ShaperSpec};
use crate::meter::Marker;
use crate::path::{LeafParts, TreeShare};
use crate::scheduler::SchedulerKind;
use crate::spec::QueueSpec;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;
use terms::{Dscp, FlowKey, PacketMeta, Rate};

/// A whole tree.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TreeSpec {
    /// The root.
    pub link: LinkShape,
    /// All nodes below it, in any order; leaves are matched to packets in this order.
    pub nodes: Vec<TreeNodeSpec>,
}

/// The root: a link, and its scheduler.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkShape {
    /// The link's rate, in wire bytes.
    pub rate: Rate,
    /// The bytes that the link adds to each IP packet.
    pub overhead: u32,
    /// The scheduler for the nodes without a parent.
    pub scheduler: SchedulerKind,
}

/// A node below the link.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TreeNodeSpec {
    /// The name, unique in the tree; without `/`.
    pub name: String,
    /// The inner node that it is a child of; `None`: the link.
    pub parent: Option<String>,
    /// The share of its parent.
    pub share: TreeShare,
    /// The kind of node.
    pub kind: NodeKind,
}

/// The two kinds of nodes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NodeKind {
    /// An inner node, which shares its bandwidth among its children.
    Inner(SchedulerKind),
    /// A leaf, which conditions and queues packets.
    Leaf(Box<LeafSpec>),
}

/// The path of a packet through a leaf: rules, shaper, meter, marker, dropper, queue.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeafSpec {
    /// Packets that match any of them are the leaf's, unless an earlier leaf took them. Without rules, the
    /// leaf takes all packets that match no rule of any leaf; a tree has exactly one such leaf.
    pub rules: Vec<MultiFieldRule>,
    /// The shaper, which holds packets back before they are metered.
    pub shaper: Option<ShaperSpec>,
    /// The meter, which colours packets; without it all are green.
    pub meter: Option<MeterSpec>,
    /// The marker, which writes the colour into the packet; without it the code point stays.
    pub marker: Option<Marker>,
    /// The dropper, which decides before the queue; without it the queue drops at its tail.
    pub dropper: Option<DropperSpec>,
    /// The limits of the queue, in IP bytes.
    pub queue: QueueSpec,
}

impl LeafSpec {
    /// The leaf's conditioner.
    pub fn conditioner(&self) -> ConditionerSpec {
        ConditionerSpec { shaper: self.shaper, meter: self.meter, marker: self.marker, dropper: self.dropper }
    }

    /// The leaf as the packet path runs it. Its queue counts IP bytes.
    pub(super) fn parts(&self) -> LeafParts {
        LeafParts { conditioner: self.conditioner(), queue: self.queue, overhead: 0 }
    }
}

/// One multi-field rule (RFC 2475 section 2.3.1): all stated fields must match.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MultiFieldRule {
    /// Source prefix.
    pub src: Option<(IpAddr, u8)>,
    /// Destination prefix.
    pub dst: Option<(IpAddr, u8)>,
    /// IP protocol.
    pub protocol: Option<u8>,
    /// Source ports, both included.
    pub src_ports: Option<(u16, u16)>,
    /// Destination ports, both included.
    pub dst_ports: Option<(u16, u16)>,
    /// The code point that the packet came with.
    pub dscp: Option<Dscp>,
}

impl MultiFieldRule {
    /// The rule's five-tuple, if it names a whole one and no other field.
    pub fn exact(&self) -> Option<FlowKey> {
        let host = |prefix: Option<(IpAddr, u8)>| {
            prefix.filter(|(net, length)| *length == if net.is_ipv4() { 32 } else { 128 })
        };
        let port = |range: Option<(u16, u16)>| range.filter(|(from, to)| from == to);
        let (src, dst) = (host(self.src)?.0, host(self.dst)?.0);
        let (src_port, dst_port) = (port(self.src_ports)?.0, port(self.dst_ports)?.0);
        let protocol = self.protocol.filter(|_| self.dscp.is_none())?;
        Some(FlowKey { src, dst, protocol, src_port, dst_port, wild: terms::Wild::NONE })
    }

    /// True if the packet matches the rule.
    pub fn matches(&self, packet: &PacketMeta) -> bool {
        let FlowKey { src, dst, protocol, src_port, dst_port, .. } = packet.flow;
        let within = |range: Option<(u16, u16)>, port: u16| range.is_none_or(|(from, to)| from <= port && port <= to);
        self.dscp.is_none_or(|dscp| dscp == packet.dscp)
            && self.protocol.is_none_or(|p| p == protocol)
            && within(self.src_ports, src_port)
            && within(self.dst_ports, dst_port)
            && self.src.is_none_or(|prefix| covers(prefix, src))
            && self.dst.is_none_or(|prefix| covers(prefix, dst))
    }
}

fn covers((net, length): (IpAddr, u8), address: IpAddr) -> bool {
    let same =
        |a: u128, b: u128, width: u32| (a ^ b).checked_shr(width.saturating_sub(u32::from(length))).unwrap_or(0) == 0;
    match (net, address) {
        (IpAddr::V4(a), IpAddr::V4(b)) => same(u128::from(u32::from(a)), u128::from(u32::from(b)), 32),
        (IpAddr::V6(a), IpAddr::V6(b)) => same(u128::from(a), u128::from(b), 128),
        _ => false,
    }
}

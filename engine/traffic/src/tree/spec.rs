//! The closed description of a queue tree: plain data that the command line, scenario files and control plane share.
//!
//! What is counted in what: rates and sizes of shapers, meters, droppers and queues are bytes of the IP packet, as the
//! RFCs count; rates of the link and of shares are bytes on the wire, [`LinkShape::overhead`] more per packet.

use crate::dropper::{Coupling, RedCurve};
use crate::meter::Marker;
use crate::plan::QueueSpec;
use crate::scheduler::hfsc::Curves;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;
use terms::{Bytes, Dscp, FlowKey, PacketMeta, Rate, Span};

/// A whole tree.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TreeSpec {
    /// The root.
    pub link: LinkShape,
    /// Everything below it, in any order; leaves are asked for packets in this order.
    pub nodes: Vec<TreeNodeSpec>,
}

/// The root: a link, and what shares it out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkShape {
    /// Its rate, in wire bytes.
    pub rate: Rate,
    /// Bytes that the link adds to each IP packet.
    pub overhead: u32,
    /// Shares it among the nodes without a parent.
    pub scheduler: Sharing,
}

/// How a node shares what it has among its children.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sharing {
    /// Strict priority: [`TreeShare::Priority`].
    Priority,
    /// WF2Q+: [`TreeShare::Rate`].
    Wf2q,
    /// Deficit round robin: [`TreeShare::Quantum`].
    Drr,
    /// HFSC: [`TreeShare::Curves`]. Only at the root: its real-time criterion must see the link itself.
    Hfsc,
}

impl Sharing {
    /// The word for it in files.
    pub const fn name(self) -> &'static str {
        match self {
            Sharing::Priority => "priority",
            Sharing::Wf2q => "wf2q",
            Sharing::Drr => "drr",
            Sharing::Hfsc => "hfsc",
        }
    }
}

/// What a node gets of its parent; must be of the parent's [`Sharing`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TreeShare {
    /// 0 is served first.
    Priority(u8),
    /// A rate, in wire bytes; the children's rates sum to at most the parent's.
    Rate(Rate),
    /// Wire bytes a turn.
    Quantum(u32),
    /// Service curves, in wire bytes.
    Curves(Curves),
}

impl TreeShare {
    /// The word for it in files.
    pub const fn name(self) -> &'static str {
        match self {
            TreeShare::Priority(_) => "priority",
            TreeShare::Rate(_) => "rate",
            TreeShare::Quantum(_) => "quantum",
            TreeShare::Curves(_) => "set of curves",
        }
    }
}

/// A node below the link.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TreeNodeSpec {
    /// Its name, known once in the tree; without `/`.
    pub name: String,
    /// The inner node that it is a child of; `None`: the link.
    pub parent: Option<String>,
    /// What it gets of its parent.
    pub share: TreeShare,
    /// What it is.
    pub kind: NodeKind,
}

/// A node is either.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NodeKind {
    /// Shares what it gets among its children.
    Inner(Sharing),
    /// Conditions and queues packets.
    Leaf(Box<LeafSpec>),
}

/// The way of a packet through a leaf: rules, shaper, meter, marker, dropper, queue.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeafSpec {
    /// Packets that match any of them are the leaf's, unless an earlier leaf took them. None: whatever no rule of any
    /// leaf matches; a tree has exactly one such leaf.
    pub rules: Vec<MultiFieldRule>,
    /// Holds packets back before they are metered.
    pub shaper: Option<ShaperSpec>,
    /// Colours packets; without it all are green.
    pub meter: Option<MeterSpec>,
    /// Writes the colour into the packet; without it the code point stays.
    pub marker: Option<Marker>,
    /// Decides before the queue; without it the queue drops at its tail.
    pub dropper: Option<DropperSpec>,
    /// The queue, IP bytes.
    pub queue: QueueSpec,
}

/// One multi-field rule (RFC 2475 section 2.3.1): all that is stated must match.
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
    /// Code point that the packet came with.
    pub dscp: Option<Dscp>,
}

impl MultiFieldRule {
    /// The one five-tuple that the rule names, if it names a whole one and nothing else.
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

    /// Whether the packet is one of the rule's.
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

/// A shaper; IP bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ShaperSpec {
    /// A token bucket: a packet leaves when its tokens are there.
    Bucket {
        /// Fill rate.
        rate: Rate,
        /// Depth; a larger packet is dropped, for it would never leave.
        depth: Bytes,
        /// Bytes that may wait.
        buffer: Bytes,
    },
    /// srRAS (RFC 2963 section 2.2).
    SrRas {
        /// Committed and maximum rate.
        rates: [Rate; 2],
        /// CIR_th, MIR_th.
        thresholds: [Bytes; 2],
        /// The rest.
        ras: RasSpec,
    },
    /// trRAS (RFC 2963 section 2.4).
    TrRas {
        /// Committed, peak and maximum rate.
        rates: [Rate; 3],
        /// CIR_th, PIR_th, MIR_th.
        thresholds: [Bytes; 3],
        /// The rest.
        ras: RasSpec,
    },
}

impl ShaperSpec {
    /// Bytes that may wait.
    pub const fn buffer(&self) -> Bytes {
        match self {
            ShaperSpec::Bucket { buffer, .. } => *buffer,
            ShaperSpec::SrRas { ras, .. } | ShaperSpec::TrRas { ras, .. } => ras.buffer,
        }
    }
}

/// What single and two rate adaptive shapers have in common.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RasSpec {
    /// Bytes that may wait.
    pub buffer: Bytes,
    /// K, the time constant of the average rate.
    pub k: Span,
    /// G-srRAS, G-trRAS (RFC 2963 section 3): also release what the leaf's own meter would colour green.
    pub green: bool,
}

/// A meter; IP bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MeterSpec {
    /// Which.
    pub kind: MeterKind,
    /// Colour-aware: the colour that a packet comes with, read by the leaf's marker from its code point, is never improved.
    pub aware: bool,
}

/// The meters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MeterKind {
    /// RFC 2697.
    SrTcm {
        /// Committed information rate.
        cir: Rate,
        /// Committed burst size.
        cbs: Bytes,
        /// Excess burst size.
        ebs: Bytes,
    },
    /// RFC 2698.
    TrTcm {
        /// Committed information rate.
        cir: Rate,
        /// Committed burst size.
        cbs: Bytes,
        /// Peak information rate.
        pir: Rate,
        /// Peak burst size.
        pbs: Bytes,
    },
    /// RFC 4115.
    Rfc4115 {
        /// Committed information rate.
        cir: Rate,
        /// Committed burst size.
        cbs: Bytes,
        /// Excess information rate.
        eir: Rate,
        /// Excess burst size.
        ebs: Bytes,
    },
    /// RFC 2859.
    TswTcm {
        /// Committed target rate.
        ctr: Rate,
        /// Peak target rate.
        ptr: Rate,
        /// Averaging interval.
        interval: Span,
    },
}

/// RED or RIO.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DropperSpec {
    /// Green, yellow, red.
    pub curves: [RedCurve; 3],
    /// Weight of the average, in 2^-32.
    pub weight: u64,
    /// How long a typical packet takes to leave.
    pub slot: Span,
    /// Which packets an average counts.
    pub coupling: Coupling,
    /// What thresholds and averages are in.
    pub unit: QueueUnit,
}

/// What a dropper counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QueueUnit {
    /// Packets.
    Packets,
    /// IP bytes.
    Bytes,
}

//! The edge of a DiffServ domain, where flows are classified, policed and marked as they enter it (RFC 2475 section
//! 2.3; seed 002 section 4.2, there the committed access rate of edge routers). The edge drops the excess over a
//! flow's bucket, so that the aggregate behind it is what was reserved; the excess over a rule with an open field
//! goes on without a mark, because it may belong to another user. Conforming packets carry the code point of their
//! service, and nodes behind the edge know only code points. A premium code point without a rule is wiped: only a
//! reservation makes a packet premium. Signalling and the errors of ICMP belong to no rule ([`Edge::new`]).
//!
//! A packet belongs to the most specific rule: the one with the fewest wildcards, in the order of [`ORDER`].

use crate::bucket::TokenBucket;
use crate::classifier::Classifier;
use crate::spec::{BucketSpec, Counters};
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use terms::book::BoundFlow;
use terms::signalling::SignallingPackets;
use terms::{Dscp, FlowKey, IfIndex, PacketMeta, Time};

/// The direction of packets at an interface.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Side {
    /// Incoming packets: an edge router's interface towards the hosts.
    Ingress,
    /// Outgoing packets, before they are classified: a host that is its own edge.
    Egress,
}

/// One edge.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct EdgeAt {
    /// The interface.
    pub interface: IfIndex,
    /// The side of the interface.
    pub side: Side,
}

/// A multi-field classifier's element (RFC 2475 section 2.3.1): a five-tuple in which `None` is a wildcard.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct MultiField {
    /// Source address.
    pub src: Option<IpAddr>,
    /// Destination address.
    pub dst: Option<IpAddr>,
    /// IP protocol.
    pub protocol: Option<u8>,
    /// Source port.
    pub src_port: Option<u16>,
    /// Destination port.
    pub dst_port: Option<u16>,
}

const ANY_SRC: u8 = 1;
const ANY_DST: u8 = 2;
const ANY_PROTOCOL: u8 = 4;
const ANY_SRC_PORT: u8 = 8;
const ANY_DST_PORT: u8 = 16;

/// The kind without wildcards.
const EXACT: u8 = 0;

/// The number of kinds of wildcards.
pub const KINDS: usize = 32;

/// The kinds from the most to the least specific: fewer wildcards first, and of as many the smaller number.
pub const ORDER: [u8; KINDS] = [
    0, 1, 2, 4, 8, 16, 3, 5, 6, 9, 10, 12, 17, 18, 20, 24, 7, 11, 13, 14, 19, 21, 22, 25, 26, 28, 15, 23, 27, 29, 30,
    31,
];

impl From<BoundFlow> for MultiField {
    fn from(flow: BoundFlow) -> MultiField {
        let BoundFlow { src, dst, protocol, src_port, dst_port } = flow;
        MultiField { src, dst, protocol, src_port, dst_port }
    }
}

impl MultiField {
    /// The element that matches exactly this flow.
    pub fn exactly(flow: &FlowKey) -> MultiField {
        MultiField {
            src: Some(flow.src),
            dst: Some(flow.dst),
            protocol: Some(flow.protocol),
            src_port: Some(flow.src_port),
            dst_port: Some(flow.dst_port),
        }
    }

    /// The bits of its wildcards: 1 the source, 2 the destination, 4 the protocol, 8 and 16 the ports.
    pub fn kind(&self) -> u8 {
        let any = |is: bool, bit: u8| if is { bit } else { 0 };
        any(self.src.is_none(), ANY_SRC)
            | any(self.dst.is_none(), ANY_DST)
            | any(self.protocol.is_none(), ANY_PROTOCOL)
            | any(self.src_port.is_none(), ANY_SRC_PORT)
            | any(self.dst_port.is_none(), ANY_DST_PORT)
    }

    /// The element of this kind with the packet's fields.
    pub fn of(kind: u8, flow: &FlowKey) -> MultiField {
        let named = |bit| kind & bit == 0;
        MultiField {
            src: named(ANY_SRC).then_some(flow.src),
            dst: named(ANY_DST).then_some(flow.dst),
            protocol: named(ANY_PROTOCOL).then_some(flow.protocol),
            src_port: named(ANY_SRC_PORT).then_some(flow.src_port),
            dst_port: named(ANY_DST_PORT).then_some(flow.dst_port),
        }
    }

    /// True if some packet can match: two named addresses are of one family.
    pub fn is_possible(&self) -> bool {
        !matches!((self.src, self.dst), (Some(src), Some(dst)) if src.is_ipv4() != dst.is_ipv4())
    }

    /// The element as a key, equal for equal elements: wildcards are zero, in the family of the named address.
    pub fn key(&self) -> FlowKey {
        let zero = match self.src.or(self.dst) {
            Some(IpAddr::V6(_)) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
            _ => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        };
        FlowKey {
            src: self.src.unwrap_or(zero),
            dst: self.dst.unwrap_or(zero),
            protocol: self.protocol.unwrap_or(0),
            src_port: self.src_port.unwrap_or(0),
            dst_port: self.dst_port.unwrap_or(0),
            wild: terms::Wild::NONE,
        }
    }
}

/// The treatment of a rule's packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EdgeRule {
    /// The policer; excess packets are dropped, or lose their mark if the rule has an open field.
    pub bucket: BucketSpec,
    /// The code point of conforming packets.
    pub mark: Dscp,
}

/// The result for a packet at an edge.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Conditioned {
    /// The packet goes on with this code point.
    Passed(Dscp),
    /// The packet exceeded the bucket of a rule that names its whole five-tuple.
    Dropped,
}

/// The limit that was reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EdgeFull {
    /// The number of rules.
    Rules,
    /// The number of kinds of wildcards at once: each costs a packet one look-up.
    Kinds,
}

/// The most rules of an edge.
pub const MOST_RULES: usize = 16_384;
/// The most kinds of wildcards at once.
pub const MOST_KINDS: usize = 8;

/// An edge with its rules.
#[derive(Clone, Debug)]
pub struct Edge {
    /// The kinds that exist, the most specific first.
    tables: Vec<(u8, Classifier<Entry>)>,
    key: [u64; 2],
    signalling: &'static [SignallingPackets],
    rules: usize,
    stripped: Counters,
}

#[derive(Clone, Debug)]
struct Entry {
    fields: MultiField,
    rule: EdgeRule,
    tokens: TokenBucket,
    counters: Counters,
}

impl Edge {
    /// An edge without rules; `key` keys its tables. No rule matches packets of a protocol that `signalling` names as a
    /// whole: it could silence all reservations. (The engine sees no types of ICMP: the kernel's program lets rules match
    /// only echoes.)
    pub fn new(key: [u64; 2], signalling: &'static [SignallingPackets]) -> Edge {
        Edge { tables: Vec::new(), key, signalling, rules: 0, stripped: Counters::default() }
    }

    /// Conditions a packet with an untrusted code point: it comes from a host, or this node sends it.
    pub fn condition(&mut self, now: Time, packet: &PacketMeta) -> Conditioned {
        self.condition_from(now, packet, false)
    }

    /// As [`Edge::condition`]; `vouched`: the packet came by another edge or from a trusted neighbour, and
    /// keeps its code point unless a rule matches.
    pub fn condition_from(&mut self, now: Time, packet: &PacketMeta, vouched: bool) -> Conditioned {
        let exempt = |of: &SignallingPackets| of.ports.is_none() && of.contains(&packet.flow);
        let tables = if self.signalling.iter().any(exempt) { &mut [] } else { self.tables.as_mut_slice() };
        for (kind, table) in tables {
            let key = MultiField::of(*kind, &packet.flow).key();
            let Some(entry) = table.get_mut(&key) else { continue };
            let counters = &mut entry.counters;
            let conforms = entry.tokens.take(now, packet.len);
            let (packets, bytes) = match conforms {
                true => (&mut counters.packets, &mut counters.bytes),
                false => (&mut counters.over_packets, &mut counters.over_bytes),
            };
            *packets += 1;
            *bytes += u64::from(packet.len);
            return match (conforms, *kind) {
                (true, _) => Conditioned::Passed(entry.rule.mark),
                (false, EXACT) => Conditioned::Dropped,
                (false, _) => Conditioned::Passed(Dscp::DEFAULT),
            };
        }
        if vouched || !packet.dscp.is_premium() {
            return Conditioned::Passed(packet.dscp);
        }
        self.stripped.packets += 1;
        self.stripped.bytes += u64::from(packet.len);
        Conditioned::Passed(Dscp::DEFAULT)
    }

    /// Adds the rule, or changes it in place.
    ///
    /// # Errors
    /// [`EdgeFull`]; the rules are unchanged.
    pub fn set(&mut self, now: Time, fields: MultiField, rule: EdgeRule) -> Result<(), EdgeFull> {
        let (kind, key) = (fields.kind(), fields.key());
        if let Some(entry) = self.entry_mut(&fields) {
            entry.tokens.change(&rule.bucket, now);
            entry.rule = rule;
            return Ok(());
        }
        if self.rules >= MOST_RULES {
            return Err(EdgeFull::Rules);
        }
        let place = |kind: u8| ORDER.iter().position(|&k| k == kind);
        let at = match self.tables.binary_search_by_key(&place(kind), |(kind, _)| place(*kind)) {
            Ok(at) => at,
            Err(_) if self.tables.len() >= MOST_KINDS => return Err(EdgeFull::Kinds),
            Err(at) => {
                self.tables.insert(at, (kind, Classifier::new(self.key, MOST_RULES)));
                at
            }
        };
        let entry = Entry { fields, rule, tokens: TokenBucket::new(&rule.bucket, now), counters: Counters::default() };
        self.tables[at].1.insert(key, entry).map_err(|_| EdgeFull::Rules)?;
        self.rules += 1;
        Ok(())
    }

    /// Removes the rule, if it is there.
    pub fn remove(&mut self, fields: &MultiField) {
        let kind = fields.kind();
        let Some(at) = self.tables.iter().position(|(k, _)| *k == kind) else { return };
        if self.tables[at].1.remove(&fields.key()).is_some() {
            self.rules -= 1;
        }
        if self.tables[at].1.is_empty() {
            self.tables.remove(at);
        }
    }

    /// Every rule, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (MultiField, EdgeRule)> + '_ {
        self.tables.iter().flat_map(|(_, table)| table.iter().map(|(_, entry)| (entry.fields, entry.rule)))
    }

    /// The packets that a rule marked, and its excess, in IP bytes.
    pub fn counters(&self, fields: &MultiField) -> Option<Counters> {
        let table = self.tables.iter().find(|(kind, _)| *kind == fields.kind());
        table.and_then(|(_, table)| table.get(&fields.key())).map(|entry| entry.counters)
    }

    /// Packets that lost a premium code point because no rule matched.
    pub fn stripped(&self) -> Counters {
        self.stripped
    }

    /// The rule of these fields.
    pub fn rule(&self, fields: &MultiField) -> Option<EdgeRule> {
        let table = self.tables.iter().find(|(kind, _)| *kind == fields.kind());
        table.and_then(|(_, table)| table.get(&fields.key())).map(|entry| entry.rule)
    }

    fn entry_mut(&mut self, fields: &MultiField) -> Option<&mut Entry> {
        let kind = fields.kind();
        let table = self.tables.iter_mut().find(|(k, _)| *k == kind)?;
        table.1.get_mut(&fields.key())
    }
}

//! The edge of a DiffServ domain, where flows are classified, policed and marked as they enter it (RFC 2475 section
//! 2.3; seed 002 section 4.2, there the committed access rate of edge routers). The edge drops the excess over a
//! flow's bucket, so that the aggregate behind it is what was reserved; the excess over a rule with an open field
//! goes on without a mark, because it may belong to another user. Conforming packets carry the code point of their
//! service, and nodes behind the edge know only code points. A premium code point without a rule is wiped: only a
//! reservation makes a packet premium. Signalling and the errors of ICMP belong to no rule ([`Edge::new`]).
//!
//! A packet belongs to the most specific rule: that of its five-tuple; else that of its sender's control group, of groups
//! inside each other the innermost; else the one with the fewest wildcards, in the order of [`ORDER`].
//!
//! An edge towards another domain has rules of aggregates beside those of flows ([`BehaviourAggregate`]): a packet that
//! is to go on as premium, because a rule of its flow says so or because it came with the code point, is charged to the
//! aggregate of its service too. What exceeds that is dropped; where nothing is agreed (a rate of zero) it loses the
//! mark. So no more than the agreed rate comes in as premium, whatever the flows' rules add up to.
//!
//! A rule of AF1x may have a three-colour meter in the place of its bucket ([`EdgeMeter`]): green, yellow and red packets
//! go on as AF11, AF12 and AF13, or red ones are in excess. That of an aggregate remarks what exceeds the agreement.

mod aggregate;
mod booked;
mod policer;

pub use aggregate::BehaviourAggregate;
pub use policer::{BadEdgeMeter, ColorCounters, EdgeMeter, RedPackets};

use crate::classifier::Classifier;
use crate::spec::{BucketSpec, Counters};
use aggregate::{AggregateEntry, Charged};
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use policer::Policer;
use terms::book::BoundFlow;
use terms::signalling::SignallingPackets;
use terms::{Dscp, FlowKey, IfIndex, PacketMeta, SenderGroup, Time};

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

/// A multi-field classifier's element (RFC 2475 section 2.3.1): a five-tuple in which `None` is a wildcard, or a control
/// group alone.
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
    /// The sender's control group; all other fields are `None` then.
    pub group: Option<SenderGroup>,
    /// All packets that are premium in this service, beside the rules of flows; no other field is named then.
    pub aggregate: Option<BehaviourAggregate>,
}

const ANY_SRC: u8 = 1;
const ANY_DST: u8 = 2;
const ANY_PROTOCOL: u8 = 4;
const ANY_SRC_PORT: u8 = 8;
const ANY_DST_PORT: u8 = 16;

/// The kind without wildcards.
const EXACT: u8 = 0;

/// The bit of the kinds of control groups; the others are the depth of the group.
const GROUP: u8 = 32;

/// The number of kinds: of wildcards, and of control groups by their depth.
pub const KINDS: usize = 64;
/// The kind of the first aggregate, behind those of wildcards and groups.
const AGGREGATE: u8 = KINDS as u8;

/// The kinds from the most to the least specific: the five-tuple, control groups from the deepest, then fewer wildcards
/// first, and of as many the smaller number.
pub const ORDER: [u8; KINDS] = order();

const fn order() -> [u8; KINDS] {
    let wildcards = [
        1, 2, 4, 8, 16, 3, 5, 6, 9, 10, 12, 17, 18, 20, 24, 7, 11, 13, 14, 19, 21, 22, 25, 26, 28, 15, 23, 27, 29, 30,
        31,
    ];
    let mut order = [EXACT; KINDS];
    let mut at = 0;
    while at < wildcards.len() {
        order[1 + at] = KINDS as u8 - 1 - at as u8;
        order[33 + at] = wildcards[at];
        at += 1;
    }
    // The root group's is there for a whole table; every process is in the root group, so no rule is for it.
    order[32] = GROUP;
    order
}

impl From<BoundFlow> for MultiField {
    fn from(flow: BoundFlow) -> MultiField {
        let BoundFlow { src, dst, protocol, src_port, dst_port } = flow;
        MultiField { src, dst, protocol, src_port, dst_port, group: None, aggregate: None }
    }
}

impl MultiField {
    /// The element that matches all packets of a control group.
    pub fn of_group(group: SenderGroup) -> MultiField {
        MultiField { group: Some(group), ..MultiField::default() }
    }

    /// The element that matches exactly this flow.
    pub fn exactly(flow: &FlowKey) -> MultiField {
        MultiField {
            src: Some(flow.src),
            dst: Some(flow.dst),
            protocol: Some(flow.protocol),
            src_port: Some(flow.src_port),
            dst_port: Some(flow.dst_port),
            group: None,
            aggregate: None,
        }
    }

    /// The bits of its wildcards: 1 the source, 2 the destination, 4 the protocol, 8 and 16 the ports. Of a control
    /// group 32 and its depth. Of an aggregate 64 (EF) or 65 (AF1x).
    pub fn kind(&self) -> u8 {
        if let Some(aggregate) = self.aggregate {
            return AGGREGATE + aggregate as u8;
        }
        if let Some(group) = self.group {
            return GROUP | (group.depth & SenderGroup::DEEPEST);
        }
        let any = |is: bool, bit: u8| if is { bit } else { 0 };
        any(self.src.is_none(), ANY_SRC)
            | any(self.dst.is_none(), ANY_DST)
            | any(self.protocol.is_none(), ANY_PROTOCOL)
            | any(self.src_port.is_none(), ANY_SRC_PORT)
            | any(self.dst_port.is_none(), ANY_DST_PORT)
    }

    /// The element of this kind with the packet's fields; of a control group, with the number in the place of the
    /// source ([`MultiField::key`]).
    pub fn of(kind: u8, flow: &FlowKey) -> MultiField {
        if let Some(place) = kind.checked_sub(AGGREGATE) {
            return BehaviourAggregate::ALL.get(usize::from(place)).map_or(MultiField::default(), |one| one.fields());
        }
        if kind & GROUP != 0 {
            return MultiField::of_group(SenderGroup::of_address(kind & SenderGroup::DEEPEST, flow.src));
        }
        let named = |bit| kind & bit == 0;
        MultiField {
            src: named(ANY_SRC).then_some(flow.src),
            dst: named(ANY_DST).then_some(flow.dst),
            protocol: named(ANY_PROTOCOL).then_some(flow.protocol),
            src_port: named(ANY_SRC_PORT).then_some(flow.src_port),
            dst_port: named(ANY_DST_PORT).then_some(flow.dst_port),
            group: None,
            aggregate: None,
        }
    }

    /// The key that packets of this kind of rule are looked up by; `None`: the rules are about a group that the packet
    /// is not of.
    fn key_of(kind: u8, packet: &PacketMeta) -> Option<FlowKey> {
        if kind & GROUP == 0 {
            return Some(MultiField::of(kind, &packet.flow).key());
        }
        let fields = packet.group.map(MultiField::of_group)?;
        (fields.kind() == kind).then(|| fields.key())
    }

    /// True if some packet can match: two named addresses are of one family; a group is named alone, and no deeper than
    /// is looked; an aggregate is named alone.
    pub fn is_possible(&self) -> bool {
        if let Some(aggregate) = self.aggregate {
            return *self == aggregate.fields();
        }
        if let Some(group) = self.group {
            return *self == MultiField::of_group(group) && (1..=SenderGroup::DEEPEST).contains(&group.depth);
        }
        !matches!((self.src, self.dst), (Some(src), Some(dst)) if src.is_ipv4() != dst.is_ipv4())
    }

    /// The element as a key, equal for equal elements of a kind: wildcards are zero, in the family of the named address.
    /// The number of a control group is in the place of the source.
    pub fn key(&self) -> FlowKey {
        if let Some(group) = self.group {
            let (src, dst, wild) = (group.as_address(), IpAddr::V6(Ipv6Addr::UNSPECIFIED), terms::Wild::NONE);
            return FlowKey { src, dst, protocol: 0, src_port: 0, dst_port: 0, wild };
        }
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
    /// The policer; excess packets are dropped, or lose their mark if the rule has an open field. Those of an aggregate
    /// are dropped, and lose their mark if its rate is zero.
    pub bucket: BucketSpec,
    /// The code point of conforming packets; those of an aggregate keep theirs. With a meter AF11.
    pub mark: Dscp,
    /// The meter in the place of the bucket, of AF1x alone. The bucket still says the committed rate and the minimum unit.
    pub meter: Option<EdgeMeter>,
}

impl EdgeRule {
    /// A rule with one bucket.
    pub const fn of_bucket(bucket: BucketSpec, mark: Dscp) -> EdgeRule {
        EdgeRule { bucket, mark, meter: None }
    }
}

/// The result for a packet at an edge.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Conditioned {
    /// The packet goes on with this code point.
    Passed(Dscp),
    /// The packet exceeded the bucket of a rule that names its whole five-tuple, or that of its aggregate.
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
    aggregates: [Option<AggregateEntry>; 2],
    stripped: Counters,
}

#[derive(Clone, Debug)]
struct Entry {
    fields: MultiField,
    policer: Policer,
}

impl Edge {
    /// An edge without rules; `key` keys its tables. No rule matches packets of a protocol that `signalling` names as a
    /// whole: it could silence all reservations. (The engine sees no types of ICMP: the kernel's program lets rules match
    /// only echoes.)
    pub fn new(key: [u64; 2], signalling: &'static [SignallingPackets]) -> Edge {
        Edge { tables: Vec::new(), key, signalling, rules: 0, aggregates: [None, None], stripped: Counters::default() }
    }

    /// Conditions a packet with an untrusted code point: it comes from a host, or this node sends it.
    pub fn condition(&mut self, now: Time, packet: &PacketMeta) -> Conditioned {
        self.condition_from(now, packet, false)
    }

    /// As [`Edge::condition`]; `vouched`: the packet came by another edge or from a trusted neighbour, and
    /// keeps its code point unless a rule matches.
    pub fn condition_from(&mut self, now: Time, packet: &PacketMeta, vouched: bool) -> Conditioned {
        let exempt = |of: &SignallingPackets| of.ports.is_none() && of.contains(&packet.flow);
        let exempt = self.signalling.iter().any(exempt);
        let tables = if exempt { &mut [] } else { self.tables.as_mut_slice() };
        for (kind, table) in tables {
            let found = MultiField::key_of(*kind, packet).and_then(|key| table.get_mut(&key));
            let Some(entry) = found else { continue };
            return match (entry.policer.charge(now, packet, packet.dscp), *kind) {
                (Some(mark), _) => self.charge(now, packet, mark).unwrap_or(Conditioned::Passed(mark)),
                (None, EXACT) => Conditioned::Dropped,
                (None, _) => Conditioned::Passed(Dscp::DEFAULT),
            };
        }
        if vouched || !packet.dscp.is_premium() {
            return Conditioned::Passed(packet.dscp);
        }
        let charged = if exempt { None } else { self.charge(now, packet, packet.dscp) };
        charged.unwrap_or_else(|| {
            self.stripped.packets += 1;
            self.stripped.bytes += u64::from(packet.len);
            Conditioned::Passed(Dscp::DEFAULT)
        })
    }

    /// Charges a packet that is to go on with this code point to the aggregate of its service; `None`: this edge has
    /// no such aggregate.
    fn charge(&mut self, now: Time, packet: &PacketMeta, mark: Dscp) -> Option<Conditioned> {
        let entry = self.aggregates[BehaviourAggregate::of(mark)? as usize].as_mut()?;
        Some(match entry.charge(now, packet, mark) {
            Charged::Conforms(mark) => Conditioned::Passed(mark),
            Charged::Exceeds => Conditioned::Dropped,
            Charged::Unagreed => Conditioned::Passed(Dscp::DEFAULT),
        })
    }

    /// Adds the rule, or changes it in place.
    ///
    /// # Errors
    /// [`EdgeFull`]; the rules are unchanged.
    pub fn set(&mut self, now: Time, fields: MultiField, rule: EdgeRule) -> Result<(), EdgeFull> {
        if let Some(aggregate) = fields.aggregate {
            match &mut self.aggregates[aggregate as usize] {
                Some(entry) => entry.policer.change(rule, now),
                none => *none = Some(AggregateEntry::new(rule, now)),
            }
            return Ok(());
        }
        let (kind, key) = (fields.kind(), fields.key());
        if let Some(entry) = self.entry_mut(&fields) {
            entry.policer.change(rule, now);
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
        let entry = Entry { fields, policer: Policer::new(rule, now) };
        self.tables[at].1.insert(key, entry).map_err(|_| EdgeFull::Rules)?;
        self.rules += 1;
        Ok(())
    }

    /// Removes the rule, if it is there.
    pub fn remove(&mut self, fields: &MultiField) {
        if let Some(aggregate) = fields.aggregate {
            self.aggregates[aggregate as usize] = None;
            return;
        }
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
        let flows = self
            .tables
            .iter()
            .flat_map(|(_, table)| table.iter().map(|(_, entry)| (entry.fields, entry.policer.rule())));
        let aggregates = BehaviourAggregate::ALL.into_iter().zip(&self.aggregates);
        flows.chain(aggregates.filter_map(|(one, entry)| Some((one.fields(), entry.as_ref()?.policer.rule()))))
    }

    /// The packets that a rule marked, and its excess, in IP bytes.
    pub fn counters(&self, fields: &MultiField) -> Option<Counters> {
        self.policer(fields).map(Policer::counters)
    }

    /// The packets of a rule with a meter, by colour.
    pub fn colors(&self, fields: &MultiField) -> Option<ColorCounters> {
        self.policer(fields).and_then(Policer::colors)
    }

    /// Packets that lost a premium code point because no rule matched.
    pub fn stripped(&self) -> Counters {
        self.stripped
    }

    /// The rule of these fields.
    pub fn rule(&self, fields: &MultiField) -> Option<EdgeRule> {
        self.policer(fields).map(Policer::rule)
    }

    fn policer(&self, fields: &MultiField) -> Option<&Policer> {
        if let Some(aggregate) = fields.aggregate {
            return self.aggregates[aggregate as usize].as_ref().map(|entry| &entry.policer);
        }
        let table = self.tables.iter().find(|(kind, _)| *kind == fields.kind());
        table.and_then(|(_, table)| table.get(&fields.key())).map(|entry| &entry.policer)
    }

    fn entry_mut(&mut self, fields: &MultiField) -> Option<&mut Entry> {
        let kind = fields.kind();
        let table = self.tables.iter_mut().find(|(k, _)| *k == kind)?;
        table.1.get_mut(&fields.key())
    }
}

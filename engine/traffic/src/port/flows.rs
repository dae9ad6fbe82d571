//! The flows of a port: the flow of a packet, and the buckets of the flows, each its own or several one
//! together.

use crate::bucket::TokenBucket;
use crate::classifier::Classifier;
use crate::path::LeafId;
use crate::plan::{BucketId, ClassId, Counters, FlowSpecEntry};
use crate::shapes::Shapes;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use terms::{FlowKey, PacketMeta, Time};

/// The limit on flows, or on shapes of prefix flows, is reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TooMany;

/// Flows and their buckets.
#[derive(Clone, Debug)]
pub(super) struct Flows {
    table: Classifier<Flow>,
    buckets: Vec<Bucket>,
    vacant: Vec<u32>,
    shared: BTreeMap<BucketId, u32>,
    /// The number of flows of each kind other than a whole five-tuple: a packet is looked up again only for
    /// kinds that exist.
    kinds: [usize; KINDS.len()],
    /// The shapes of prefix flows, with the number of flows of each.
    shapes: Shapes,
}

#[derive(Clone, Debug)]
struct Flow {
    entry: FlowSpecEntry,
    leaf: LeafId,
    bucket: u32,
}

#[derive(Clone, Debug)]
struct Bucket {
    tokens: TokenBucket,
    counters: Counters,
    flows: u32,
    /// The time of the last packet; that of its first flow's installation before there was one.
    last: Time,
}

impl Flows {
    pub(super) fn new(key: [u64; 2], limit: usize) -> Flows {
        Flows {
            table: Classifier::new(key, limit),
            buckets: Vec::new(),
            vacant: Vec::new(),
            shared: BTreeMap::new(),
            kinds: [0; KINDS.len()],
            shapes: Shapes::default(),
        }
    }

    /// The class of the packet's flow, and true if the packet conforms to the flow's bucket; the packet is
    /// charged and counted. `None`: no flow matches.
    pub(super) fn charge(&mut self, now: Time, packet: &PacketMeta) -> Option<(LeafId, bool)> {
        let flow = self.find(&packet.flow)?;
        let (leaf, bucket) = (flow.leaf, flow.bucket);
        let bucket = &mut self.buckets[bucket as usize];
        let conforms = bucket.tokens.take(now, packet.len);
        bucket.last = now;
        let counters = &mut bucket.counters;
        let (packets, bytes) = match conforms {
            true => (&mut counters.packets, &mut counters.bytes),
            false => (&mut counters.over_packets, &mut counters.over_bytes),
        };
        *packets += 1;
        *bytes += u64::from(packet.len);
        Some((leaf, conforms))
    }

    /// The most specific flow of the packet.
    fn find(&self, packet: &FlowKey) -> Option<&Flow> {
        if let found @ Some(_) = self.table.get(packet) {
            return found;
        }
        let kinds = KINDS.iter().zip(self.kinds).filter(|(_, flows)| *flows > 0);
        let wider = kinds.filter_map(|(widen, _)| self.table.get(&widen(packet))).next();
        wider.or_else(|| self.shapes.iter().find_map(|shape| self.table.get(&shape.cut(packet)?)))
    }

    /// Adds the flow or changes it in place. Returns its former class.
    pub(super) fn set(
        &mut self,
        now: Time,
        key: FlowKey,
        entry: FlowSpecEntry,
        leaf: LeafId,
    ) -> Result<Option<LeafId>, TooMany> {
        let Some(old) = self.table.get(&key).map(|flow| (flow.bucket, flow.entry.shared, flow.leaf)) else {
            if !self.shapes.has_room_for(&key) {
                return Err(TooMany);
            }
            let bucket = self.bucket_for(now, &entry);
            if self.table.insert(key, Flow { entry, leaf, bucket }).is_err() {
                self.leave(bucket, entry.shared);
                return Err(TooMany);
            }
            self.count(&key, true);
            return Ok(None);
        };
        let (mut bucket, shared, had) = old;
        if shared != entry.shared {
            self.leave(bucket, shared);
            bucket = self.bucket_for(now, &entry);
        }
        self.buckets[bucket as usize].tokens.change(&entry.bucket, now);
        if let Some(flow) = self.table.get_mut(&key) {
            *flow = Flow { entry, leaf, bucket };
        }
        Ok(Some(had))
    }

    /// Removes a flow. Returns its former class.
    pub(super) fn remove(&mut self, key: &FlowKey) -> Option<LeafId> {
        let gone = self.table.remove(key)?;
        self.count(key, false);
        self.leave(gone.bucket, gone.entry.shared);
        Some(gone.leaf)
    }

    /// The installed entry of a flow.
    pub(super) fn get(&self, key: &FlowKey) -> Option<&FlowSpecEntry> {
        self.table.get(key).map(|flow| &flow.entry)
    }

    /// Every flow with its installed entry.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&FlowKey, &FlowSpecEntry)> {
        self.table.iter().map(|(key, flow)| (key, &flow.entry))
    }

    /// The flows of a class, each with the time of its bucket's last packet.
    pub(super) fn last_packets(&self, class: ClassId) -> impl Iterator<Item = (&FlowKey, Time)> {
        let mine = self.table.iter().filter(move |(_, flow)| flow.entry.class == class);
        mine.map(|(key, flow)| (key, self.buckets[flow.bucket as usize].last))
    }

    /// The packets that conformed to a flow's bucket, and those that did not.
    pub(super) fn counters(&self, key: &FlowKey) -> Option<Counters> {
        self.table.get(key).map(|flow| self.buckets[flow.bucket as usize].counters)
    }

    /// The bucket of a new flow: the one that it shares, or a full one.
    fn bucket_for(&mut self, now: Time, entry: &FlowSpecEntry) -> u32 {
        let found = entry.shared.and_then(|id| self.shared.get(&id).copied());
        if let Some(found) = found {
            let bucket = &mut self.buckets[found as usize];
            bucket.tokens.change(&entry.bucket, now);
            bucket.flows += 1;
            return found;
        }
        let tokens = TokenBucket::new(&entry.bucket, now);
        let fresh = Bucket { tokens, counters: Counters::default(), flows: 1, last: now };
        let at = match self.vacant.pop() {
            Some(at) => {
                self.buckets[at as usize] = fresh;
                at
            }
            None => {
                self.buckets.push(fresh);
                self.buckets.len() as u32 - 1
            }
        };
        if let Some(id) = entry.shared {
            self.shared.insert(id, at);
        }
        at
    }

    /// Removes a flow from its bucket.
    fn leave(&mut self, at: u32, shared: Option<BucketId>) {
        let bucket = &mut self.buckets[at as usize];
        bucket.flows -= 1;
        if bucket.flows == 0 {
            self.vacant.push(at);
            shared.map(|id| self.shared.remove(&id));
        }
    }

    /// Counts one flow more, or one less, of the key's kind.
    fn count(&mut self, key: &FlowKey, comes: bool) {
        if key.is_masked() {
            self.shapes.count(key, comes);
        } else if let Some(kind) = kind(key) {
            let flows = &mut self.kinds[kind];
            *flows = if comes { *flows + 1 } else { *flows - 1 };
        }
    }
}

/// The kind of a key: the widest one that leaves it unchanged; `None` for a whole five-tuple.
fn kind(key: &FlowKey) -> Option<usize> {
    let widest = KINDS.iter().rposition(|widen| widen(key) == *key)?;
    (widest > 0 || key.is_of_any_source_port()).then_some(widest)
}

/// The functions that lead from a packet to its possible flows besides its own five-tuple, the most specific
/// first. Each leaves a key of its own kind unchanged.
const KINDS: [fn(&FlowKey) -> FlowKey; 4] =
    [of_any_source_port, without_ports, of_any_sender, of_any_sender_without_ports];

fn of_any_source_port(key: &FlowKey) -> FlowKey {
    let open = FlowKey { src_port: 0, ..*key };
    if open.is_of_any_source_port() { open } else { *key }
}

fn without_ports(key: &FlowKey) -> FlowKey {
    FlowKey { src_port: 0, dst_port: 0, ..*key }
}

fn of_any_sender(key: &FlowKey) -> FlowKey {
    let src = match key.src {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    FlowKey { src, src_port: 0, ..*key }
}

fn of_any_sender_without_ports(key: &FlowKey) -> FlowKey {
    without_ports(&of_any_sender(key))
}

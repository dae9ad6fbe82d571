//! The classifier: from a packet's five-tuple to its installed entry, at a cost that does not grow with the
//! number of flows (DiffServ's multi-field classifier, RFC 2475 section 2.3.1, with exact matches only; a
//! prefix is an exact match of its fixed bits, [`crate::shapes`]).
//!
//! A hash table whose hash the driver keys, because strangers choose the five-tuples: without the key they
//! cannot choose tuples that collide.

use core::net::IpAddr;
use hashbrown::HashTable;
use terms::FlowKey;

/// The limit on flows is reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TableFull;

/// A table from flow to `T`.
#[derive(Clone, Debug)]
pub struct Classifier<T> {
    table: HashTable<(FlowKey, T)>,
    key: [u64; 2],
    limit: usize,
}

impl<T> Classifier<T> {
    /// An empty table for at most `limit` flows, its hash keyed with `key`.
    pub fn new(key: [u64; 2], limit: usize) -> Classifier<T> {
        Classifier { table: HashTable::new(), key, limit }
    }

    /// The flow's entry.
    pub fn get(&self, flow: &FlowKey) -> Option<&T> {
        self.table.find(self.hash(flow), |(k, _)| k == flow).map(|(_, value)| value)
    }

    /// The flow's entry, to change it.
    pub fn get_mut(&mut self, flow: &FlowKey) -> Option<&mut T> {
        let hash = self.hash(flow);
        self.table.find_mut(hash, |(k, _)| k == flow).map(|(_, value)| value)
    }

    /// Adds a flow, or replaces its entry and returns the old one.
    ///
    /// # Errors
    /// [`TableFull`]; the table is unchanged.
    pub fn insert(&mut self, flow: FlowKey, value: T) -> Result<Option<T>, TableFull> {
        if let Some(old) = self.get_mut(&flow) {
            return Ok(Some(core::mem::replace(old, value)));
        }
        if self.table.len() >= self.limit {
            return Err(TableFull);
        }
        let key = self.key;
        self.table.insert_unique(hash(key, &flow), (flow, value), |(k, _)| hash(key, k));
        Ok(None)
    }

    /// Removes a flow and returns its entry.
    pub fn remove(&mut self, flow: &FlowKey) -> Option<T> {
        let hash = self.hash(flow);
        let entry = self.table.find_entry(hash, |(k, _)| k == flow).ok()?;
        Some(entry.remove().0.1)
    }

    /// Removes all flows; their memory stays reserved.
    pub fn clear(&mut self) {
        self.table.clear();
    }

    /// The number of flows in the table.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// True if there is no flow.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// Every flow with its entry, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (&FlowKey, &T)> {
        self.table.iter().map(|(k, v)| (k, v))
    }

    fn hash(&self, flow: &FlowKey) -> u64 {
        hash(self.key, flow)
    }
}

/// Keyed multiply-and-fold over the words of the tuple: two for IPv4, five for IPv6.
fn hash(key: [u64; 2], flow: &FlowKey) -> u64 {
    let ports = u64::from(flow.src_port) << 24 | u64::from(flow.dst_port) << 8 | u64::from(flow.protocol);
    let ports = ports | u64::from(flow.wild.src) << 48 | u64::from(flow.wild.dst) << 40;
    let mut state = fold(key[0] ^ ports, key[1] ^ 0x9e37_79b9_7f4a_7c15);
    match (flow.src, flow.dst) {
        (IpAddr::V4(s), IpAddr::V4(d)) => {
            let pair = u64::from(u32::from(s)) << 32 | u64::from(u32::from(d));
            state = fold(state ^ pair, key[1] ^ 0xd1b5_4a32_d192_ed03);
        }
        (s, d) => {
            for word in words(s).into_iter().chain(words(d)) {
                state = fold(state ^ word, key[1] ^ 0xd1b5_4a32_d192_ed03);
            }
        }
    }
    fold(state, key[0] ^ 0x2545_f491_4f6c_dd1d)
}

fn words(ip: IpAddr) -> [u64; 2] {
    let wide = match ip {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    };
    let wide = u128::from(wide);
    [(wide >> 64) as u64, wide as u64]
}

/// Both halves of the product, so that every input bit reaches every output bit. Factors are made odd,
/// because a zero factor would erase the other.
fn fold(a: u64, b: u64) -> u64 {
    let wide = u128::from(a) * u128::from(b | 1);
    (wide >> 64) as u64 ^ wide as u64
}

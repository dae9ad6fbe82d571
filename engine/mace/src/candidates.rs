//! Candidates: flows of listed applications that no flow claims yet, with the number of their packets (the seed's "flow
//! recognition table"), in a bounded table.
//!
//! A flow has four places, all in one row, which a keyed hash chooses. A newcomer in a full row takes the place of the
//! candidate that has been silent longest. So a stranger who invents flows costs other candidates their count at worst, never
//! a promoted flow its class, and no memory.

use alloc::vec;
use alloc::vec::Vec;
use core::net::IpAddr;
use terms::{FlowKey, Time};

/// The places of a row.
pub const WAYS: usize = 4;

/// A candidate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Candidate {
    /// The flow.
    pub flow: FlowKey,
    /// Its packets since it last asked.
    pub packets: u32,
    /// The time of its last packet.
    pub seen: Time,
    /// It was refused, and does not ask again before this time; [`Time::ZERO`]: it was not.
    pub refused_until: Time,
}

/// The table of candidates.
#[derive(Clone, Debug)]
pub struct CandidateTable {
    rows: Vec<[Option<Candidate>; WAYS]>,
    key: [u64; 2],
    evicted: u64,
}

impl CandidateTable {
    /// A table with places for at least `places` candidates (at most 2^24). `key` keys the hash, so that a stranger cannot
    /// choose flows of one row.
    pub fn new(places: usize, key: [u64; 2]) -> CandidateTable {
        let rows = places.clamp(1, 1 << 24).div_ceil(WAYS).next_power_of_two();
        CandidateTable { rows: vec![[None; WAYS]; rows], key, evicted: 0 }
    }

    /// The number of places.
    pub fn room(&self) -> usize {
        self.rows.len() * WAYS
    }

    /// The candidates that lost their place to newcomers so far.
    pub fn evicted(&self) -> u64 {
        self.evicted
    }

    /// Every candidate, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = &Candidate> {
        self.rows.iter().flatten().flatten()
    }

    /// The candidate, if it is there.
    pub fn get(&self, flow: &FlowKey) -> Option<&Candidate> {
        self.rows[self.row(flow)].iter().flatten().find(|candidate| candidate.flow == *flow)
    }

    /// The candidate; a new one if it is not there.
    pub fn at(&mut self, now: Time, flow: &FlowKey) -> &mut Candidate {
        let row = self.row(flow);
        let there = |place: &Option<Candidate>| place.as_ref().is_some_and(|candidate| candidate.flow == *flow);
        let places = &mut self.rows[row];
        let place = match places.iter().position(there) {
            Some(place) => place,
            None => {
                let age = |place: &usize| places[*place].map(|candidate| candidate.seen);
                // An empty place comes before every candidate.
                let oldest = (0..WAYS).min_by_key(age).unwrap_or(0);
                self.evicted += u64::from(places[oldest].is_some());
                places[oldest] = None;
                oldest
            }
        };
        let fresh = Candidate { flow: *flow, packets: 0, seen: now, refused_until: Time::ZERO };
        let candidate = places[place].get_or_insert(fresh);
        candidate.seen = candidate.seen.max(now);
        candidate
    }

    /// Counts a packet of a candidate. True: with it the flow has as many as its `threshold`, and the count begins anew. No
    /// packet counts before [`Candidate::refused_until`].
    pub fn count(&mut self, now: Time, flow: &FlowKey, threshold: u32) -> bool {
        let candidate = self.at(now, flow);
        if candidate.refused_until > now {
            return false;
        }
        candidate.packets += 1;
        let reached = candidate.packets >= threshold;
        if reached {
            candidate.packets = 0;
        }
        reached
    }

    /// Removes a candidate.
    pub fn remove(&mut self, flow: &FlowKey) {
        let row = self.row(flow);
        for place in &mut self.rows[row] {
            if place.is_some_and(|candidate| candidate.flow == *flow) {
                *place = None;
            }
        }
    }

    fn row(&self, flow: &FlowKey) -> usize {
        hash(self.key, flow) as usize & (self.rows.len() - 1)
    }
}

/// Keyed multiply-and-fold over the words of the tuple.
fn hash(key: [u64; 2], flow: &FlowKey) -> u64 {
    let ports = u64::from(flow.src_port) << 24 | u64::from(flow.dst_port) << 8 | u64::from(flow.protocol);
    let mut state = fold(key[0] ^ ports, key[1] ^ 0x9e37_79b9_7f4a_7c15);
    for address in [flow.src, flow.dst] {
        let wide = match address {
            IpAddr::V4(v4) => v4.to_ipv6_mapped(),
            IpAddr::V6(v6) => v6,
        };
        let wide = u128::from(wide);
        for word in [(wide >> 64) as u64, wide as u64] {
            state = fold(state ^ word, key[1] ^ 0xd1b5_4a32_d192_ed03);
        }
    }
    fold(state, key[0] ^ 0x2545_f491_4f6c_dd1d)
}

/// Both halves of the product, so that every input bit reaches every output bit; the factor is made odd, because zero
/// would erase the other.
fn fold(a: u64, b: u64) -> u64 {
    let wide = u128::from(a) * u128::from(b | 1);
    (wide >> 64) as u64 ^ wide as u64
}

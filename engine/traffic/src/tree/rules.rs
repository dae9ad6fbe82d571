//! The classification of packets to leaves. Rules for a whole five-tuple are in a hash table, at a cost that
//! does not grow with their number; the others (prefixes, ranges, open fields) are tried one after the other.
//! The first match in the written order takes the packet, of either kind.

use super::LeafId;
use super::spec::MultiFieldRule;
use crate::classifier::Classifier;
use alloc::vec::Vec;
use terms::PacketMeta;

/// The most rules in a tree with an open field: they are tried one after the other.
pub const MAX_RULES: u64 = 4096;
/// The most rules in a tree that name a whole five-tuple.
pub const MAX_EXACT_RULES: u64 = 1 << 20;

/// The number of rules of each kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct RuleCount {
    pub(super) exact: u64,
    pub(super) open: u64,
}

impl RuleCount {
    pub(super) fn of(rules: &[MultiFieldRule]) -> RuleCount {
        let exact = rules.iter().filter(|rule| rule.exact().is_some()).count() as u64;
        RuleCount { exact, open: rules.len() as u64 - exact }
    }

    pub(super) fn plus(self, other: RuleCount) -> RuleCount {
        RuleCount { exact: self.exact + other.exact, open: self.open + other.open }
    }

    pub(super) fn minus(self, other: RuleCount) -> RuleCount {
        RuleCount { exact: self.exact - other.exact, open: self.open - other.open }
    }
}

/// All rules of a tree.
#[derive(Clone, Debug)]
pub(super) struct Rules {
    /// By five-tuple: the first rule's position in the order, and its leaf.
    exact: Classifier<(u32, LeafId)>,
    /// The others, in order.
    open: Vec<(u32, MultiFieldRule, LeafId)>,
    /// The leaf without rules.
    rest: LeafId,
    /// The number of rules, also those that repeat an earlier one.
    count: RuleCount,
}

impl Rules {
    /// No rules: all packets go to the first leaf. `key` keys the hash.
    pub(super) fn new(key: [u64; 2]) -> Rules {
        let exact = Classifier::new(key, MAX_EXACT_RULES as usize);
        Rules { exact, open: Vec::new(), rest: LeafId(0), count: RuleCount::default() }
    }

    /// Replaces the rules, in order, by leaf.
    pub(super) fn set<'a>(&mut self, leaves: impl Iterator<Item = (LeafId, &'a [MultiFieldRule])>) {
        self.exact.clear();
        self.open.clear();
        self.count = RuleCount::default();
        let mut at = 0;
        for (leaf, rules) in leaves {
            if rules.is_empty() {
                self.rest = leaf;
            }
            self.count = self.count.plus(RuleCount::of(rules));
            for rule in rules {
                match rule.exact() {
                    // One that repeats an earlier one never gets a packet.
                    Some(flow) if self.exact.get(&flow).is_some() => {}
                    Some(flow) => {
                        let added = self.exact.insert(flow, (at, leaf));
                        debug_assert!(added.is_ok(), "a tree with too many rules is refused");
                    }
                    None => self.open.push((at, *rule, leaf)),
                }
                at += 1;
            }
        }
    }

    /// The number of rules of each kind.
    pub(super) fn count(&self) -> RuleCount {
        self.count
    }

    /// The leaf of a packet.
    pub(super) fn leaf_of(&self, packet: &PacketMeta) -> LeafId {
        let known = if self.exact.is_empty() { None } else { self.exact.get(&packet.flow).copied() };
        let (before, leaf) = known.unwrap_or((u32::MAX, self.rest));
        let mut earlier = self.open.iter().take_while(|(at, ..)| *at < before);
        earlier.find(|(_, rule, _)| rule.matches(packet)).map_or(leaf, |&(.., leaf)| leaf)
    }
}

//! The edge's program against the engine's edge where control groups have rules: same decisions, wherever in a tree of
//! groups the sender is.

use super::edge::{Bench, code_point, marked};
use crate::policer::{Dice, LO, key};
use crate::scratch;
use linux::bpf::edge::{RawRule, RawRuleKey};
use linux::cgroup;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use terms::{Bytes, Dscp, FlowKey, PacketMeta, Rate, SenderGroup, Time};
use traffic::edge::{Conditioned, Edge, EdgeAt, EdgeRule, MultiField, ORDER, Side};
use traffic::plan::BucketSpec;

const OUT: EdgeAt = EdgeAt { interface: LO, side: Side::Egress };

/// A tree of groups, into which this whole process moves and from which it goes home at the end.
struct Tree {
    home: PathBuf,
    groups: Vec<PathBuf>,
}

impl Tree {
    fn new() -> Option<Tree> {
        let root = cgroup::for_packets(&cgroup::all_mounted())?;
        let home = cgroup::home_of(std::process::id(), &root)?;
        let base = root.at.join(format!("sluice-kernel-{}", std::process::id()));
        let groups: Vec<PathBuf> = ["", "a", "a/b", "a/b/c", "d"].iter().map(|name| base.join(name)).collect();
        groups.iter().try_for_each(std::fs::create_dir).ok()?;
        Some(Tree { home, groups })
    }

    fn enter(group: &Path) {
        std::fs::write(group.join("cgroup.procs"), std::process::id().to_string()).expect("a process moves");
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = std::fs::write(self.home.join("cgroup.procs"), std::process::id().to_string());
        self.groups.iter().rev().for_each(|group| drop(std::fs::remove_dir(group)));
    }
}

/// The innermost group of a sender in `group` that has a rule.
fn closest(rules: &BTreeMap<MultiField, EdgeRule>, group: &Path) -> Option<SenderGroup> {
    let mut above = group.ancestors().filter_map(|group| cgroup::sender_group(group.to_str()?));
    above.find(|group| rules.contains_key(&MultiField::of_group(*group)))
}

#[test]
fn the_innermost_group_with_a_rule_has_the_packet() {
    scratch::in_netns(|| {
        let Some(tree) = Tree::new() else { return bench::skipped("nobody may make control groups of version 2 here") };
        let mut bench = Bench::new();
        bench.table.note(OUT, 14).expect("an edge");
        let mut dice = Dice(15);
        let flows: Vec<FlowKey> =
            [("10.0.0.1", "10.0.0.2"), ("fd00::1", "fd00::2")].map(|(src, dst)| key(src, dst, 17)).into();
        let exact = flows.iter().map(MultiField::exactly);
        let wide = flows.iter().map(|flow| MultiField { dst: Some(flow.dst), ..MultiField::default() });
        let of_groups = tree.groups.iter().map(|group| {
            MultiField::of_group(cgroup::sender_group(group.to_str().expect("text")).expect("it is there"))
        });
        let all: Vec<MultiField> = exact.chain(wide).chain(of_groups).collect();
        let mut hits = BTreeMap::new();
        for round in 0..120 {
            let mut model = Edge::new([1, 2], terms::signalling::SIGNALLING);
            let mut rules = BTreeMap::new();
            for (slot, fields) in all.iter().enumerate() {
                let raw_key = RawRuleKey::new(OUT, fields);
                bench.table.remove_rule(&raw_key).expect("removed");
                if dice.below(2) == 0 {
                    continue;
                }
                let bucket =
                    BucketSpec { rate: Rate::from_bps(8), depth: Bytes::new(150 * dice.below(3)), min_unit: 0 };
                let rule = EdgeRule::of_bucket(bucket, Dscp(1 + slot as u8));
                let raw = RawRule::new(slot as u32, &rule);
                bench.table.put_state(slot as u32, &raw.full()).expect("state");
                bench.table.put_rule(&raw_key, &raw).expect("rule");
                model.set(Time::ZERO, *fields, rule).expect("room");
                rules.insert(*fields, rule);
            }
            let kinds: Vec<u8> =
                ORDER.into_iter().filter(|kind| rules.keys().any(|fields| fields.kind() == *kind)).collect();
            bench.table.put_kinds(&kinds).expect("kinds");
            let ids = rules.keys().filter_map(|fields| fields.group).map(|group| group.id);
            bench.table.put_groups(ids).expect("groups");
            let place = &tree.groups[dice.below(tree.groups.len() as u64) as usize];
            Tree::enter(place);
            let group = closest(&rules, place);
            for flow in flows.iter().chain(&flows).copied() {
                let came = bench.pass(Side::Egress, &marked(&flow, 100, Dscp(9)));
                let packet = PacketMeta { flow, len: 100, dscp: Dscp(9), arrival: Time::ZERO, group, id: 0 };
                let wanted = match model.condition(Time::ZERO, &packet) {
                    Conditioned::Passed(dscp) => Some(dscp),
                    Conditioned::Dropped => None,
                };
                let came = came.map(|packet| code_point(&packet));
                assert_eq!(came, wanted, "round {round}: {flow:?} from {} among {rules:?}", place.display());
                *hits.entry(wanted).or_insert(0) += 1;
            }
        }
        // Every rule has had packets, some were in excess, some were nobody's.
        let seen = |n: usize| hits.get(&Some(Dscp(1 + n as u8))).copied().unwrap_or(0);
        assert!((0..all.len()).all(|n| seen(n) > 0), "{hits:?}: proves little");
        assert!([None, Some(Dscp(0)), Some(Dscp(9))].iter().all(|case| hits.contains_key(case)), "{hits:?}");
    });
}

//! The three-colour meters of the edge's program against the engine's: same packets, same colours, same code points, same
//! drops, same counts, for all forms, colour-blind and colour-aware, on rules of flows and of aggregates.

use super::edge::{AT, Bench, code_point, marked, some_flow};
use crate::policer::Dice;
use crate::policer::LO;
use crate::scratch::{self, StateDir};
use aya::maps::{Array, HashMap as Hash};
use aya::programs::SchedClassifier;
use linux::bpf::edge::{RawRule, RawRuleKey};
use linux::bpf::entry::RawState;
use linux::bpf::sys::{SkBuff, attach, link_place, open_pinned, pin, program_id, test_run_through};
use linux::bpf::{EdgeTable, FlowTable, Hook};
use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::time::Duration;
use terms::{Bytes, Dscp, FlowKey, PacketMeta, Rate, Time};
use traffic::conditioner::{MeterKind, MeterSpec};
use traffic::edge::{BehaviourAggregate, Conditioned, Edge, EdgeMeter, EdgeRule, MultiField, ORDER, RedPackets, Side};
use traffic::plan::BucketSpec;

fn some_meter(dice: &mut Dice) -> EdgeMeter {
    let mut rate = || Rate::from_bps(dice.log(36));
    let (cir, other) = (rate(), rate());
    // Zero, less than a packet, a few packets, megabytes, and what fills 64 bits.
    let mut burst = || Bytes::new(if dice.below(40) == 0 { 1_152_921_504 } else { 1 + dice.log(22) });
    let (cbs, second) = (burst(), burst());
    let kind = match dice.below(3) {
        0 => MeterKind::SrTcm { cir, cbs, ebs: if dice.below(8) == 0 { Bytes::ZERO } else { second } },
        1 => MeterKind::TrTcm { cir: cir.min(other), cbs, pir: cir.max(other), pbs: second },
        _ => MeterKind::Rfc4115 { cir, cbs, eir: other, ebs: second },
    };
    let red = if dice.below(2) == 0 { RedPackets::Marked } else { RedPackets::Excess };
    EdgeMeter::new(MeterSpec { kind, aware: dice.below(2) == 0 }, red).expect("it can work")
}

fn some_rule(dice: &mut Dice) -> EdgeRule {
    let meter = Some(some_meter(dice));
    let rate = Rate::from_bps(1 + dice.log(30));
    let bucket = BucketSpec { rate, depth: Bytes::new(1 + dice.log(20)), min_unit: dice.log(11) as u32 };
    EdgeRule { bucket, mark: Dscp::AF11, meter }
}

fn some_colour(dice: &mut Dice) -> Dscp {
    [Dscp::AF11, Dscp::AF12, Dscp::AF13, Dscp::EF, Dscp::DEFAULT, Dscp(48)][dice.below(6) as usize]
}

/// Writes the rule in the program and in the model: in place, if its meter has coloured a packet already.
fn set(bench: &mut Bench, model: &mut Edge, slot: u32, fields: &MultiField, rule: &EdgeRule) {
    let credit = bench.table.credit(slot).expect("read").filter(|credit| credit.last() > 0);
    match credit.filter(|_| model.rule(fields).is_some()) {
        Some(credit) => {
            model.set(Time::from_nanos(credit.last()), *fields, *rule).expect("room");
            bench.table.put_rule(&RawRuleKey::new(AT, fields), &RawRule::new(slot, rule)).expect("rule");
        }
        None => {
            model.remove(fields);
            model.set(Time::ZERO, *fields, *rule).expect("room");
            bench.install(slot, fields, rule);
        }
    }
}

/// The counts of what was seen, so that the test shows that it has seen everything.
#[derive(Debug, Default)]
struct Seen {
    marked: BTreeMap<Dscp, u32>,
    dropped: u32,
    unmarked: u32,
    improved: u32,
}

impl Seen {
    fn note(&mut self, came: Dscp, verdict: Conditioned) {
        match verdict {
            Conditioned::Passed(mark) if mark.is_premium() => {
                *self.marked.entry(mark).or_default() += 1;
                self.improved += u32::from(mark.0 < came.0 && came.0 <= Dscp::AF13.0);
            }
            Conditioned::Passed(_) => self.unmarked += 1,
            Conditioned::Dropped => self.dropped += 1,
        }
    }

    fn proves(&self, least: u32) {
        let marks = [Dscp::AF11, Dscp::AF12, Dscp::AF13].iter().all(|mark| self.marked.get(mark) > Some(&least));
        assert!(marks && self.dropped > least && self.unmarked > least && self.improved > least, "{self:?}");
    }
}

fn agree(bench: &Bench, model: &Edge, slot: u32, fields: &MultiField, n: u32) {
    assert_eq!(model.counters(fields), Some(bench.table.counters(slot).expect("counters")), "packet {n}");
    assert_eq!(model.colors(fields), bench.table.colors(slot).expect("colours"), "packet {n}");
}

fn compare(n: u32, sent: (&FlowKey, u32, Dscp), came: Option<Vec<u8>>, verdict: Conditioned, rule: Option<EdgeRule>) {
    let (flow, len, dscp) = sent;
    let expected = match verdict {
        Conditioned::Passed(dscp) => Some(marked(flow, len as usize, dscp)),
        Conditioned::Dropped => None,
    };
    let got = came.as_ref().map(|packet| code_point(packet));
    assert!(came == expected, "packet {n}, {len} bytes, {dscp:?}: {got:?}, expected {verdict:?} of {rule:?}");
}

#[test]
fn rules_of_flows_colour_as_the_engine_does() {
    scratch::in_netns(|| {
        let (mut bench, mut dice) = (Bench::new(), Dice(23));
        let mut model = Edge::new([1, 2], terms::signalling::SIGNALLING);
        // Two whole five-tuples, and what stays of others from one source.
        let own = [0, 1].map(|n| FlowKey { protocol: 17, ..some_flow(&mut Dice(n)) });
        assert_ne!(own[0], own[1]);
        let wide = MultiField { protocol: Some(6), ..MultiField::default() };
        let rules = [MultiField::exactly(&own[0]), MultiField::exactly(&own[1]), wide];
        let kinds: Vec<u8> = ORDER.into_iter().filter(|kind| rules.iter().any(|f| f.kind() == *kind)).collect();
        bench.table.put_kinds(&kinds).expect("kinds");
        let mut seen = Seen::default();
        for n in 0..30_000_u32 {
            if n % 60 == 0 {
                let at = dice.below(3) as usize;
                if dice.below(6) == 0 {
                    model.remove(&rules[at]);
                    bench.table.remove_rule(&RawRuleKey::new(AT, &rules[at])).expect("removed");
                }
                set(&mut bench, &mut model, at as u32, &rules[at], &some_rule(&mut dice));
            }
            if dice.below(300) == 0 {
                std::thread::sleep(Duration::from_micros(dice.log(11)));
            }
            let flow = match dice.below(4) {
                0 | 1 => own[dice.below(2) as usize],
                _ => FlowKey { protocol: 6, ..some_flow(&mut dice) },
            };
            let (len, dscp) = (60 + dice.below(1440) as u32, some_colour(&mut dice));
            let last = |slot: u32| bench.table.credit(slot).expect("read").map(|credit| credit.last());
            let before = [0, 1, 2].map(last);
            let came = bench.pass(Side::Ingress, &marked(&flow, len as usize, dscp));
            let hit = (0..3).find(|slot| last(*slot) != before[*slot as usize]);
            let now = Time::from_nanos(hit.and_then(last).unwrap_or(0));
            let verdict = model.condition(now, &PacketMeta { flow, len, dscp, arrival: now, id: 0, group: None });
            let fields = hit.map(|slot| rules[slot as usize]);
            compare(n, (&flow, len, dscp), came, verdict, fields.and_then(|fields| model.rule(&fields)));
            if let Some((slot, fields)) = hit.zip(fields) {
                seen.note(dscp, verdict);
                agree(&bench, &model, slot, &fields, n);
            }
        }
        seen.proves(500);
    });
}

/// An agreement's meter behind rules of flows that always conform: one whose packets are all AF11, and one that is
/// colour-aware, so that packets come to the agreement in all colours.
#[test]
fn an_agreement_remarks_as_the_engine_does() {
    scratch::in_netns(|| {
        let (mut bench, mut dice) = (Bench::new(), Dice(29));
        let mut model = Edge::new([1, 2], terms::signalling::SIGNALLING);
        let own = [0, 1].map(|n| FlowKey { protocol: 17, ..some_flow(&mut Dice(n)) });
        let (plenty, rate) = (Bytes::new(1 << 29), Rate::from_mbps(100_000));
        let kind = MeterKind::TrTcm { cir: rate, cbs: plenty, pir: rate, pbs: plenty };
        let aware = EdgeMeter::new(MeterSpec { kind, aware: true }, RedPackets::Marked).expect("it can work");
        let bucket = BucketSpec { rate, depth: plenty, min_unit: 0 };
        for (slot, (flow, meter)) in own.iter().zip([None, Some(aware)]).enumerate() {
            let (fields, rule) = (MultiField::exactly(flow), EdgeRule { bucket, mark: Dscp::AF11, meter });
            bench.install(8 + slot as u32, &fields, &rule);
            model.set(Time::ZERO, fields, rule).expect("room");
        }
        bench.table.put_kinds(&[0]).expect("kinds");
        let fields = BehaviourAggregate::Af1.fields();
        let mut seen = Seen::default();
        for n in 0..20_000_u32 {
            if n % 80 == 0 {
                let mut rule = some_rule(&mut dice);
                if let Some(old) = model.rule(&fields).filter(|_| dice.below(12) == 0) {
                    // Nothing is agreed: nothing is premium, and the meter rests.
                    let bucket = BucketSpec { rate: Rate::ZERO, depth: Bytes::ZERO, min_unit: 0 };
                    rule = EdgeRule { bucket, ..old };
                }
                set(&mut bench, &mut model, 0, &fields, &rule);
            }
            let flow = [own[0], own[1], some_flow(&mut dice)][dice.below(3) as usize];
            let (len, dscp) = (60 + dice.below(1440) as u32, some_colour(&mut dice));
            let last = |slot: u32| bench.table.credit(slot).expect("read").map_or(0, |credit| credit.last());
            let before = last(0);
            let came = bench.pass(Side::Ingress, &marked(&flow, len as usize, dscp));
            let now = Time::from_nanos(if last(0) == before { last(9) } else { last(0) });
            let verdict = model.condition(now, &PacketMeta { flow, len, dscp, arrival: now, id: 0, group: None });
            compare(n, (&flow, len, dscp), came, verdict, model.rule(&fields));
            if last(0) != before || verdict == Conditioned::Passed(Dscp::DEFAULT) {
                seen.note(dscp, verdict);
            }
            agree(&bench, &model, 0, &fields, n);
        }
        assert_eq!(model.stripped(), bench.table.stripped(AT).expect("stripped"));
        seen.proves(300);
    });
}

/// `edge_unmetered.o` is the program as builds without meters shipped it. One was killed, with a rule in force; this build
/// starts on what it left. The rule, its bucket and its counts stay, the link gets the new program, and the rule gets a meter.
#[test]
fn what_a_build_without_meters_left_is_taken_over() {
    static OLD: &[u8] = aya::include_bytes_aligned!("edge_unmetered.o");
    scratch::in_netns(|| {
        let state = StateDir::new();
        let _flows = FlowTable::open(state.path(), 64, Hook::Best).expect("the flow program loads");
        let dir = state.path().join("bpf").join(linux::bpf::edge::LAYOUT);
        std::fs::create_dir_all(&dir).expect("a directory");
        let mut object = aya::EbpfLoader::new().default_map_pin_directory(&dir).load(OLD).expect("it loads");
        let program: &mut SchedClassifier =
            object.program_mut("sluice_edge_in").expect("there").try_into().expect("a classifier");
        program.load().expect("verified");
        let fd = program.fd().expect("loaded").as_fd().try_clone_to_owned().expect("a descriptor");
        pin(fd.as_fd(), &dir.join("program_in_0")).expect("pin");
        let flow = FlowKey { protocol: 17, ..some_flow(&mut Dice(1)) };
        let fields = MultiField::exactly(&flow);
        let bucket = BucketSpec { rate: Rate::from_mbps(8), depth: Bytes::new(9_000), min_unit: 64 };
        let rule = EdgeRule::of_bucket(bucket, Dscp::AF11);
        let (key, raw) = (RawRuleKey::new(AT, &fields), RawRule::new(9, &rule));
        // The layouts as that build had them: 8 and 24 bytes of an edge, 48 and 48 of a rule.
        let mut edges: Hash<_, [u32; 2], [u64; 3]> =
            Hash::try_from(object.map_mut("edges").expect("there")).expect("hash");
        edges.insert([LO.0, 0], [14, 0, 0], 0).expect("written");
        let mut rules: Hash<_, RawRuleKey, [u64; 6]> =
            Hash::try_from(object.map_mut("rules").expect("there")).expect("hash");
        let depth = 9_000 * 8_000_000_000_u64;
        let entry = [9 | 10 << 32, 8_000_000, depth, depth.div_ceil(8_000_000), 64 | 1 << 32, 9_000];
        rules.insert(key, entry, 0).expect("written");
        let mut kinds: Array<_, u64> = Array::try_from(object.map_mut("rule_kinds").expect("there")).expect("array");
        kinds.set(0, u64::MAX << 8, 0).expect("written");
        let mut states: Array<_, RawState> =
            Array::try_from(object.map_mut("rule_states").expect("there")).expect("array");
        states.set(9, raw.full(), 0).expect("written");
        let send = |program: std::os::fd::BorrowedFd<'_>| {
            let mut context = SkBuff::leaving(LO.0, 0, 0, 0);
            let (_, packet) =
                test_run_through(program, &marked(&flow, 100, Dscp::DEFAULT), &mut context).expect("runs");
            code_point(&packet)
        };
        assert_eq!(send(fd.as_fd()), Dscp::AF11, "its own program takes it");
        let linked = attach(fd.as_fd(), LO.0, Side::Ingress, false);
        if let Ok(link) = &linked {
            pin(link.as_fd(), &dir.join(format!("edge_in_{}", LO.0))).expect("pin");
        }
        drop(object);

        let mut table = EdgeTable::open(state.path(), Hook::Best).expect("opens");
        let found = table.rule(AT, &fields).expect("readable").expect("taken over");
        assert_eq!((found, found.read()), (raw, Some(rule)));
        assert_eq!(send(table.program(Side::Ingress)), Dscp::AF11);
        assert_eq!(table.counters(9).expect("readable").packets, 2, "it counts on");
        match linked {
            Ok(link) => {
                let place = link_place(link.as_fd()).expect("look");
                let new = program_id(table.program(Side::Ingress)).expect("look");
                assert_eq!((place.ifindex, place.program), (LO.0, new), "the link has the new program");
                assert!(open_pinned(&dir.join("program_in_0")).is_err(), "and the old one is not kept");
            }
            Err(_) => bench::skipped("this kernel has no TCX links to be handed over"),
        }
        let kind = MeterKind::SrTcm { cir: Rate::from_bps(1), cbs: Bytes::ZERO, ebs: Bytes::new(150) };
        let meter = EdgeMeter::new(MeterSpec { kind, aware: false }, RedPackets::Marked).expect("it can work");
        table.put_rule(&key, &RawRule::new(9, &EdgeRule { meter: Some(meter), ..rule })).expect("written");
        assert_eq!([(); 2].map(|()| send(table.program(Side::Ingress))), [Dscp::AF12, Dscp::AF13]);
        assert_eq!(table.counters(9).expect("readable").packets, 4, "both count together");
    });
}

//! The aggregates of an agreement with another domain: the edge's program against the engine's edge.

use super::edge::{AT, Bench, code_point, marked, some_flow};
use crate::policer::Dice;
use crate::scratch;
use linux::bpf::edge::{RawRule, RawRuleKey};
use terms::{Bytes, Dscp, FlowKey, PacketMeta, Rate, Time};
use traffic::edge::{BehaviourAggregate, Conditioned, Edge, EdgeRule, MultiField, Side};
use traffic::plan::BucketSpec;

/// What is agreed from now on: something, nothing, or there is no agreement about a service.
fn agree_anew(bench: &mut Bench, model: &mut Edge, dice: &mut Dice) {
    for (slot, aggregate) in BehaviourAggregate::ALL.into_iter().enumerate() {
        let (slot, fields) = (slot as u32, aggregate.fields());
        let key = RawRuleKey::new(AT, &fields);
        let there = model.rule(&fields).is_some();
        let rate = Rate::from_bps(if dice.below(4) == 0 { 0 } else { dice.log(34) << 2 });
        let depth = if rate == Rate::ZERO { 0 } else { 100 + dice.log(20) };
        let bucket = BucketSpec { rate, depth: Bytes::new(depth), min_unit: dice.log(11) as u32 };
        let rule = EdgeRule::of_bucket(bucket, aggregate.code_point());
        match (there, dice.below(5)) {
            (true, 0) => {
                model.remove(&fields);
                bench.table.remove_rule(&key).expect("removed");
            }
            (true, _) => {
                let at = Time::from_nanos(bench.table.state(slot).expect("state").last);
                model.set(at, fields, rule).expect("room");
                bench.table.put_rule(&key, &RawRule::new(slot, &rule)).expect("rule");
            }
            (false, _) => {
                model.set(Time::ZERO, fields, rule).expect("room");
                bench.install(slot, &fields, &rule);
            }
        }
    }
}

/// The aggregates of an agreement against the engine's: same packets, same marks, same drops, same counts; each is
/// changed in place while packets come. A rule of the packet's flow always conforms here, so that one clock decides.
#[test]
fn an_agreement_polices_as_the_engine_does() {
    scratch::in_netns(|| {
        let mut bench = Bench::new();
        let mut dice = Dice(11);
        let mut model = Edge::new([1, 2], terms::signalling::SIGNALLING);
        let own = MultiField::exactly(&FlowKey { protocol: 17, ..some_flow(&mut Dice(1)) });
        let plenty = BucketSpec { rate: Rate::from_mbps(100_000), depth: Bytes::new(1 << 30), min_unit: 0 };
        let own_rule = EdgeRule::of_bucket(plenty, Dscp::EF);
        bench.install(9, &own, &own_rule);
        bench.table.put_kinds(&[own.kind()]).expect("kinds");
        model.set(Time::ZERO, own, own_rule).expect("room");
        let mut seen = [0_u64; 4];
        for n in 0..20_000 {
            if n % 500 == 0 {
                agree_anew(&mut bench, &mut model, &mut dice);
            }
            let flow = if dice.below(3) == 0 {
                FlowKey { protocol: 17, ..some_flow(&mut Dice(1)) }
            } else {
                some_flow(&mut dice)
            };
            let (len, dscp) =
                (60 + dice.below(1440) as u32, [Dscp::EF, Dscp::AF12, Dscp::DEFAULT][dice.below(3) as usize]);
            let last = |slot| bench.table.state(slot).expect("state").last;
            let before = [last(0), last(1)];
            let came = bench.pass(Side::Ingress, &marked(&flow, len as usize, dscp));
            let moved = (0..2).find(|slot| last(*slot) != before[*slot as usize]);
            let now = moved.map_or(Time::from_nanos(last(9)), |slot| Time::from_nanos(last(slot)));
            let verdict = model.condition(now, &PacketMeta { flow, len, dscp, arrival: now, id: 0, group: None });
            let expected = match verdict {
                Conditioned::Passed(dscp) => Some(marked(&flow, len as usize, dscp)),
                Conditioned::Dropped => None,
            };
            assert!(
                came == expected,
                "packet {n} of {flow:?}: {:?}, expected {verdict:?}",
                came.map(|p| code_point(&p))
            );
            for (slot, aggregate) in BehaviourAggregate::ALL.into_iter().enumerate() {
                if let Some(counters) = model.counters(&aggregate.fields()) {
                    assert_eq!(counters, bench.table.counters(slot as u32).expect("counters"), "packet {n}");
                }
            }
            let premium = |dscp: Dscp| dscp.is_premium();
            match verdict {
                Conditioned::Dropped => seen[0] += 1,
                Conditioned::Passed(mark) if premium(mark) && premium(dscp) => seen[1] += 1,
                Conditioned::Passed(mark) if premium(mark) => seen[2] += 1,
                Conditioned::Passed(_) if premium(dscp) => seen[3] += 1,
                Conditioned::Passed(_) => {}
            }
        }
        assert_eq!(model.stripped(), bench.table.stripped(AT).expect("stripped"));
        assert!(seen.iter().all(|count| *count > 300), "dropped, kept, marked, wiped {seen:?}: proves nothing");
    });
}

//! Stops and failures at every single write: what was not finished is undone, or finished by whoever comes next.

use crate::bed::{Bed, bed, entry, key, plan_of};
use crate::scratch;
use linux::bpf::Hook;
use linux::plane::{FaultInjection, KernelPlane};
use std::time::Instant;
use terms::{FlowKey, IfIndex, Rate};
use traffic::plan::{BucketId, ClassId, FlowSpecEntry, Plan, PlanOp};

const OWN: ClassId = ClassId::FIRST_OWN;
/// More writes than any batch here needs.
const ENOUGH: u64 = 200;

/// A story in batches: from nothing over growth, moves and shrinking to nothing again.
fn story(bed: &Bed) -> Vec<Vec<PlanOp>> {
    let other = ClassId(OWN.0 + 1);
    let oif = bed.oif;
    let mut first = bed.base(3_300);
    first.push(bed.flow(1, ClassId::CONTROLLED_LOAD, 3_000));
    vec![
        first,
        vec![
            bed.class(ClassId::BEST_EFFORT, 3_000, 7),
            bed.class(ClassId::CONTROLLED_LOAD, 4_300, 2),
            bed.class(OWN, 2_000, 1),
            bed.flow(2, OWN, 1_900),
            bed.flow(3, ClassId::CONTROLLED_LOAD, 900),
            bed.flow(1, ClassId::CONTROLLED_LOAD, 3_100),
        ],
        vec![
            bed.drop_flow(1),
            bed.class(ClassId::CONTROLLED_LOAD, 1_000, 2),
            bed.class(other, 2_500, 1),
            bed.flow(2, other, 2_400),
            PlanOp::DropClass { oif, class: OWN },
            bed.flow(4, ClassId::CONTROLLED_LOAD, 100),
        ],
        // Two senders of one bucket, a third that leaves its own for it, any sender, and one without ports.
        vec![
            shared(bed, 1, 7, 800),
            shared(bed, 3, 7, 800),
            shared(bed, 4, 7, 800),
            PlanOp::Flow { oif, flow: any_sender(), entry: entry(ClassId::CONTROLLED_LOAD, 50) },
            PlanOp::Flow { oif, flow: without_ports(), entry: entry(ClassId::CONTROLLED_LOAD, 50) },
        ],
        // One leaves for a bucket of its own, one for another shared one, one for good; the last one's numbers change.
        vec![
            bed.flow(1, ClassId::CONTROLLED_LOAD, 100),
            shared(bed, 3, 8, 700),
            bed.drop_flow(4),
            PlanOp::DropFlow { oif, flow: any_sender() },
            shared(bed, 5, 8, 700),
        ],
        vec![PlanOp::DropLink { oif }],
    ]
}

fn shared(bed: &Bed, n: u16, bucket: u64, kbps: u64) -> PlanOp {
    let entry = FlowSpecEntry { shared: Some(BucketId(bucket)), ..entry(ClassId::CONTROLLED_LOAD, kbps) };
    PlanOp::Flow { oif: bed.oif, flow: key(n), entry }
}

fn any_sender() -> FlowKey {
    FlowKey { src: std::net::Ipv4Addr::UNSPECIFIED.into(), src_port: 0, ..key(0) }
}

fn without_ports() -> FlowKey {
    FlowKey { src_port: 0, dst_port: 0, ..key(0) }
}

#[test]
fn a_failure_at_any_write_leaves_no_trace() {
    for hook in [Hook::Best, Hook::Clsact] {
        scratch::in_netns(move || fail_everywhere(hook));
    }
}

fn fail_everywhere(hook: Hook) {
    let mut bed = bed();
    let mut plane = bed.open_by(hook);
    let mut failures = 0;
    for batch in story(&bed) {
        let before = (bed.shown(), plane.read().expect("read"));
        for n in 0..ENOUGH {
            plane.rig(FaultInjection::FailAfter(n));
            if plane.apply(&batch).is_ok() {
                break;
            }
            failures += 1;
            assert_eq!((bed.shown(), plane.read().expect("read")), before, "write {n} of {batch:#?}");
        }
        plane.rig(FaultInjection::None);
        plane.apply(&batch).expect("and without a failure it is done");
    }
    assert!(failures > 40, "only {failures} writes failed: the drill did not happen");
}

#[test]
fn a_stop_between_any_two_writes_converges() {
    for hook in [Hook::Best, Hook::Clsact] {
        scratch::in_netns(move || stop_everywhere(hook));
    }
}

fn stop_everywhere(hook: Hook) {
    let mut bed = bed();
    let mut stops = 0;
    let mut told: Vec<PlanOp> = Vec::new();
    for batch in story(&bed) {
        let mut n = 0;
        loop {
            // From the state before the batch, however that is reached.
            let mut plane = bed.open_by(hook);
            settle(&mut plane, &mut bed, &told);
            plane.rig(FaultInjection::DieAfter(n));
            let died = plane.apply(&batch).is_err();
            drop(plane);
            let mut wanted = told.clone();
            wanted.extend(&batch);
            let mut plane = bed.open_by(hook);
            settle(&mut plane, &mut bed, &wanted);
            drop(plane);
            if !died {
                break;
            }
            (n, stops) = (n + 1, stops + 1);
            assert!(n < ENOUGH);
        }
        told.extend(&batch);
    }
    assert!(stops > 40, "only {stops} stops: the drill did not happen");
}

/// What a restarted agent does: it looks, and tells the difference; then everything is as wanted, and nothing else.
fn settle(plane: &mut KernelPlane, bed: &mut Bed, ops: &[PlanOp]) {
    let wanted = plan_of(ops);
    let found = plane.read().expect("read");
    plane.apply(&difference(bed.oif, &found, &wanted)).expect("the difference can be told");
    let now = plane.read().expect("read");
    assert_eq!(now.links.get(&bed.oif), wanted.links.get(&bed.oif));
    if wanted.links.is_empty() {
        assert_eq!(bed.shown().0, vec![]);
    }
}

/// Drops what is not wanted, lowers everything, then tells all that is wanted.
fn difference(oif: IfIndex, found: &Plan, wanted: &Plan) -> Vec<PlanOp> {
    let Some(want) = wanted.links.get(&oif) else { return vec![PlanOp::DropLink { oif }] };
    let mut ops = Vec::new();
    if let Some(have) = found.links.get(&oif) {
        let gone = have.flows.keys().filter(|flow| !want.flows.contains_key(*flow));
        ops.extend(gone.map(|flow| PlanOp::DropFlow { oif, flow: *flow }));
        for (class, spec) in &have.classes {
            let rate = |spec: &traffic::plan::ClassSpec| spec.real_time.map_or(Rate::ZERO, |curve| curve.m2);
            let wanted = want.classes.get(class);
            let spec = wanted.filter(|wanted| rate(wanted) < rate(spec));
            ops.extend(spec.map(|spec| PlanOp::Class { oif, class: *class, spec: *spec }));
            if wanted.is_none() && *class > ClassId::BEST_EFFORT {
                let idle = traffic::plan::ClassSpec { real_time: None, ..have.classes[class] };
                ops.push(PlanOp::Class { oif, class: *class, spec: idle });
            }
        }
    }
    ops.push(PlanOp::Link { oif, spec: want.link });
    let mut all = Plan::default();
    all.links.insert(oif, want.clone());
    ops.extend(all.ops());
    if let Some(have) = found.links.get(&oif) {
        let gone = have.classes.keys().filter(|class| !want.classes.contains_key(*class));
        ops.extend(gone.filter(|c| **c > ClassId::BEST_EFFORT).map(|class| PlanOp::DropClass { oif, class: *class }));
    }
    ops
}

#[test]
fn a_thousand_flows() {
    scratch::in_netns(|| {
        let bed = bed();
        let mut plane = bed.open();
        plane.apply(&bed.base(100)).expect("fits");
        let start = Instant::now();
        for n in 0..1000 {
            // As the node does it: the sum of the shared class, then the flow.
            let kbps = 100 + u64::from(n);
            plane
                .apply(&[
                    bed.class(ClassId::BEST_EFFORT, 9_800 - kbps, 7),
                    bed.class(ClassId::CONTROLLED_LOAD, kbps, 2),
                    bed.flow(n, ClassId::CONTROLLED_LOAD, 1),
                ])
                .expect("fits");
        }
        let each = start.elapsed().as_micros() / 1000;
        println!("a controlled-load flow, read back: {each} us (mean of 1,000, class and best effort changed too)");
        let start = Instant::now();
        let plan = plane.read().expect("read");
        println!("read of 1,000 flows: {} us", start.elapsed().as_micros());
        assert_eq!(plan.links[&bed.oif].flows.len(), 1000);
        drop(plane);
        let start = Instant::now();
        let mut plane = bed.open();
        println!("adoption of 1,000 flows: {} us", start.elapsed().as_micros());
        assert_eq!(plane.read(), Ok(plan));
        let start = Instant::now();
        for n in 0..1000 {
            let class = ClassId(OWN.0 + n);
            plane.apply(&[bed.class(class, 0, 1), bed.flow(n, class, 1)]).expect("a class of its own");
        }
        let each = start.elapsed().as_micros() / 1000;
        println!("a flow moved to a class of its own, read back: {each} us (mean of 1,000)");
        let start = Instant::now();
        assert_eq!(plane.counters().expect("counters").flows.len(), 1000);
        println!("counters of 1,000 flows and 1,004 classes: {} us", start.elapsed().as_micros());
        plane.apply(&[PlanOp::DropLink { oif: bed.oif }]).expect("goes");
        assert_eq!(plane.read(), Ok(Plan::default()));
    });
}

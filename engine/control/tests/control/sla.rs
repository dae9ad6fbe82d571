//! Agreements under any sequence of orders, failures of the plane, restarts and interfaces that come and go: each order
//! has one answer, the aggregate of each service is exactly the sum of what is in force, and after a restart it is never
//! less than what the earlier agent had in force until all of that has been ordered again.

use crate::world::World;
use control::Tc;
use control::edges::{EDGES_AGAIN, PartId, SlaPlace, SlaShare};
use proptest::prelude::*;
use std::collections::BTreeMap;
use terms::book::{Handle, MeterForm, MeterTerms, PacketShape};
use terms::{IfIndex, Rate, Span, Time};
use traffic::conditioner::MeterKind;
use traffic::edge::{BehaviourAggregate, EdgeAt, Side};

const PEER: IfIndex = IfIndex(9);
const SLA: &str = "sla/anl";

fn at(interface: IfIndex) -> EdgeAt {
    EdgeAt { interface, side: Side::Ingress }
}

fn share(kbit: u64, background: bool) -> SlaShare {
    SlaShare::booked(Rate::from_kbps(kbit), PacketShape::default(), background)
}

#[derive(Clone, Debug)]
enum Step {
    Order { part: u8, kbit: u64, background: bool },
    Answer { ok: bool },
    Place(Option<u8>),
    Pass,
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..5u8, 0..4_000u64, any::<bool>()).prop_map(|(part, kbit, background)| {
            Step::Order { part, kbit: if kbit < 800 { 0 } else { kbit }, background }
        }),
        10 => prop::bool::weighted(0.8).prop_map(|ok| Step::Answer { ok }),
        1 => prop::option::weighted(0.7, 0..2u8).prop_map(Step::Place),
        1 => Just(Step::Pass),
        1 => Just(Step::Restart),
    ]
}

struct Run {
    tc: Tc,
    world: World,
    now: Time,
    place: Option<IfIndex>,
    open: BTreeMap<PartId, Option<(u64, bool)>>,
    has: BTreeMap<PartId, (u64, bool)>,
    /// What the earlier agent had in force, until all of it has been ordered again.
    floor: [u64; 2],
}

impl Run {
    fn start() -> Run {
        let mut run = Run {
            tc: Tc::new([1, 2]),
            world: World::default(),
            now: Time::ZERO,
            place: Some(PEER),
            open: BTreeMap::new(),
            has: BTreeMap::new(),
            floor: [0; 2],
        };
        run.agree();
        run.look();
        run
    }

    fn agree(&mut self) {
        let edges = self.place.map(at).into_iter().collect();
        self.tc.edge_turn().stand(&edges, &[].into());
        self.tc.edge_turn().agree(&[(SLA.to_owned(), SlaPlace::new(self.place, None))].into());
    }

    /// The peer is behind another interface, where no earlier agent had anything in force.
    fn move_to(&mut self, place: Option<IfIndex>) {
        if self.place != place {
            self.floor = [0; 2];
        }
        self.place = place;
        self.agree();
    }

    fn order(&mut self, id: PartId, wants: Option<(u64, bool)>) {
        self.open.insert(id, wants);
        self.tc.edge_turn().set_share(SLA, id, wants.map(|(kbit, background)| share(kbit, background)));
    }

    fn take(&mut self, step: &Step) {
        match *step {
            Step::Order { part, kbit, background } => {
                let id = (Handle([part; 16]), 0);
                if !self.open.contains_key(&id) {
                    self.order(id, (kbit > 0).then_some((kbit, background)));
                }
            }
            Step::Answer { ok } => {
                self.world.drain(&mut self.tc);
                self.world.answer(&mut self.tc, self.now, ok);
            }
            Step::Place(place) => {
                self.move_to(place.map(|n| IfIndex(PEER.0 + u32::from(n))));
            }
            Step::Pass => {
                self.now = self.now + EDGES_AGAIN;
                self.tc.wake(self.now);
            }
            Step::Restart => self.restart(),
        }
        self.look();
    }

    fn restart(&mut self) {
        self.world = World { plan: self.world.plan.clone(), ..World::default() };
        self.tc = Tc::new([3, 4]);
        for (at, rules) in &self.world.plan.edges {
            self.tc.edge_turn().found_edge(*at, rules);
        }
        self.floor =
            [self.in_force(BehaviourAggregate::Ef), self.in_force(BehaviourAggregate::Af1)].map(|f| f.unwrap_or(0));
        self.open.clear();
        self.agree();
        for (id, has) in std::mem::take(&mut self.has) {
            self.order(id, Some(has));
        }
    }

    /// The rate of an aggregate in the plane, kbit/s.
    fn in_force(&self, aggregate: BehaviourAggregate) -> Option<u64> {
        let rules = self.world.plan.edges.get(&at(self.place?))?;
        Some(rules.get(&aggregate.fields())?.bucket.rate.as_bps() / 1_000)
    }

    fn look(&mut self) {
        self.world.drain(&mut self.tc);
        for (id, result) in std::mem::take(&mut self.world.enforced) {
            let wants = self.open.remove(&id).expect("an answer to an order, and one only");
            match (result, wants) {
                (Ok(()), Some(wants)) => _ = self.has.insert(id, wants),
                (Ok(()), None) => _ = self.has.remove(&id),
                (Err(_), _) => {}
            }
        }
        let Some(place) = self.place else { return };
        if !self.world.plan.edges.contains_key(&at(place)) {
            return;
        }
        for (aggregate, floor) in BehaviourAggregate::ALL.into_iter().zip(self.floor) {
            let Some(rate) = self.in_force(aggregate) else { continue };
            assert!(rate >= floor, "{aggregate:?}: {rate} under {floor}");
        }
    }

    fn finish(&mut self) {
        self.move_to(Some(PEER));
        for _ in 0..8 {
            self.world.settle(&mut self.tc, self.now);
            self.look();
            self.now = self.now + Span::from_secs(64);
            self.tc.wake(self.now);
        }
        assert!(self.open.is_empty() && self.tc.edges().is_idle(), "each order has its answer: {:?}", self.open);
        self.floor = [0; 2];
        self.tc.edge_turn().earlier_is_over();
        self.world.settle(&mut self.tc, self.now);
        for (aggregate, background) in [(BehaviourAggregate::Ef, false), (BehaviourAggregate::Af1, true)] {
            let sum: u64 = self.has.values().filter(|(_, of)| *of == background).map(|(kbit, _)| kbit).sum();
            assert_eq!(
                self.in_force(aggregate),
                Some(sum),
                "{aggregate:?} is exactly what is in force: {:?}",
                self.has
            );
            let (found, _, rule) = self.tc.edges().agreed(SLA, background).expect("the plane has it");
            assert_eq!((found, rule.bucket.rate), (at(PEER), Rate::from_kbps(sum)));
        }
        assert_eq!(self.tc.plan().edges, self.world.plan.edges);
        assert_eq!(self.world.plan.edges.keys().collect::<Vec<_>>(), [&at(PEER)], "nothing is left elsewhere");
    }
}

proptest! {
    #![proptest_config(chance::cases(1_000))]

    #[test]
    fn an_aggregate_is_the_sum_of_what_is_in_force(steps in prop::collection::vec(step(), 1..60)) {
        let mut run = Run::start();
        for step in &steps {
            run.take(step);
        }
        run.finish();
    }
}

/// The meter of an agreement is that of AF1x: its committed rate is what is booked, and it rests while nothing is. A restart
/// finds it, and changes nothing.
#[test]
fn an_agreements_meter_follows_what_is_booked() {
    let mut run = Run::start();
    let meter = MeterTerms::new(MeterForm::TrTcm).with_rate(Some(Rate::from_mbps(8))).aware(true);
    let place = || [(SLA.to_owned(), SlaPlace::new(Some(PEER), Some(meter)))].into();
    run.tc.edge_turn().agree(&place());
    run.world.settle(&mut run.tc, run.now);
    let of = |run: &Run, aggregate: BehaviourAggregate| {
        let rule = run.world.plan.edges[&at(PEER)][&aggregate.fields()];
        rule.meter.map(|meter| (meter.kind(), meter.is_aware()))
    };
    assert_eq!(BehaviourAggregate::ALL.map(|one| of(&run, one)), [None, None], "nothing is booked");
    run.order((Handle([1; 16]), 0), Some((3_000, true)));
    run.order((Handle([2; 16]), 0), Some((2_000, false)));
    run.world.settle(&mut run.tc, run.now);
    run.look();
    let (cir, pir) = (Rate::from_mbps(3), Rate::from_mbps(8));
    let Some((MeterKind::TrTcm { cir: has, pir: peak, .. }, true)) = of(&run, BehaviourAggregate::Af1) else {
        panic!("{:?}", run.world.plan.edges)
    };
    assert_eq!((has, peak, of(&run, BehaviourAggregate::Ef)), (cir, pir, None));
    let before = run.world.plan.clone();
    let (mut tc, mut world) = (Tc::new([1, 2]), World { plan: before.clone(), ..World::default() });
    before.edges.iter().for_each(|(at, rules)| tc.edge_turn().found_edge(*at, rules));
    tc.edge_turn().stand(&[at(PEER)].into(), &[].into());
    tc.edge_turn().agree(&place());
    world.settle(&mut tc, run.now);
    assert_eq!(world.plan.edges, before.edges, "until what was booked has been ordered again");
}

/// Without an order nothing of the peer is premium; what fails leaves the sum of the others; an agreement that is no
/// longer in the configuration leaves nothing behind.
#[test]
fn what_nobody_has_booked_is_nothing() {
    let mut run = Run::start();
    run.world.settle(&mut run.tc, run.now);
    assert_eq!(run.in_force(BehaviourAggregate::Ef), Some(0));
    let (a, b) = ((Handle([1; 16]), 0), (Handle([2; 16]), 0));
    run.order(a, Some((3_000, false)));
    run.order(b, Some((2_000, false)));
    run.world.drain(&mut run.tc);
    assert_eq!(run.world.under_way.len(), 1, "one change at a time");
    run.world.answer(&mut run.tc, run.now, false);
    run.world.answer(&mut run.tc, run.now, true);
    run.look();
    assert_eq!(run.in_force(BehaviourAggregate::Ef), Some(2_000));
    assert_eq!(run.has.keys().collect::<Vec<_>>(), [&b]);
    // The next run does not have the agreement.
    let plan = run.world.plan.clone();
    let (mut tc, mut world) = (Tc::new([1, 2]), World { plan: plan.clone(), ..World::default() });
    plan.edges.iter().for_each(|(at, rules)| tc.edge_turn().found_edge(*at, rules));
    tc.edge_turn().stand(&[at(PEER)].into(), &[].into());
    tc.edge_turn().agree(&BTreeMap::new());
    tc.edge_turn().earlier_is_over();
    world.settle(&mut tc, run.now);
    assert!(world.plan.edges[&at(PEER)].is_empty(), "{:?}", world.plan.edges);
}

//! Premium flows under any sequence of orders, failures of the plane, changes of the link and restarts: no edge ever
//! marks more than the class behind it carries, each order has one answer, what failed leaves what was, and in the end
//! the plane holds exactly what was ordered.

use crate::world::{OIF, World, interface, reservable};
use control::Tc;
use control::classes::{PremiumDemand, guaranteed};
use control::edges::{PartId, PremiumFlow};
use control::plane::REST;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use terms::book::{BoundFlow, Handle, MeterForm, MeterTerms, PacketShape};
use terms::ports::{Route, RouteDecision};
use terms::{Dscp, Fault, IfIndex, Rate, Span, Time};
use traffic::edge::{EdgeAt, Side};
use traffic::plan::{ClassId, LinkSpec, Plan};

/// The interface towards the hosts.
const INSIDE: IfIndex = IfIndex(7);
const LINK_MBIT: u64 = 100;

/// Sources with an even last byte are behind the inside.
struct Ways;

impl Route for Ways {
    fn route(&mut self, dst: IpAddr, _: Option<IpAddr>, _: Option<IfIndex>) -> RouteDecision {
        match dst {
            IpAddr::V4(dst) if dst.octets()[3].is_multiple_of(2) => {
                RouteDecision::Out { oif: INSIDE, gateway: None, source: dst.into() }
            }
            _ => RouteDecision::None,
        }
    }
}

/// A flow of this number: its place is one of four, so that some want the same packets. Half of them have a meter, which
/// those of EF do not get.
fn flow(n: u8, kbit: u64, background: bool) -> PremiumFlow {
    let src = Some(IpAddr::from([10, 0, 0, n % 4]));
    let bound = BoundFlow { src, protocol: Some(17), dst_port: Some(80), ..BoundFlow::default() };
    let meter = (n >= 4).then_some(MeterTerms::new(MeterForm::Rfc4115));
    let shape = PacketShape { packet: 500, rtt: Span::from_millis(20), meter };
    PremiumFlow::booked(&mut Ways, OIF, &bound, Rate::from_kbps(kbit), shape, background)
}

#[derive(Clone, Debug)]
enum Step {
    /// An order for a part: a flow of this number and rate, 0 for none.
    Order {
        part: u8,
        n: u8,
        kbit: u64,
        background: bool,
    },
    Answer {
        ok: bool,
    },
    Pass {
        millis: u64,
    },
    Overhead(u32),
    Gone(bool),
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..6u8, 0..8u8, 0..20_000u64, any::<bool>()).prop_map(|(part, n, kbit, background)| {
            Step::Order { part, n, kbit: if kbit < 4_000 { 0 } else { kbit / 4 }, background }
        }),
        12 => prop::bool::weighted(0.8).prop_map(|ok| Step::Answer { ok }),
        2 => (1..3_000u64).prop_map(|millis| Step::Pass { millis }),
        1 => (0..40u32).prop_map(Step::Overhead),
        1 => any::<bool>().prop_map(Step::Gone),
        1 => Just(Step::Restart),
    ]
}

struct Run {
    tc: Tc,
    world: World,
    now: Time,
    overhead: u32,
    there: bool,
    /// True from the loss of the link until its classes are in force again: rules stay, classes go with the link.
    lost: bool,
    /// Parts with an order that has no answer yet, and what it wants.
    open: BTreeMap<PartId, Option<PremiumFlow>>,
    /// What each part has by its answers.
    has: BTreeMap<PartId, PremiumFlow>,
    /// What earlier runs left and no order has named since.
    earlier: bool,
}

impl Run {
    fn start() -> Run {
        let mut run = Run {
            tc: Tc::new([3, 4]),
            world: World::default(),
            now: Time::ZERO,
            overhead: 14,
            there: true,
            lost: false,
            open: BTreeMap::new(),
            has: BTreeMap::new(),
            earlier: false,
        };
        run.tell_link();
        run.world.settle(&mut run.tc, run.now);
        run
    }

    fn tell_link(&mut self) {
        let mut link = reservable(LINK_MBIT);
        link.spec = LinkSpec { overhead: self.overhead, ..link.spec };
        self.tc.interface(self.now, &interface(self.there.then_some(link)));
    }

    fn take(&mut self, step: &Step) {
        match *step {
            Step::Order { part, n, kbit, background } => {
                let id = (Handle([part; 16]), 0);
                if self.open.contains_key(&id) {
                    return;
                }
                let wants = (kbit > 0).then(|| flow(n, kbit, background));
                self.open.insert(id, wants);
                self.tc.edge_turn().set_part(id, wants);
            }
            Step::Answer { ok } => {
                self.world.drain(&mut self.tc);
                self.world.answer(&mut self.tc, self.now, ok);
            }
            Step::Pass { millis } => {
                self.now = self.now + Span::from_millis(millis);
                self.tc.wake(self.now);
            }
            Step::Overhead(overhead) => {
                self.overhead = overhead;
                self.tell_link();
            }
            Step::Gone(gone) => {
                self.there = !gone;
                self.lost |= gone;
                self.tell_link();
            }
            Step::Restart => self.restart(),
        }
        self.look();
    }

    /// Another run over the plane as it is: orders for what was in force come again.
    fn restart(&mut self) {
        let plan: Plan = self.world.plan.clone();
        self.world = World { plan: plan.clone(), ..World::default() };
        self.tc = Tc::new([5, 6]);
        for (at, rules) in &plan.edges {
            self.tc.edge_turn().found_edge(*at, rules);
        }
        for (oif, link) in &plan.links {
            link.classes.iter().for_each(|(class, spec)| self.tc.found_class(*oif, *class, spec));
        }
        self.tell_link();
        self.open.clear();
        self.earlier = true;
        for (id, flow) in core::mem::take(&mut self.has) {
            self.open.insert(id, Some(flow));
            self.tc.edge_turn().set_part(id, Some(flow));
        }
    }

    fn look(&mut self) {
        self.world.drain(&mut self.tc);
        for (id, result) in std::mem::take(&mut self.world.enforced) {
            let wants = self.open.remove(&id).expect("an answer to an order, and one only");
            let moved = |had: &PremiumFlow| wants.is_none_or(|wants| (wants.at, wants.fields) != (had.at, had.fields));
            match (result, wants) {
                (Ok(()), Some(wants)) => _ = self.has.insert(id, wants),
                (Ok(()), None) => _ = self.has.remove(&id),
                // A rule elsewhere may be gone already; one in the same place is as it was.
                (Err(_), _) if self.has.get(&id).is_some_and(moved) => {
                    if self.tc.edges().premium_flow(id).is_none() {
                        self.has.remove(&id);
                    }
                }
                (Err(_), _) => {}
            }
            let known = self.tc.edges().premium_flow(id).copied();
            if !self.earlier {
                assert_eq!(known, self.has.get(&id).copied(), "{id:?} after {result:?}");
            }
        }
        self.lost &= !self.there || !self.tc.plane().is_idle_on(OIF);
        self.classes_carry_the_rules();
    }

    /// Each premium class of the plane is guaranteed what the rules of its mark let through. Rules at the ways out of
    /// other interfaces do not count; all flows of this test leave by one.
    fn classes_carry_the_rules(&self) {
        let Some(link) = self.world.plan.links.get(&OIF).filter(|_| !self.lost) else { return };
        for (mark, class) in [(Dscp::EF, ClassId::PREMIUM), (Dscp::AF11, ClassId::BACKGROUND)] {
            let rules = self.world.plan.edges.values().flatten().filter(|(_, rule)| rule.mark == mark);
            let bytes = LinkSpec { overhead: 0, ..link.link };
            let load = rules.fold(PremiumDemand::default(), |load, (_, rule)| load.plus(&bytes, &rule.bucket));
            let carried = link.classes.get(&class).map_or(Rate::ZERO, guaranteed);
            assert!(load.rate <= carried, "{mark:?}: {} marked, {carried} carried", load.rate);
        }
    }

    /// Everything is carried out, and what failed is ordered again, as the bookings do.
    fn finish(&mut self) {
        self.there = true;
        self.tell_link();
        for _ in 0..8 {
            self.world.settle(&mut self.tc, self.now);
            self.look();
            self.now = self.now + REST.1;
            self.tc.wake(self.now);
        }
        assert!(self.open.is_empty() && self.tc.edges().is_idle(), "each order has its answer: {:?}", self.open);
        self.tc.edge_turn().earlier_is_over();
        self.world.settle(&mut self.tc, self.now);
        self.earlier = false;
        let rules: BTreeSet<_> = self.has.values().map(|flow| (flow.at, flow.fields, flow.rule.bucket.rate)).collect();
        let there = self.world.plan.edges.iter().flat_map(|(at, rules)| {
            rules.iter().map(|(fields, rule)| (*at, *fields, rule.bucket.rate)).collect::<Vec<_>>()
        });
        assert_eq!(there.collect::<BTreeSet<_>>(), rules, "the plane holds exactly what is in force");
        assert_eq!(self.tc.plan().edges, self.world.plan.edges);
        let used: BTreeSet<EdgeAt> = rules.iter().map(|(at, ..)| *at).collect();
        assert_eq!(self.world.plan.edges.keys().copied().collect::<BTreeSet<_>>(), used, "no edge without a rule");
        for id in self.has.keys() {
            self.tc.edge_turn().set_part(*id, None);
        }
        self.world.settle(&mut self.tc, self.now);
        let classes = &self.world.plan.links[&OIF].classes;
        assert!(self.world.plan.edges.is_empty(), "{:?}", self.world.plan.edges);
        assert!(!classes.contains_key(&ClassId::PREMIUM) && !classes.contains_key(&ClassId::BACKGROUND));
    }
}

proptest! {
    #![proptest_config(chance::cases(1_000))]

    #[test]
    fn no_edge_marks_more_than_its_class_carries(steps in prop::collection::vec(step(), 1..60)) {
        let mut run = Run::start();
        for step in &steps {
            run.take(step);
        }
        run.finish();
    }
}

/// Interfaces' edges stand whatever is booked; marks are trusted when all of them are in force, and one that cannot be
/// made is tried again, and told once.
#[test]
fn marks_are_trusted_when_every_edge_stands() {
    let (mut tc, mut world) = (Tc::new([1, 2]), World::default());
    let at = |interface, side| EdgeAt { interface, side };
    let edges: BTreeSet<EdgeAt> = [at(INSIDE, Side::Ingress), at(OIF, Side::Egress)].into();
    tc.edge_turn().stand(&edges, &[OIF].into());
    let mut now = Time::ZERO;
    for attempt in 0..3 {
        world.drain(&mut tc);
        world.answer(&mut tc, now, true);
        world.answer(&mut tc, now, false);
        assert!(world.trusted.is_empty(), "not yet: attempt {attempt}");
        now = tc.wake_at().expect("it is tried again");
        tc.wake(now);
    }
    let faults = world.events.iter().filter(|event| matches!(event, control::io::Event::PlaneFault { .. }));
    assert_eq!(faults.count(), 1, "told once");
    world.settle(&mut tc, now);
    assert_eq!(world.trusted, [OIF].into());
    tc.edge_turn().trusted(now, Ok(()));
    assert_eq!(tc.wake_at(), None);
    // A plane that cannot trust them is asked again, and the fault is told once.
    tc.edge_turn().stand(&edges, &[INSIDE].into());
    world.events.clear();
    for _ in 0..2 {
        world.settle(&mut tc, now);
        tc.edge_turn().trusted(now, Err(Fault { what: "no map", code: 12 }));
        now = tc.wake_at().expect("it is tried again");
        tc.wake(now);
    }
    world.drain(&mut tc);
    assert_eq!(world.events.len(), 1, "{:?}", world.events);
    tc.edge_turn().stand(&edges, &[OIF].into());
    world.settle(&mut tc, now);
    tc.edge_turn().trusted(now, Ok(()));
    // The same again changes nothing; another role does.
    tc.edge_turn().stand(&edges, &[OIF].into());
    assert!(tc.poll().is_none());
    tc.edge_turn().stand(&[at(OIF, Side::Egress)].into(), &[OIF, INSIDE].into());
    world.settle(&mut tc, now);
    assert_eq!(world.plan.edges.keys().copied().collect::<Vec<_>>(), [at(OIF, Side::Egress)]);
    assert_eq!(world.trusted, [INSIDE, OIF].into());
    tc.edge_turn().trusted(now, Ok(()));
    // Roles change while edges are being made: answers to the older batches do not count.
    world.trusted.clear();
    tc.edge_turn().stand(&edges, &[OIF].into());
    world.drain(&mut tc);
    tc.edge_turn().stand(&[at(OIF, Side::Egress), at(INSIDE, Side::Egress)].into(), &[INSIDE].into());
    world.drain(&mut tc);
    while !world.under_way.is_empty() {
        assert!(world.trusted.is_empty(), "an edge of the new roles does not stand yet");
        world.answer(&mut tc, now, true);
    }
    assert_eq!(world.trusted, [INSIDE].into());
    tc.edge_turn().trusted(now, Ok(()));
    tc.stop(now);
    world.settle(&mut tc, now);
    assert!(world.plan.edges.is_empty() && world.trusted.is_empty());
}

//! Agreements with neighbouring domains (seed 002, section 4.2: CAR "on the ingress ports of inter-domain routers"). A
//! booked part of `sla/PEER` is a share of two aggregates at the interface by which the peer's packets come in: EF for
//! foreground, AF1x for background. What is booked at this instant is the rate of the aggregate; where nothing is
//! booked, the peer's packets lose their premium mark.
//!
//! One part is changed at a time, and the plane has confirmed it before the next begins, so that a change that fails
//! leaves the sum of the others in force.

use super::{EDGES_AGAIN, EdgeTurn, Purpose};
use crate::io::{Event, PartId};
use crate::outbox::ControlOutput;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use terms::book::{MeterTerms, PacketShape, burst};
use terms::{Bytes, Fault, IfIndex, Rate, Time};
use traffic::edge::{BehaviourAggregate, EdgeAt, EdgeMeter, EdgeRule, Side};
use traffic::plan::{BucketSpec, PlanOp};

const AWAY: Fault = Fault { what: "the interface of this agreement is not there at present", code: 0 };

/// The share of a booked part in an agreement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlaShare {
    aggregate: BehaviourAggregate,
    bucket: BucketSpec,
}

impl SlaShare {
    /// A rate of IP bytes, with the burst of a flow that is governed by its round-trip time: what the peer's own edges
    /// let through.
    pub fn booked(rate: Rate, shape: PacketShape, background: bool) -> SlaShare {
        let aggregate = if background { BehaviourAggregate::Af1 } else { BehaviourAggregate::Ef };
        let bucket = BucketSpec { rate, depth: burst(rate, shape.rtt, true), min_unit: shape.packet };
        SlaShare { aggregate, bucket }
    }
}

/// An agreement's place, and the terms that its bookings do not say.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SlaPlace {
    interface: Option<IfIndex>,
    meter: Option<MeterTerms>,
}

impl SlaPlace {
    /// The interface by which the peer's packets come in (`None`: it is not there), and the meter of AF1x; without one what
    /// exceeds the agreement is dropped.
    pub fn new(interface: Option<IfIndex>, meter: Option<MeterTerms>) -> SlaPlace {
        SlaPlace { interface, meter }
    }
}

/// A change under way.
#[derive(Clone, Copy, Debug)]
struct Change {
    at: EdgeAt,
    /// The part that changes; `None`: the aggregates are made as they should be.
    part: Option<(PartId, Option<SlaShare>)>,
}

/// One agreement.
#[derive(Debug, Default)]
struct Agreement {
    /// The edge by which the peer's packets come in; `None`: the interface is not there.
    at: Option<EdgeAt>,
    /// The meter of AF1x.
    meter: Option<MeterTerms>,
    /// The parts that are in force.
    parts: BTreeMap<PartId, SlaShare>,
    under_way: Option<Change>,
    waiting: VecDeque<(PartId, Option<SlaShare>)>,
    /// The aggregates as an earlier agent left them. They do not shrink below this before every earlier booking has been
    /// ordered again.
    floor: BTreeMap<BehaviourAggregate, BucketSpec>,
}

impl Agreement {
    /// The rule of an aggregate, with a part as it is to be.
    fn rule(&self, aggregate: BehaviourAggregate, with: Option<(PartId, Option<SlaShare>)>) -> EdgeRule {
        let bucket = self.bucket(aggregate, with);
        let terms = self.meter.filter(|_| aggregate == BehaviourAggregate::Af1 && bucket.rate > Rate::ZERO);
        let meter = terms.and_then(|terms| EdgeMeter::booked(&terms, &bucket));
        EdgeRule { meter, ..EdgeRule::of_bucket(bucket, aggregate.code_point()) }
    }

    /// The bucket of an aggregate, with a part as it is to be.
    fn bucket(&self, aggregate: BehaviourAggregate, with: Option<(PartId, Option<SlaShare>)>) -> BucketSpec {
        let changed = with.map(|(id, _)| id);
        let others = self.parts.iter().filter(|(id, _)| Some(**id) != changed).map(|(_, share)| *share);
        let all = others.chain(with.and_then(|(_, share)| share)).filter(|share| share.aggregate == aggregate);
        let sum = all.map(|share| share.bucket).reduce(|sum, one| BucketSpec {
            rate: sum.rate.saturating_add(one.rate),
            depth: Bytes::new(sum.depth.get().saturating_add(one.depth.get())),
            min_unit: sum.min_unit.min(one.min_unit),
        });
        match (sum, self.floor.get(&aggregate)) {
            (Some(sum), Some(floor)) => at_least(sum, *floor),
            (Some(one), None) | (None, Some(&one)) => one,
            (None, None) => BucketSpec { rate: Rate::ZERO, depth: Bytes::new(0), min_unit: 0 },
        }
    }
}

/// The bucket that lets through whatever either of the two does.
fn at_least(one: BucketSpec, other: BucketSpec) -> BucketSpec {
    BucketSpec {
        rate: one.rate.max(other.rate),
        depth: one.depth.max(other.depth),
        min_unit: one.min_unit.min(other.min_unit),
    }
}

/// All agreements, by the name of their resource.
#[derive(Debug, Default)]
pub(super) struct Agreements {
    all: BTreeMap<String, Agreement>,
    again: Option<Time>,
}

impl Agreements {
    /// The time at which what failed is tried again.
    pub(super) fn wake_at(&self) -> Option<Time> {
        self.again
    }

    /// The names of all.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.all.keys().map(String::as_str)
    }

    /// The edge of the agreement of this name.
    pub(super) fn at(&self, sla: &str) -> Option<EdgeAt> {
        self.all.get(sla)?.at
    }

    /// True if an order has not been answered.
    pub(super) fn is_busy(&self) -> bool {
        self.all.values().any(|one| one.under_way.is_some_and(|change| change.part.is_some()))
    }
}

impl EdgeTurn<'_> {
    /// Sets the agreements, by the name of the resource. Their aggregates are made at once, with what is booked.
    pub fn agree(&mut self, slas: &BTreeMap<String, SlaPlace>) {
        self.edges.agreements.all.retain(|name, one| slas.contains_key(name) || one.under_way.is_some());
        for (name, place) in slas {
            let at = place.interface.map(|interface| EdgeAt { interface, side: Side::Ingress });
            let one = self.edges.agreements.all.entry(name.clone()).or_default();
            (one.at, one.meter) = (at, place.meter);
            for aggregate in BehaviourAggregate::ALL {
                let found = at.and_then(|at| self.edges.found.remove(&(at, aggregate.fields())));
                let Some(found) = found.map(|rule| rule.bucket) else { continue };
                let floor = one.floor.entry(aggregate).or_insert(found);
                *floor = at_least(*floor, found);
            }
            self.advance_sla(name);
        }
    }

    /// Orders that a part has this share of an agreement, or (`None`) none, from now on. The answer is
    /// [`ControlOutput::Enforced`]; give one order at a time for each part.
    pub fn set_share(&mut self, sla: &str, id: PartId, wants: Option<SlaShare>) {
        let Some(one) = self.edges.agreements.all.get_mut(sla).filter(|one| one.at.is_some()) else {
            let result = if wants.is_some() { Err(AWAY) } else { Ok(()) };
            if let Some(one) = self.edges.agreements.all.get_mut(sla).filter(|_| wants.is_none()) {
                one.parts.remove(&id);
            }
            return self.out.say(ControlOutput::Enforced(id, result));
        };
        one.waiting.push_back((id, wants));
        self.advance_sla(sla);
    }

    /// The next change of an agreement, if none is under way.
    fn advance_sla(&mut self, name: &str) {
        let Some(one) = self.edges.agreements.all.get_mut(name).filter(|one| one.under_way.is_none()) else { return };
        let Some(at) = one.at else {
            for (id, _) in core::mem::take(&mut one.waiting) {
                self.out.say(ControlOutput::Enforced(id, Err(AWAY)));
            }
            return;
        };
        let part = one.waiting.pop_front();
        let has = self.edges.plane.edges.get(&at);
        let rule = |aggregate: BehaviourAggregate| {
            let rule = one.rule(aggregate, part);
            let fields = aggregate.fields();
            let there = has.and_then(|rules| rules.get(&fields)) == Some(&rule);
            (!there).then_some(PlanOp::Rule { at, fields, rule })
        };
        let rules: Vec<PlanOp> = BehaviourAggregate::ALL.into_iter().filter_map(rule).collect();
        if rules.is_empty() && part.is_none() {
            return;
        }
        one.under_way = Some(Change { at, part });
        if rules.is_empty() {
            return self.sla_done(Time::ZERO, at, Ok(()));
        }
        let mut ops = vec![PlanOp::Edge { at }];
        ops.extend(rules);
        self.send_edge(ops, Purpose::Sla(at));
    }

    /// Takes the plane's answer to a change of the agreement at this edge.
    pub(super) fn sla_done(&mut self, now: Time, at: EdgeAt, result: Result<(), Fault>) {
        let mut all = self.edges.agreements.all.iter_mut();
        let Some((name, one)) = all.find(|(_, one)| one.under_way.is_some_and(|change| change.at == at)) else {
            return;
        };
        let (name, part) = (name.clone(), one.under_way.take().and_then(|change| change.part));
        if let Some((id, share)) = part {
            match (result, share) {
                (Ok(()), Some(share)) => _ = one.parts.insert(id, share),
                (Ok(()), None) => _ = one.parts.remove(&id),
                (Err(_), _) => {}
            }
            if result.is_ok() {
                let rate = share.map_or(Rate::ZERO, |share| share.bucket.rate);
                self.out.say(ControlOutput::Event(Event::Enforced { handle: id.0, part: id.1, rate }));
            }
            self.out.say(ControlOutput::Enforced(id, result));
        } else if result.is_err() {
            // Nobody else asks again for what no part has ordered.
            self.edges.agreements.again = Some(now + EDGES_AGAIN);
            return;
        }
        self.advance_sla(&name);
    }

    /// Tries again what failed, if it is time.
    pub(super) fn wake_slas(&mut self, now: Time) {
        if self.edges.agreements.again.is_some_and(|again| again <= now) {
            self.edges.agreements.again = None;
            self.advance_slas();
        }
    }

    /// Every earlier booking has been ordered again: from now on the aggregates are what is booked.
    pub(super) fn forget_earlier_slas(&mut self) {
        self.edges.agreements.all.values_mut().for_each(|one| one.floor.clear());
        self.advance_slas();
    }

    fn advance_slas(&mut self) {
        let names: Vec<String> = self.edges.agreements.all.keys().cloned().collect();
        names.iter().for_each(|name| self.advance_sla(name));
    }
}

//! Premium flows: a part of `net/IFACE` is a rule at the edge where its packets come in, and its share of the class of its
//! code point where they leave (seed 002, sections 4.1 and 4.2).
//!
//! The edge drops packets above the reserved rate (of a flow with an open field they only lose the mark) and
//! marks the rest: EF for foreground, AF11 for background. The way back to the flow's source decides which
//! edge it is: the interface by which the flow comes in; the egress of `IFACE` itself for flows of this host
//! and for flows whose source is open. The class at the egress is guaranteed the rates of its flows, link
//! headers for packets of the stated size included. The policed rate is IP bytes, and a packet shorter than
//! stated counts as that long. Nodes downstream know the class alone.
//!
//! A reduction begins at the edge and an increase begins at the class, so that no more is marked than the
//! class can carry.

use super::{Enforcer, EnforcerContext, EnforcerNotice, Usage};
use crate::role::Standing;
use booking::io::{Order, OrderAction};
use linux::gauge::Gauge;
use node::io::{Input, Output, Premium, PremiumDemand};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use std::time::Duration;
use terms::book::{Binding, BoundFlow, Handle, burst};
use terms::ports::{Route, RouteDecision};
use terms::{Dscp, IfIndex, Rate, Span, Time};
use traffic::edge::{EdgeAt, EdgeRule, MultiField, Side};
use traffic::plan::{BucketSpec, ClassId, Counters, LinkSpec, Plan, PlanOp};

/// A part of a reservation.
type Place = (Handle, usize);

/// The installed state of a part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Installed {
    oif: IfIndex,
    at: EdgeAt,
    fields: MultiField,
    rule: EdgeRule,
}

/// The interval between reads of the rules' counters, and the most rules in one read. With more rules, each
/// is read less often.
const LOOK_EVERY: Span = Span::from_secs(1);
const AT_ONCE: usize = 256;

/// The counters of a rule as rates, bits: what conformed, what was dropped.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    passed: Gauge,
    dropped: Gauge,
}

/// The premium flows of this node.
#[derive(Debug, Default)]
pub struct Networks {
    parts: BTreeMap<Place, Installed>,
    /// The edges that exist whatever is booked, and the interfaces with trusted marks.
    standing: Standing,
    /// True if the plane has them.
    stands: bool,
    /// Edges of an earlier agent that no booking has asked for again.
    edges: BTreeSet<EdgeAt>,
    /// Rules of an earlier agent that no booking has asked for again.
    found: BTreeSet<(EdgeAt, MultiField)>,
    /// The load of the classes at the start. They do not shrink below it until every earlier booking has been
    /// ordered again.
    floor: BTreeMap<IfIndex, Premium>,
    seen: BTreeMap<Place, Seen>,
    /// Up to which part the counters were read last.
    looked: Option<Place>,
    wake: Option<Time>,
}

impl Networks {
    /// The state that an earlier agent left in the plane.
    pub fn find(plan: &Plan) -> Networks {
        let rules = |(&at, rules): (&EdgeAt, &BTreeMap<MultiField, EdgeRule>)| {
            rules.keys().map(|&fields| (at, fields)).collect::<Vec<_>>()
        };
        let found = plan.edges.iter().flat_map(rules).collect();
        let edges = plan.edges.keys().copied().collect();
        Networks { found, edges, floor: served(plan), ..Networks::default() }
    }

    fn set(&mut self, ground: &mut EnforcerContext<'_>, place: Place, wanted: Installed) -> Result<(), String> {
        let same = |other: &Installed| (other.at, other.fields) == (wanted.at, wanted.fields);
        if self.parts.iter().any(|(of, other)| *of != place && same(other)) {
            return Err("another reservation has the same packets: bind it to others, or give that one back".into());
        }
        let old = self.parts.get(&place).copied();
        if let Some(old) = old.filter(|old| !same(old) || old.oif != wanted.oif) {
            self.drop_part(ground, place, old)?;
        }
        let old = self.parts.insert(place, wanted);
        let lowers = old.is_some_and(|old| wanted.rule.bucket.rate < old.rule.bucket.rate);
        let ops =
            [PlanOp::Edge { at: wanted.at }, PlanOp::Rule { at: wanted.at, fields: wanted.fields, rule: wanted.rule }];
        let done = if lowers {
            ground.plane.apply(&ops).map_err(words).and_then(|()| self.serve(ground, wanted.oif))
        } else {
            self.serve(ground, wanted.oif).and_then(|()| ground.plane.apply(&ops).map_err(words))
        };
        if let Err(why) = done {
            // What was before still holds, as far as the plane lets it.
            match old {
                Some(old) => self.parts.insert(place, old),
                None => self.parts.remove(&place),
            };
            let _ = self.serve(ground, wanted.oif);
            return Err(why);
        }
        self.found.remove(&(wanted.at, wanted.fields));
        Ok(())
    }

    fn drop_part(&mut self, ground: &mut EnforcerContext<'_>, place: Place, old: Installed) -> Result<(), String> {
        let mut ops = vec![PlanOp::DropRule { at: old.at, fields: old.fields }];
        let others = self.parts.iter().any(|(of, other)| *of != place && other.at == old.at);
        let stays = self.standing.edges.contains(&old.at) || self.found.iter().any(|(at, _)| *at == old.at);
        if !others && !stays {
            ops.push(PlanOp::DropEdge { at: old.at });
        }
        ground.plane.apply(&ops).map_err(words)?;
        self.parts.remove(&place);
        self.seen.remove(&place);
        self.serve(ground, old.oif)
    }

    /// Installs the edges that stand, before any mark is trusted.
    fn make_edges(&mut self, ground: &mut EnforcerContext<'_>) -> Result<(), String> {
        // Each by itself: one that cannot be made leaves the others.
        let edges = self.standing.edges.iter().map(|&at| ground.plane.apply(&[PlanOp::Edge { at }]));
        let edges = edges.fold(Ok(()), Result::and);
        edges.and(ground.plane.believe(&self.standing.believed)).map_err(words)?;
        self.stands = true;
        Ok(())
    }

    /// The counters of a part's rule, since it was installed.
    pub fn counters(&self, ground: &EnforcerContext<'_>, handle: Handle, part: usize) -> Option<Counters> {
        let installed = self.parts.get(&(handle, part))?;
        ground.plane.rule_counters(installed.at, &installed.fields).ok().flatten()
    }

    /// Reads the counters of those whose turn it is.
    fn look(&mut self, ground: &EnforcerContext<'_>) {
        let after = self.looked.map_or(Bound::Unbounded, Bound::Excluded);
        let behind = self.parts.range((after, Bound::Unbounded));
        let turn: Vec<Place> = behind.chain(&self.parts).map(|(place, _)| *place).take(AT_ONCE).collect();
        let at = Duration::from_nanos(ground.now.as_nanos());
        for &place in turn.iter().take(self.parts.len()) {
            let Some(counters) = self.counters(ground, place.0, place.1) else { continue };
            let seen = self.seen.entry(place).or_default();
            seen.passed.look(at, counters.bytes.saturating_mul(8));
            seen.dropped.look(at, counters.over_bytes.saturating_mul(8));
        }
        self.looked = turn.last().copied().filter(|_| self.parts.len() > AT_ONCE);
    }

    /// Gives the classes of an interface what its parts need, and reads it back.
    fn serve(&self, ground: &mut EnforcerContext<'_>, oif: IfIndex) -> Result<(), String> {
        let Some(link) = link_of(ground, oif) else { return Ok(()) };
        let mut premium = Premium::default();
        for part in self.parts.values().filter(|part| part.oif == oif) {
            let class = if part.rule.mark == Dscp::EF { &mut premium.foreground } else { &mut premium.background };
            *class = class.plus(&link, &part.rule.bucket);
        }
        let floor = self.floor.get(&oif).copied().unwrap_or_default();
        premium.foreground = at_least(premium.foreground, floor.foreground);
        premium.background = at_least(premium.background, floor.background);
        tell(ground, Input::Premium { oif, premium })?;
        // After a fault the node leaves an interface alone for a while: what it was told then is not in force yet.
        let idle = ground.node.tc().plane().is_idle_on(oif);
        if idle { Ok(()) } else { Err("the plane failed a moment ago and is tried again soon".to_owned()) }
    }
}

impl Enforcer for Networks {
    fn enforce(&mut self, ground: &mut EnforcerContext<'_>, order: &Order) -> Result<(), String> {
        let place = (order.handle, order.part);
        let (binding, amount) = match &order.action {
            OrderAction::Enable { binding, amount } | OrderAction::Change { binding, amount } => (binding, *amount),
            OrderAction::Disable { .. } => {
                return match self.parts.get(&place).copied() {
                    Some(old) => self.drop_part(ground, place, old),
                    None => Ok(()),
                };
            }
        };
        let Some(Binding::Flow(flow)) = binding else {
            return Err(format!("{} is for packets: bind it to a flow", order.resource));
        };
        let oif = interface(ground, &order.resource)?;
        let rate = Rate::from_bps(amount);
        let depth = burst(rate, order.shape.rtt, flow.is_tcp());
        let bucket = BucketSpec { rate, depth, min_unit: order.shape.packet };
        let mark = if order.background { Dscp::AF11 } else { Dscp::EF };
        let at = edge_of(ground, flow, oif);
        let fields = MultiField::from(*flow);
        self.set(ground, place, Installed { oif, at, fields, rule: EdgeRule { bucket, mark } })?;
        self.wake = self.wake.or(Some(ground.now + LOOK_EVERY));
        Ok(())
    }

    fn stand(&mut self, ground: &mut EnforcerContext<'_>, standing: &Standing) -> Result<(), String> {
        if self.stands && self.standing == *standing {
            return Ok(());
        }
        let old = std::mem::replace(&mut self.standing, standing.clone());
        self.stands = false;
        let unused = |at: &&EdgeAt| !self.parts.values().any(|part| part.at == **at);
        for &at in old.edges.difference(&standing.edges).filter(unused) {
            // Of an interface that has gone or is down; what will not go is found by the next agent.
            let _ = ground.plane.apply(&[PlanOp::DropEdge { at }]);
        }
        self.wake = self.wake.or(Some(ground.now + LOOK_EVERY));
        self.make_edges(ground)
    }

    fn settle(&mut self, ground: &mut EnforcerContext<'_>) -> Result<(), String> {
        let mut ops: Vec<PlanOp> = self.found.iter().map(|&(at, fields)| PlanOp::DropRule { at, fields }).collect();
        let mut used: BTreeSet<EdgeAt> = self.parts.values().map(|part| part.at).collect();
        used.extend(&self.standing.edges);
        ops.extend(self.edges.difference(&used).map(|&at| PlanOp::DropEdge { at }));
        ground.plane.apply(&ops).map_err(words)?;
        self.found.clear();
        self.edges.clear();
        let floors: Vec<IfIndex> = std::mem::take(&mut self.floor).into_keys().collect();
        floors.into_iter().try_for_each(|oif| self.serve(ground, oif))
    }

    fn measured(&self, _: &str, handle: Handle, part: usize) -> Option<Usage> {
        let Seen { passed, dropped } = self.seen.get(&(handle, part))?;
        let (passed, dropped) = (passed.seen()?, dropped.seen());
        let interval = Span::from_nanos(u64::try_from(passed.span.as_nanos()).unwrap_or(u64::MAX));
        Some(Usage { amount: passed.rate, refused: dropped.map(|seen| seen.rate), unreserved: None, interval })
    }

    fn means(&self, ground: &EnforcerContext<'_>, _: &str, handle: Handle, part: usize) -> Option<String> {
        let Installed { at, rule, .. } = self.parts.get(&(handle, part))?;
        let place = ground.names.get(&at.interface).map_or("?", String::as_str);
        let side = if at.side == Side::Ingress { "ingress" } else { "egress" };
        let mark = if rule.mark == Dscp::EF { "EF" } else { "AF11" };
        let (rate, depth) = (rule.bucket.rate.as_bps(), rule.bucket.depth.get());
        Some(format!("{mark} at the {side} of {place}, {rate} bit/s, bucket {depth} B"))
    }

    fn wake_at(&self) -> Option<Time> {
        self.wake
    }

    fn wake(&mut self, ground: &mut EnforcerContext<'_>) -> Vec<EnforcerNotice> {
        self.look(ground);
        if !self.stands {
            // Told when it failed first; what it needs may be there again.
            let _ = self.make_edges(ground);
        }
        self.wake = (!self.parts.is_empty() || !self.stands).then(|| ground.now + LOOK_EVERY);
        Vec::new()
    }

    fn end(&mut self, ground: &mut EnforcerContext<'_>) {
        for (place, part) in self.parts.clone() {
            // What stays is taken away by the next agent.
            let _ = self.drop_part(ground, place, part);
        }
        let ops: Vec<PlanOp> =
            std::mem::take(&mut self.standing).edges.into_iter().map(|at| PlanOp::DropEdge { at }).collect();
        let _ = ground.plane.apply(&ops).and_then(|()| ground.plane.believe(&BTreeSet::new()));
    }
}

/// The load of the premium classes in a plane. The node is told of it before their interface, so that they do
/// not shrink.
pub fn served(plan: &Plan) -> BTreeMap<IfIndex, Premium> {
    let of = |(&oif, link): (&IfIndex, &traffic::plan::LinkPlan)| {
        let class = |id: ClassId| {
            let spec = link.classes.get(&id);
            spec.map_or(PremiumDemand::default(), |spec| PremiumDemand {
                rate: spec.real_time.map_or(Rate::ZERO, |curve| curve.m2),
                depth: spec.queue.bytes,
                packets: spec.queue.packets.into(),
            })
        };
        let premium = Premium { foreground: class(ClassId::PREMIUM), background: class(ClassId::BACKGROUND) };
        (premium != Premium::default()).then_some((oif, premium))
    };
    plan.links.iter().filter_map(of).collect()
}

fn at_least(one: PremiumDemand, other: PremiumDemand) -> PremiumDemand {
    PremiumDemand {
        rate: one.rate.max(other.rate),
        depth: one.depth.max(other.depth),
        packets: one.packets.max(other.packets),
    }
}

/// The interface that a resource is named after.
fn interface(ground: &EnforcerContext<'_>, resource: &str) -> Result<IfIndex, String> {
    let name = resource.strip_prefix("net/").unwrap_or(resource);
    let there = |index: &IfIndex| ground.node.interfaces().any(|state| state.index == *index);
    let mut found = ground.names.iter().filter(|(_, of)| *of == name).map(|(&index, _)| index);
    found.find(there).ok_or_else(|| format!("there is no interface {name}"))
}

fn link_of(ground: &EnforcerContext<'_>, oif: IfIndex) -> Option<LinkSpec> {
    let state = ground.node.interfaces().find(|state| state.index == oif)?;
    state.link.map(|link| link.spec)
}

/// The edge at which a flow that leaves by `oif` enters the domain.
fn edge_of(ground: &mut EnforcerContext<'_>, flow: &BoundFlow, oif: IfIndex) -> EdgeAt {
    let back = flow.src.map(|src| ground.node.route_mut().route(src, None, None));
    match back {
        Some(RouteDecision::Out { oif: iif, .. }) if iif != oif => EdgeAt { interface: iif, side: Side::Ingress },
        _ => EdgeAt { interface: oif, side: Side::Egress },
    }
}

/// Tells the node something whose plan must be carried out before this returns.
fn tell(ground: &mut EnforcerContext<'_>, input: Input<'_>) -> Result<(), String> {
    let (mut result, mut done) = (Ok(()), VecDeque::new());
    ground.node.handle(ground.now, input);
    loop {
        while let Some(output) = ground.node.poll() {
            match output {
                Output::Plan { id, ops } => done.push_back((id, ground.plane.apply(&ops))),
                other => ground.said.push(other),
            }
        }
        let Some((id, applied)) = done.pop_front() else { return result };
        if let Err(fault) = &applied {
            result = Err(words(*fault));
        }
        ground.node.handle(ground.now, Input::PlanDone { id, result: applied });
    }
}

fn words(fault: terms::Fault) -> String {
    match fault.code {
        0 => fault.what.to_owned(),
        code => format!("{}: {}", fault.what, std::io::Error::from_raw_os_error(code)),
    }
}

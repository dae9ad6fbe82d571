//! Orders for premium flows ([`crate::edges`]): the steps from what a part has to what it is to have.

use super::{Counted, EDGES_AGAIN, EdgeTurn, Part, PremiumFlow, Purpose, RESTING, TAKEN};
use crate::classes::{Premium, PremiumDemand, guaranteed};
use crate::io::{Event, PartId, PlanId};
use crate::outbox::ControlOutput;
use crate::plane::Due;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use alloc::vec::Vec;
use terms::{Fault, IfIndex, Rate, Time};
use traffic::edge::{EdgeAt, EdgeRule, MultiField};
use traffic::plan::{ClassId, ClassSpec, PlanOp};

impl EdgeTurn<'_> {
    /// Orders that a part has this flow, or (`None`) none, from now on. The answer is
    /// [`ControlOutput::Enforced`]; give one order at a time for each part.
    pub fn set_part(&mut self, id: PartId, wants: Option<PremiumFlow>) {
        if let Some(wants) = wants {
            if self.edges.rules.get(&wants.key()).is_some_and(|other| *other != id) {
                return self.out.say(ControlOutput::Enforced(id, Err(TAKEN)));
            }
            let found = self.edges.found.remove(&wants.key());
            self.edges.rules.insert(wants.key(), id);
            let part = self.edges.parts.entry(id).or_default();
            if let (None, Some(rule)) = (part.has, found) {
                part.has = Some(PremiumFlow { rule, ..wants });
            }
        }
        if let Some(part) = self.edges.parts.get_mut(&id) {
            part.wants = wants;
        }
        self.count_part(id);
        self.advance(id);
    }

    /// Records an edge and its rules of an earlier run, before the first order.
    pub fn found_edge(&mut self, at: EdgeAt, rules: &BTreeMap<MultiField, EdgeRule>) {
        self.edges.found_edges.insert(at);
        self.edges.plane.edges.insert(at, rules.clone());
        self.edges.found.extend(rules.iter().map(|(fields, rule)| ((at, *fields), *rule)));
    }

    /// Sets the load of an interface's premium classes from now on.
    pub fn premium(&mut self, oif: IfIndex, premium: Premium) {
        if self.set_premium(oif, premium) {
            self.plane.put(oif, Due::default());
        }
    }

    /// The same, but the plane is not updated yet. True if there is a change for it.
    fn set_premium(&mut self, oif: IfIndex, premium: Premium) -> bool {
        if premium == Premium::default() {
            self.edges.told.remove(&oif);
        } else {
            self.edges.told.insert(oif, premium);
        }
        let Some(link) = self.links.get_mut(&oif) else { return false };
        core::mem::replace(&mut link.premium, premium) != premium
    }

    /// Records the load of a premium class that was found in the plane.
    pub(crate) fn found_premium(&mut self, oif: IfIndex, class: ClassId, spec: &ClassSpec) {
        let floor = self.edges.floor.entry(oif).or_default();
        let load = match class {
            ClassId::PREMIUM => &mut floor.foreground,
            ClassId::BACKGROUND => &mut floor.background,
            _ => return,
        };
        *load = PremiumDemand {
            rate: spec.real_time.map_or(Rate::ZERO, |curve| curve.m2),
            depth: spec.queue.bytes,
            packets: spec.queue.packets.into(),
        };
        self.tell_load(oif);
    }

    /// Removes what is left of an earlier run: every earlier booking has been ordered again by now.
    pub fn earlier_is_over(&mut self) {
        let mut ops: BTreeMap<EdgeAt, Vec<PlanOp>> = BTreeMap::new();
        for (at, fields) in core::mem::take(&mut self.edges.found).into_keys() {
            ops.entry(at).or_default().push(PlanOp::DropRule { at, fields });
        }
        for at in core::mem::take(&mut self.edges.found_edges) {
            if !self.edges.standing.edges.contains(&at) && !self.edges.is_used(at) {
                ops.entry(at).or_default().push(PlanOp::DropEdge { at });
            }
        }
        ops.into_values().for_each(|ops| self.send_edge(ops, Purpose::Tidy));
        for oif in core::mem::take(&mut self.edges.floor).into_keys() {
            self.tell_load(oif);
        }
        self.forget_earlier_slas();
    }

    /// Takes the plane's answer to a batch of edges; false if the batch is none.
    pub(crate) fn edge_done(&mut self, now: Time, id: PlanId, result: Result<(), Fault>) -> bool {
        let Some((purpose, ops)) = self.edges.batches.remove(&id) else { return false };
        ops.iter().filter(|_| result.is_ok()).for_each(|op| self.edges.plane.apply(op));
        match (purpose, result) {
            (Purpose::Part(part, flow), Ok(())) => self.has_now(part, flow),
            (Purpose::Part(part, _), Err(fault)) => self.fail_part(part, fault),
            (Purpose::Sla(at), result) => self.sla_done(now, at, result),
            (Purpose::Standing(round), result) => self.standing_done(now, id, round, result),
            (Purpose::Tidy, Ok(())) => self.edges.leftovers.wait = EDGES_AGAIN,
            (Purpose::Tidy, Err(fault)) => {
                let left = &mut self.edges.leftovers;
                for op in ops {
                    if !left.ops.contains(&op) {
                        left.ops.push(op);
                    }
                }
                let first = left.again.is_none() && left.wait <= EDGES_AGAIN;
                left.wait = left.wait.max(EDGES_AGAIN);
                left.again = left.again.or(Some(now + left.wait));
                if first {
                    self.out.say(ControlOutput::Event(Event::PlaneFault { id, fault }));
                }
            }
        }
        true
    }

    /// Goes on with the parts that wait for the classes of an interface, after a batch there.
    pub(crate) fn classes_done(&mut self, oif: IfIndex, result: Result<(), Fault>) {
        for id in self.edges.waiting.remove(&oif).unwrap_or_default() {
            match result {
                Ok(()) => self.advance(id),
                Err(fault) => self.fail_part(id, fault),
            }
        }
    }

    /// Counts the load of an interface's parts again: its link came, changed or went. The plane is not updated
    /// yet.
    pub(crate) fn count_parts_on(&mut self, oif: IfIndex) {
        let on = |part: &Part| [part.has, part.wants].into_iter().flatten().any(|flow| flow.oif == oif);
        let parts: Vec<PartId> = self.edges.parts.iter().filter(|(_, part)| on(part)).map(|(id, _)| *id).collect();
        let changed: BTreeSet<IfIndex> = parts.into_iter().flat_map(|id| self.sum_part(id)).collect();
        for oif in changed {
            let load = self.load_on(oif);
            self.set_premium(oif, load);
        }
    }

    /// The next step of a part towards what it is to have.
    fn advance(&mut self, id: PartId) {
        let Some(Part { has, wants, .. }) = self.edges.parts.get(&id) else {
            return self.out.say(ControlOutput::Enforced(id, Ok(())));
        };
        match (*has, *wants) {
            (has, wants) if has == wants => self.part_done(id, Ok(())),
            (Some(has), wants) if wants.is_none_or(|wants| !wants.replaces(&has)) => {
                let PremiumFlow { at, fields, .. } = has;
                self.send_edge(vec![PlanOp::DropRule { at, fields }], Purpose::Part(id, None));
            }
            (_, Some(PremiumFlow { oif, .. })) if !self.is_carried(oif) => {
                if self.plane.is_resting(oif) {
                    return self.fail_part(id, RESTING);
                }
                self.edges.waiting.entry(oif).or_default().insert(id);
            }
            (_, wants) => {
                let ops = wants.map(|PremiumFlow { at, fields, rule, .. }| {
                    vec![PlanOp::Edge { at }, PlanOp::Rule { at, fields, rule }]
                });
                self.send_edge(ops.unwrap_or_default(), Purpose::Part(id, wants));
            }
        }
    }

    /// True if the plane has what the premium classes of an interface need for the present load, and no batch on
    /// its way takes any of it.
    fn is_carried(&self, oif: IfIndex) -> bool {
        let Some(link) = self.links.get(&oif) else { return true };
        let base = link.base(&link.carried(), self.plane.link(oif));
        let premium = base.into_iter().filter(|(id, _)| [ClassId::PREMIUM, ClassId::BACKGROUND].contains(id));
        premium.filter_map(|(class, spec)| Some((class, spec?))).all(|(class, wants)| {
            let enough =
                |has: &ClassSpec| guaranteed(has) >= guaranteed(&wants) && has.queue.bytes >= wants.queue.bytes;
            self.plane.link(oif).and_then(|shadow| shadow.classes.get(&class)).is_some_and(enough)
                && self.plane.coming(oif, class).is_none_or(|coming| coming.is_some_and(|spec| enough(&spec)))
        })
    }

    /// Records that the plane has this flow for a part now.
    fn has_now(&mut self, id: PartId, flow: Option<PremiumFlow>) {
        let Some(part) = self.edges.parts.get_mut(&id) else { return };
        let had = core::mem::replace(&mut part.has, flow);
        let needed = [part.has, part.wants].map(|flow| flow.map(|flow| flow.key()));
        if let Some(had) = had.filter(|had| !needed.contains(&Some(had.key()))) {
            self.leave_rule(had.key());
        }
        self.count_part(id);
        self.advance(id);
    }

    /// Leaves a part as the plane has it, and answers its order.
    fn fail_part(&mut self, id: PartId, fault: Fault) {
        if let Some(part) = self.edges.parts.get_mut(&id) {
            let wanted = core::mem::replace(&mut part.wants, part.has);
            let kept = part.has.map(|flow| flow.key());
            if let Some(wanted) = wanted.filter(|wanted| Some(wanted.key()) != kept) {
                self.leave_rule(wanted.key());
            }
        }
        self.part_done(id, Err(fault));
    }

    /// Notes that no part needs a rule any more; the last one takes its edge along.
    fn leave_rule(&mut self, rule: (EdgeAt, MultiField)) {
        self.edges.rules.remove(&rule);
        let at = rule.0;
        if self.edges.plane.edges.contains_key(&at) && !self.edges.stays(at) {
            self.send_edge(vec![PlanOp::DropEdge { at }], Purpose::Tidy);
        }
    }

    fn part_done(&mut self, id: PartId, result: Result<(), Fault>) {
        self.count_part(id);
        let has = self.edges.parts.get(&id).and_then(|part| part.has);
        if has.is_none() {
            self.edges.parts.remove(&id);
        }
        if result.is_ok() {
            let rate = has.map_or(Rate::ZERO, |flow| flow.rule.bucket.rate);
            self.out.say(ControlOutput::Event(Event::Enforced { handle: id.0, part: id.1, rate }));
        }
        self.out.say(ControlOutput::Enforced(id, result));
    }

    /// Counts a part in the sums, and gives the classes their load.
    fn count_part(&mut self, id: PartId) {
        self.sum_part(id).into_iter().for_each(|oif| self.tell_load(oif));
    }

    /// Counts a part in the sums: the larger of what it has and what it is to have. Returns the interfaces
    /// whose sums may have changed.
    fn sum_part(&mut self, id: PartId) -> BTreeSet<IfIndex> {
        let Some(part) = self.edges.parts.get(&id) else { return BTreeSet::new() };
        let load = |flow: PremiumFlow| -> Option<Counted> {
            let link = &self.links.get(&flow.oif)?.terms.spec;
            Some((flow.oif, flow.is_background(), PremiumDemand::default().plus(link, &flow.rule.bucket)))
        };
        let counted = match [part.has.and_then(load), part.wants.and_then(load)] {
            [Some(has), Some(wants)] if (has.0, has.1) == (wants.0, wants.1) => {
                [Some((has.0, has.1, has.2.at_least(wants.2))), None]
            }
            other => other,
        };
        let before = self.edges.parts.get_mut(&id).map(|part| core::mem::replace(&mut part.counted, counted));
        let mut changed = BTreeSet::new();
        for (oif, background, load) in before.into_iter().flatten().flatten() {
            let sum = sum_of(&mut self.edges.load, oif, background);
            *sum = sum.without(load);
            changed.insert(oif);
        }
        for (oif, background, load) in counted.into_iter().flatten() {
            let sum = sum_of(&mut self.edges.load, oif, background);
            *sum = sum.with(load);
            changed.insert(oif);
        }
        changed
    }

    /// Gives the premium classes of an interface the load of its parts.
    fn tell_load(&mut self, oif: IfIndex) {
        let load = self.load_on(oif);
        self.premium(oif, load);
    }

    fn load_on(&mut self, oif: IfIndex) -> Premium {
        let load = self.edges.load.get(&oif).copied().unwrap_or_default();
        if load == Premium::default() {
            self.edges.load.remove(&oif);
        }
        let floor = self.edges.floor.get(&oif).copied().unwrap_or_default();
        Premium {
            foreground: load.foreground.at_least(floor.foreground),
            background: load.background.at_least(floor.background),
        }
    }

    pub(super) fn send_edge(&mut self, ops: Vec<PlanOp>, purpose: Purpose) {
        let id = self.out.number();
        self.edges.batches.insert(id, (purpose, ops.clone()));
        self.out.say(ControlOutput::Plan(id, ops));
    }
}

fn sum_of(load: &mut BTreeMap<IfIndex, Premium>, oif: IfIndex, background: bool) -> &mut PremiumDemand {
    let load = load.entry(oif).or_default();
    if background { &mut load.background } else { &mut load.foreground }
}

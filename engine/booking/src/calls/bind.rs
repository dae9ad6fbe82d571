//! `bind`: names the packets or processes of a part, which are often known only when the connection is there;
//! it can be repeated. Policy is asked, because other users' packets and processes are not the caller's to
//! bind (`engine/booking/src/policy`).

use super::permit::{allowed, rules_of};
use crate::ask::check_binding;
use crate::broker::Bookings;
use crate::io::{CallId, CallResult, EventKind};
use crate::journal::{Decided, Written};
use crate::refusal::{Refusal, RefusalReason};
use crate::reservation::Number;
use crate::state::LifeStep;
use alloc::string::ToString;
use alloc::vec::Vec;
use terms::Time;
use terms::book::{Binding, Caller, RateStep};
use terms::ports::book::BindQuestion;
use terms::ports::{Ledger, PolicyPort};

impl Bookings {
    pub(crate) fn bind<W: Ledger + PolicyPort>(
        &mut self,
        world: &mut W,
        id: CallId,
        number: Number,
        caller: &Caller,
        part: usize,
        binding: Option<Binding>,
    ) {
        let Some(r) = self.all.get(&number) else { return };
        if r.state.after(LifeStep::Bind).is_err() {
            return self.reply(id, Err(Refusal::plain(RefusalReason::WrongState(r.state))));
        }
        let Some(at) = r.parts.get(part) else {
            return self.reply(id, Err(Refusal::meaningless(Some(part), "there is no such part")));
        };
        if at.binding == binding {
            let view = self.view(world, number).map(CallResult::Reservation);
            return self.reply(id, view.ok_or_else(|| Refusal::plain(RefusalReason::UnknownHandle)));
        }
        let mut decided = Decided { caller, verb: "bind", handle: Some(r.handle), rules: Vec::new() };
        if let Some(binding) = &binding {
            let named = self.resources.get(at.resource);
            if let Err(refusal) = check_binding(part, named.kind, binding) {
                return self.reply(id, Err(refusal));
            }
            let (resource, background) = (&*named.name, at.background.is_some());
            let question = BindQuestion { caller, resource, label: &r.label, background, binding };
            match allowed(part, world.may_bind(&question)) {
                Ok(rule) => decided.rules.push(rule),
                Err(refusal) => {
                    decided.rules = rules_of(&refusal);
                    return self.refuse(id, refusal, &decided);
                }
            }
            // Asked after policy: a caller who may not bind them does not learn that another user has them.
            if let Err(refusal) = self.free_to_bind(caller, part, at.resource, binding, &at.steps, Some(number)) {
                return self.reply(id, Err(refusal));
            }
        }
        let mut next = (**r).clone();
        next.parts[part].binding = binding.clone();
        next.version += 1;
        let what = EventKind::Bound { part, binding: binding.clone() };
        self.write(&next, Written::Bind { number, part, binding }, &[what], id, &decided);
    }

    /// Checks that no other part whose windows meet these steps has the same binding.
    pub(crate) fn free_to_bind(
        &self,
        caller: &Caller,
        n: usize,
        resource: u32,
        binding: &Binding,
        steps: &[RateStep],
        but: Option<Number>,
    ) -> Result<(), Refusal> {
        let meets = |other: &[RateStep]| {
            let (mut i, mut j) = (0, 0);
            while let (Some(a), Some(b)) = (steps.get(i), other.get(j)) {
                if a.window.overlaps(&b.window) {
                    return true;
                }
                if a.window.end() <= b.window.end() { i += 1 } else { j += 1 }
            }
            false
        };
        let others = self.force.bound(resource, binding).iter().filter(|place| but != Some(place.0));
        let mut parts = others.filter_map(|place| {
            let r = self.all.get(&place.0)?;
            Some((r, r.parts.get(place.1)?))
        });
        let Some((r, part)) = parts.find(|(_, part)| meets(&part.steps)) else { return Ok(()) };
        let by = self.may(caller, r, false).then(|| (r.handle, self.owners.get(r.owner).name.to_string()));
        let until = part.steps.last().map_or(Time::FOREVER, |step| step.window.end());
        Err(Refusal::plain(RefusalReason::Taken { part: n, by, until }))
    }

    pub(crate) fn bound(&mut self, number: Number, part: usize, binding: Option<Binding>) {
        self.settled(number);
        let Some(r) = self.all.get_mut(&number) else { return };
        r.version += 1;
        let Some(at) = r.parts.get_mut(part) else { return };
        let resource = at.resource;
        let old = core::mem::replace(&mut at.binding, binding.clone());
        if let Some(old) = old {
            self.force.unbind(resource, &old, number, part);
        }
        if let Some(new) = binding {
            self.force.bind(resource, &new, number, part);
        }
        self.rebound(resource, (number, part));
    }
}

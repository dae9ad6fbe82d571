//! `bind`: names the packets or processes of a part, which are often known only when the connection is there;
//! it can be repeated. Policy is asked, because other users' packets and processes are not the caller's to
//! bind (`engine/booking/src/policy`).

use super::Outcome;
use crate::admission::{allowed, check_binding, free_to_bind, rules_of};
use crate::io::EventKind;
use crate::journal::{Change, Decided};
use crate::refusal::{Refusal, RefusalReason};
use crate::reservations::{Number, Reservations};
use crate::state::LifeStep;
use terms::book::{Binding, Caller};
use terms::ports::PolicyPort;
use terms::ports::book::BindQuestion;

pub(crate) fn bind<'a, P: PolicyPort>(
    table: &Reservations,
    policy: &P,
    number: Number,
    caller: &'a Caller,
    part: usize,
    binding: Option<Binding>,
) -> Outcome<'a> {
    let Some(r) = table.get(number) else { return Outcome::unknown() };
    if r.state.after(LifeStep::Bind).is_err() {
        return Outcome::no(Refusal::plain(RefusalReason::WrongState(r.state)));
    }
    let Some(at) = r.parts.get(part) else {
        return Outcome::no(Refusal::meaningless(Some(part), "there is no such part"));
    };
    if at.binding == binding {
        return Outcome::Unchanged;
    }
    let mut decided = Decided::new(caller, "bind", Some(r.handle));
    if let Some(binding) = &binding {
        let resource = table.resources().get(at.resource);
        if let Err(refusal) = check_binding(part, resource.kind(), binding) {
            return Outcome::no(refusal);
        }
        let background = at.background.is_some();
        let question = BindQuestion { caller, resource: resource.name(), label: &r.label, background, binding };
        match allowed(part, policy.may_bind(&question)) {
            Ok(rule) => decided = decided.by([rule]),
            Err(refusal) => {
                let decided = decided.by(rules_of(&refusal));
                return Outcome::Refused(refusal, decided);
            }
        }
        // Asked after policy: a caller who may not bind them does not learn that another user has them.
        if let Err(refusal) = free_to_bind(table, caller, part, (at.resource, binding), &at.steps, Some(number)) {
            return Outcome::no(refusal);
        }
    }
    let mut next = r.clone();
    next.parts[part].binding = binding.clone();
    next.version += 1;
    let event = EventKind::Bound { part, binding: binding.clone() };
    Outcome::change(next, Change::Bind { number, part, binding }, event, decided)
}

//! Policy: its answer about the parts and the bindings of a request, and the limits of what users have together.

use super::{Plan, Wanted};
use crate::calendar::Calendar;
use crate::io::{BookingRequest, PartAsk, When};
use crate::refusal::{Refusal, RefusalReason};
use crate::reservations::{Grant, Reservation, Reservations};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use terms::book::{Binding, Caller, RateStep, ResourceKind};
use terms::ports::PolicyPort;
use terms::ports::book::{BindQuestion, PolicyDecision, Question};
use terms::{Rate, Span, Time, Window};

/// The permission for a part.
#[derive(Clone, Default, Debug)]
pub(crate) struct Permission {
    /// The resource's rule, by which the amount is counted from now on.
    grant: Grant,
    /// The layers above it that allowed too.
    above: Vec<String>,
}

impl Permission {
    /// The rule and groups by which the amount is counted.
    pub(crate) fn into_grant(self) -> Grant {
        self.grant
    }
}

/// A part as policy sees it.
pub(crate) struct Sought<'a> {
    resource: &'a str,
    background: bool,
    steps: &'a [RateStep],
}

impl<'a> Sought<'a> {
    pub(crate) fn new(resource: &'a str, background: bool, steps: &'a [RateStep]) -> Sought<'a> {
        Sought { resource, background, steps }
    }
}

/// A caller before policy, with what the owner has already.
pub(crate) struct Judge<'a, P> {
    policy: &'a P,
    table: &'a Reservations,
    calendar: Calendar,
    caller: &'a Caller,
}

impl<'j, P: PolicyPort> Judge<'j, P> {
    pub(crate) fn new(policy: &'j P, table: &'j Reservations, calendar: Calendar, caller: &'j Caller) -> Judge<'j, P> {
        Judge { policy, table, calendar, caller }
    }

    /// Asks policy about the parts of a request for a new reservation.
    pub(crate) fn permitted(&self, label: &str, parts: &[Sought<'_>]) -> Result<Vec<Permission>, Refusal> {
        self.judge(self.table.owners().find(&self.caller.name), label, parts, 1)
    }

    /// Asks policy about these parts of a caller's request, and returns the rules that allow them. `whose` is
    /// the owner: an operator who changes another's reservation is judged as themselves, but the sums are the
    /// owner's.
    fn judge(
        &self,
        whose: Option<u32>,
        label: &str,
        parts: &[Sought<'_>],
        more: usize,
    ) -> Result<Vec<Permission>, Refusal> {
        let mut granted = Vec::with_capacity(parts.len());
        for (n, part) in parts.iter().enumerate() {
            let Some(window) = whole(part.steps) else {
                granted.push(Permission::default());
                continue;
            };
            let beside = parts.iter().enumerate().filter(|(m, other)| *m != n && other.resource == part.resource);
            let others = beside.filter(|(_, other)| !other.background).map(|(_, other)| peak(other.steps));
            let beside = others.fold(0_u64, u64::saturating_add);
            let resource = self.table.resources().find(part.resource);
            let own = match whose {
                _ if part.background => 0,
                Some(owner) => self.table.sums().of_owner(owner, resource, part.steps),
                None => peak(part.steps),
            };
            let question = Question {
                caller: self.caller,
                resource: part.resource,
                label,
                amount: peak(part.steps),
                window,
                length: length(part.steps),
                now: self.calendar.today(),
                background: part.background,
                together: own.saturating_add(beside),
                reservations: whose.map_or(0, |owner| self.table.owners().get(owner).live()) + more,
            };
            let mut decision = self.policy.decide(&question);
            let above = core::mem::take(&mut decision.above);
            let rule = allowed(n, decision)?;
            let shared = self.policy.shared(&question);
            let groups: Vec<Box<str>> = shared.groups.into_iter().map(String::into_boxed_str).collect();
            let grant = Grant::new(rule, groups);
            if !part.background {
                self.is_below(n, part, beside, &grant, (shared.in_all, shared.in_group))?;
                self.is_agreed(n, part, beside, &grant, shared.agreed)?;
            }
            granted.push(Permission { grant, above });
        }
        Ok(granted)
    }

    /// Checks that a part, and the parts of the same request beside it, keep the sums of its rule within the
    /// rule's limits: of all its users, and of each group by which it applies.
    fn is_below(
        &self,
        n: usize,
        part: &Sought<'_>,
        beside: u64,
        grant: &Grant,
        (in_all, in_group): (Option<u64>, Option<u64>),
    ) -> Result<(), Refusal> {
        let resource = self.table.resources().find(part.resource);
        let all = in_all.map(|most| ("", most));
        let groups = grant.groups().iter().filter_map(|group| in_group.map(|most| (&**group, most)));
        for (group, most) in all.into_iter().chain(groups) {
            let sum = self.table.sums().of_rule(grant.rule(), group, resource, part.steps).saturating_add(beside);
            if sum > most {
                let who = if group.is_empty() { "all who use this rule".into() } else { format!("the group {group}") };
                let (sum, most) = (words(part.resource, sum), words(part.resource, most));
                let text = format!("{who} would have {sum} together, {most} are allowed");
                return Err(Refusal::plain(RefusalReason::Policy { part: n, rule: grant.rule().to_string(), text }));
            }
        }
        Ok(())
    }

    /// Checks that a part, and the parts of the same request beside it, keep an agreement within the agreed rate, if
    /// their rule may not make it grow.
    fn is_agreed(
        &self,
        n: usize,
        part: &Sought<'_>,
        beside: u64,
        grant: &Grant,
        agreed: Option<u64>,
    ) -> Result<(), Refusal> {
        let Some(agreed) = agreed else { return Ok(()) };
        let resource = self.table.resources().find(part.resource);
        let sum = self.table.sums().of_all(resource, part.steps).saturating_add(beside);
        if sum <= agreed {
            return Ok(());
        }
        let left = agreed.saturating_sub(sum.saturating_sub(peak(part.steps)));
        let [sum, agreed, left] = [sum, agreed, left].map(|amount| words(part.resource, amount));
        let text = format!(
            "it would make the agreement grow to {sum}, beyond the agreed {agreed}, of which {left} are left, and this \
             rule does not say `grow = true`"
        );
        Err(Refusal::plain(RefusalReason::Policy { part: n, rule: grant.rule().to_string(), text }))
    }

    /// Asks policy about the bindings of a request, and returns the rules that allow them.
    pub(crate) fn bindings(&self, ask: &BookingRequest) -> Result<Vec<Box<str>>, Refusal> {
        let bound = ask.parts.iter().enumerate().filter_map(|(n, part)| Some((n, part, part.binding.as_ref()?)));
        let one = |(n, part, binding): (usize, &PartAsk, &Binding)| {
            let background = part.background.is_some();
            let (resource, label) = (part.resource.as_str(), ask.label.as_str());
            allowed(
                n,
                self.policy.may_bind(&BindQuestion { caller: self.caller, resource, label, background, binding }),
            )
        };
        bound.map(one).collect()
    }

    /// The refusal if policy would deny even the least of the request. It is then the answer, so that a
    /// caller without rights learns nothing about the free amounts.
    pub(crate) fn denied_anyway(&self, ask: &BookingRequest) -> Option<Refusal> {
        let today = self.calendar.today();
        let window = match &ask.when {
            When::Window { start, end } => Window::new(start.unwrap_or(today).max(today), end.unwrap_or(Time::FOREVER)),
            When::Now { span } => Window::new(today, today.saturating_add(*span)),
            When::Earliest { span, not_before, .. } => {
                let start = not_before.unwrap_or(today).max(today);
                Window::new(start, start.saturating_add(*span))
            }
            When::Volume { not_before, deadline, .. } => Window::new(not_before.unwrap_or(today).max(today), *deadline),
            When::Series { windows, .. } => windows.first().copied().ok_or(terms::Misuse::ZeroRate),
        };
        let window = window.ok()?;
        let steps: Vec<[RateStep; 1]> =
            ask.parts.iter().map(|part| [RateStep { window, amount: part.least.max(1) }]).collect();
        let parts: Vec<Sought<'_>> = ask
            .parts
            .iter()
            .zip(&steps)
            .map(|(part, steps)| Sought::new(&part.resource, part.background.is_some(), steps))
            .collect();
        self.permitted(&ask.label, &parts).err()
    }
}

/// Asks policy about `next` in place of `old`, both of one owner: the owner's sums do not include `old`.
pub(crate) fn permitted_anew<P: PolicyPort>(
    table: &mut Reservations,
    policy: &P,
    calendar: Calendar,
    caller: &Caller,
    old: &Reservation,
    next: &Reservation,
) -> Result<Vec<Permission>, Refusal> {
    table.without(old, |table| {
        let parts: Vec<Sought<'_>> = next
            .parts
            .iter()
            .map(|part| Sought {
                resource: table.resources().get(part.resource).name(),
                background: part.background.is_some(),
                steps: &part.steps,
            })
            .collect();
        Judge::new(policy, table, calendar, caller).judge(Some(old.owner), &next.label, &parts, 0)
    })
}

/// The parts of a plan, as policy sees them.
pub(crate) fn sought<'a>(wanted: &'a [Wanted<'_>], plan: &'a Plan) -> Vec<Sought<'a>> {
    let part = |(wanted, steps): (&'a Wanted<'_>, &'a Vec<RateStep>)| {
        let ask = wanted.ask();
        Sought::new(&ask.resource, ask.background.is_some(), steps)
    };
    wanted.iter().zip(plan).map(part).collect()
}

/// The rule that allows it, or a refusal.
pub(crate) fn allowed(part: usize, verdict: PolicyDecision) -> Result<Box<str>, Refusal> {
    match verdict.denied {
        Some(text) => Err(Refusal::plain(RefusalReason::Policy { part, rule: verdict.rule, text })),
        None => Ok(verdict.rule.into_boxed_str()),
    }
}

/// The rules of every layer, for the audit: one text a part.
pub(crate) fn rules(granted: &[Permission]) -> Vec<Box<str>> {
    let text = |one: &Permission| {
        let above = one.above.iter().map(String::as_str);
        above.chain([one.grant.rule()]).collect::<Vec<_>>().join("; ").into_boxed_str()
    };
    granted.iter().map(text).collect()
}

/// An amount, in the unit that people use.
fn words(resource: &str, amount: u64) -> String {
    match ResourceKind::of(resource) {
        ResourceKind::Network | ResourceKind::Sla | ResourceKind::Measured => format!("{}", Rate::from_bps(amount)),
        ResourceKind::Cpu => format!("{}.{:06} cores", amount / 1_000_000, amount % 1_000_000),
        ResourceKind::Disk => format!("{} bytes/s", amount / 8),
        ResourceKind::Countable => format!("{amount}"),
    }
}

/// The rule that a refusal names, for the audit.
pub(crate) fn rules_of(refusal: &Refusal) -> Vec<Box<str>> {
    match &refusal.why {
        RefusalReason::Policy { rule, .. } => alloc::vec![String::as_str(rule).into()],
        _ => Vec::new(),
    }
}

fn peak(steps: &[RateStep]) -> u64 {
    steps.iter().map(|step| step.amount).max().unwrap_or(0)
}

/// The window from the start of the first step to the end of the last.
fn whole(steps: &[RateStep]) -> Option<Window> {
    Window::new(steps.first()?.window.start(), steps.last()?.window.end()).ok()
}

fn length(steps: &[RateStep]) -> Span {
    steps.iter().fold(Span::ZERO, |sum, step| sum.saturating_add(step.window.span()))
}

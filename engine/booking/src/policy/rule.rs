//! A rule: the questions that it is about, and its answer.

use crate::policy::binding::Bindings;
use crate::policy::hours::Hours;
use crate::policy::pattern::NamePattern;
use crate::policy::signal::SignalScope;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use terms::book::{Caller, ResourceKind, foreign};
use terms::ports::book::{Question, SharedLimits};
use terms::{Rate, Span, Time};

/// A rule. It is about a question if its `who`, `vos`, `resources`, `labels` and `background` all match. The default
/// is about no caller.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Rule {
    /// Its name, for audits and refusals.
    pub name: String,
    /// The callers; empty: none.
    pub who: Vec<Who>,
    /// The virtual organisations whose tokens the callers show ([`terms::book::VoToken::memberships`]); empty: with
    /// or without a token. Such a rule is about bookings only.
    pub vos: Vec<NamePattern>,
    /// The resources; empty: all.
    pub resources: Vec<NamePattern>,
    /// The labels of requests; empty: any or none.
    pub labels: Vec<NamePattern>,
    /// True: background parts only; false: foreground parts only; `None`: both.
    pub background: Option<bool>,
    /// True: signalled requests only (RSVP, Boomerang); false: bookings only; `None`: both for a rule that
    /// denies, bookings for one that allows.
    pub signal: Option<bool>,
    /// For signalled requests: the packets, and the highest priority.
    pub signals: SignalScope,
    /// True: its callers may make an agreement (`sla/PEER`) grow beyond the agreed rate.
    pub grow: bool,
    /// The packets and processes that its callers may bind.
    pub bindings: Bindings,
    /// Its answer.
    pub effect: Effect,
}

/// Callers that a rule is about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Who {
    /// All callers of this domain.
    Anyone,
    /// All callers of all domains: for rules that name an organisation, which vouches for them.
    Everybody,
    /// Callers with a name like this.
    Name(NamePattern),
    /// Callers with a group like this.
    Group(NamePattern),
}

/// The answer of a rule.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Effect {
    /// The rule denies.
    #[default]
    Deny,
    /// The rule allows, within limits.
    Allow(Limits),
}

/// Limits of a rule that allows; `None`: no limit. Amounts are in the unit of the resource's kind.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Limits {
    /// The largest amount of one part.
    pub amount: Option<u64>,
    /// The largest sum of one owner for the resource, at any instant.
    pub together: Option<u64>,
    /// The largest sum of all users of this rule for the resource, at any instant.
    pub in_all: Option<u64>,
    /// The largest sum of all users of this rule by one of its groups.
    pub in_group: Option<u64>,
    /// The most reservations of an owner.
    pub reservations: Option<usize>,
    /// The largest total length of all windows. A reservation without an end is longer than any limit.
    pub length: Option<Span>,
    /// How far ahead its first window may begin; zero: only from now on.
    pub ahead: Option<Span>,
    /// The hours of the week in which it may lie, from its first start to its last end.
    pub hours: Option<Hours>,
    /// The earliest start; calendar time.
    pub from: Option<Time>,
    /// The latest end; calendar time.
    pub until: Option<Time>,
}

impl Who {
    /// True if the caller is meant. A caller of a partner's domain is meant only by a pattern with a slash:
    /// `anl/*`, `anl/alice`, `@anl/physics`. So a partner that is trusted to name its people gets no right by
    /// that alone.
    pub fn is(&self, caller: &Caller) -> bool {
        let like = |pattern: &NamePattern, name: &str| {
            (foreign(name).is_none() || pattern.as_str().contains('/')) && pattern.matches(name)
        };
        match self {
            Who::Anyone => caller.domain().is_none(),
            Who::Everybody => true,
            Who::Name(pattern) => like(pattern, &caller.name),
            Who::Group(pattern) => caller.groups.iter().any(|group| like(pattern, group)),
        }
    }
}

impl Rule {
    /// The sums that it limits beside an owner's own.
    pub(crate) fn shared(&self, caller: &Caller) -> SharedLimits {
        let Effect::Allow(limits) = &self.effect else { return SharedLimits::default() };
        let alone = |group: &String| Caller {
            name: String::new(),
            groups: alloc::vec![group.clone()],
            role: caller.role,
            token: None,
        };
        let names = |group: &String| {
            let of_it = alone(group);
            self.who.iter().any(|who| matches!(who, Who::Group(_)) && who.is(&of_it))
        };
        // A group of an organisation counts as one that a certificate names: `in_group` bounds it.
        let meant = |name: &String| self.vos.iter().any(|pattern| pattern.matches(name));
        let members = caller.token.iter().flat_map(|token| token.memberships()).filter(meant);
        let groups = caller.groups.iter().filter(|group| names(group)).cloned().chain(members).collect();
        SharedLimits { groups, in_all: limits.in_all, in_group: limits.in_group, agreed: None }
    }

    /// True if it is about this question.
    pub fn is_about(&self, question: &Question<'_>) -> bool {
        self.concerns(question.caller, question.resource, question.label, question.background)
    }

    /// True if it is about a question with these properties.
    pub(crate) fn concerns(&self, caller: &Caller, resource: &str, label: &str, background: bool) -> bool {
        let any =
            |patterns: &[NamePattern], text: &str| patterns.is_empty() || patterns.iter().any(|p| p.matches(text));
        self.signal != Some(true)
            && self.background.is_none_or(|wanted| wanted == background)
            && self.who.iter().any(|who| who.is(caller))
            && self.trusts(caller)
            && any(&self.resources, resource)
            && any(&self.labels, label)
    }

    /// True if it asks for no token, or the caller shows one of an organisation that it names.
    pub(crate) fn trusts(&self, caller: &Caller) -> bool {
        let shown = |pattern: &NamePattern| {
            caller.token.iter().flat_map(|token| token.memberships()).any(|name| pattern.matches(&name))
        };
        self.vos.is_empty() || self.vos.iter().any(shown)
    }

    /// The key of its that a domain's rule cannot have: the domain has no accounts of what was granted.
    pub(crate) fn of_resources_only(&self) -> Option<&'static str> {
        let sums = match &self.effect {
            Effect::Allow(limits) if limits.in_all.is_some() => Some("in_all"),
            Effect::Allow(limits) if limits.in_group.is_some() => Some("in_group"),
            _ => None,
        };
        sums.or(self.grow.then_some("grow")).or((self.signal == Some(true)).then_some("signal"))
    }

    /// The reason if it denies a question that it is about; `None`: it allows it.
    pub fn denies(&self, question: &Question<'_>) -> Option<String> {
        match &self.effect {
            Effect::Deny => Some(String::from("denied")),
            Effect::Allow(limits) => limits.deny(question),
        }
    }
}

impl Limits {
    /// The first of the limits that a question exceeds, in words; `None`: it keeps all of them.
    pub(crate) fn deny(&self, question: &Question<'_>) -> Option<String> {
        let limits = self;
        let amount = |amount: u64| words(question.resource, amount);
        let ahead = question.window.start().since(question.now);
        if let Some(most) = limits.amount.filter(|most| question.amount > *most) {
            return Some(format!("{} is asked, {} at once are allowed", amount(question.amount), amount(most)));
        }
        if let Some(most) = limits.together.filter(|most| question.together > *most) {
            return Some(format!("it would be {} together, {} are allowed", amount(question.together), amount(most)));
        }
        if let Some(most) = limits.reservations.filter(|most| question.reservations > *most) {
            return Some(format!("{most} reservations of one owner are allowed"));
        }
        if let Some(most) = limits.length.filter(|most| question.length > *most) {
            return Some(format!("at most {} are allowed", span(most)));
        }
        if let Some(most) = limits.ahead.filter(|most| ahead > *most) {
            let begins = format!("it begins {} ahead", span(ahead));
            return Some(match most {
                Span::ZERO => format!("{begins}, only what begins at once is allowed"),
                most => format!("{begins}, at most {} ahead are allowed", span(most)),
            });
        }
        if let Some(hours) = limits.hours.as_ref().filter(|hours| !hours.cover(question.window)) {
            return Some(format!("these are not the hours in which it is allowed: {hours}"));
        }
        if limits.from.is_some_and(|from| question.window.start() < from) {
            return Some(String::from("it begins before it is allowed"));
        }
        if limits.until.is_some_and(|until| question.window.end() > until) {
            return Some(String::from("it ends after it is allowed"));
        }
        None
    }
}

/// An amount, in the unit that people use.
pub(crate) fn words(resource: &str, amount: u64) -> String {
    match ResourceKind::of(resource) {
        ResourceKind::Network | ResourceKind::Sla | ResourceKind::Measured => format!("{}", Rate::from_bps(amount)),
        ResourceKind::Cpu => format!("{}.{:06} cores", amount / 1_000_000, amount % 1_000_000),
        ResourceKind::Disk => format!("{} bytes/s", amount / 8),
        ResourceKind::Countable => format!("{amount}"),
    }
}

fn span(span: Span) -> String {
    let seconds = span.as_nanos() / Span::NANOS_PER_SEC;
    match seconds {
        s if s >= 86_400 && s % 86_400 == 0 => format!("{} d", s / 86_400),
        s if s >= 3_600 && s % 3_600 == 0 => format!("{} h", s / 3_600),
        s if s >= 60 && s % 60 == 0 => format!("{} min", s / 60),
        s => format!("{s} s"),
    }
}

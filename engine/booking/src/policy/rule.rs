//! A rule: about whom and what it is, and what it says.

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

/// A rule. It is about a question if its `who`, `resources`, `labels` and `background` all are. The default is about nobody.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Rule {
    /// Its name, which audits and refusals tell.
    pub name: String,
    /// About any of these; empty: about nobody.
    pub who: Vec<Who>,
    /// About any of these resources; empty: about all.
    pub resources: Vec<NamePattern>,
    /// About requests with any of these labels; empty: with any or none.
    pub labels: Vec<NamePattern>,
    /// About background parts only, about foreground parts only; `None`: about both.
    pub background: Option<bool>,
    /// About what is signalled (RSVP, Boomerang), about bookings; `None`: a rule that denies is about both, one that allows
    /// about bookings only.
    pub signal: Option<bool>,
    /// Of what is signalled: whose packets, and how urgent.
    pub signals: SignalScope,
    /// Whose packets and processes its callers may name.
    pub bindings: Bindings,
    /// What it says.
    pub effect: Effect,
}

/// Whom a rule is about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Who {
    /// Everybody of this domain.
    Anyone,
    /// Whose name is like this.
    Name(NamePattern),
    /// Who has a group that is like this.
    Group(NamePattern),
}

/// What a rule says.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Effect {
    /// No.
    #[default]
    Deny,
    /// Yes, within limits.
    Allow(Limits),
}

/// Limits of what a rule allows; `None`: none. Amounts are in the unit of the resource's kind.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Limits {
    /// The most at once, for one part.
    pub amount: Option<u64>,
    /// The most that an owner has of the resource at any instant.
    pub together: Option<u64>,
    /// The most that all who use this rule have of the resource together, at any instant.
    pub in_all: Option<u64>,
    /// The most that all have who use this rule by one of its groups.
    pub in_group: Option<u64>,
    /// The most reservations of an owner.
    pub reservations: Option<usize>,
    /// The longest, all windows together. A reservation that is open at its end is longer than any.
    pub length: Option<Span>,
    /// How far ahead its first window may begin; zero: only from now on.
    pub ahead: Option<Span>,
    /// The hours of the week in which it may lie, from its first start to its last end.
    pub hours: Option<Hours>,
    /// Not before; calendar time.
    pub from: Option<Time>,
    /// Over by; calendar time.
    pub until: Option<Time>,
}

impl Who {
    /// Whether somebody is meant. Who is of a partner's domain is meant only where a slash is written: `anl/*`, `anl/alice`,
    /// `@anl/physics`. So a partner that is trusted to say who its people are gets nothing by that alone.
    pub fn is(&self, caller: &Caller) -> bool {
        let like = |pattern: &NamePattern, name: &str| {
            (foreign(name).is_none() || pattern.as_str().contains('/')) && pattern.matches(name)
        };
        match self {
            Who::Anyone => caller.domain().is_none(),
            Who::Name(pattern) => like(pattern, &caller.name),
            Who::Group(pattern) => caller.groups.iter().any(|group| like(pattern, group)),
        }
    }
}

impl Rule {
    /// What it limits beside what an owner has.
    pub(crate) fn shared(&self, caller: &Caller) -> SharedLimits {
        let Effect::Allow(limits) = &self.effect else { return SharedLimits::default() };
        let alone =
            |group: &String| Caller { name: String::new(), groups: alloc::vec![group.clone()], role: caller.role };
        let names = |group: &String| {
            let of_it = alone(group);
            self.who.iter().any(|who| matches!(who, Who::Group(_)) && who.is(&of_it))
        };
        let groups = caller.groups.iter().filter(|group| names(group)).cloned().collect();
        SharedLimits { groups, in_all: limits.in_all, in_group: limits.in_group }
    }

    /// Whether it is about this question.
    pub fn is_about(&self, question: &Question<'_>) -> bool {
        self.concerns(question.caller, question.resource, question.label, question.background)
    }

    /// The same, of what a question is about.
    pub(crate) fn concerns(&self, caller: &Caller, resource: &str, label: &str, background: bool) -> bool {
        let any =
            |patterns: &[NamePattern], text: &str| patterns.is_empty() || patterns.iter().any(|p| p.matches(text));
        self.signal != Some(true)
            && self.background.is_none_or(|wanted| wanted == background)
            && self.who.iter().any(|who| who.is(caller))
            && any(&self.resources, resource)
            && any(&self.labels, label)
    }

    /// Why it says no to a question that it is about; `None`: it says yes.
    pub fn denies(&self, question: &Question<'_>) -> Option<String> {
        let limits = match &self.effect {
            Effect::Deny => return Some(String::from("denied")),
            Effect::Allow(limits) => limits,
        };
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
            return Some(format!("at most {} ahead are allowed", span(most)));
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

/// An amount as people count it.
pub(crate) fn words(resource: &str, amount: u64) -> String {
    match ResourceKind::of(resource) {
        ResourceKind::Network => format!("{}", Rate::from_bps(amount)),
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

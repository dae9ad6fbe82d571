//! The refusal if no rule is about a request: the caller's identity, the nearest rule, and the reason why it
//! does not apply.

use crate::policy::rights::named;
use crate::policy::rule::{Effect, Rule, Who};
use crate::policy::signal::{AddressPrefix, EndPoint, SignalClaim, about};
use crate::policy::{NamePattern, Policy};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use terms::book::Caller;
use terms::ports::book::Question;

/// Most names of a list in a refusal.
const TOLD: usize = 4;

/// The refusal of a booking.
pub(crate) fn of_question(policy: &Policy, question: &Question<'_>) -> String {
    told(policy, question.caller, |rule| {
        let mut misses = Vec::new();
        if rule.is_for_signals() {
            misses.push(String::from("it is about what is signalled, not about bookings"));
        }
        misses.extend(not_you(rule, question.caller));
        misses.extend(not_shown(rule, question.caller));
        misses.extend(not_there(rule, question.resource));
        if !rule.labels.is_empty() && !rule.labels.iter().any(|label| label.matches(question.label)) {
            let of = match question.label {
                "" => String::from("yours has none (--label)"),
                label => format!("yours has {label}"),
            };
            misses.push(format!("it is about requests with the label {}, {of}", patterns(&rule.labels)));
        }
        match rule.background.filter(|background| *background != question.background) {
            Some(true) => misses.push(String::from("it is about background only")),
            Some(false) => misses.push(String::from("it is not about background")),
            None => {}
        }
        misses
    })
}

/// The refusal of a signalled request.
pub(crate) fn of_claim(policy: &Policy, caller: &Caller, claim: &SignalClaim) -> String {
    told(policy, caller, |rule| {
        let mut misses = Vec::new();
        if !rule.is_for_signals() {
            misses.push(String::from("it is about bookings, not about what is signalled (signal = true)"));
        }
        misses.extend(not_you(rule, caller));
        misses.extend(claim.resource.as_ref().and_then(|resource| not_there(rule, resource)));
        misses.extend(not_those("from", &rule.signals.sources, &claim.src));
        misses.extend(not_those("to", &rule.signals.destinations, &claim.dst));
        misses
    })
}

fn told(policy: &Policy, caller: &Caller, misses: impl Fn(&Rule) -> Vec<String>) -> String {
    let you = format!("no rule is about this, and what nobody allows is denied; you are {}", named(caller));
    let allowing = policy.rules().iter().filter(|rule| rule.effect != Effect::Deny);
    let all = allowing.map(|rule| (rule, misses(rule)));
    match all.min_by_key(|(_, misses)| misses.len()) {
        Some((rule, misses)) => format!("{you}; nearest is the rule \"{}\": {}", rule.name, misses.join("; ")),
        None => format!("{you}; the policy has no rule that allows anything"),
    }
}

fn not_you(rule: &Rule, caller: &Caller) -> Option<String> {
    let whom = |who: &Who| match who {
        Who::Anyone => String::from("everybody of this domain"),
        Who::Everybody => String::from("everybody"),
        Who::Name(pattern) => pattern.as_str().to_string(),
        Who::Group(pattern) => format!("@{}", pattern.as_str()),
    };
    let all = || list(rule.who.iter().map(whom));
    (!rule.who.iter().any(|who| who.is(caller))).then(|| format!("it is about {}, not about you", all()))
}

fn not_shown(rule: &Rule, caller: &Caller) -> Option<String> {
    let shown = || match &caller.token {
        None => String::from("and you show none (--token)"),
        Some(token) => format!("and yours is of {}", list(token.memberships())),
    };
    (!rule.trusts(caller)).then(|| format!("it is about holders of a token of {}, {}", patterns(&rule.vos), shown()))
}

fn not_there(rule: &Rule, resource: &str) -> Option<String> {
    let other = !rule.resources.is_empty() && !rule.resources.iter().any(|pattern| pattern.matches(resource));
    let asked = if resource.is_empty() { "an interface that is not known" } else { resource };
    other.then(|| format!("it is about {}, not about {asked}", patterns(&rule.resources)))
}

fn not_those(which: &str, prefixes: &[AddressPrefix], end: &EndPoint) -> Option<String> {
    let all = || list(prefixes.iter().map(AddressPrefix::to_string));
    (!about(prefixes, end, false)).then(|| format!("it is about packets {which} {}, not {which} {end}", all()))
}

fn patterns(patterns: &[NamePattern]) -> String {
    list(patterns.iter().map(|pattern| pattern.as_str().to_string()))
}

fn list(names: impl Iterator<Item = String>) -> String {
    let mut all: Vec<String> = names.collect();
    if all.len() > TOLD {
        let more = all.len() - TOLD;
        all.truncate(TOLD);
        all.push(format!("{more} more"));
    }
    all.join(", ")
}

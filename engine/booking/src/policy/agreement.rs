//! Agreements with neighbouring domains (SLAs; seed 002, section 6): limits of `sla/PEER` that hold for everybody,
//! before any rule is asked, and the one law of all of them: what a domain may send is booked by that domain, or by
//! people of this one; by a third only where it says `transit`.

use super::rule::{Limits, Rule};
use alloc::format;
use alloc::string::String;
use terms::book::ResourceKind;
use terms::ports::book::{PolicyDecision, Question};

/// The terms of an agreement.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SlaTerms {
    /// The resource: `sla/PEER`.
    pub resource: String,
    /// The limits of every request.
    pub limits: Limits,
    /// The agreed rate, if bookings may make it grow beyond that: a dynamic agreement (seed 002, section 4.1), which
    /// grows by the very booking that needs more, and shrinks when that is over. `None`: the ledger's capacity is it.
    pub agreed: Option<u64>,
    /// True if rules may let people of other domains book on it: their way leads through here, and the peer's packets
    /// are on it. What our own broker asks in their names is what the peer's broker has accepted.
    pub transit: bool,
}

/// The agreed rate that a rule's users keep together, if this question is about an agreement that may grow and the rule
/// does not let it.
pub(super) fn agreed(all: &[SlaTerms], question: &Question<'_>, rule: &Rule) -> Option<u64> {
    let terms = all.iter().find(|terms| terms.resource == question.resource)?;
    terms.agreed.filter(|_| !rule.grow)
}

/// The refusal of what no agreement allows; `None`: the rules decide.
pub(super) fn denied(all: &[SlaTerms], question: &Question<'_>) -> Option<PolicyDecision> {
    if ResourceKind::of(question.resource) != ResourceKind::Sla {
        return None;
    }
    let no =
        |text| Some(PolicyDecision { rule: question.resource.into(), denied: Some(text), ..PolicyDecision::default() });
    let peer = question.resource.strip_prefix("sla/").unwrap_or_default();
    let terms = all.iter().find(|terms| terms.resource == question.resource);
    let transit = terms.is_some_and(|terms| terms.transit);
    if let Some(domain) = question.caller.domain().filter(|domain| *domain != peer && !transit) {
        return no(format!("it is the agreement with {peer}: {domain} books on sla/{domain}"));
    }
    no(terms?.limits.deny(question)?)
}

//! Policy: who may reserve which resource, how much, when, for how long and how far ahead. It is an access
//! control list of a resource manager (GARA, section 4.1), evaluated without side effects, in bounded time,
//! to an answer for every question.
//!
//! A policy is a list of rules. The first rule that is about the question decides; without one the answer is
//! no. A rule that allows has limits: a request beyond one of them is denied, and the answer names rule and
//! limit.
//!
//! Nothing here can loop, divide or blow up: patterns are matched in steps bounded by the product of two
//! short lengths, times are compared, sums were made by the bookings (FAULTS.md T12, I42).

mod agreement;
mod binding;
mod hours;
mod layers;
mod nearest;
mod pattern;
pub mod rights;
mod rule;
mod signal;

pub use agreement::SlaTerms;
use alloc::string::String;
use alloc::vec::Vec;
pub use binding::{BadFlows, Bindings, FlowPattern, ProcessFacts, ProcessKind, check};
pub use hours::{BadHours, Hours};
pub use layers::{Layers, unfit_for_domain};
pub use pattern::{BadPattern, MOST_PATTERN, NamePattern};
use rights::{Call, Right, Seat, Whose};
pub use rule::{Effect, Limits, Rule, Who};
pub use signal::{AddressPrefix, Asker, EndPoint, SignalClaim, SignalKey, SignalScope, Signalled};
use terms::book::{Caller, CallerRole};
use terms::ports::book::{BindQuestion, PolicyDecision, Question, SharedLimits};

/// The most rules of a policy.
pub const MOST_RULES: usize = 4_096;

/// A policy: its rules in the order in which they are tried.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Policy {
    rules: Vec<Rule>,
    /// True if a rule limits the sums of an owner, a group or all its users, or an agreement those of everybody.
    sums: bool,
    /// The callers that may read the audit.
    auditors: Vec<Who>,
    /// The agreements with neighbouring domains.
    agreements: Vec<SlaTerms>,
}

/// The error for more than [`MOST_RULES`] rules.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooMany;

impl Policy {
    /// A policy of these rules.
    ///
    /// # Errors
    /// [`TooMany`].
    pub fn new(rules: Vec<Rule>) -> Result<Policy, TooMany> {
        if rules.len() > MOST_RULES {
            return Err(TooMany);
        }
        let sums = |rule: &Rule| {
            let Effect::Allow(limits) = &rule.effect else { return false };
            limits.together.or(limits.in_all).or(limits.in_group).is_some()
        };
        Ok(Policy { sums: rules.iter().any(sums), rules, ..Policy::default() })
    }

    /// The policy with these callers as readers of the audit.
    #[must_use]
    pub fn with_auditors(self, auditors: Vec<Who>) -> Policy {
        Policy { auditors, ..self }
    }

    /// The policy with these agreements, whose limits hold before its rules.
    #[must_use]
    pub fn with_agreements(self, agreements: Vec<SlaTerms>) -> Policy {
        let sums = self.sums || agreements.iter().any(|terms| terms.agreed.is_some());
        Policy { agreements, sums, ..self }
    }

    /// True if it names callers that may read the audit.
    pub fn has_auditors(&self) -> bool {
        !self.auditors.is_empty()
    }

    /// True if the caller may read the audit: operators, auditors, and named callers.
    pub fn may_audit(&self, caller: &Caller) -> bool {
        matches!(caller.role, CallerRole::Auditor | CallerRole::Operator)
            || self.auditors.iter().any(|who| who.is(caller))
    }

    /// Checks that the caller may make this call at all. If the table says that a rule decides and amounts
    /// matter, the rules are asked when the amounts are known.
    ///
    /// # Errors
    /// The refusal: the caller's identity, and the callers that may.
    pub fn may_ask(&self, seat: Seat, call: Call, caller: &Caller) -> Result<(), String> {
        match call.at_most(seat) {
            Right::Yes => Ok(()),
            Right::No => Err(call.refusal(seat, Whose::Any, caller)),
            Right::Rule if !call.is_for_auditors() || self.may_audit(caller) => Ok(()),
            Right::Rule => {
                let why = call.refusal(seat, Whose::Any, caller);
                Err(alloc::format!("{why}: the policy's `auditors` do not name you"))
            }
        }
    }

    /// A policy that allows every caller everything: for one machine without a policy of its own. It must be
    /// written out; it is no default.
    pub fn open() -> Policy {
        let rule = Rule {
            name: String::from("open"),
            who: alloc::vec![Who::Anyone],
            bindings: Bindings::any(),
            effect: Effect::Allow(Limits::default()),
            ..Rule::default()
        };
        Policy { rules: alloc::vec![rule], ..Policy::default() }
    }

    /// Its rules.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }
}

impl terms::ports::PolicyPort for Policy {
    fn sums(&self) -> bool {
        self.sums
    }

    fn decide(&self, question: &Question<'_>) -> PolicyDecision {
        if let Some(denied) = agreement::denied(&self.agreements, question) {
            return denied;
        }
        let Some(rule) = self.rules.iter().find(|rule| rule.is_about(question)) else {
            let denied = Some(nearest::of_question(self, question));
            return PolicyDecision { rule: String::new(), denied, ..PolicyDecision::default() };
        };
        PolicyDecision { rule: rule.name.clone(), denied: rule.denies(question), ..PolicyDecision::default() }
    }

    fn shared(&self, question: &Question<'_>) -> SharedLimits {
        let rule = self.rules.iter().find(|rule| rule.is_about(question));
        rule.map_or_else(SharedLimits::default, |rule| SharedLimits {
            agreed: agreement::agreed(&self.agreements, question, rule),
            ..rule.shared(question.caller)
        })
    }

    /// Answers without facts about the machine: processes are unknown, so that none is allowed.
    fn may_bind(&self, question: &BindQuestion<'_>) -> PolicyDecision {
        self.binding(question, None)
    }
}

impl core::fmt::Display for TooMany {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "a policy has at most {MOST_RULES} rules")
    }
}

impl core::error::Error for TooMany {}

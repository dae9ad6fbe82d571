//! Who may reserve what, how much, when, for how long and how far ahead: access control lists of resource managers
//! (GARA, section 4.1), evaluated without side effects, in bounded time, to an answer for every question.
//!
//! A policy is a list of rules. The first rule that is about the question decides; what no rule is about is denied. A rule
//! that allows has limits: what exceeds one of them is denied, and the answer names rule and limit.
//!
//! Nothing here can loop, divide or blow up: patterns are matched in steps bounded by the product of two short lengths,
//! times are compared, sums were made by the book (FAULTS.md T12, I42).

mod binding;
mod hours;
mod nearest;
mod pattern;
pub mod rights;
mod rule;
mod signal;

use alloc::string::String;
use alloc::vec::Vec;
pub use binding::{BadFlows, Bindings, FlowPattern, ProcessFacts, ProcessKind, check};
pub use hours::{BadHours, Hours};
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
    /// Whether any of them limits what an owner, a group or all who use it have together.
    sums: bool,
    /// Who may read the audit.
    auditors: Vec<Who>,
}

/// More than [`MOST_RULES`] rules.
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
        Ok(Policy { sums: rules.iter().any(sums), rules, auditors: Vec::new() })
    }

    /// The same, and these may read the audit of everybody's decisions.
    #[must_use]
    pub fn with_auditors(self, auditors: Vec<Who>) -> Policy {
        Policy { auditors, ..self }
    }

    /// Whether somebody may read the audit. Nobody may but operators, auditors, and those who are named.
    pub fn may_audit(&self, caller: &Caller) -> bool {
        matches!(caller.role, CallerRole::Auditor | CallerRole::Operator)
            || self.auditors.iter().any(|who| who.is(caller))
    }

    /// Whether somebody may ask this at all. Where the table says that a rule decides and amounts are in it, the rules are
    /// asked when these are known.
    ///
    /// # Errors
    /// The refusal: who they are, and who may.
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

    /// Everybody may have everything: for one machine without a policy of its own. It is written out, never assumed.
    pub fn open() -> Policy {
        let rule = Rule {
            name: String::from("open"),
            who: alloc::vec![Who::Anyone],
            bindings: Bindings::any(),
            effect: Effect::Allow(Limits::default()),
            ..Rule::default()
        };
        Policy { rules: alloc::vec![rule], sums: false, auditors: Vec::new() }
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
        let Some(rule) = self.rules.iter().find(|rule| rule.is_about(question)) else {
            let denied = Some(nearest::of_question(self, question));
            return PolicyDecision { rule: String::new(), denied };
        };
        PolicyDecision { rule: rule.name.clone(), denied: rule.denies(question) }
    }

    fn shared(&self, question: &Question<'_>) -> SharedLimits {
        let rule = self.rules.iter().find(|rule| rule.is_about(question));
        rule.map_or_else(SharedLimits::default, |rule| rule.shared(question.caller))
    }

    /// Without an eye on the machine: of processes nothing is known, so that none is allowed.
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

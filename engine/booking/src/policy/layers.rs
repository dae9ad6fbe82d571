//! The layers of policy: what a caller's token allows, what the domain allows, what this resource's own rules
//! allow. All must allow. The first that denies is the answer; the audit names each that was asked.
//!
//! A token only takes away here; it gives through rules that name its organisation (`vo`). The domain's rules
//! are one file for all machines of a domain. Both limit each request and each owner. Sums over several owners
//! and agreements belong to the resource's own rules, the only ones by which what was granted is counted.

use crate::policy::Policy;
use crate::policy::binding::ProcessFacts;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use terms::ports::PolicyPort;
use terms::ports::book::{BindQuestion, PolicyDecision, Question, SharedLimits, TokenPort};

/// The layers that decide about a resource.
#[derive(Debug)]
pub struct Layers<'a, T> {
    /// The checks of tokens.
    pub tokens: &'a T,
    /// The domain's rules; `None`: it has none of its own.
    pub domain: Option<&'a Policy>,
    /// The resource's rules.
    pub resource: &'a Policy,
}

impl<T: TokenPort> Layers<'_, T> {
    /// The answer of all layers to a request to bind a part; `seen` are the machine's facts about a process. A
    /// token is not asked: it is about amounts and times, which a binding does not change.
    pub fn binding(&self, question: &BindQuestion<'_>, seen: Option<&ProcessFacts>) -> PolicyDecision {
        let domain = self.domain.map(|policy| policy.binding(question, seen));
        self.under(Vec::new(), domain, || self.resource.binding(question, seen))
    }

    /// The resource's answer, if the domain allows.
    fn under(
        &self,
        mut above: Vec<String>,
        domain: Option<PolicyDecision>,
        resource: impl FnOnce() -> PolicyDecision,
    ) -> PolicyDecision {
        if let Some(PolicyDecision { rule, denied, .. }) = domain {
            let rule = format!("domain {}", if rule.is_empty() { "(no rule)" } else { &rule });
            if denied.is_some() {
                return PolicyDecision { rule, denied, above };
            }
            above.push(rule);
        }
        PolicyDecision { above, ..resource() }
    }
}

impl<T: TokenPort> PolicyPort for Layers<'_, T> {
    fn sums(&self) -> bool {
        self.resource.sums() || self.domain.is_some_and(Policy::sums)
    }

    fn decide(&self, question: &Question<'_>) -> PolicyDecision {
        let mut above = Vec::new();
        if let Some(token) = &question.caller.token {
            if let Err(why) = self.tokens.check(token, question) {
                return PolicyDecision { rule: token.title(), denied: Some(why), above };
            }
            above.push(token.title());
        }
        let domain = self.domain.map(|policy| policy.decide(question));
        self.under(above, domain, || self.resource.decide(question))
    }

    fn shared(&self, question: &Question<'_>) -> SharedLimits {
        self.resource.shared(question)
    }

    fn may_bind(&self, question: &BindQuestion<'_>) -> PolicyDecision {
        self.binding(question, None)
    }
}

/// The reason why a policy cannot be a domain's; `None`: it can.
pub fn unfit_for_domain(policy: &Policy) -> Option<String> {
    let rules = policy.rules().iter();
    let wrong = rules.filter_map(|rule| rule.of_resources_only().map(|key| (rule, key))).next();
    wrong.map(|(rule, key)| {
        format!("the rule \"{}\" says `{key}`, which belongs to the rules of a resource's own agent", rule.name)
    })
}

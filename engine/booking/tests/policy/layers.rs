//! The layers of policy: token, domain, resource. All must allow, the first that denies answers, and the audit has
//! the rule of each.

use super::rules::{at, caller, question};
use booking::policy::{Effect, Layers, Limits, NamePattern, Policy, Rule, Who, unfit_for_domain};
use proptest::prelude::*;
use std::sync::Arc;
use terms::book::{Caller, VoToken};
use terms::ports::PolicyPort as _;
use terms::ports::book::{PolicyDecision, Question, SharedLimits, TokenPort};
use terms::{Span, Window};

/// Tokens whose number says how much they allow.
struct UpTo;

impl TokenPort for UpTo {
    fn check(&self, token: &VoToken, question: &Question<'_>) -> Result<(), String> {
        let most: u64 = token.id.parse().unwrap();
        (question.amount <= most).then_some(()).ok_or_else(|| format!("at most {most}"))
    }
}

fn holder(name: &str, groups: &[&str], most: u64) -> Caller {
    let groups = groups.iter().map(|group| (*group).to_owned()).collect();
    let token = VoToken { vo: "atlas".into(), groups, id: most.to_string(), bytes: Arc::from([]) };
    Caller { token: Some(Arc::new(token)), ..caller(name, &[]) }
}

fn rule(name: &str, vos: &[&str], most: Option<u64>) -> Rule {
    Rule {
        name: name.into(),
        who: vec![if vos.is_empty() { Who::Anyone } else { Who::Everybody }],
        vos: vos.iter().map(|text| NamePattern::new(text).unwrap()).collect(),
        effect: Effect::Allow(Limits { amount: most, ..Limits::default() }),
        ..Rule::default()
    }
}

fn policy(rules: Vec<Rule>) -> Policy {
    Policy::new(rules).unwrap()
}

/// The rule that decides, whether it allows, and those above.
fn said(decision: PolicyDecision) -> (String, bool, String) {
    (decision.rule, decision.denied.is_none(), decision.above.join("; "))
}

#[test]
fn all_must_allow_and_each_is_named() {
    let resource = policy(vec![rule("physicists", &["atlas/physics"], Some(80)), rule("staff", &[], Some(100))]);
    let domain = policy(vec![rule("campus", &["atlas"], Some(90)), rule("own", &[], Some(50))]);
    let layers = Layers { tokens: &UpTo, domain: Some(&domain), resource: &resource };
    let ask = |who: &Caller, amount| said(layers.decide(&Question { amount, ..question(who) }));
    let own = |rule: &str, good, above: &str| (rule.to_owned(), good, above.to_owned());
    // Of this domain, without a token: the rules for organisations are not about them.
    let bob = caller("bob", &[]);
    assert_eq!(ask(&bob, 50), own("staff", true, "domain own"));
    assert_eq!(ask(&bob, 51), own("domain own", false, ""));
    // With one: its limit, then the domain's, then the resource's.
    let alice = holder("anl/alice", &["physics"], 70);
    assert_eq!(ask(&alice, 70), own("physicists", true, "token atlas:70; domain campus"));
    assert_eq!(ask(&alice, 71), own("token atlas:70", false, ""));
    let alice = holder("anl/alice", &["physics"], 1_000);
    assert_eq!(ask(&alice, 81), own("physicists", false, "token atlas:1000; domain campus"));
    assert_eq!(ask(&alice, 91), own("domain campus", false, "token atlas:1000"));
    // A partner's person without the group, and without a token: no rule is about them.
    let (rule, good, _) = ask(&holder("anl/carol", &["bio"], 1_000), 1);
    assert!(rule.is_empty() && !good);
    let stranger = layers.decide(&Question { amount: 1, ..question(&caller("anl/carol", &[])) });
    assert_eq!((stranger.rule.as_str(), stranger.above.len()), ("domain (no rule)", 0));
    let why = stranger.denied.unwrap();
    assert!(why.contains("holders of a token of atlas, and you show none (--token)"), "{why}");
    let other = layers.resource.decide(&Question { amount: 1, ..question(&holder("anl/carol", &["bio"], 9)) });
    let why = other.denied.unwrap();
    assert!(why.contains("holders of a token of atlas/physics, and yours is of atlas, atlas/bio"), "{why}");
}

#[test]
fn a_token_gives_a_person_of_this_domain_nothing_more_than_a_rule_does() {
    let resource = policy(vec![rule("staff", &[], Some(100))]);
    let layers = Layers { tokens: &UpTo, domain: None, resource: &resource };
    let ask = |who: &Caller, amount| said(layers.decide(&Question { amount, ..question(who) })).1;
    assert!(ask(&holder("bob", &[], 1_000), 100) && !ask(&holder("bob", &[], 1_000), 101));
    assert!(ask(&holder("bob", &[], 10), 10) && !ask(&holder("bob", &[], 10), 11), "it takes away here too");
}

/// A group of an organisation has a sum of its own, as one that a certificate names.
#[test]
fn groups_of_an_organisation_are_counted() {
    let limits = Limits { in_group: Some(20), in_all: Some(30), ..Limits::default() };
    let counted = Rule { effect: Effect::Allow(limits), ..rule("r", &["atlas/*"], None) };
    let resource = policy(vec![counted]);
    let shared = |groups: &[&str]| {
        let who = holder("anl/alice", groups, 100);
        Layers { tokens: &UpTo, domain: None, resource: &resource }.shared(&Question { amount: 1, ..question(&who) })
    };
    assert_eq!(shared(&["physics", "bio"]).groups, ["atlas/physics", "atlas/bio"]);
    assert_eq!((shared(&["bio"]).in_group, shared(&["bio"]).in_all), (Some(20), Some(30)));
    assert_eq!(shared(&[]), SharedLimits::default(), "no rule is about a member without a group");
}

#[test]
fn what_needs_accounts_is_no_domains() {
    let limited = |limits| Rule { effect: Effect::Allow(limits), ..rule("r", &[], None) };
    for (wrong, key) in [
        (limited(Limits { in_all: Some(1), ..Limits::default() }), "in_all"),
        (limited(Limits { in_group: Some(1), ..Limits::default() }), "in_group"),
        (Rule { grow: true, ..rule("r", &[], None) }, "grow"),
        (Rule { signal: Some(true), ..rule("r", &[], None) }, "signal"),
    ] {
        let why = unfit_for_domain(&policy(vec![rule("first", &[], None), wrong])).unwrap();
        assert!(why.contains(&format!("the rule \"r\" says `{key}`")), "{why}");
    }
    assert_eq!(unfit_for_domain(&policy(vec![rule("r", &["x"], Some(1))])), None);
    // One that denies is about bookings here.
    let denies = Rule { effect: Effect::Deny, ..rule("not-eve", &[], None) };
    assert_eq!(unfit_for_domain(&policy(vec![denies])), None);
}

proptest! {
    #![proptest_config(chance::cases(256))]

    /// Layers allow what each of them allows alone, and nothing else.
    #[test]
    fn layers_are_the_intersection(
        amount in 1_u64..40, most in 0_u64..40, domain in proptest::option::of(0_u64..40), resource in 0_u64..40,
        with_token: bool, hours in 1_u64..10,
    ) {
        let who = if with_token { holder("bob", &[], most) } else { caller("bob", &[]) };
        let window = Window::new(at(1_795_269_600), at(1_795_269_600 + hours * 3_600)).unwrap();
        let q = Question { amount, window, length: Span::from_secs(hours * 3_600), ..question(&who) };
        let domains = domain.map(|most| policy(vec![rule("d", &[], Some(most))]));
        let resources = policy(vec![rule("r", &[], Some(resource))]);
        let layers = Layers { tokens: &UpTo, domain: domains.as_ref(), resource: &resources };
        let decision = layers.decide(&q);
        let expected = (!with_token || amount <= most) && domain.is_none_or(|most| amount <= most) && amount <= resource;
        prop_assert_eq!(decision.denied.is_none(), expected);
        if expected {
            prop_assert_eq!(decision.above.len(), usize::from(with_token) + usize::from(domain.is_some()));
        }
    }
}

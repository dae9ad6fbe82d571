//! What a policy says: the seed's two examples, every limit on both sides of its edge, and that there is an answer to
//! everything (FAULTS.md T12, I42).

use booking::policy::{Effect, Hours, Limits, NamePattern, Policy, Rule, SlaTerms, Who};
use proptest::prelude::*;
use terms::book::{Caller, CallerRole};
use terms::ports::PolicyPort as _;
use terms::ports::book::{PolicyDecision, Question};
use terms::{Span, Time, Window};

const NOW: u64 = 1_795_269_600;

pub fn at(seconds: u64) -> Time {
    Time::from_nanos(seconds * Span::NANOS_PER_SEC)
}

pub fn caller(name: &str, groups: &[&str]) -> Caller {
    Caller {
        name: name.into(),
        groups: groups.iter().map(|g| (*g).into()).collect(),
        role: CallerRole::Owner,
        token: None,
    }
}

/// 50 Mb/s for an hour from now.
pub fn question(caller: &Caller) -> Question<'_> {
    Question {
        caller,
        resource: "net/eth1",
        label: "",
        amount: 50_000_000,
        window: Window::new(at(NOW), at(NOW + 3_600)).unwrap(),
        length: Span::from_secs(3_600),
        now: at(NOW),
        background: false,
        together: 50_000_000,
        reservations: 1,
    }
}

fn patterns(all: &[&str]) -> Vec<NamePattern> {
    all.iter().map(|text| NamePattern::new(text).unwrap()).collect()
}

fn rule(name: &str, who: Who, effect: Effect) -> Rule {
    Rule { name: name.into(), who: vec![who], effect, ..Rule::default() }
}

fn named(text: &str) -> Who {
    Who::Name(NamePattern::new(text).unwrap())
}

fn allowed(verdict: &PolicyDecision) -> bool {
    verdict.denied.is_none()
}

/// GARA section 6: immediate reservations from domains with an SLA, 100 Mb/s at most and the SLA in all; advance ones with
/// the label HEP for those whom the community's group vouches for.
#[test]
fn the_two_policies_of_the_seed() {
    let sla =
        Limits { amount: Some(100_000_000), together: Some(300_000_000), ahead: Some(Span::ZERO), ..Limits::default() };
    let hep = Limits { amount: Some(200_000_000), ahead: Some(Span::from_secs(86_400)), ..Limits::default() };
    let mut community = rule("hep", Who::Group(NamePattern::new("hep").unwrap()), Effect::Allow(hep));
    community.labels = patterns(&["HEP"]);
    let policy = Policy::new(vec![community, rule("sla", named("*@anl.gov"), Effect::Allow(sla))]).unwrap();
    let (anl, cern, other) = (caller("roy@anl.gov", &[]), caller("x@cern.ch", &["hep"]), caller("y@cern.ch", &[]));
    let mut q = question(&anl);
    assert_eq!(policy.decide(&q), PolicyDecision { rule: "sla".into(), denied: None, ..PolicyDecision::default() });
    q.amount = 100_000_001;
    assert!(policy.decide(&q).denied.unwrap().contains("100mbit at once"));
    (q.amount, q.together) = (50_000_000, 300_000_001);
    assert!(policy.decide(&q).denied.unwrap().contains("300mbit"));
    q.together = 300_000_000;
    assert!(allowed(&policy.decide(&q)));
    q.window = Window::new(at(NOW + 1), at(NOW + 3_600)).unwrap();
    assert!(policy.decide(&q).denied.unwrap().contains("ahead"), "only immediate ones");
    let mut q = question(&cern);
    assert_eq!(policy.decide(&q).rule, "", "without the label nothing is about it");
    q.label = "HEP";
    q.window = Window::new(at(NOW + 3_600), at(NOW + 7_200)).unwrap();
    assert_eq!(policy.decide(&q), PolicyDecision { rule: "hep".into(), denied: None, ..PolicyDecision::default() });
    assert!(!allowed(&policy.decide(&Question { caller: &other, ..q })));
}

#[test]
fn the_first_rule_that_is_about_it_decides() {
    let nobody = caller("eve", &["staff"]);
    let q = question(&nobody);
    assert!(!allowed(&Policy::default().decide(&q)), "what nobody allows is denied");
    assert!(allowed(&Policy::open().decide(&q)));
    let deny = rule("not-eve", named("eve"), Effect::Deny);
    let allow = rule("staff", Who::Group(NamePattern::new("st?ff").unwrap()), Effect::Allow(Limits::default()));
    let first = Policy::new(vec![deny.clone(), allow.clone()]).unwrap();
    assert_eq!(
        first.decide(&q),
        PolicyDecision { rule: "not-eve".into(), denied: Some("denied".into()), ..PolicyDecision::default() }
    );
    assert_eq!(Policy::new(vec![allow, deny]).unwrap().decide(&q).rule, "staff");
}

#[test]
fn every_limit_on_both_sides_of_its_edge() {
    let ann = caller("ann", &[]);
    let q = question(&ann);
    let hour = Span::from_secs(3_600);
    let less = Span::from_nanos(hour.as_nanos() - 1);
    let none = Limits::default;
    let pairs = [
        (Limits { amount: Some(q.amount), ..none() }, Limits { amount: Some(q.amount - 1), ..none() }),
        (Limits { together: Some(q.together), ..none() }, Limits { together: Some(q.together - 1), ..none() }),
        (Limits { reservations: Some(1), ..none() }, Limits { reservations: Some(0), ..none() }),
        (Limits { length: Some(hour), ..none() }, Limits { length: Some(less), ..none() }),
        (Limits { from: Some(at(NOW)), ..none() }, Limits { from: Some(at(NOW + 1)), ..none() }),
        (Limits { until: Some(at(NOW + 3_600)), ..none() }, Limits { until: Some(at(NOW + 3_599)), ..none() }),
    ];
    for (enough, short) in pairs {
        let with = |limits| Policy::new(vec![rule("r", Who::Anyone, Effect::Allow(limits))]).unwrap();
        assert!(allowed(&with(enough.clone()).decide(&q)), "{enough:?}");
        assert!(!allowed(&with(short.clone()).decide(&q)), "{short:?}");
    }
    let mut only = rule("r", Who::Anyone, Effect::Allow(none()));
    only.resources = patterns(&["cpu", "net/*"]);
    only.background = Some(false);
    let policy = Policy::new(vec![only]).unwrap();
    assert!(allowed(&policy.decide(&q)));
    assert!(!allowed(&policy.decide(&Question { resource: "disk/sda", ..q })));
    assert!(!allowed(&policy.decide(&Question { background: true, ..q })));
    // Open at its end: longer than anything.
    let open = Question { window: Window::open(at(NOW)).unwrap(), length: Span::MAX, ..q };
    let limits = Limits { length: Some(Span::from_secs(u32::MAX.into())), ..none() };
    assert!(!allowed(&Policy::new(vec![rule("r", Who::Anyone, Effect::Allow(limits))]).unwrap().decide(&open)));
}

/// 2026-11-21, the day of `NOW`, is a Saturday; 14:00 UTC.
#[test]
fn hours_of_the_week() {
    let day = 86_400;
    let saturday = NOW / day * day;
    let from = |start: u64, end: u64| Window::new(at(saturday + start), at(saturday + end)).unwrap();
    let office = Hours::new(&[(5, 9 * 3_600, 17 * 3_600)]).unwrap();
    assert!(office.contain(at(NOW)) && !office.contain(at(NOW + day)));
    assert!(office.cover(from(9 * 3_600, 17 * 3_600)));
    assert!(!office.cover(from(9 * 3_600 - 1, 17 * 3_600)) && !office.cover(from(9 * 3_600, 17 * 3_600 + 1)));
    // Over midnight, over the end of the week, and two that touch.
    let night = Hours::new(&[(5, 22 * 3_600, 6 * 3_600), (6, 22 * 3_600, 6 * 3_600)]).unwrap();
    assert!(night.cover(from(23 * 3_600, 30 * 3_600)));
    assert!(night.cover(from(day + 23 * 3_600, day + 30 * 3_600)), "Sunday night into Monday");
    assert!(!night.cover(from(23 * 3_600, 30 * 3_600 + 1)));
    let joined = Hours::new(&[(5, 0, 12 * 3_600), (5, 12 * 3_600, day)]).unwrap();
    assert!(joined.cover(from(0, day)));
    let all: Vec<(u8, u64, u64)> = (0..7).map(|d| (d, 0, day)).collect();
    assert!(Hours::new(&all).unwrap().cover(Window::open(at(0)).unwrap()));
    assert!(!joined.cover(Window::open(at(saturday)).unwrap()));
    for bad in [&[][..], &[(7, 0, 1)], &[(0, day, 1)], &[(0, 0, day + 1)], &[(0, 5, 5)]] {
        assert!(Hours::new(bad).is_err(), "{bad:?}");
    }
}

/// Matching by trying everything; for short texts only.
fn by_trying(pattern: &[char], text: &[char]) -> bool {
    match pattern.split_first() {
        None => text.is_empty(),
        Some(('*', rest)) => (0..=text.len()).any(|n| by_trying(rest, &text[n..])),
        Some(('?', rest)) => !text.is_empty() && by_trying(rest, &text[1..]),
        Some((c, rest)) => text.first() == Some(c) && by_trying(rest, &text[1..]),
    }
}

proptest! {
    #![proptest_config(chance::cases(256))]

    #[test]
    fn patterns_match_what_trying_everything_matches(pattern in "[ab*?ä]{1,8}", text in "[abä]{0,8}") {
        let (p, t): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
        prop_assert_eq!(NamePattern::new(&pattern).unwrap().matches(&text), by_trying(&p, &t), "{} {}", pattern, text);
    }

    /// Any rules, any question: an answer, the same each time, and never a yes that breaks a limit.
    #[test]
    fn an_answer_to_everything(
        limits in proptest::collection::vec((any::<Option<u64>>(), any::<Option<u64>>(), any::<Option<u64>>(), "[a*?]{1,6}", any::<bool>()), 0..6),
        asked in (any::<u64>(), any::<u64>(), any::<u64>(), any::<u64>(), any::<u64>(), "[a]{0,6}"),
    ) {
        let (amount, together, start, length, now, name) = asked;
        let rules = limits.iter().enumerate().map(|(n, (most, sum, ahead, who, deny))| {
            let limits = Limits { amount: *most, together: *sum, ahead: ahead.map(Span::from_nanos), ..Limits::default() };
            rule(&n.to_string(), named(who), if *deny { Effect::Deny } else { Effect::Allow(limits) })
        });
        let policy = Policy::new(rules.collect()).unwrap();
        let who = caller(&name, &[]);
        let start = Time::from_nanos(start.min(u64::MAX - 1));
        let window = Window::new(start, start.saturating_add(Span::from_nanos(length.max(1)))).unwrap();
        let q = Question {
            caller: &who, resource: "net/x", label: "", amount, window, length: window.span(),
            now: Time::from_nanos(now), background: false, together, reservations: 1,
        };
        let verdict = policy.decide(&q);
        prop_assert_eq!(&policy.decide(&q), &verdict);
        if verdict.denied.is_none() {
            let (most, sum, ahead, _, deny) = &limits[verdict.rule.parse::<usize>().unwrap()];
            prop_assert!(!deny && most.is_none_or(|m| amount <= m) && sum.is_none_or(|s| together <= s));
            prop_assert!(ahead.is_none_or(|a| start.since(q.now).as_nanos() <= a));
        }
    }
}

/// An agreement's limits hold before the rules, for everybody; and no domain books on the agreement of another, whatever
/// a rule says.
#[test]
fn an_agreement_binds_everybody_and_is_its_peers_alone() {
    let limits = Limits {
        amount: Some(20_000_000),
        ahead: Some(Span::from_secs(10)),
        from: Some(at(NOW - 60)),
        until: Some(at(NOW + 7_200)),
        ..Limits::default()
    };
    let terms =
        |peer: &str| SlaTerms { resource: format!("sla/{peer}"), limits: limits.clone(), agreed: None, transit: false };
    let mut neighbours = rule("neighbours", named("*/*"), Effect::Allow(Limits::default()));
    neighbours.resources = patterns(&["sla/*"]);
    let own = rule("own", Who::Anyone, Effect::Allow(Limits::default()));
    let policy = Policy::new(vec![neighbours, own]).unwrap().with_agreements(vec![terms("anl"), terms("lbnl")]);
    let (broker, ours) = (caller("anl/main", &[]), caller("erin", &[]));
    for who in [&broker, &ours] {
        let base = Question { resource: "sla/anl", amount: 20_000_000, ..question(who) };
        assert!(allowed(&policy.decide(&base)), "{who:?}");
        let refused = |question: &Question<'_>, why: &str| {
            let PolicyDecision { rule, denied, .. } = policy.decide(question);
            assert!(rule == "sla/anl" && denied.as_ref().is_some_and(|text| text.contains(why)), "{rule} {denied:?}");
        };
        refused(&Question { amount: 20_000_001, ..base }, "20mbit at once are allowed");
        let window = |from, to| Window::new(at(NOW + from), at(NOW + to)).unwrap();
        refused(&Question { window: window(3_600, 7_200), ..base }, "10 s ahead are allowed");
        refused(&Question { window: window(0, 7_201), ..base }, "it ends after it is allowed");
        let early = Window::new(at(NOW - 61), at(NOW)).unwrap();
        refused(&Question { window: early, ..base }, "it begins before it is allowed");
        assert!(
            allowed(&policy.decide(&Question { resource: "sla/esnet", amount: 1 << 40, ..base })) == (who == &ours)
        );
    }
    for (name, text) in [("anl/main", "anl books on sla/anl"), ("esnet/main", "esnet books on sla/esnet")] {
        let stranger = caller(name, &[]);
        let PolicyDecision { rule, denied, .. } =
            policy.decide(&Question { resource: "sla/lbnl", amount: 1, ..question(&stranger) });
        assert_eq!(rule, "sla/lbnl");
        assert!(denied.unwrap().ends_with(text));
    }
}

/// A third domain, whose way leads through here, books on an agreement that says `transit` where a rule lets it, and on
/// no other, and without a rule on none.
#[test]
fn a_third_domain_books_in_transit_where_a_rule_lets_it() {
    let agreement = |transit| SlaTerms { resource: "sla/lbnl".into(), transit, ..SlaTerms::default() };
    let mut way = rule("way", named("anl/*"), Effect::Allow(Limits::default()));
    way.resources = patterns(&["sla/*"]);
    let third = caller("anl/main", &[]);
    let asked = Question { resource: "sla/lbnl", amount: 1, ..question(&third) };
    for (transit, rules) in [(false, false), (false, true), (true, false), (true, true)] {
        let rules = if rules { vec![way.clone()] } else { Vec::new() };
        let may = transit && !rules.is_empty();
        let policy = Policy::new(rules).unwrap().with_agreements(vec![agreement(transit)]);
        assert_eq!(allowed(&policy.decide(&asked)), may, "transit {transit}");
    }
}

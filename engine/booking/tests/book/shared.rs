//! Sums per rule and per group, with a real policy, against a brute-force oracle that knows nothing but what was granted.

use crate::random::Chance;
use crate::world::{Driver, Tables, window};
use crate::{ask, create, granted};
use booking::io::{BookingChange, CallId, CallResult};
use booking::policy::{Effect, Limits, NamePattern, Policy, Rule, Who};
use booking::refusal::RefusalReason;
use booking::{Call, Config, Input, Reply};
use terms::book::{Caller, CallerRole, Handle, ResourceKind};
use terms::{Time, Window};

const LINK: &str = "net/eth1";
const IN_ALL: u64 = 100;
const IN_GROUP: u64 = 60;
/// Who asks, with which groups: `ann` is in both, `dan` in none that the rule names, `eve` is a partner's.
const PEOPLE: [(&str, &[&str]); 6] = [
    ("ann", &["physics", "bio"]),
    ("bob", &["physics"]),
    ("cat", &["bio", "chess"]),
    ("dan", &["chess"]),
    ("guest", &[]),
    ("anl/eve", &["anl/physics"]),
];
/// The groups that the rule is about.
const NAMED: [&str; 2] = ["physics", "bio"];

fn person(name: &str) -> Caller {
    let (name, groups) = PEOPLE.iter().find(|(known, _)| *known == name).expect("somebody");
    Caller {
        name: (*name).into(),
        groups: groups.iter().map(|group| (*group).into()).collect(),
        role: CallerRole::Owner,
        token: None,
    }
}

/// One rule for two groups and a guest, with both sums.
fn rules(in_all: Option<u64>, in_group: Option<u64>) -> Policy {
    let group = |text: &str| Who::Group(NamePattern::new(text).unwrap());
    let mut who: Vec<Who> = NAMED.iter().map(|name| group(name)).collect();
    who.push(Who::Name(NamePattern::new("guest").unwrap()));
    let limits = Limits { in_all, in_group, ..Limits::default() };
    let science = Rule { name: "science".into(), who, effect: Effect::Allow(limits), ..Rule::default() };
    Policy::new(vec![science]).unwrap()
}

fn world(policy: Policy) -> Tables {
    Tables { policy: Some(policy), ..Tables::new(&[(LINK, 1_000_000)]) }
}

fn call(driver: &mut Driver, number: &mut u64, who: &str, call: Call) -> Reply {
    *number += 1;
    let id = CallId(1_000_000 + *number);
    driver.tell(Input::Call { id, caller: Box::new(person(who)), call });
    driver.replies.remove(&id).expect("an answer")
}

/// What the oracle knows of a reservation.
struct Had {
    handle: Handle,
    who: &'static str,
    amount: u64,
    window: Window,
}

/// Whether an amount may be added over a window: by counting, at every edge, what is there.
fn fits(all: &[Had], but: Option<Handle>, who: &str, amount: u64, window: Window) -> bool {
    let groups = |who: &str| person(who).groups;
    let uses = |who: &str| who == "guest" || groups(who).iter().any(|group| NAMED.contains(&group.as_str()));
    let others = || all.iter().filter(move |had| Some(had.handle) != but);
    let mut edges: Vec<Time> = others().map(|had| had.window.start()).filter(|t| window.contains(*t)).collect();
    edges.push(window.start());
    uses(who)
        && edges.iter().all(|t| {
            let sum = |of: &dyn Fn(&str) -> bool| -> u64 {
                others().filter(|had| had.window.contains(*t) && of(had.who)).map(|had| had.amount).sum()
            };
            let own = groups(who);
            let in_groups = own.iter().filter(|group| NAMED.contains(&group.as_str()));
            sum(&|_| true) + amount <= IN_ALL
                && in_groups.into_iter().all(|group| sum(&|other| groups(other).contains(group)) + amount <= IN_GROUP)
        })
}

fn is_policy(reply: &Reply) -> bool {
    matches!(reply, Err(refusal) if matches!(refusal.why, RefusalReason::Policy { .. }))
}

#[test]
fn sums_of_rules_and_groups_are_exact_over_time_and_after_a_crash() {
    for seed in 1..=12 {
        let mut chance = Chance(seed);
        let mut pick = |n: u64| chance.below(n);
        let mut driver = Driver::with(Config::default(), world(rules(Some(IN_ALL), Some(IN_GROUP))));
        let (mut all, mut number) = (Vec::<Had>::new(), 0);
        let (mut yes, mut no) = (0, 0);
        for step in 0..200 {
            let start = 10_000 + 10 * pick(30);
            let (over, amount) = (window(start, start + 10 * (1 + pick(12))), 1 + pick(50));
            let here = format!("seed {seed}, step {step}");
            match pick(10) {
                0..=5 => {
                    let who = PEOPLE[pick(6) as usize].0;
                    let expected = fits(&all, None, who, amount, over);
                    let reply = call(&mut driver, &mut number, who, create(ask(LINK, amount, over)));
                    assert_eq!(reply.is_ok(), expected, "{here}: {who} {amount} {over:?}: {reply:?}");
                    if expected {
                        all.push(Had { handle: granted(reply).handle, who, amount, window: over });
                        yes += 1;
                    } else {
                        assert!(is_policy(&reply), "{here}: {reply:?}");
                        no += 1;
                    }
                }
                6 | 7 if !all.is_empty() => {
                    let n = pick(all.len() as u64) as usize;
                    let Had { handle, who, amount: had, window: same } = all[n];
                    let change =
                        BookingChange { amounts: vec![(0, ResourceKind::Network, amount)], ..BookingChange::default() };
                    let expected = amount <= had || fits(&all, Some(handle), who, amount, same);
                    let reply = call(&mut driver, &mut number, who, Call::Modify { handle, change });
                    assert_eq!(reply.is_ok(), expected, "{here}: {who} {had} -> {amount}: {reply:?}");
                    if expected {
                        all[n].amount = amount;
                    }
                }
                8 if !all.is_empty() => {
                    let had = all.remove(pick(all.len() as u64) as usize);
                    call(&mut driver, &mut number, had.who, Call::Cancel(had.handle)).unwrap();
                }
                _ => {
                    // The process dies and reads its journal: the sums are what they were.
                    let world = Tables { policy: driver.world.policy.clone(), ..world(rules(None, None)) };
                    let mut next = Driver::asleep(Config::default(), world, driver.disk.clone(), 2 + step as u8);
                    next.wake_up();
                    driver = next;
                }
            }
            driver.check();
        }
        assert!(yes > 20 && no > 20, "seed {seed}: {yes} granted, {no} refused");
    }
}

/// A policy that begins to limit counts what its rule granted before.
#[test]
fn a_limit_that_comes_later_counts_what_was_there() {
    let mut driver = Driver::with(Config::default(), world(rules(None, None)));
    let mut number = 0;
    call(&mut driver, &mut number, "bob", create(ask(LINK, 55, window(100, 200)))).unwrap();
    driver.world.policy = Some(rules(Some(IN_ALL), Some(IN_GROUP)));
    let reply = call(&mut driver, &mut number, "ann", create(ask(LINK, 6, window(150, 160))));
    let Err(refusal) = reply else { panic!("granted") };
    let RefusalReason::Policy { rule, text, .. } = refusal.why else { panic!("{:?}", refusal.why) };
    assert_eq!(rule, "science");
    assert!(text.contains("the group physics would have 61bit together, 60bit are allowed"), "{text}");
    call(&mut driver, &mut number, "cat", create(ask(LINK, 45, window(150, 160)))).unwrap();
    let reply = call(&mut driver, &mut number, "guest", create(ask(LINK, 1, window(150, 160))));
    assert!(is_policy(&reply), "all who use it: {reply:?}");
    call(&mut driver, &mut number, "guest", create(ask(LINK, 1, window(160, 170)))).unwrap();
    driver.check();
}

/// An operator who changes another's reservation does not take it out of the sums of the other's rule.
#[test]
fn an_operators_change_stays_in_the_owners_sums() {
    let mut policy = rules(Some(IN_ALL), None).rules().to_vec();
    let root = Rule {
        name: "root".into(),
        who: vec![Who::Name(NamePattern::new("root").unwrap())],
        effect: Effect::Allow(Limits::default()),
        ..Rule::default()
    };
    policy.push(root);
    let mut driver = Driver::with(Config::default(), world(Policy::new(policy).unwrap()));
    let mut number = 0;
    let reply = call(&mut driver, &mut number, "bob", create(ask(LINK, 10, window(100, 200))));
    let handle = granted(reply).handle;
    let change = BookingChange { amounts: vec![(0, ResourceKind::Network, 95)], ..BookingChange::default() };
    let id = CallId(7);
    let operator = Caller { name: "root".into(), groups: Vec::new(), role: CallerRole::Operator, token: None };
    driver.tell(Input::Call { id, caller: Box::new(operator), call: Call::Modify { handle, change } });
    assert!(matches!(driver.replies.remove(&id), Some(Ok(CallResult::Reservation(_)))));
    assert!(is_policy(&call(&mut driver, &mut number, "cat", create(ask(LINK, 6, window(150, 160))))));
    call(&mut driver, &mut number, "cat", create(ask(LINK, 5, window(150, 160)))).unwrap();
    driver.check();
}

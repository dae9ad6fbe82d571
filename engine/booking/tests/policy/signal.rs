//! What may be signalled: by whom, how much, for whom, how urgently; on both sides of each limit, and over connections.

use booking::policy::rights::Seat;
use booking::policy::{
    AddressPrefix, Asker, Effect, EndPoint, Limits, NamePattern, Policy, Rule, SignalClaim, SignalKey, SignalScope,
    Signalled, Who,
};
use terms::book::{Caller, CallerRole};
use terms::{SenderTemplate, Session, Time};

fn prefix(text: &str) -> AddressPrefix {
    let (addr, length) = text.split_once('/').unwrap();
    AddressPrefix { addr: addr.parse().unwrap(), length: length.parse().unwrap() }
}

fn caller(name: &str) -> Caller {
    Caller { name: name.into(), groups: vec!["gid:100".into()], role: CallerRole::Owner, token: None }
}

fn claim(amount: u64) -> SignalClaim {
    SignalClaim {
        resource: Some("net/eth1".into()),
        inward: false,
        src: EndPoint::Of(prefix("10.0.0.5/32")),
        dst: EndPoint::Of(prefix("10.0.2.7/32")),
        amount,
    }
}

fn calls() -> Rule {
    Rule {
        name: "calls".into(),
        who: vec![Who::Group(NamePattern::new("gid:100").unwrap())],
        resources: vec![NamePattern::new("net/eth1").unwrap()],
        signal: Some(true),
        signals: SignalScope {
            sources: vec![prefix("10.0.0.5/32")],
            destinations: vec![prefix("10.0.2.0/24")],
            priority: Some(3),
        },
        effect: Effect::Allow(Limits { amount: Some(3_000), together: Some(5_000), ..Limits::default() }),
        ..Rule::default()
    }
}

fn asker(caller: &Caller, seat: Seat) -> Asker<'_> {
    Asker { caller, seat, priority: None, now: Time::from_nanos(1_795_269_600_000_000_000) }
}

fn no(policy: &Policy, asker: &Asker<'_>, claim: &SignalClaim) -> Option<String> {
    policy.decide_claim(asker, claim, claim.amount, 1).denied
}

#[test]
fn without_a_rule_operators_signal_and_nobody_else() {
    let bob = caller("uid:7");
    for policy in [Policy::default(), Policy::open()] {
        for seat in [Seat::Root, Seat::Operator] {
            assert_eq!(no(&policy, &asker(&bob, seat), &claim(1)), None, "{seat:?}");
        }
        for seat in [Seat::Member, Seat::Requester, Seat::FarOperator] {
            let why = no(&policy, &asker(&bob, seat), &claim(1)).unwrap();
            assert!(why.contains("you are uid:7 (groups gid:100)"), "{why}");
        }
    }
    // A rule for bookings is no rule for this, one that denies is: for operators, too.
    let why = no(&Policy::open(), &asker(&bob, Seat::Member), &claim(1)).unwrap();
    assert!(why.contains("nearest is the rule \"open\": it is about bookings, not about what is signalled"), "{why}");
    let deny = Rule { name: "not-bob".into(), who: vec![Who::Anyone], ..Rule::default() };
    let policy = Policy::new(vec![deny.clone(), calls()]).unwrap();
    assert_eq!(no(&policy, &asker(&bob, Seat::Root), &claim(1)).as_deref(), Some("denied"));
    let policy = Policy::new(vec![Rule { signal: Some(false), ..deny }, calls()]).unwrap();
    assert_eq!(no(&policy, &asker(&bob, Seat::Member), &claim(1)), None);
}

#[test]
fn each_word_of_a_rule_counts() {
    let bob = caller("uid:7");
    let policy = Policy::new(vec![calls()]).unwrap();
    let plain = asker(&bob, Seat::Member);
    assert_eq!(no(&policy, &plain, &claim(3_000)), None);
    let end = |text| EndPoint::Of(prefix(text));
    let cases = [
        (claim(3_001), "3001bit is asked, 3kbit at once are allowed"),
        (SignalClaim { resource: Some("net/eth0".into()), ..claim(1) }, "it is about net/eth1, not about net/eth0"),
        (SignalClaim { resource: Some(String::new()), ..claim(1) }, "not about an interface that is not known"),
        (SignalClaim { src: end("10.0.0.6/32"), ..claim(1) }, "packets from 10.0.0.5, not from 10.0.0.6"),
        (SignalClaim { src: EndPoint::Anywhere, ..claim(1) }, "not from anywhere"),
        (SignalClaim { dst: end("10.0.3.7/32"), ..claim(1) }, "packets to 10.0.2.0/24, not to 10.0.3.7"),
        (SignalClaim { dst: end("10.0.0.0/16"), ..claim(1) }, "not to 10.0.0.0/16"),
        (SignalClaim { dst: end("fd00::1/128"), ..claim(1) }, "not to fd00::1"),
    ];
    for (claim, expected) in cases {
        let why = no(&policy, &plain, &claim).unwrap();
        assert!(why.contains(expected), "{why}\n expected: {expected}");
    }
    let receiver = SignalClaim { resource: None, inward: true, src: EndPoint::Unsaid, ..claim(0) };
    assert_eq!(no(&policy, &plain, &receiver), None, "who registers to receive has named no sender yet");
    let stranger = Caller { groups: vec!["gid:5".into()], ..bob.clone() };
    let why = no(&policy, &asker(&stranger, Seat::Member), &claim(1)).unwrap();
    assert!(why.ends_with("nearest is the rule \"calls\": it is about @gid:100, not about you"), "{why}");
    // What denies is about all that it meets.
    let deny = Rule { effect: Effect::Deny, ..calls() };
    let policy = Policy::new(vec![deny]).unwrap();
    for claim in
        [SignalClaim { src: EndPoint::Anywhere, ..claim(1) }, SignalClaim { dst: end("10.0.0.0/16"), ..claim(1) }]
    {
        assert_eq!(no(&policy, &asker(&bob, Seat::Root), &claim).as_deref(), Some("denied"));
    }
}

#[test]
fn sums_hold_over_connections_and_end_with_them() {
    let bob = caller("uid:7");
    let policy = Policy::new(vec![calls()]).unwrap();
    let plain = asker(&bob, Seat::Member);
    let session = |port| Session { dst: "10.0.2.7".parse().unwrap(), protocol: 17, dst_port: port };
    let sender = SenderTemplate { src: "10.0.0.5".parse().unwrap(), src_port: 1 };
    let key = |connection, port| SignalKey::Sender(connection, session(port), sender);
    let mut signalled = Signalled::default();
    let mut ask = |key, amount| signalled.ask(&policy, &plain, key, vec![claim(amount)]);
    assert_eq!(ask(key(1, 1), 3_000), Ok(()));
    assert_eq!(ask(key(2, 2), 2_000), Ok(()));
    let (rule, why) = ask(key(2, 3), 1).unwrap_err();
    assert_eq!((rule.as_str(), why.as_str()), ("calls", "it would be 5001bit together, 5kbit are allowed"));
    assert_eq!(ask(key(2, 2), 1_000), Ok(()), "in place of what it was");
    assert_eq!(ask(key(2, 3), 1_000), Ok(()));
    signalled.released(1, Some(session(9)));
    assert!(signalled.ask(&policy, &plain, key(2, 4), vec![claim(1)]).is_err(), "another session was released");
    signalled.released(1, None);
    assert_eq!(signalled.ask(&policy, &plain, key(2, 4), vec![claim(1)]), Ok(()));
    // Somebody else's are not summed.
    let ann = caller("uid:8");
    assert_eq!(signalled.ask(&policy, &asker(&ann, Seat::Member), key(3, 5), vec![claim(3_000)]), Ok(()));
    assert_eq!(signalled.ask(&policy, &asker(&ann, Seat::Member), SignalKey::Boomerang(7), vec![claim(1)]), Ok(()));
    signalled.released(3, None);
    assert_eq!(signalled.owner(7), Some("uid:8"), "a session of Boomerang outlives its connection");
    signalled.gone(SignalKey::Boomerang(7));
    assert_eq!(signalled.owner(7), None);
}

#[test]
fn priorities_are_asked_about_what_is_there_too() {
    let bob = caller("uid:7");
    let policy = Policy::new(vec![calls()]).unwrap();
    let urgent = |priority| Asker { priority: Some(priority), ..asker(&bob, Seat::Member) };
    let mut signalled = Signalled::default();
    assert_eq!(signalled.may_be_urgent(&policy, &urgent(3), 1), Ok(()));
    assert!(signalled.may_be_urgent(&policy, &urgent(4), 1).unwrap_err().1.contains("3 is the highest"));
    assert!(no(&policy, &urgent(4), &claim(1)).unwrap().contains("the priority 4 is asked, 3 is allowed"));
    let none = Policy::new(vec![Rule { signals: SignalScope::default(), ..calls() }]).unwrap();
    assert!(no(&none, &urgent(0), &claim(1)).unwrap().contains("no priority is allowed"));
    assert!(signalled.may_be_urgent(&none, &urgent(0), 1).unwrap_err().1.contains("no rule with a `priority`"));
    // Two rules: what is there already is under the stricter.
    let strict = Rule { signals: SignalScope { priority: Some(1), ..calls().signals }, ..calls() };
    let other = Rule { name: "other".into(), resources: vec![NamePattern::new("net/eth2").unwrap()], ..calls() };
    let both = Policy::new(vec![strict, other]).unwrap();
    let session = Session { dst: "10.0.2.7".parse().unwrap(), protocol: 17, dst_port: 1 };
    assert_eq!(signalled.may_be_urgent(&both, &urgent(3), 1), Ok(()), "nothing is there yet");
    assert_eq!(
        signalled.ask(&both, &asker(&bob, Seat::Member), SignalKey::Reserve(1, session), vec![claim(1)]),
        Ok(())
    );
    assert!(signalled.may_be_urgent(&both, &urgent(3), 1).is_err());
    assert_eq!(signalled.may_be_urgent(&both, &urgent(3), 2), Ok(()), "another connection");
}

#[test]
fn prefixes_hold_and_meet() {
    let holds = [("10.0.0.0/8", "10.1.2.3/32"), ("0.0.0.0/0", "10.0.0.0/8"), ("fd00::/16", "fd00:1::/32")];
    for (long, short) in holds {
        assert!(prefix(long).contains(&prefix(short)) && !prefix(short).contains(&prefix(long)), "{long} {short}");
        assert!(prefix(long).meets(&prefix(short)) && prefix(short).meets(&prefix(long)));
    }
    for (one, other) in [("10.0.0.0/9", "10.128.0.0/9"), ("0.0.0.0/0", "::/0"), ("10.0.0.1/32", "10.0.0.0/32")] {
        assert!(!prefix(one).meets(&prefix(other)) && !prefix(one).contains(&prefix(other)), "{one} {other}");
    }
}

/// Signalled requests carry no token: a rule for holders of one neither allows nor denies them, whatever it says.
#[test]
fn a_rule_for_holders_of_a_token_is_about_bookings() {
    let bob = caller("uid:7");
    let member = asker(&bob, Seat::Member);
    assert_eq!(no(&Policy::new(vec![calls()]).unwrap(), &member, &claim(1)), None);
    let vos = || vec![NamePattern::new("atlas").unwrap()];
    let allows = Rule { vos: vos(), who: vec![Who::Everybody], ..calls() };
    assert!(no(&Policy::new(vec![allows]).unwrap(), &member, &claim(1)).is_some());
    let denies = Rule { vos: vos(), who: vec![Who::Everybody], effect: Effect::Deny, ..Rule::default() };
    assert_eq!(no(&Policy::new(vec![denies, calls()]).unwrap(), &member, &claim(1)), None);
}

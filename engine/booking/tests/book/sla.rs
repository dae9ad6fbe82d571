//! Agreements with neighbouring domains: what is booked on `sla/PEER` is in force without a binding, changes by the rate
//! it is written as, may be part of a transaction, and makes an agreement grow where a rule lets it.

use super::promise::{decide, prepare, why};
use crate::world::{Driver, Tables, window};
use crate::{ask, create, flow, granted};
use booking::io::BookingChange;
use booking::policy::{Effect, Limits, NamePattern, Policy, Rule, SlaTerms, Who};
use booking::{BookingState, Call, Config, PrepareAsk, RefusalReason};
use terms::book::ResourceKind;

const SLA: &[(&str, u64)] = &[("sla/anl", 60)];

fn rule(name: &str, who: &str, grow: bool) -> Rule {
    let who = vec![Who::Name(NamePattern::new(who).unwrap())];
    Rule { name: name.into(), who, grow, effect: Effect::Allow(Limits::default()), ..Rule::default() }
}

/// 50 are agreed, 60 may become of it by the neighbour's broker; its people keep the 50.
fn tables() -> Tables {
    let terms = SlaTerms { resource: "sla/anl".into(), limits: Limits::default(), agreed: Some(50), transit: false };
    let policy = Policy::new(vec![rule("grows", "anl/main", true), rule("people", "anl/*", false)]).unwrap();
    Tables { policy: Some(policy.with_agreements(vec![terms])), ..Tables::new(SLA) }
}

fn driver() -> Driver {
    Driver::with(Config::default(), tables())
}

fn sla(amount: u64, start: u64, end: u64) -> Call {
    create(ask("sla/anl", amount, window(start, end)))
}

#[test]
fn an_agreement_needs_no_binding_and_takes_none() {
    let mut d = driver();
    let made = granted(d.call("anl/main", sla(20, 0, 100)));
    assert_eq!(d.kernel.len(), 1, "in force at once: {:?}", d.kernel);
    let bound = d.call("anl/main", Call::Bind { handle: made.handle, part: 0, binding: Some(flow(1)) });
    assert!(matches!(why(bound), RefusalReason::Meaningless { .. }));
    // A rate is what it is written as, so a document does not say of which kind it is.
    for (kind, amount) in [(ResourceKind::Network, 30), (ResourceKind::Sla, 25)] {
        let change = BookingChange { amounts: vec![(0, kind, amount)], ..BookingChange::default() };
        let changed = granted(d.call("anl/main", Call::Modify { handle: made.handle, change }));
        assert_eq!(changed.parts[0].steps[0].amount, amount);
    }
    let change = BookingChange { amounts: vec![(0, ResourceKind::Cpu, 1)], ..BookingChange::default() };
    assert!(d.call("anl/main", Call::Modify { handle: made.handle, change }).is_err());
    // Another domain's broker, whatever rules there are, and sums that do not fit.
    assert!(matches!(why(d.call("lbnl/main", sla(1, 0, 10))), RefusalReason::Policy { rule, .. } if rule == "sla/anl"));
    let full = why(d.call("anl/main", sla(36, 50, 200)));
    assert!(matches!(full, RefusalReason::NoRoom { asked: 36, free: 35, .. }), "{full:?}");
    granted(d.call("anl/main", sla(60, 100, 200)));
}

#[test]
fn an_agreement_grows_by_the_transaction_that_needs_more() {
    let mut d = driver();
    granted(d.call("anl/alice", sla(45, 0, 100)));
    let refused = why(d.call("anl/bob", sla(10, 50, 150)));
    let RefusalReason::Policy { rule, text, .. } = refused else { panic!("{refused:?}") };
    assert!(rule == "people" && text.contains("beyond the agreed 50bit, of which 5bit are left"), "{text}");
    // The neighbour's broker may; until the decision it is promised and counts.
    let part = PrepareAsk::Create { ask: ask("sla/anl", 10, window(50, 150)), key: String::new() };
    let view = granted(d.call("anl/main", prepare(1, part.clone())));
    assert_eq!(view.state, BookingState::Promised);
    assert!(matches!(why(d.call("anl/main", sla(6, 60, 70))), RefusalReason::NoRoom { free: 5, .. }));
    // It survives a crash, and an abort makes the agreement what it was.
    let mut after = Driver::asleep(Config::default(), tables(), d.disk.clone(), 2);
    after.wake_up();
    let mut d = after;
    assert!(d.call("broker", decide(1, None)).is_ok());
    granted(d.call("anl/main", sla(15, 60, 70)));
    let mut d = driver();
    granted(d.call("anl/alice", sla(45, 0, 100)));
    granted(d.call("anl/main", prepare(1, part)));
    assert!(d.call("broker", decide(1, Some(1))).is_ok());
    d.check();
    // What has grown belongs to nobody else: alone the people's 50 are still counted against all.
    assert!(why(d.call("anl/bob", sla(1, 60, 70))).name() == "policy");
    granted(d.call("anl/bob", sla(40, 100, 150)));
}

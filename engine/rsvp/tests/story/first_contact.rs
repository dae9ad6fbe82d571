//! Nodes that have never heard of each other, with keys on every link and R = 30 s: what they drop because they have to
//! challenge first (RFC 2747 section 4.3) is said again at once, and once; no refresh is waited for.

use crate::story::net::*;
use rsvp::integrity::{Algorithm, AuthMode, IntegrityKey, KeyTable};
use rsvp::io::{AppCall, AppId, Config, Input};
use std::collections::{BTreeMap, BTreeSet};
use terms::{Session, Span, Style, Time};
use wire::MessageType;

const R: Span = Span::from_secs(30);

/// Who meets, and how.
#[derive(Clone, Copy, Debug)]
struct Strangers {
    v6: bool,
    group: bool,
    reduction: bool,
    flows: u16,
}

fn all() -> Vec<Strangers> {
    let mut all = Vec::new();
    for bits in 0..8 {
        let (v6, group, reduction) = (bits & 1 != 0, bits & 2 != 0, bits & 4 != 0);
        all.extend([1, 8].map(|flows| Strangers { v6, group, reduction, flows }));
    }
    all
}

/// `snd - r1 - r2 - rcv`: flows are announced, and asked for at once with confirmations. Tells how many messages of each
/// type went over the links in 8 s, and when the last confirmation came.
fn contact(who: Strangers, fate: Weather) -> (BTreeMap<&'static str, usize>, Span) {
    let key = IntegrityKey::new(7, Algorithm::HmacSha256, b"a secret of the link");
    let auth = AuthMode::Keys(KeyTable::new(vec![key]).unwrap());
    let mut net = Net::new(who.v6);
    for name in ["snd", "r1", "r2", "rcv"] {
        net.node(name, Config { auth: auth.clone(), refresh_reduction: who.reduction, ..config(R) });
    }
    net.link_up(1..4);
    let to = if who.group { net.group(1) } else { net.session_at(3) };
    if who.group {
        net.members(&to, &[3]);
    }
    net.fate = fate;
    let start = Time::from_nanos(1_000_000_000);
    net.run_until(start);
    net.log.clear();
    let sender = net.template_at(0);
    for flow in 0..who.flows {
        let session = Session { dst_port: 5004 + flow, ..to };
        net.tell(3, Input::App(AppCall::Receiver { app: AppId(100), session }));
        net.sends(0, 1 + u64::from(flow), session, 5004, 1);
        let (app, style, confirm) = (AppId(100), Style::Ff, true);
        let (filters, flowspecs) = (&[sender][..], &[cl(1)][..]);
        net.tell(3, Input::App(AppCall::Reserve { app, session, style, filters, flowspecs, confirm }));
    }
    net.run(Span::from_secs(8));
    let flows = usize::from(who.flows);
    let (rates, confirms) = (net.held(), net.confirms(3));
    assert_eq!((rates, confirms.len()), (vec![flows as u64; 3].into_iter().chain([0]).collect(), flows), "{who:?}");
    let mut sent = BTreeMap::new();
    net.log.iter().for_each(|(.., kind)| *sent.entry(*kind).or_insert(0) += 1);
    (sent, confirms.iter().map(|(t, _)| t.since(start)).max().unwrap())
}

fn is(flight: &Flight, kind: MessageType) -> bool {
    flight.datagram.bytes[1] == kind.number()
}

fn check(who: Strangers, (sent, took): &(BTreeMap<&str, usize>, Span), rounds: usize, within: Span) {
    let (flows, of) = (usize::from(who.flows), |kind| sent.get(kind).copied().unwrap_or(0));
    assert!(*took < within, "{who:?} took {took:?}");
    assert_eq!(of("ResvConf"), 3 * flows, "{who:?}: one confirmation, three hops");
    let bound = 3 * flows * (1 + rounds);
    assert!(of("Path") <= bound && of("Resv") <= bound, "{who:?}: {sent:?}");
}

/// Each hop drops what comes first, and hears it again once.
#[test]
fn what_was_dropped_for_a_challenge_is_said_again_once() {
    for who in all() {
        let run = contact(who, Box::new(|_, _| Fate::Deliver));
        check(who, &run, 1, Span::from_millis(60));
    }
}

/// A node that reads what is in transit before what is addressed to it takes our answer after what we say again.
#[test]
fn an_answer_that_is_overtaken() {
    for late in [1, 10, 50] {
        for who in all() {
            let late = Span::from_millis(late);
            let answer = move |_, f: &Flight| match is(f, MessageType::IntegrityResponse) {
                true => Fate::Late(late),
                false => Fate::Deliver,
            };
            check(who, &contact(who, Box::new(answer)), 4, Span::from_millis(1_200));
        }
    }
}

/// The first answer of each node is lost.
#[test]
fn an_answer_that_is_lost() {
    for who in all() {
        let mut lost = BTreeSet::new();
        let weather = move |_, f: &Flight| match is(f, MessageType::IntegrityResponse) && lost.insert((f.from, f.to)) {
            true => Fate::Lose,
            false => Fate::Deliver,
        };
        check(who, &contact(who, Box::new(weather)), 4, Span::from_secs(1));
    }
}

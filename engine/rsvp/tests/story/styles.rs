//! The shared styles: RFC 2205 sections 1.3, 1.4 and 3.1.4, RFC 2209 sections 2.4, 2.5, 2.9 and 2.10.

use crate::story::net::*;
use rsvp::io::{AppCall, Input, Upcall};
use std::cell::RefCell;
use std::rc::Rc;
use terms::{FilterSpec, IfIndex, Rate, Session, Span, Style, Time};
use wire::{Message, MessageType};

const R: Span = Span::from_secs(30);

fn ms(n: u64) -> Span {
    Span::from_millis(n)
}

/// `s1 - r - rcv` and `s2 - r`; each of the two hosts sends 3 Mbit/s to the receiver.
fn fork() -> (Net, Session, [FilterSpec; 2]) {
    let mut net = Net::new(false);
    for name in ["s1", "s2", "r", "rcv"] {
        net.node(name, config(R));
    }
    for (a, b) in [(0, 2), (1, 2), (2, 3)] {
        net.link(a, b);
    }
    let session = net.session_at(3);
    let senders = [0, 1].map(|node| net.sends(node, 1, session, 5004, 3));
    net.run(ms(10));
    (net, session, senders)
}

/// Two senders share what one of them needs: the link behind the meeting point holds it once, each link before it once.
#[test]
fn senders_share_one_reservation() {
    for style in [Style::Se, Style::Wf] {
        let (mut net, session, senders) = fork();
        let start = net.now;
        net.shares(3, session, style, &senders, cl(3));
        net.run(ms(20));
        assert_eq!((net.held(), net.resvs()), (vec![3, 3, 3, 0], vec![1; 4]), "{style:?}");
        assert_eq!(net.count("Resv", start), 3, "one Resv for both where they come from one hop");
        assert_eq!(net.confirms(3).len(), 2, "each sender's side confirms");
        let terms = net.nodes[2].env.terms_on(3);
        let listed = if style == Style::Se { senders.to_vec() } else { Vec::new() };
        assert_eq!((terms.style, terms.filters), (style, listed));
        assert_eq!((terms.path_te.r, terms.police.merge, terms.police.entry), (Rate::from_mbps(6), true, false));
        assert!(net.nodes[0].env.terms_on(1).police.entry, "policed where it begins");
        assert_eq!([0, 1].map(|n| net.heard(n, |u| matches!(u, Upcall::Resv { .. }))), [1, 1]);

        net.leaves(3, session);
        net.run(ms(20));
        assert_eq!((net.held(), net.resvs()), (vec![0; 4], vec![0; 4]));
        assert_eq!(net.count("ResvTear", start), 3);
    }
}

/// Many senders behind one previous hop are one request to it, and its refresh.
#[test]
fn one_message_for_all_senders_of_a_hop() {
    for style in [Style::Se, Style::Wf] {
        let mut net = Net::line(&["snd", "r1", "rcv"], R);
        let session = net.session_at(2);
        let senders = [1, 2, 3].map(|n| net.sends(0, n, session, 6000 + n as u32, 2));
        net.run(ms(10));
        let start = net.now;
        net.shares(2, session, style, &senders, cl(4));
        net.run(ms(20));
        assert_eq!((net.held(), net.count("Resv", start), net.confirms(2).len()), (vec![4, 4, 0], 2, 3));
        let until = net.now + Span::from_secs(300);
        let quiet = net.now;
        net.run_until(until);
        let per_hop = net.count("Resv", quiet) / 2;
        assert!((6..=20).contains(&per_hop), "one refresh a period for each hop, not one a sender: {per_hop}");
        assert_eq!(net.held(), [4, 4, 0]);
    }
}

/// A sender that comes later shares a wildcard reservation at once; a shared-explicit one only when it is named.
#[test]
fn a_new_sender_shares_what_is_there_for_all() {
    for (style, then) in [(Style::Wf, vec![3, 3, 3, 0]), (Style::Se, vec![3, 0, 3, 0])] {
        let (mut net, session, senders) = fork();
        net.tell(1, Input::App(AppCall::SenderGone { app: rsvp::io::AppId(1), session, template: senders[1] }));
        net.run(ms(10));
        net.shares(3, session, style, &senders[..1], cl(3));
        net.run(ms(20));
        assert_eq!(net.held(), [3, 0, 3, 0]);
        net.sends(1, 1, session, 5004, 3);
        net.run(ms(20));
        assert_eq!(net.held(), then, "{style:?}");
        let both = net.nodes[2].env.terms_on(3).path_te.r == Rate::from_mbps(6);
        assert_eq!(both, style == Style::Wf);
    }
}

/// A sender that stops leaves the others what they share; the last one takes it along.
#[test]
fn a_sender_that_stops_leaves_the_others() {
    for style in [Style::Se, Style::Wf] {
        let (mut net, session, senders) = fork();
        net.shares(3, session, style, &senders, cl(3));
        net.run(ms(20));
        let stop = |net: &mut Net, n: usize| {
            net.tell(n, Input::App(AppCall::SenderGone { app: rsvp::io::AppId(1), session, template: senders[n] }));
            net.run(ms(20));
        };
        stop(&mut net, 0);
        assert_eq!(net.held(), [0, 3, 3, 0], "{style:?}");
        assert_eq!(net.nodes[2].env.terms_on(3).path_te.r, Rate::from_mbps(3));
        stop(&mut net, 1);
        assert_eq!((net.held(), net.resvs()), (vec![0; 4], vec![0, 0, 0, 1]), "the receiver's request waits");
        net.sends(0, 1, session, 5004, 3);
        net.run(ms(20));
        assert_eq!(net.held(), [3, 0, 3, 0]);
    }
}

/// ResvTear for a part of the senders (RFC 2205 section 2.4): the others keep theirs.
#[test]
fn a_part_of_the_list_is_torn() {
    let (mut net, session, senders) = fork();
    net.shares(3, session, Style::Se, &senders, cl(3));
    net.run(ms(20));
    let start = net.now;
    net.shares(3, session, Style::Se, &senders[1..], cl(3));
    net.run(ms(20));
    assert_eq!((net.held(), net.count("ResvTear", start)), (vec![0, 3, 3, 0], 2));
    assert_eq!(net.nodes[2].env.terms_on(3).filters, [senders[1]]);
    // A tear in another style, or for a sender that is not listed, changes nothing.
    let before = net.digests();
    let mut m = net.downstream_of(2);
    (m.iif, m.hop.lih, m.session, m.style) = (IfIndex(3), 3, session, Style::Wf);
    m.dst = net.interface(2, 3).addresses[0];
    net.inject(2, MessageType::ResvTear, &m);
    (m.style, m.template) = (Style::Se, senders[0]);
    net.inject(2, MessageType::ResvTear, &m);
    assert_eq!(net.digests(), before);
    // The last one ends it all.
    m.template = senders[1];
    net.inject(2, MessageType::ResvTear, &m);
    net.run(ms(5));
    assert_eq!(net.held(), [0; 4]);
}

/// Each sender of a list has a life of its own (RFC 2209 section 2.4): one that is not named again leaves it.
#[test]
fn a_sender_not_named_again_leaves_the_list() {
    let (mut net, session, senders) = fork();
    net.mute(3);
    let mut m = net.downstream_of(2);
    (m.iif, m.hop.lih, m.session, m.style) = (IfIndex(3), 3, session, Style::Se);
    m.dst = net.interface(2, 3).addresses[0];
    for (second, which) in [(0, 0), (60, 1), (120, 1), (180, 1)] {
        net.run_until(Time::ZERO + Span::from_secs(1 + second));
        m.template = senders[which];
        net.inject(2, MessageType::Resv, &m);
    }
    let held = |net: &Net| net.nodes[2].env.terms_on(3).filters;
    // L = 3.5 * 1.5 * 30 s = 157.5 s after the only time that the first was named.
    net.inject(2, MessageType::Resv, &m);
    assert_eq!(held(&net), [senders[1]], "at 181 s");
    net.run_until(Time::ZERO + Span::from_secs(181) + Span::from_millis(157_499));
    assert_eq!(net.held(), [0, 3, 3, 0]);
    net.run(ms(10));
    assert_eq!(net.held(), [0; 4]);
}

/// S20. An increase that a shared reservation cannot have leaves what there was; so does a sender more.
#[test]
fn a_refused_increase_of_a_shared_reservation_changes_nothing() {
    for style in [Style::Se, Style::Wf] {
        let (mut net, session, senders) = fork();
        net.shares(3, session, style, &senders, cl(3));
        net.run(ms(20));
        net.nodes[1].env.capacity.insert(IfIndex(1), Rate::from_mbps(10));
        net.shares(3, session, style, &senders, cl(20));
        net.run(ms(60));
        let errors = net.errors(3);
        assert_eq!((errors[0].code, errors[0].in_place, errors[0].flowspec), (1, true, Some(cl(20))), "{style:?}");
        assert_eq!(net.held(), [3, 3, 3, 0]);
        net.run(Span::from_secs(600));
        assert_eq!(net.held(), [3, 3, 3, 0]);
    }
}

/// P29: all reservations of a session are of one style; another is refused with the style that is there, and changes
/// nothing (error 5).
#[test]
fn styles_do_not_mix() {
    let vectors = [(Style::Ff, 10), (Style::Se, 18), (Style::Wf, 17)];
    for (first, vector) in vectors {
        for (second, _) in vectors.into_iter().filter(|(s, _)| *s != first) {
            let mut net = Net::line(&["snd", "r1", "rcv"], R);
            net.announce(0, 2, 3);
            net.run(ms(10));
            let (session, filter) = (net.session_at(2), net.template_at(0));
            net.shares(2, session, first, &[filter], cl(3));
            net.run(ms(20));
            assert_eq!(net.held(), [3, 3, 0]);
            let before = net.digests();
            net.inject_resv(1, |m| (m.style, m.hop.addr) = (second, [10, 0, 1, 77].into()));
            let refused = net.nodes[1].events.iter().rev().find_map(|(_, e)| match e {
                rsvp::io::Event::Refused { error, .. } => Some((error.code, error.value)),
                _ => None,
            });
            assert_eq!((refused, net.digests() == before), (Some((5, vector)), true), "{second:?} beside {first:?}");
            // Another application here, likewise; the same one may change its mind.
            let (filters, flowspecs): (&[FilterSpec], _) = (&[filter], &[cl(3)]);
            let (app, confirm) = (rsvp::io::AppId(9), false);
            net.tell(2, Input::App(AppCall::Reserve { app, session, style: second, filters, flowspecs, confirm }));
            assert_eq!(net.errors(2).pop().map(|e| (e.code, e.value)), Some((5, vector)));
            assert_eq!(net.digests(), before);
            net.shares(2, session, second, &[filter], cl(2));
            net.run(ms(20));
            assert_eq!(net.held(), [2, 2, 0], "{first:?} to {second:?}");
            assert_eq!(net.nodes[1].env.terms_on(2).style, second);
        }
    }
}

/// A list too long for one packet goes in several, each within the MTU, and is one reservation all the same.
#[test]
fn a_long_list_is_spread_over_messages_within_the_mtu() {
    let mut net = Net::new(true);
    for name in ["snd", "r1", "rcv"] {
        net.node(name, config(R));
    }
    net.link_up(1..3);
    let session = net.session_at(2);
    let mut senders: Vec<_> = (0..120).map(|n| net.sends(0, 1, session, 6000 + n, 1)).collect();
    net.run(ms(10));
    let longest = Rc::new(RefCell::new((0usize, 0usize)));
    let seen = Rc::clone(&longest);
    net.fate = Box::new(move |_, flight| {
        if let Ok(Message::Resv(_)) = Message::parse(&flight.datagram.bytes) {
            let mut seen = seen.borrow_mut();
            *seen = (seen.0.max(flight.datagram.bytes.len()), seen.1 + 1);
        }
        Fate::Deliver
    });
    net.shares(2, session, Style::Se, &senders, cl(4));
    net.run(ms(30));
    let (bytes, messages) = *longest.borrow();
    assert!(bytes > 1_000 && bytes + 40 <= 1_500 && messages >= 6, "{bytes} bytes at most, {messages} messages");
    assert_eq!((net.held(), net.resvs()), (vec![4, 4, 0], vec![1; 3]));
    senders.sort_unstable();
    assert_eq!(net.nodes[0].env.terms_on(1).filters, senders);
    net.run(Span::from_secs(600));
    assert_eq!(net.held(), [4, 4, 0]);
    // One sender more than a list may have.
    let more: Vec<_> = (0..129).map(|n| FilterSpec { src_port: n, ..senders[0] }).collect();
    net.shares(2, session, Style::Se, &more, cl(4));
    assert_eq!(net.errors(2).pop().map(|e| (e.code, e.value)), Some((23, 1)));
    assert_eq!(net.held(), [4, 4, 0]);
}

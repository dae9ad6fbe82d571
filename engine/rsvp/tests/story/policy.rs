//! Who goes before whom (RFC 3181), what traffic control takes away again, and who speaks for others (RFC 5945).

use crate::story::net::*;
use rsvp::io::{AppCall, AppId, Event, Input, Upcall};
use std::cell::RefCell;
use std::rc::Rc;
use terms::ports::Preemption;
use terms::{FilterSpec, SenderTemplate, Session, Span, Style};
use wire::{Message, MessageType};

const R: Span = Span::from_secs(30);

fn ms(n: u64) -> Span {
    Span::from_millis(n)
}

fn priority(preempting: u16, defending: u16) -> Preemption {
    Preemption { preempting, defending }
}

/// POLICY_DATA with one PREEMPTION_PRI.
fn policy(p: Preemption) -> (u8, u8, Vec<u8>) {
    let ([a, b], [c, d]) = (p.preempting.to_be_bytes(), p.defending.to_be_bytes());
    (14, 1, vec![0, 8, 0, 0, 0, 12, 0, 3, 0, 2, 0, 0, a, b, c, d])
}

/// A receiver's priority reaches traffic control at every hop.
#[test]
fn a_priority_goes_all_the_way() {
    let mut net = Net::line(&["snd", "r1", "r2", "rcv"], R);
    net.announce(0, 3, 3);
    net.run(ms(10));
    net.tell(3, Input::App(AppCall::Priority { app: RECEIVER, priority: Some(priority(5, 7)) }));
    net.ask(0, 3, cl(3));
    net.run(ms(20));
    for (node, oif) in [(0, 1), (1, 2), (2, 2)] {
        assert_eq!(net.nodes[node].env.terms_on(oif).priority, Some(priority(5, 7)), "node {node}");
    }
}

/// Merged requests take the highest of each part, in one element; P43: what cannot be read goes on as it came.
#[test]
fn merged_requests_take_the_highest_priority() {
    let mut net = Net::reserved_line(R, 3);
    let seen = Rc::new(RefCell::new(Vec::new()));
    let ears = Rc::clone(&seen);
    net.fate = Box::new(move |_, flight| {
        if let Ok(Message::Resv(m)) = Message::parse(&flight.datagram.bytes) {
            let policies = m.envelope.policy_data().count();
            ears.borrow_mut().push((flight.from, m.envelope.preemption().map(|p| p.preemption), policies));
        }
        Fate::Deliver
    });
    let odd = (14, 1, vec![0, 8, 0, 0, 0, 8, 0, 99, 1, 2, 3, 4]);
    net.inject_resv(1, |m| (m.flowspec, m.extra) = (cl(4), vec![policy(priority(1, 9)), odd.clone()]));
    net.run(ms(10));
    net.inject_resv(1, |m| {
        m.hop.addr = [10, 0, 1, 77].into();
        (m.flowspec, m.extra) = (cl(5), vec![policy(priority(6, 6))]);
    });
    net.run(ms(10));
    assert_eq!(net.nodes[1].env.terms_on(2).priority, Some(priority(6, 9)));
    assert_eq!(net.nodes[0].env.terms_on(1).priority, Some(priority(6, 9)));
    assert_eq!(seen.borrow().last(), Some(&(1, Some(6), 2)), "one element of ours, and the one we cannot read");
}

/// What traffic control gave to another: everybody downstream hears error 12, upstream it is torn, and the receiver's
/// request is over.
#[test]
fn a_displaced_reservation_is_undone_everywhere() {
    for style in [Style::Ff, Style::Se, Style::Wf] {
        let mut net = Net::line(&["snd", "r1", "r2", "rcv"], R);
        net.announce(0, 3, 3);
        net.run(ms(10));
        let (session, filter) = (net.session_at(3), net.template_at(0));
        net.shares(3, session, style, &[filter], cl(3));
        net.run(ms(20));
        assert_eq!(net.held(), [3, 3, 3, 0]);
        let handle = net.engine(1).traffic_control().next().expect("one").handle;
        net.nodes[1].env.held.clear();
        net.tell(1, Input::Displaced { handle, by: Some(priority(9, 9)) });
        net.run(ms(20));
        assert_eq!((net.held(), net.resvs()), (vec![0; 4], vec![0; 4]), "{style:?}");
        let error = net.errors(3).pop().expect("told");
        assert_eq!((error.code, error.in_place), (12, false));
        assert_eq!(error.text.as_deref(), Some("node r1 gave the capacity to a request of preemption priority 9"));
        assert_eq!(net.heard(0, |u| matches!(u, Upcall::ResvGone { .. })), 1);
        assert_eq!(net.paths(), [1, 1, 1, 1], "the path stays");
        net.tell(1, Input::Displaced { handle, by: None });
        assert_eq!(net.saw(1, |e| matches!(e, Event::Refused { .. })).len(), 1, "once");
    }
}

/// A sender and a receiver that do not signal: the routers beside them do it for them, and what is between the routers
/// is reserved.
#[test]
fn routers_speak_for_hosts_that_do_not() {
    for style in [Style::Ff, Style::Wf] {
        let mut net = Net::line(&["h1", "r1", "r2", "r3", "h2"], R);
        net.mute(0);
        net.mute(4);
        let (session, template) = (net.session_at(4), net.template_at(0));
        let (one, two) = (AppId(1), AppId(2));
        let sender = |app| AppCall::Sender { app, session, template, tspec: tspec(3), ttl: 63 };
        // Not without saying that it is on behalf of others.
        net.tell(1, Input::App(sender(one)));
        assert_eq!(net.errors(1).pop().map(|e| (e.code, e.value)), Some((20, 1)));
        net.tell(1, Input::App(AppCall::Proxy { app: one }));
        net.tell(1, Input::App(sender(one)));
        net.run(ms(10));
        assert_eq!(net.paths(), [0, 1, 1, 1, 0]);
        let (filters, flowspecs): (&[FilterSpec], _) = (&[template], &[cl(3)]);
        let ask = AppCall::Reserve { app: two, session, style, filters, flowspecs, confirm: true };
        net.tell(3, Input::App(ask));
        assert_eq!(net.errors(3).pop().map(|e| (e.code, e.value)), Some((20, 1)));
        net.tell(3, Input::App(AppCall::Proxy { app: two }));
        net.tell(3, Input::App(ask));
        assert_eq!(net.heard(3, |u| matches!(u, Upcall::Path { .. })), 1, "it is told of the path");
        net.run(ms(20));
        assert_eq!((net.held(), net.confirms(3).len()), (vec![0, 3, 3, 0, 0], 1), "{style:?}");
        assert_eq!(net.heard(1, |u| matches!(u, Upcall::Resv { .. })), 1);
        net.run(Span::from_secs(600));
        assert_eq!(net.held(), [0, 3, 3, 0, 0], "and refreshed");
        net.tell(3, Input::App(AppCall::Release { app: two, session: None }));
        net.tell(1, Input::App(AppCall::Release { app: one, session: None }));
        net.run(ms(20));
        assert_eq!((net.held(), net.paths(), net.resvs()), (vec![0; 5], vec![0; 5], vec![0; 5]));
        net.tell(1, Input::App(sender(one)));
        assert_eq!(net.errors(1).pop().map(|e| (e.code, e.value)), Some((20, 1)), "it ended with the application");
    }
}

/// Section 3.8: whoever polices first is told so; E_Police says that nobody upstream could.
#[test]
fn the_first_that_can_polices() {
    let mut net = Net::reserved_line(R, 3);
    assert!(net.nodes[0].env.terms_on(1).police.entry && !net.nodes[1].env.terms_on(2).police.entry);
    // The Path as a sending host without traffic control would send it.
    let mut m = net.upstream_of(1);
    (m.dst, m.ttl, m.send_ttl) = (m.session.dst, 63, 63);
    let mut bytes = m.bytes(MessageType::Path);
    let flags = 8 + 4 + 4 + 1;
    bytes[flags] |= 1;
    bytes[2] = 0;
    bytes[3] = 0;
    net.inject_bytes(1, &m, &bytes);
    net.run(ms(10));
    assert!(net.nodes[1].env.terms_on(2).police.entry);
    net.inject_path(1, |m| (m.ttl, m.send_ttl) = (63, 63));
    net.run(ms(10));
    assert!(!net.nodes[1].env.terms_on(2).police.entry);
}

/// An Adspec fragment of a service that nobody here knows reaches the receiver, with its break bit set.
#[test]
fn unknown_services_are_passed_on_as_broken() {
    let mut net = Net::line(&["snd", "r1", "r2", "rcv"], R);
    let found = Rc::new(RefCell::new(Vec::new()));
    let seen = Rc::clone(&found);
    net.fate = Box::new(move |_, flight| {
        if let Ok(Message::Path(m)) = Message::parse(&flight.datagram.bytes)
            && let Some(adspec) = m.adspec
        {
            let all = adspec.fragments.map(|f| (f.number, f.break_bit, f.body.to_vec()));
            seen.borrow_mut().push(all.filter(|(n, ..)| *n == 77).collect::<Vec<_>>());
        }
        Fate::Deliver
    });
    let mut m = net.upstream_of(1);
    (m.dst, m.adspec) = (m.session.dst, None);
    let bytes = m.bytes(MessageType::Path);
    let adspec = wire::Builder::new(MessageType::Path, 255)
        .adspec_and(&terms::Adspec::origin(1500), &[77, 0, 0, 1, 200, 0, 0, 0])
        .finish()
        .expect("short");
    let mut whole = [&bytes[..], &adspec[8..]].concat();
    let length = (whole.len() as u16).to_be_bytes();
    whole[6..8].copy_from_slice(&length);
    whole[2..4].copy_from_slice(&[0, 0]);
    net.inject_bytes(1, &m, &whole);
    net.run(ms(10));
    assert_eq!((net.drops(1), net.paths()), (vec![], vec![0, 1, 1, 1]));
    assert_eq!(*found.borrow(), vec![vec![(77, true, vec![200, 0, 0, 0])]; 2], "over both links");
}

/// Sessions of protocols without ports, whose senders are told apart by nothing but their address; and ESP with a
/// virtual destination port, whose senders are told apart by their security parameter index (RFC 2207).
#[test]
fn protocols_without_ports() {
    for (v6, protocol, dst_port, src_port) in
        [(false, 89, 0, 0), (true, 89, 0, 0), (false, 50, 9000, 0xdead_beef), (true, 51, 9000, 0x0001_0000)]
    {
        let mut net = Net::new(v6);
        for name in ["snd", "r1", "rcv"] {
            net.node(name, config(R));
        }
        net.link_up(1..3);
        let session = Session { protocol, dst_port, ..net.session_at(2) };
        let template = SenderTemplate { src_port, ..net.template_at(0) };
        let app = SENDER;
        net.tell(0, Input::App(AppCall::Sender { app, session, template, tspec: tspec(3), ttl: 63 }));
        net.run(ms(10));
        net.shares(2, session, Style::Ff, &[template], cl(3));
        net.run(ms(20));
        assert_eq!((net.held(), net.confirms(2).len()), (vec![3, 3, 0], 1));
        assert_eq!(net.nodes[1].env.terms_on(2).filters, [template]);
        net.run(Span::from_secs(600));
        assert_eq!(net.held(), [3, 3, 0], "refreshed");
    }
}

//! Refusals: the right code, back to whoever asked, and nothing changed anywhere. RFC 2205 appendix B.

use crate::story::net::*;
use rsvp::Rsvp;
use rsvp::io::{AppCall, Config, Event, Input, Upcall};
use terms::{Fault, FilterSpec, IfIndex, Rate, Refused, Span, Style};

const R: Span = Span::from_secs(30);

/// A line with path state and a registered receiver, nothing reserved.
fn ready() -> Net {
    let mut net = Net::line(&["snd", "r1", "r2", "rcv"], R);
    let session = net.session_at(3);
    net.tell(3, Input::App(AppCall::Receiver { app: RECEIVER, session }));
    net.announce(0, 3, 3);
    net.run(Span::from_millis(10));
    net
}

/// Over the bottleneck's capacity: the receiver learns the node, the interface, what was asked and what is free, and
/// every engine and every traffic control is as before.
#[test]
fn over_capacity_changes_nothing_anywhere() {
    for bottleneck in 0..3 {
        let mut net = ready();
        let oif = if bottleneck == 0 { 1 } else { 2 };
        net.nodes[bottleneck].env.capacity.insert(IfIndex(oif), Rate::from_mbps(10));
        let (before, since) = (net.digests(), net.now);
        net.ask(0, 3, cl(12));
        net.run(Span::from_millis(30));
        assert_eq!((net.held(), net.resvs()), (vec![0; 4], vec![0; 4]));
        assert_eq!(net.digests(), before);
        let [error] = &net.errors(3)[..] else { panic!("one error") };
        assert_eq!((error.code, error.value, error.in_place), (1, 2, false));
        let name = &net.nodes[bottleneck].name;
        let words = format!("node {name} interface eth{oif} asked 12mbit free 10mbit");
        assert_eq!(error.text.as_deref(), Some(words.as_str()));
        assert_eq!(error.node, net.interface(bottleneck, oif).addresses[0]);
        assert_eq!(error.flowspec, Some(cl(12)));
        // Asked and refused hop by hop, then the admitted part torn: no other message.
        let hops = 3 - bottleneck;
        let sent = ["Resv", "ResvErr", "ResvTear"].map(|k| net.count(k, since));
        assert_eq!(sent, [hops, hops, hops], "the last tear finds nothing");
        assert!(net.confirms(3).is_empty());
    }
}

#[test]
fn every_refusal_has_its_code() {
    let interface = IfIndex(2);
    let cases = [
        (Refused::NoDelayBound { interface }, 1, 1, "keeps no delay bound"),
        (Refused::Mtu { interface, asked: 9000, mtu: 1500 }, 1, 3, "asked packets of 9000 bytes, mtu 1500"),
        (Refused::Policy, 2, 0, "refused by policy"),
        (Refused::NotReservable { interface }, 21, 2, "takes no reservations"),
        (Refused::Limit { what: "flows", limit: 5 }, 22, 0, "flows: the limit of 5 is reached"),
        (Refused::Meaningless(terms::Misuse::ZeroRate), 21, 3, "a rate of zero reserves nothing"),
    ];
    for (refused, code, value, words) in cases {
        let mut net = ready();
        let before = net.digests();
        net.nodes[1].env.refusing = Some(refused);
        net.ask(0, 3, cl(3));
        net.run(Span::from_millis(30));
        let [error] = &net.errors(3)[..] else { panic!("one error for {refused:?}") };
        assert_eq!((error.code, error.value), (code, value), "{refused:?}");
        let text = error.text.as_deref().expect("words");
        assert!(text.starts_with("node r1 ") && text.contains(words), "{text}");
        assert_eq!(net.digests(), before, "{refused:?}");
    }
}

/// Guaranteed service where the plane keeps no bound: code 1, value 1; and the Adspec had said so.
#[test]
fn guaranteed_service_without_a_bound_is_refused() {
    let mut net = ready();
    net.ask(0, 3, gs(3));
    net.run(Span::from_millis(30));
    assert_eq!((net.errors(3)[0].code, net.errors(3)[0].value, net.held()), (1, 1, vec![0; 4]));
    let adspec = net.nodes[3].upcalls.iter().find_map(|(_, _, u)| match u {
        Upcall::Path { adspec, .. } => *adspec,
        _ => None,
    });
    assert!(adspec.and_then(|a| a.guaranteed).expect("offered").break_bit);
}

/// The plane could not install what was admitted: code 22 with errno, undone everywhere.
#[test]
fn a_plane_that_fails_undoes_the_reservation() {
    let mut net = ready();
    let before = net.digests();
    net.nodes[1].env.failing = Some(Fault { what: "no room in the kernel", code: 28 });
    net.ask(0, 3, cl(3));
    net.run(Span::from_millis(30));
    let [error] = &net.errors(3)[..] else { panic!("one error") };
    assert_eq!((error.code, error.value), (22, 28));
    assert_eq!((net.held(), net.digests()), (vec![0; 4], before));
}

/// Calls that mean nothing.
#[test]
fn calls_that_cannot_be_served_are_refused_at_once() {
    let mut net = ready();
    let before = net.digests();
    let (session, filter) = (net.session_at(3), net.template_at(0));
    let (app, confirm) = (RECEIVER, false);
    let (filters, flowspecs): (&[FilterSpec], _) = (&[filter], &[cl(3)]);
    for style in [Style::Se, Style::Wf] {
        net.tell(3, Input::App(AppCall::Reserve { app, session, style, filters, flowspecs: &[], confirm }));
    }
    let none: &[FilterSpec] = &[];
    net.tell(3, Input::App(AppCall::Reserve { app, session, style: Style::Se, filters: none, flowspecs, confirm }));
    net.tell(3, Input::App(AppCall::Reserve { app, session, style: Style::Ff, filters, flowspecs: &[], confirm }));
    net.tell(3, Input::App(AppCall::Reserve { app, session, style: Style::Ff, filters, flowspecs: &[cl(0)], confirm }));
    let elsewhere = net.session_at(1);
    net.tell(3, Input::App(AppCall::Receiver { app, session: elsewhere }));
    let codes: Vec<_> = net.errors(3).iter().map(|e| (e.code, e.value)).collect();
    assert_eq!(codes, [(20, 3), (20, 3), (20, 3), (20, 3), (21, 3), (20, 1)]);
    let (heard, mut low_peak, mut low_rate) = (net.errors(3).len(), tspec(3), gs(3));
    low_peak.p = Rate::from_mbps(2);
    if let terms::FlowSpec::Guaranteed(_, rspec) = &mut low_rate {
        rspec.R = Rate::from_mbps(2);
    }
    for flowspec in [terms::FlowSpec::ControlledLoad(low_peak), low_rate] {
        net.ask(0, 3, flowspec);
    }
    let six = FilterSpec { src: [0xfd00, 0, 0, 0, 0, 0, 0, 1].into(), src_port: 1 };
    net.tell(3, Input::App(AppCall::Reserve { app, session, style: Style::Ff, filters: &[six], flowspecs, confirm }));
    let codes: Vec<_> = net.errors(3)[heard..].iter().map(|e| (e.code, e.value)).collect();
    assert_eq!(codes, [(21, 3), (21, 3), (20, 1)], "p below r, R below r, IPv6 in an IPv4 session");
    net.tell(0, Input::App(AppCall::Sender { app, session, template: filter, tspec: low_peak, ttl: 63 }));
    let error = net.errors(0).pop().expect("told");
    assert_eq!((error.code, error.value), (21, 4));
    net.nodes[0].upcalls.clear();

    let offers = [(session, net.template_at(1)), (session, filter)];
    for (session, template) in offers {
        net.tell(0, Input::App(AppCall::Sender { app: RECEIVER, session, template, tspec: tspec(1), ttl: 63 }));
    }
    let codes: Vec<_> = net.errors(0).iter().map(|e| (e.code, e.value)).collect();
    assert_eq!(codes, [(20, 1), (20, 4)], "a foreign address, somebody else's flow");
    assert_eq!(net.digests(), before);
}

/// Tables that are full say so, to the neighbour or to the application, and keep what they have.
#[test]
fn full_tables_refuse_and_keep_what_they_have() {
    let mut net = Net::new(false);
    for name in ["snd", "r1", "rcv"] {
        let limits = if name == "r1" { 1 } else { 10 };
        net.node(name, Config { max_paths: limits, ..config(R) });
    }
    net.link_up(1..3);
    net.announce(0, 2, 3);
    net.run(Span::from_millis(10));
    let kept = net.digests()[1];
    let (session, template) = (net.session_at(2), FilterSpec { src_port: 1, ..net.template_at(0) });
    net.tell(0, Input::App(AppCall::Sender { app: SENDER, session, template, tspec: tspec(1), ttl: 63 }));
    net.run(Span::from_millis(10));
    assert_eq!(net.digests()[1], kept);
    let [error] = &net.errors(0)[..] else { panic!("told") };
    assert_eq!((error.code, error.value), (23, 1));
    assert_eq!(error.text.as_deref(), Some("path states: the limit of 1 is reached"));
    assert_eq!(net.paths(), [2, 1, 1]);
}

/// Sessions and reservations have limits too.
#[test]
fn sessions_and_reservations_are_limited() {
    let mut engine_limits = Config { max_sessions: 1, max_resvs: 0, ..config(R) };
    engine_limits.node_name = "small".to_string();
    let mut net = Net::new(false);
    net.node("snd", config(R));
    net.node("small", engine_limits);
    net.node("rcv", config(R));
    net.link_up(1..3);
    net.announce(0, 2, 3);
    net.run(Span::from_millis(10));
    net.ask(0, 2, cl(3));
    net.run(Span::from_millis(30));
    let [error] = &net.errors(2)[..] else { panic!("told") };
    assert_eq!((error.code, error.value, net.held()), (23, 1, vec![0; 3]));
    let other = terms::Session { dst_port: 9, ..net.session_at(2) };
    let template = net.template_at(0);
    net.tell(0, Input::App(AppCall::Sender { app: SENDER, session: other, template, tspec: tspec(1), ttl: 63 }));
    net.run(Span::from_millis(10));
    assert_eq!(net.errors(0).len(), 1);
    assert_eq!(net.engine(1).sessions().count(), 1);
}

/// The refusing node says so itself, once.
#[test]
fn the_refusing_node_has_an_event() {
    let mut net = ready();
    net.nodes[1].env.capacity.insert(IfIndex(2), Rate::from_mbps(1));
    net.ask(0, 3, cl(3));
    net.run(Span::from_millis(30));
    for (node, times) in [(0, 0), (1, 1), (2, 0), (3, 0)] {
        assert_eq!(net.saw(node, |e| matches!(e, Event::Refused { .. })).len(), times, "node {node}");
    }
    let refused = |e: &Rsvp| e.counters().refused;
    assert_eq!(refused(net.engine(1)), 1);
}

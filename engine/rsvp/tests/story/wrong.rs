//! Messages that are wrong, strange or meant for somebody else: FAULTS S and P, as far as they reach the engine.
//! Each is answered as the RFC says or dropped with a reason, and what was promised stays as it was.

use crate::story::net::*;
use rsvp::io::{AppCall, Event, Input};
use terms::{FilterSpec, FlowSpec, IfIndex, Session, Span, Style};
use wire::{Message, MessageType};

const R: Span = Span::from_secs(30);

fn ready() -> Net {
    let mut net = Net::line(&["snd", "r1", "r2", "rcv"], R);
    net.announce(0, 3, 3);
    net.run(Span::from_millis(10));
    net
}

/// A ResvErr or PathErr by name, its error code and value.
type Answer = Option<(String, u8, u16)>;

/// Error code and value of the one ResvErr or PathErr that leaves `node` now.
fn answer(net: &mut Net, node: usize, inject: impl FnOnce(&mut Net)) -> Answer {
    let found = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let seen = std::rc::Rc::clone(&found);
    net.fate = Box::new(move |_, flight| {
        match Message::parse(&flight.datagram.bytes).expect("ours") {
            Message::ResvErr(m) if flight.from == node => {
                seen.borrow_mut().push(("ResvErr".to_string(), m.error.code, m.error.value));
            }
            Message::PathErr(m) if flight.from == node => {
                seen.borrow_mut().push(("PathErr".to_string(), m.error.code, m.error.value));
            }
            _ => {}
        }
        Fate::Lose
    });
    inject(net);
    net.fate = Box::new(|_, _| Fate::Deliver);
    let all = found.borrow();
    assert!(all.len() <= 1, "one message, one answer: {all:?}");
    all.first().cloned()
}

fn err(kind: &str, code: u8, value: u16) -> Answer {
    Some((kind.to_string(), code, value))
}

/// S1, S2, styles, services: the answers to a Resv.
#[test]
fn answers_to_a_resv() {
    type Edit = fn(&mut Forged);
    let cases: [(&str, Edit, Answer); 10] = [
        ("S1: no path for the session", |m| m.session.dst_port = 9, err("ResvErr", 3, 0)),
        ("S2: no such sender", |m| m.template.src_port = 9, err("ResvErr", 4, 0)),
        ("shared explicit, no such sender", |m| (m.style, m.template.src_port) = (Style::Se, 9), err("ResvErr", 4, 0)),
        ("wildcard, more than there is", |m| (m.style, m.flowspec) = (Style::Wf, cl(101)), err("ResvErr", 1, 2)),
        ("a rate of zero", |m| m.flowspec = cl(0), err("ResvErr", 21, 3)),
        ("more than there is", |m| m.flowspec = cl(101), err("ResvErr", 1, 2)),
        ("an unknown class below 0x80", |m| m.extra.push((0x66, 1, vec![0; 4])), err("ResvErr", 13, 0x6601)),
        ("an unknown C-Type", |m| m.extra.push((15, 9, vec![0; 4])), err("ResvErr", 14, 0x0f09)),
        ("a class to be ignored", |m| m.extra.push((0x88, 1, vec![0; 4])), None),
        ("too much to carry for others", |m| m.extra.push((0xc7, 1, vec![0; 1_100])), err("ResvErr", 23, 1)),
    ];
    for (what, edit, expected) in cases {
        let mut net = ready();
        let before = net.digests();
        let got = answer(&mut net, 1, |net| net.inject_resv(1, edit));
        assert_eq!(got, expected, "{what}");
        assert_eq!(net.digests() == before, expected.is_some(), "{what}: refused and only then unchanged");
    }
}

/// The answers to a Path.
#[test]
fn answers_to_a_path() {
    type Edit = fn(&mut Forged);
    let cases: [(&str, Edit, Answer); 7] = [
        ("P30: source port without destination port", |m| m.session.dst_port = 0, err("PathErr", 8, 0)),
        ("P30: source port zero beside others", |m| m.template.src_port = 0, err("PathErr", 8, 0)),
        ("P20: an unknown class below 0x80", |m| m.extra.push((0x7f, 3, vec![0; 4])), err("PathErr", 13, 0x7f03)),
        ("P21: an unknown C-Type", |m| m.extra.push((12, 9, vec![0; 4])), err("PathErr", 14, 0x0c09)),
        ("too much to carry for others", |m| m.extra.push((0xc7, 1, vec![0; 1_100])), err("PathErr", 23, 1)),
        ("P20: a class to be ignored", |m| m.extra.push((0xbf, 1, vec![0; 4])), None),
        ("P20: a class to be passed on", |m| m.extra.push((0xff, 9, vec![1, 2, 3, 4])), None),
    ];
    for (what, edit, expected) in cases {
        let mut net = ready();
        let before = net.digests();
        let got = answer(&mut net, 1, |net| {
            net.inject_path(1, |m| {
                (m.ttl, m.send_ttl, m.hop.lih) = (63, 63, 1);
                edit(m);
            });
        });
        assert_eq!(got, expected, "{what}");
        let kept = net.digests() == before;
        assert!(kept || expected.is_none(), "{what}: refused and yet changed something");
    }
}

/// P30: a destination port of zero and others do not mix.
#[test]
fn sessions_with_and_without_ports_do_not_mix() {
    let mut net = Net::line(&["snd", "r1", "r2", "rcv"], R);
    net.inject_path(1, |m| (m.session.dst_port, m.template.src_port) = (0, 0));
    let got = answer(&mut net, 1, |net| net.inject_path(1, |_| {}));
    assert_eq!(got, err("PathErr", 7, 0));
    assert_eq!(net.paths()[1], 1);

    let mut net = ready();
    let portless = |m: &mut Forged| (m.session.dst_port, m.template.src_port) = (0, 0);
    let got = answer(&mut net, 1, |net| net.inject_path(1, portless));
    assert_eq!(got, err("PathErr", 7, 0));
    // Another protocol, or another destination, is another matter; and so is a session that is over.
    assert_eq!(answer(&mut net, 1, |net| net.inject_path(1, |m| (portless(m), m.session.protocol = 89).0)), None);
    net.silence(0, 3);
    net.run(Span::from_millis(10));
    assert_eq!(answer(&mut net, 1, |net| net.inject_path(1, portless)), None);
    let session = net.session_at(3);
    net.tell(3, Input::App(AppCall::Receiver { app: RECEIVER, session: Session { dst_port: 0, ..session } }));
    net.tell(3, Input::App(AppCall::Receiver { app: RECEIVER, session }));
    assert_eq!(net.errors(3).iter().map(|e| e.code).collect::<Vec<_>>(), [7]);
}

/// P20: objects of class 0xc0 and above go on, bit by bit, with every Path that results.
#[test]
fn unknown_objects_to_be_forwarded_reach_the_receiver() {
    let mut net = Net::line(&["snd", "r1", "r2", "rcv"], R);
    let found = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let seen = std::rc::Rc::clone(&found);
    net.fate = Box::new(move |_, flight| {
        let Ok(Message::Path(m)) = Message::parse(&flight.datagram.bytes) else { return Fate::Deliver };
        seen.borrow_mut().extend(m.envelope.forwarded().map(|o| (flight.to, o.class, o.ctype, o.body.to_vec())));
        Fate::Deliver
    });
    net.inject_path(1, |m| m.extra.extend([(0xc9, 7, vec![1, 2, 3, 4]), (0xe0, 1, vec![9; 8])]));
    net.run(Span::from_secs(50));
    let found = found.borrow();
    let at_receiver: Vec<_> = found.iter().filter(|f| f.0 == 3).collect();
    assert!(at_receiver.len() >= 4, "with the first Path and with refreshes");
    assert_eq!(at_receiver[..2], [&(3, 0xc9, 7, vec![1, 2, 3, 4]), &(3, 0xe0, 1, vec![9; 8])]);
}

/// P20, P43: they go on with a Resv and a PathTear too, and so does POLICY_DATA, which we do not read.
#[test]
fn unknown_objects_and_policy_data_go_upstream_and_with_tears() {
    let policy = (14, 1, vec![0, 8, 0, 0, 0, 8, 0, 1, 1, 2, 3, 4]);
    let unknown = (0xc9, 7, vec![1, 2, 3, 4]);
    let mut net = ready();
    let found = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let seen = std::rc::Rc::clone(&found);
    net.fate = Box::new(move |_, flight| {
        let m = Message::parse(&flight.datagram.bytes).expect("ours");
        let strange = m.envelope().objects.filter(|o| o.class == 14 || o.class > 0x7f);
        let strange: Vec<_> = strange.map(|o| (o.class, o.ctype, o.body.to_vec())).collect();
        if !strange.is_empty() {
            seen.borrow_mut().push((flight.from, m.kind(), strange));
        }
        Fate::Deliver
    });
    net.inject_resv(2, |m| m.extra.extend([unknown.clone(), policy.clone()]));
    net.run(Span::from_millis(10));
    let expected = |from, kind| (from, kind, vec![unknown.clone(), policy.clone()]);
    assert_eq!(*found.borrow(), [expected(2, MessageType::Resv), expected(1, MessageType::Resv)]);
    found.borrow_mut().clear();
    let mut m = net.upstream_of(1);
    m.hop.addr = net.interface(0, 1).addresses[0];
    m.extra.extend([unknown.clone(), policy.clone()]);
    net.inject(1, MessageType::PathTear, &m);
    net.run(Span::from_millis(10));
    assert_eq!(*found.borrow(), [expected(1, MessageType::PathTear), expected(2, MessageType::PathTear)]);
}

/// S10, S14, P40 and their kin: dropped, with a reason, and nothing changes.
#[test]
fn messages_of_strangers_change_nothing() {
    use MessageType::{Path, PathErr, PathTear, Resv, ResvConf, ResvErr, ResvTear};
    type Edit = fn(&mut Forged);
    let stranger: Edit = |m| m.hop.addr = [10, 9, 9, 9].into();
    let nobody: Edit = |m| m.session.dst_port = 9;
    let elsewhere: Edit = |m| m.dst = [10, 9, 9, 9].into();
    let ourselves: Edit = |m| m.hop.addr = m.dst;
    let cases: [(&str, MessageType, bool, Edit, &str); 17] = [
        ("S10", PathTear, true, stranger, "PathTear from a node that is not the previous hop"),
        ("S10", PathTear, true, |m| m.iif = IfIndex(2), "PathTear from a node that is not the previous hop"),
        ("S10", ResvTear, false, stranger, "ResvTear for a reservation that its sender does not have here"),
        ("S10", ResvErr, true, stranger, "ResvErr from a node that is not the previous hop"),
        ("late tear", PathTear, true, nobody, "PathTear for a sender that we do not know"),
        ("late tear", ResvTear, false, nobody, "ResvTear for a reservation that its sender does not have here"),
        ("late error", PathErr, false, nobody, "PathErr for a sender that we do not know"),
        ("late error", ResvErr, true, nobody, "ResvErr for a session that we do not know"),
        ("S14", Path, true, |m| m.hop.addr = [10, 0, 0, 2].into(), "our own address as the hop: a loop"),
        ("S14", Path, true, |m| m.iif = IfIndex(2), "the Path came in where it would go out: a loop"),
        ("S14", Path, true, |m| m.template.src = [10, 0, 1, 1].into(), "a Path of our own sender came back: a loop"),
        ("S14", Resv, false, ourselves, "our own address as the hop: a loop"),
        ("P40", Resv, false, |m| m.hop.lih = 0xdead_beef, "Resv with an interface handle that is not ours"),
        ("P40", Resv, false, |m| m.hop.lih = 1, "Resv from where the path does not go (any more)"),
        ("not for us", Resv, false, elsewhere, "sent to another node"),
        ("not for us", ResvErr, true, elsewhere, "sent to another node"),
        ("interface", Path, true, |m| m.iif = IfIndex(9), "RSVP is not spoken on this interface"),
    ];
    for (name, kind, down, edit, why) in cases {
        let mut net = Net::reserved_line(R, 3);
        let (before, since) = (net.digests(), net.log.len());
        let mut m = if down { net.upstream_of(1) } else { net.downstream_of(1) };
        edit(&mut m);
        net.inject(1, kind, &m);
        assert_eq!(net.drops(1), [why], "{name} {kind:?}");
        assert_eq!((net.digests(), net.log.len()), (before, since), "{name} {kind:?}: nothing changed, nothing sent");
        assert_eq!(net.engine(1).counters().dropped[why], 1);
    }
    let _ = ResvConf;
}

/// The same tears, from the right neighbour, do what they say.
#[test]
fn tears_of_the_right_neighbour_count() {
    let mut net = Net::reserved_line(R, 3);
    let m = net.downstream_of(1);
    net.inject(1, MessageType::ResvTear, &m);
    assert_eq!((net.held()[1], net.resvs()[1]), (0, 0));
    let mut m = net.upstream_of(1);
    m.hop.addr = net.interface(0, 1).addresses[0];
    net.inject(1, MessageType::PathTear, &m);
    assert_eq!(net.paths()[1], 0);
}

/// S16: a Path with TTL 1 is kept, and goes no further.
#[test]
fn a_path_with_ttl_one_stays_here() {
    let mut net = Net::line(&["snd", "r1", "r2", "rcv"], R);
    net.inject_path(1, |m| (m.ttl, m.send_ttl) = (1, 1));
    net.run(Span::from_secs(100));
    assert_eq!((net.paths()[2], net.count("Path", terms::Time::ZERO)), (0, 0));
}

/// P19: the TTLs differ: a hop in between does not speak RSVP. Said once, while it lasts.
#[test]
fn differing_ttls_are_a_non_rsvp_hop() {
    let mut net = Net::line(&["snd", "r1", "r2", "rcv"], R);
    for _ in 0..3 {
        net.inject_path(1, |m| (m.ttl, m.send_ttl) = (60, 63));
    }
    assert_eq!(net.saw(1, |e| matches!(e, Event::NonRsvpHop { .. })).len(), 1);
    assert!(!net.engine(1).neighbours()[0].2.direct);
}

/// S11: an error answers a request: a neighbour cannot make us send more of them downstream than we asked upstream.
#[test]
fn errors_do_not_multiply() {
    let mut net = Net::reserved_line(R, 3);
    let m = net.upstream_of(1);
    let since = net.now;
    for _ in 0..100 {
        net.inject(1, MessageType::ResvErr, &m);
        net.inject(1, MessageType::PathErr, &net.downstream_of(1));
    }
    let sent = |kind| net.log.iter().filter(|(t, f, _, k)| *t >= since && *f == 1 && *k == kind).count();
    assert_eq!((sent("ResvErr"), sent("PathErr")), (1, 1), "one Resv and one Path had gone out");
}

/// S11: our previous hop and our next hop are one node: its error is not sent back to it.
#[test]
fn an_error_never_goes_back_where_it_came_from() {
    let mut net = Net::reserved_line(R, 3);
    let neighbour = net.downstream_of(1).hop.addr;
    net.inject_path(1, |m| m.hop.addr = neighbour);
    net.run(Span::from_millis(10));
    let mut m = net.upstream_of(1);
    m.hop.addr = neighbour;
    let since = net.log.len();
    net.inject(1, MessageType::ResvErr, &m);
    assert!(net.log[since..].iter().all(|(_, f, _, k)| !(*f == 1 && *k == "ResvErr")));
}

/// P41: whatever an ERROR_SPEC says reaches the application as it is. Only a refusal of what it asked takes the request
/// back: not another's guilt, not a node that has yet to learn the path, not a code that is no error, not a request that
/// is no longer the application's.
#[test]
fn errors_reach_the_application_as_they_are() {
    let cases = [
        // code, value, flags, about what was asked, told, still reserved
        (1, 2, 0, true, true, false),
        (99, 0xffff, 0, true, true, false),
        (12, 0, 0, true, true, false),
        (1, 2, 1, true, true, false), // in place, but there is nothing older to go back to
        (1, 2, 2, true, true, true),
        (1, 2, 0, false, true, true),
        (3, 0, 0, true, true, true),
        (4, 0, 0, true, true, true),
        (0, 0, 0, true, false, true),
    ];
    for (code, value, flags, asked, told, stays) in cases {
        let mut net = Net::reserved_line(R, 3);
        let mut m = net.upstream_of(3);
        m.dst = net.interface(3, 1).addresses[0];
        // The error node may even be this very node.
        m.error = wire::ErrorSpec { node: m.dst, flags, code, value };
        m.flowspec = if asked { cl(3) } else { cl(2) };
        net.inject(3, MessageType::ResvErr, &m);
        let heard: Vec<_> =
            net.errors(3).into_iter().map(|e| (e.code, e.value, e.in_place, e.not_guilty, e.node)).collect();
        let expected = (code, value, flags & 1 != 0, flags & 2 != 0, m.dst);
        assert_eq!(heard, if told { vec![expected] } else { vec![] }, "code {code} flags {flags}");
        net.run(Span::from_millis(20));
        assert_eq!(net.held(), if stays { [3, 3, 3, 0] } else { [0; 4] }, "code {code} flags {flags} {asked}");
    }
}

/// P41: the same for errors about a Path, which change nothing at all.
#[test]
fn path_errors_reach_the_sender_and_change_nothing() {
    let mut net = Net::reserved_line(R, 3);
    let before = net.digests();
    let mut m = net.downstream_of(2);
    m.error = wire::ErrorSpec { node: [10, 9, 9, 9].into(), flags: 3, code: 99, value: 7 };
    net.inject(2, MessageType::PathErr, &m);
    net.run(Span::from_millis(10));
    let [error] = &net.errors(0)[..] else { panic!("told once") };
    assert_eq!((error.code, error.value, error.node), (99, 7, m.error.node));
    assert_eq!(net.digests(), before);
}

/// S19: a confirmation for a request that failed meanwhile, or that nobody made, is nobody's.
#[test]
fn a_confirmation_that_nobody_waits_for_is_ignored() {
    let mut net = Net::reserved_line(R, 3);
    net.release(3);
    net.run(Span::from_millis(10));
    let (before, heard) = (net.digests(), net.nodes[3].upcalls.len());
    let mut m = net.upstream_of(3);
    m.confirm = Some(net.addr(3));
    m.dst = net.addr(3);
    net.inject(3, MessageType::ResvConf, &m);
    m.session.dst_port = 9;
    net.inject(3, MessageType::ResvConf, &m);
    assert_eq!((net.digests(), net.nodes[3].upcalls.len()), (before, heard));
}

/// A confirmation on its way to somebody else goes on with a smaller TTL, and not where it came from, nor for ever.
#[test]
fn confirmations_pass_through_but_not_in_circles() {
    let mut net = Net::reserved_line(R, 3);
    let mut m = net.upstream_of(1);
    let receiver = net.addr(3);
    (m.confirm, m.dst, m.ttl) = (Some(receiver), receiver, 9);
    let ttls = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let seen = std::rc::Rc::clone(&ttls);
    net.fate = Box::new(move |_, f| {
        seen.borrow_mut().push((f.from, f.datagram.ttl, f.datagram.bytes[4]));
        Fate::Deliver
    });
    net.inject(1, MessageType::ResvConf, &m);
    net.run(Span::from_millis(10));
    assert_eq!(*ttls.borrow(), [(1, 8, 8), (2, 7, 7)]);
    m.ttl = 1;
    net.inject(1, MessageType::ResvConf, &m);
    (m.ttl, m.iif) = (9, IfIndex(2));
    net.inject(1, MessageType::ResvConf, &m);
    (m.iif, m.confirm) = (IfIndex(1), Some([10, 9, 9, 9].into()));
    net.inject(1, MessageType::ResvConf, &m);
    assert_eq!(ttls.borrow().len(), 2, "none of these went on");
    assert_eq!(net.drops(1).len(), 3);
}

/// Cisco IOS sends FLOWSPECs with M = 0 ("unset"), Tspecs with m = 0 and M = 0x7fffffff, and TCP senders with port zero.
#[test]
fn cisco_habits_are_tolerated() {
    let mut net = Net::line(&["snd", "r1", "r2", "rcv"], R);
    let session = Session { protocol: 6, dst_port: 23, ..net.session_at(3) };
    let template = FilterSpec { src_port: 0, ..net.template_at(0) };
    net.inject_path(1, |m| {
        (m.session, m.template) = (session, template);
        (m.tspec.m, m.tspec.M) = (0, 0x7fff_ffff);
        if let Some(adspec) = &mut m.adspec {
            adspec.guaranteed = None;
        }
    });
    let mut spec = tspec(3);
    spec.M = 0;
    net.inject_resv(1, |m| (m.session, m.template, m.flowspec) = (session, template, FlowSpec::ControlledLoad(spec)));
    assert_eq!((net.paths()[1], net.held()[1]), (1, 3));
}

/// Several flow descriptors in one Resv: the good ones are reserved, the bad one is answered for itself.
#[test]
fn flow_descriptors_are_judged_one_by_one() {
    let mut net = ready();
    let m = net.downstream_of(1);
    let second = FilterSpec { src_port: 9, ..m.template };
    let build = wire::Builder::new(MessageType::Resv, 255).session(&m.session).hop(&m.hop).time_values(R);
    let build = build.style(Style::Ff).flowspec(&cl(3)).filter_spec(&m.template.into());
    let bytes = build.flowspec(&cl(4)).filter_spec(&second.into()).finish().expect("short");
    let got = answer(&mut net, 1, |net| net.inject_bytes(1, &m, &bytes));
    assert_eq!((got, net.held()[1]), (err("ResvErr", 4, 0), 3));
}

/// An interface on which RSVP is off is deaf, and nothing is sent there.
#[test]
fn an_interface_without_rsvp_is_left_alone() {
    let mut net = Net::new(false);
    for name in ["snd", "r1", "rcv"] {
        net.node(name, config(R));
    }
    net.link_up(1..3);
    let mut off = net.interface(1, 2);
    off.enabled = false;
    net.tell(1, rsvp::io::Input::Interface { interface: IfIndex(2), state: Some(off) });
    net.announce(0, 2, 3);
    net.run(Span::from_secs(100));
    assert_eq!(net.paths(), [1, 1, 0]);
}

//! Sentences of RFC 2961 about summaries, groups, errors and acknowledgements: what its ledger in `docs/rfc` names here.

use crate::story::clauses_neighbours::{R, each, ms, reduced};
use crate::story::net::*;
use rsvp::integrity::AuthMode;
use rsvp::io::Config;
use std::cell::RefCell;
use std::rc::Rc;
use terms::{Session, Span, Time};
use wire::iana::class;
use wire::objects::{MessageId, MessageIdAck};
use wire::{Builder, Message, MessageType};

/// RFC 2961 section 4.3: acknowledgements have no flags.
#[test]
fn acknowledgements_have_no_flags() {
    let mut net = reduced(&AuthMode::None);
    let seen = Rc::new(RefCell::new(0));
    let count = Rc::clone(&seen);
    net.fate = Box::new(move |_, flight| {
        each(&flight.datagram.bytes, |message| {
            message.envelope().acks().for_each(|ack| assert_eq!(ack.flags, 0));
            *count.borrow_mut() += message.envelope().acks().count();
        });
        Fate::Deliver
    });
    net.announce(0, 3, 4);
    net.nodes[1].env.held.clear();
    net.restart(1);
    net.run(Span::from_secs(60));
    assert!(*seen.borrow() > 5, "{}", seen.borrow());
}

/// The length of each Srefresh, and its names.
type Summaries = Vec<(usize, Vec<u32>)>;

/// The Srefresh messages of r2 in a line that keeps this many sessions up, those to rcv in a refresh
/// period.
fn summaries(sessions: u16) -> Summaries {
    let mut net = reduced(&AuthMode::None);
    for port in 6_000..6_000 + sessions - 1 {
        let session = Session { dst_port: port, ..net.session_at(3) };
        net.sends(0, 1, session, 5004, 0);
        net.run(ms(17));
    }
    net.run(Span::from_secs(240));
    let seen: Rc<RefCell<Summaries>> = Rc::default();
    let ears = Rc::clone(&seen);
    net.fate = Box::new(move |_, flight| {
        each(&flight.datagram.bytes, |message| {
            if let ((2, 3), Message::Srefresh(m)) = ((flight.from, flight.to), message) {
                let ids = m.lists().flat_map(|list| list.ids()).collect();
                ears.borrow_mut().push((flight.datagram.bytes.len(), ids));
            }
        });
        Fate::Deliver
    });
    net.run(R);
    let seen = seen.borrow();
    assert_eq!(net.paths()[3], usize::from(sessions));
    seen.clone()
}

/// RFC 2961 sections 5.2 and 5.3: a summary has as many names as there are, all of a neighbour in one if a packet holds
/// them, and is one packet of the link; names stand in their order.
#[test]
fn summaries_are_as_full_as_a_packet_allows() {
    let few = summaries(60);
    assert!(
        few.len() <= 2 && few[0].1.len() >= 55,
        "all in one: {:?}",
        few.iter().map(|s| s.1.len()).collect::<Vec<_>>()
    );
    let many = summaries(1_200);
    let names: usize = many.iter().map(|s| s.1.len()).sum();
    assert!((1_050..=1_300).contains(&names), "{names}");
    assert!(many.len() <= 8, "{:?}", many.iter().map(|s| s.1.len()).collect::<Vec<_>>());
    for (bytes, names) in few.iter().chain(&many) {
        assert!(bytes + 20 <= 1_500, "{bytes} bytes");
        assert!(names.is_sorted(), "{names:?}");
    }
}

/// RFC 2961 section 5.6: beyond a router that does not speak RSVP nobody is refreshed by name.
#[test]
fn beyond_a_router_without_rsvp_all_is_refreshed_in_full() {
    let mut net = Net::new(false);
    for name in ["snd", "plain", "r2", "rcv"] {
        net.node(name, Config { refresh_reduction: true, ..config(R) });
    }
    net.link_up(1..4);
    net.mute(1);
    let seen = Rc::new(RefCell::new([0; 2]));
    let count = Rc::clone(&seen);
    net.fate = Box::new(move |_, flight| {
        let mut seen = count.borrow_mut();
        each(&flight.datagram.bytes, |message| {
            if flight.from == 0 || flight.to == 0 {
                assert!(matches!(message, Message::Path(_) | Message::Resv(_) | Message::ResvConf(_)), "{message:?}");
                assert!(message.envelope().message_id.is_none() && message.envelope().acks().count() == 0);
                seen[0] += 1;
            } else if matches!(message, Message::Srefresh(_)) {
                seen[1] += 1;
            }
        });
        Fate::Deliver
    });
    net.announce(0, 3, 3);
    net.run(ms(50));
    net.ask(0, 3, cl(3));
    net.run(Span::from_secs(600));
    assert_eq!((net.on(0, 1), net.on(2, 2)), (3, 3));
    assert!(seen.borrow().iter().all(|n| *n > 25), "in full here, by name there: {:?}", seen.borrow());
}

/// RFC 2961 section 5.5: how often a refresh is in full is configured.
#[test]
fn how_often_a_refresh_is_in_full_is_configured() {
    for (names_per_full, in_an_hour) in [(0, 80..=160), (1, 45..=75), (3, 22..=38), (16, 4..=10)] {
        let mut net = Net::new(false);
        for name in ["snd", "rcv"] {
            net.node(name, Config { refresh_reduction: true, names_per_full, ..config(R) });
        }
        net.link(0, 1);
        net.announce(0, 1, 3);
        net.run(Span::from_secs(60));
        net.announce(0, 1, 4);
        net.run(Span::from_secs(60));
        let since = net.now;
        net.run(Span::from_secs(3_600));
        let full = net.count("Path", since);
        assert!(in_an_hour.contains(&full), "{names_per_full}: {full}");
        assert_eq!(net.paths()[1], 1);
    }
}

/// RFC 2961 section 4.7: an acknowledgement of what came to a group waits a random time, no longer than configured.
#[test]
fn acknowledgements_of_what_came_to_a_group_wait() {
    for most in [250, 40] {
        let mut net = Net::new(false);
        for name in ["s", "r", "a"] {
            net.node(name, Config { refresh_reduction: true, group_ack_wait: ms(most), ..config(R) });
        }
        net.link_up(1..3);
        let group = net.group(1);
        net.members(&group, &[2]);
        let acks: Rc<RefCell<Vec<(u32, Time)>>> = Rc::default();
        let ears = Rc::clone(&acks);
        net.fate = Box::new(move |now, flight| {
            each(&flight.datagram.bytes, |message| {
                ears.borrow_mut().extend(message.envelope().acks().map(|ack| (ack.id, now)));
            });
            Fate::Lose
        });
        let mut m = net.upstream_of(1);
        (m.session, m.dst) = (group, group.dst);
        let since = net.now;
        for id in 1..=40 {
            m.template.src_port = 5_000 + id;
            let name = MessageId { flags: 1, epoch: 77, id };
            let rest = m.bytes(MessageType::Path);
            let build = Builder::new(MessageType::Path, 255).flags(1).message_id(&name).sub_message(&rest[8..]);
            net.inject_bytes(1, &m, &build.finish().expect("short"));
        }
        assert_eq!(acks.borrow().len(), 0, "not at once");
        net.run(Span::from_secs(2));
        let mut waits: Vec<_> = acks.borrow().iter().map(|(_, at)| at.since(since)).collect();
        waits.sort_unstable();
        assert_eq!(waits.len(), 40, "each once");
        assert!(waits[39] <= ms(most) && waits[39] > ms(most * 3 / 4) && waits[0] < ms(most / 4), "{waits:?}");
        waits.dedup();
        assert!(waits.len() > 35, "spread out: {waits:?}");
    }
}

/// RFC 2961 section 5.3: names for a group that are not known are told only by who would forward the source's packets.
#[test]
fn names_for_a_group_are_missed_only_where_packets_would_be_forwarded() {
    let mut net = reduced(&AuthMode::None);
    let group = net.group(1);
    net.members(&group, &[3]);
    let nacks: Rc<RefCell<Vec<u32>>> = Rc::default();
    let ears = Rc::clone(&nacks);
    net.fate = Box::new(move |_, flight| {
        each(&flight.datagram.bytes, |message| {
            ears.borrow_mut().extend(message.envelope().acks().filter(|ack| ack.nack).map(|ack| ack.id));
        });
        Fate::Lose
    });
    let m = net.upstream_of(1);
    let other = net.group(2);
    let own: std::net::IpAddr = net.addr(0);
    let stranger = net.interface(3, 1).addresses[0];
    let four = |addr: std::net::IpAddr| match addr {
        std::net::IpAddr::V4(addr) => addr.octets(),
        std::net::IpAddr::V6(_) => unreachable!("the net is of IPv4"),
    };
    let mut say = |dst, form, entries: &[(u32, Vec<std::net::IpAddr>)]| {
        let mut body = vec![0, 0, 0, 77];
        for (id, addresses) in entries {
            body.extend(id.to_be_bytes());
            addresses.iter().for_each(|addr| body.extend(four(*addr)));
        }
        let build = Builder::new(MessageType::Srefresh, 255).flags(1).raw(class::MESSAGE_ID_LIST, form, &body);
        let m = Forged { dst, ..m.clone() };
        net.inject_bytes(1, &m, &build.finish().expect("short"));
        std::mem::take(&mut *nacks.borrow_mut())
    };
    let here = m.dst;
    let entries = [
        (1, vec![own, group.dst]),
        (2, vec![own, other.dst]),
        (3, vec![stranger, group.dst]),
        (4, vec![own, group.dst]),
    ];
    let mut told = say(here, 4, &entries);
    told.sort_unstable();
    assert_eq!(told, [1, 4], "nobody listens to the other group; the stranger's packets come the other way");
    assert_eq!(say(group.dst, 2, &[(5, vec![own]), (6, vec![stranger])]), [5]);
    assert_eq!(say(other.dst, 2, &[(7, vec![own])]), []);
    // Lists that were not for where they were sent.
    assert_eq!(say(here, 2, &[(8, vec![own])]), []);
    assert_eq!(say(group.dst, 1, &[(9, vec![])]), []);
    assert_eq!(say(group.dst, 4, &[(10, vec![own, group.dst])]), []);
    assert_eq!(net.drops(1).iter().filter(|why| why.contains("not for where it was sent")).count(), 3);
}

/// A message as a neighbour says it under a name.
fn named(kind: MessageType, id: u32, bytes: &[u8]) -> Vec<u8> {
    let id = MessageId { flags: 0, epoch: 77, id };
    Builder::new(kind, 255).flags(1).message_id(&id).sub_message(&bytes[8..]).finish().expect("short")
}

/// RFC 2961 section 4.5: an error acknowledges what it answers: a Path or Resv that was refused is not said again.
#[test]
fn errors_acknowledge_what_they_answer() {
    for (error, of, answered) in [
        (MessageType::PathErr, MessageType::Path, true),
        (MessageType::PathErr, MessageType::Path, false),
        (MessageType::ResvErr, MessageType::Resv, true),
        (MessageType::ResvErr, MessageType::Resv, false),
    ] {
        let mut net = reduced(&AuthMode::None);
        let said = Rc::new(RefCell::new(0));
        let count = Rc::clone(&said);
        net.fate = Box::new(move |_, flight| {
            each(&flight.datagram.bytes, |message| {
                *count.borrow_mut() += usize::from(flight.from == 1 && message.kind() == of);
            });
            if flight.from == 1 || flight.to == 1 { Fate::Lose } else { Fate::Deliver }
        });
        // What is said now gets lost, or its acknowledgement does.
        match of {
            MessageType::Path => net.inject_path(1, |m| m.tspec = tspec(4)),
            _ => net.inject_resv(1, |m| m.flowspec = cl(4)),
        }
        net.run(ms(1));
        assert_eq!(*said.borrow(), 1, "{of:?}");
        if answered {
            let m = if of == MessageType::Path { net.downstream_of(1) } else { net.upstream_of(1) };
            let bytes = Builder::new(error, 255).flags(1).sub_message(&m.bytes(error)[8..]).finish().expect("short");
            net.inject_bytes(1, &m, &bytes);
        }
        let before = *said.borrow();
        net.run(Span::from_secs(5));
        assert_eq!(*said.borrow() - before, if answered { 0 } else { 2 }, "{of:?} answered: {answered}");
    }
}

/// RFC 2961 section 4.5: an error that a newer one about the same state has overtaken is dropped; one about another state
/// is not, however old its name.
#[test]
fn overtaken_errors_are_dropped() {
    for kind in [MessageType::PathErr, MessageType::ResvErr] {
        let mut net = reduced(&AuthMode::None);
        net.fate = Box::new(|_, _| Fate::Lose);
        let mut say = |id, port: u16| {
            let mut m = if kind == MessageType::PathErr { net.downstream_of(1) } else { net.upstream_of(1) };
            m.session.dst_port = port;
            let bytes = named(kind, id, &m.bytes(kind));
            let before = net.drops(1).len();
            net.inject_bytes(1, &m, &bytes);
            let drops = net.drops(1);
            drops[before..].iter().any(|why| why.contains("overtaken"))
        };
        assert_eq!(
            [say(10, 5004), say(12, 5004), say(11, 5004), say(12, 5004)],
            [false, false, true, false],
            "{kind:?}"
        );
        assert!(!say(9, 6_000), "{kind:?} about a session without state is not out of order");
        assert!(!say(13, 5004));
    }
}

/// RFC 2961 section 4.1, RFC 2205 section 3.1: acknowledgements and names count wherever in a message they stand; a message
/// with two names, and an Ack that has one, are dropped whole.
#[test]
fn acknowledgements_and_names_count_wherever_they_stand() {
    let mut net = reduced(&AuthMode::None);
    let acks = Rc::new(RefCell::new(Vec::new()));
    let ears = Rc::clone(&acks);
    net.fate = Box::new(move |_, flight| {
        each(&flight.datagram.bytes, |message| ears.borrow_mut().extend(message.envelope().acks().map(|ack| ack.id)));
        Fate::Lose
    });
    let mut m = net.upstream_of(1);
    m.dst = m.session.dst;
    let ack = MessageIdAck { nack: false, flags: 0xff, epoch: 1, id: 1 };
    let name = |id| MessageId { flags: 1, epoch: 77, id };
    let build = || Builder::new(MessageType::Path, 255).flags(1);
    let mut say = |id: u32, mbps, order: &dyn Fn(&[u8]) -> Builder| {
        m.tspec = tspec(mbps);
        let bytes = order(&m.bytes(MessageType::Path)[8..]).finish().expect("short");
        net.inject_bytes(1, &m, &bytes);
        let has = net.engine(1).paths().next().expect("one").tspec.r.as_bps() / 1_000_000;
        (has, acks.borrow().contains(&id))
    };
    assert_eq!(say(1, 4, &|rest| build().message_id(&name(1)).message_id_ack(&ack).sub_message(rest)), (4, true));
    assert_eq!(say(2, 5, &|rest| build().sub_message(rest).message_id(&name(2)).message_id_ack(&ack)), (5, true));
    assert_eq!(say(3, 6, &|rest| build().message_id(&name(3)).message_id(&name(3)).sub_message(rest)), (5, false));
    let both = |_: &[u8]| Builder::new(MessageType::Ack, 255).flags(1).message_id_ack(&ack).message_id(&name(4));
    assert_eq!(say(4, 6, &both), (5, false));
}

/// RFC 2961 section 4.5: where there is no state, a lower name than the neighbour's last is not out of order.
#[test]
fn without_state_nothing_is_out_of_order() {
    let mut net = reduced(&AuthMode::None);
    net.fate = Box::new(|_, _| Fate::Lose);
    for (id, port) in [(20, 6_000), (10, 6_001), (5, 6_002)] {
        let before = net.paths()[1];
        let mut m = net.upstream_of(1);
        m.dst = m.session.dst;
        m.session.dst_port = port;
        let bytes = named(MessageType::Path, id, &m.bytes(MessageType::Path));
        net.inject_bytes(1, &m, &bytes);
        assert_eq!(net.paths()[1], before + 1, "{id}");
        m.tspec = tspec(9);
        let bytes = named(MessageType::Path, id - 1, &m.bytes(MessageType::Path));
        net.inject_bytes(1, &m, &bytes);
        assert!(net.drops(1).last().is_some_and(|why| why.contains("overtaken")), "now there is state");
    }
}

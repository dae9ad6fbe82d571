//! Sentences of RFC 2961 and RFC 2747 that no other story tells: what their ledgers in `docs/rfc` name here.

use crate::story::net::*;
use rsvp::integrity::{Algorithm, AuthMode, IntegrityKey, KeyTable};
use rsvp::io::{AppCall, AppId, Config, Datagram, Input};
use std::cell::RefCell;
use std::rc::Rc;
use terms::{FilterSpec, FlowSpec, IfIndex, Rate, Session, Span, Style};
use wire::iana::class;
use wire::objects::MessageId;
use wire::{Builder, Message, MessageType};

pub const R: Span = Span::from_secs(30);

pub fn ms(n: u64) -> Span {
    Span::from_millis(n)
}

/// Every message of a datagram: those in a Bundle one by one.
pub fn each(bytes: &[u8], mut see: impl FnMut(&Message<'_>)) {
    match Message::parse(bytes).expect("ours") {
        Message::Bundle(bundle) => bundle.messages().for_each(|one| see(&Message::parse(one).expect("ours"))),
        message => see(&message),
    }
}

/// `snd - r1 - r2 - rcv`, all reducing refreshes, with three reservations that have been refreshed by name.
pub fn reduced(auth: &AuthMode) -> Net {
    let mut net = Net::new(false);
    for name in ["snd", "r1", "r2", "rcv"] {
        net.node(name, Config { refresh_reduction: true, auth: auth.clone(), ..config(R) });
    }
    net.link_up(1..4);
    net.announce(0, 3, 3);
    net.run(ms(50));
    net.ask(0, 3, cl(3));
    net.run(Span::from_secs(60));
    net
}

fn ask_each<'a>(session: Session, filters: &'a [FilterSpec], flowspecs: &'a [FlowSpec]) -> AppCall<'a> {
    AppCall::Reserve { app: RECEIVER, session, style: Style::Ff, filters, flowspecs, confirm: true }
}

/// RFC 2961 sections 3.3 and 5.2: what is for a neighbour carries no Router Alert; what every router looks into does, and
/// Path and PathTear go from the sender to the session's destination (RFC 2205 sections 3.1.3, 3.1.5 and 3.3).
#[test]
fn neighbours_are_spoken_to_without_router_alert() {
    let mut net = reduced(&AuthMode::None);
    let ends = (net.addr(0), net.addr(3));
    let seen: Rc<RefCell<std::collections::BTreeMap<&str, usize>>> = Rc::default();
    let ears = Rc::clone(&seen);
    net.fate = Box::new(move |_, flight| {
        let kind = Message::parse(&flight.datagram.bytes).expect("ours").kind();
        *ears.borrow_mut().entry(kind.name()).or_default() += 1;
        let to_all = matches!(kind, MessageType::Path | MessageType::PathTear | MessageType::ResvConf);
        assert_eq!(flight.datagram.router_alert, to_all, "{kind:?}");
        if matches!(kind, MessageType::Path | MessageType::PathTear) {
            assert_eq!((flight.datagram.src, flight.datagram.dst), ends, "{kind:?}");
        }
        Fate::Deliver
    });
    net.run(Span::from_secs(600));
    // A node that forgot is told everything at once, and says what it does not know.
    net.nodes[1].env.held.clear();
    net.restart(1);
    net.run(Span::from_secs(120));
    for flowspec in [cl(5), cl(200)] {
        net.ask(0, 3, flowspec);
        net.run(ms(50));
    }
    // Two requests in one breath.
    let session = net.session_at(3);
    let senders = [net.template_at(0), net.sends(0, 1, session, 6000, 2)];
    net.run(ms(50));
    net.tell(3, Input::App(ask_each(session, &senders, &[cl(4), cl(2)])));
    net.run(ms(50));
    // Tears of two sessions in one breath; what keeps state up is in no Bundle.
    let other = Session { dst_port: 6_001, ..session };
    net.sends(0, 1, other, 5004, 1);
    net.run(ms(50));
    net.ask_port(0, 3, 6_001, cl(1));
    net.run(ms(50));
    net.tell(3, Input::App(AppCall::Release { app: RECEIVER, session: None }));
    net.run(ms(50));
    net.silence(0, 3);
    net.run(ms(50));
    let seen = seen.borrow();
    for kind in [
        MessageType::Bundle,
        MessageType::Srefresh,
        MessageType::Ack,
        MessageType::Path,
        MessageType::PathTear,
        MessageType::Resv,
        MessageType::ResvErr,
        MessageType::ResvConf,
    ] {
        assert!(seen.contains_key(kind.name()), "{kind:?} was never sent: {seen:?}");
    }
}

/// RFC 2961 section 3.3: what is sent waits for nothing else to be bundled with, least of all a message that tells news: a
/// new sender's Path, a changed request and a tear have crossed their first link within the link's own delay.
#[test]
fn nothing_waits_to_be_bundled() {
    let mut net = reduced(&AuthMode::None);
    net.run(Span::from_secs(120));
    let session = net.session_at(3);
    let first = |net: &Net, since: usize, from: usize| net.log[since..].iter().find(|line| line.1 == from).map(|l| l.0);
    let (told, since) = (net.now, net.log.len());
    net.sends(0, 1, session, 6000, 2);
    assert_eq!(first(&net, since, 0), Some(told), "a Path");
    net.run(ms(50));
    let (told, since) = (net.now, net.log.len());
    net.ask(0, 3, cl(5));
    assert_eq!(first(&net, since, 3), Some(told), "a Resv");
    net.run(ms(50));
    let (told, since) = (net.now, net.log.len());
    net.silence(0, 3);
    assert_eq!(first(&net, since, 0), Some(told), "a PathTear");
}

/// RFC 2961 sections 4.1 and 4.4: acknowledgements, then one name, in front of everything but INTEGRITY; in an Ack no name.
#[test]
fn acknowledgements_and_names_come_first() {
    for auth in [AuthMode::None, keys(&[1], |_| {})] {
        let mut net = reduced(&auth);
        let signed = auth != AuthMode::None;
        let seen = Rc::new(RefCell::new([0; 2]));
        let ears = Rc::clone(&seen);
        net.fate = Box::new(move |_, flight| {
            each(&flight.datagram.bytes, |message| {
                let classes: Vec<u8> = message.envelope().objects.map(|o| o.class).collect();
                if message.kind() == MessageType::IntegrityChallenge {
                    return;
                }
                let rest =
                    if signed { classes.strip_prefix(&[class::INTEGRITY]).expect("signed") } else { &classes[..] };
                let acks = rest.iter().take_while(|c| **c == class::MESSAGE_ID_ACK).count();
                let names = rest[acks..].iter().take_while(|c| **c == class::MESSAGE_ID).count();
                let later = rest[acks + names..].iter();
                assert_eq!(later.filter(|c| [class::MESSAGE_ID, class::MESSAGE_ID_ACK].contains(c)).count(), 0);
                assert!(names <= usize::from(message.kind() != MessageType::Ack));
                let mut seen = ears.borrow_mut();
                (seen[0], seen[1]) = (seen[0] + acks, seen[1] + names);
            });
            Fate::Deliver
        });
        net.nodes[2].env.capacity.insert(IfIndex(2), Rate::from_mbps(10));
        [cl(5), cl(20)].into_iter().for_each(|flowspec| net.ask(0, 3, flowspec));
        net.run(ms(50));
        net.silence(0, 3);
        net.run(ms(50));
        assert!(seen.borrow().iter().all(|n| *n > 5), "{:?}", seen.borrow());
    }
}

/// RFC 2961 section 3.3: a Bundle is one packet of the link.
#[test]
fn a_bundle_fits_the_link() {
    let mut net = reduced(&AuthMode::None);
    for port in 6_000..6_060 {
        let session = Session { dst_port: port, ..net.session_at(3) };
        net.sends(0, 1, session, 5004, 1);
        net.run(ms(10));
        net.ask_port(0, 3, port, cl(1));
        net.run(ms(20));
    }
    let sizes = Rc::new(RefCell::new(Vec::new()));
    let ears = Rc::clone(&sizes);
    net.fate = Box::new(move |_, flight| {
        if (flight.from, flight.datagram.bytes[1]) == (3, MessageType::Bundle.number()) {
            ears.borrow_mut().push(flight.datagram.bytes.len());
        }
        Fate::Deliver
    });
    net.tell(3, Input::App(AppCall::Release { app: RECEIVER, session: None }));
    net.run(ms(50));
    assert_eq!(net.held(), [0; 4]);
    let sizes = sizes.borrow();
    assert!(sizes.len() > 2 && sizes.iter().all(|bytes| bytes + 20 <= 1_500), "{sizes:?}");
    assert!(sizes[0] > 1_200, "as many as fit: {sizes:?}");
}

/// RFC 2961 section 3.3: a Path to a group is never in a Bundle (the link may have other listeners), and has no name.
#[test]
fn paths_to_groups_go_alone_and_unnamed() {
    let mut net = Net::new(false);
    for name in ["s", "r", "a", "b"] {
        net.node(name, Config { refresh_reduction: true, ..config(R) });
    }
    for (x, y) in [(0, 1), (1, 2), (1, 3)] {
        net.link(x, y);
    }
    let group = net.group(1);
    net.members(&group, &[2]);
    let senders = [5004, 5005].map(|port| net.sends(0, 1, group, port, 1));
    let back = net.session_at(0);
    net.sends(3, 1, back, 5004, 1);
    net.run(ms(50));
    net.shares(2, group, Style::Se, &senders, cl(1));
    net.run(ms(50));
    let paths = Rc::new(RefCell::new(0));
    let count = Rc::clone(&paths);
    net.fate = Box::new(move |_, flight| {
        let bundled = flight.datagram.bytes[1] == MessageType::Bundle.number();
        each(&flight.datagram.bytes, |message| {
            let to_group = message.session().is_some_and(|session| session.dst.is_multicast());
            if to_group && matches!(message.kind(), MessageType::Path | MessageType::PathTear) {
                assert!(!bundled && message.envelope().message_id.is_none());
                *count.borrow_mut() += 1;
            }
        });
        Fate::Deliver
    });
    net.members(&group, &[2, 3]);
    net.run(Span::from_secs(100));
    for template in senders {
        net.tell(0, Input::App(AppCall::SenderGone { app: AppId(1), session: group, template }));
    }
    net.run(ms(50));
    assert!(*paths.borrow() > 20, "{} Paths and PathTears", paths.borrow());
    assert_eq!(net.paths(), [1, 1, 0, 1], "the one the other way");
}

/// RFC 2961 section 4.6: an acknowledgement rides on what goes to the neighbour anyway.
#[test]
fn acknowledgements_ride_on_what_goes_to_the_neighbour() {
    let mut net = reduced(&AuthMode::None);
    let asked = Rc::new(RefCell::new(Vec::new()));
    let answered = Rc::new(RefCell::new(Vec::new()));
    let alone = Rc::new(RefCell::new(0));
    let (ask, answer, count) = (Rc::clone(&asked), Rc::clone(&answered), Rc::clone(&alone));
    net.fate = Box::new(move |_, flight| {
        each(&flight.datagram.bytes, |message| match ((flight.from, flight.to), message) {
            ((3, 2), Message::Resv(m)) => ask.borrow_mut().extend(m.envelope.message_id.map(|id| id.id)),
            ((2, 3), Message::ResvErr(m)) => answer.borrow_mut().extend(m.envelope.acks().map(|ack| ack.id)),
            ((2, 3), Message::Ack(_)) => *count.borrow_mut() += 1,
            _ => {}
        });
        Fate::Deliver
    });
    net.nodes[2].env.capacity.insert(IfIndex(2), Rate::from_mbps(10));
    net.ask(0, 3, cl(20));
    net.run(ms(2));
    assert_eq!(
        (answered.borrow().len(), answered.borrow()[0]),
        (1, asked.borrow()[0]),
        "refused, and acknowledged with it"
    );
    assert_eq!(*alone.borrow(), 0, "no message for the acknowledgement alone");
}

/// RFC 2961 sections 4.5 and 4.6: who asks for an acknowledgement gets one, also for a refresh; who does not, or whose
/// message cannot be read, gets none.
#[test]
fn only_what_asks_and_can_be_read_is_acknowledged() {
    let mut net = reduced(&AuthMode::None);
    let acks = Rc::new(RefCell::new(Vec::new()));
    let ears = Rc::clone(&acks);
    net.fate = Box::new(move |_, flight| {
        each(&flight.datagram.bytes, |message| ears.borrow_mut().extend(message.envelope().acks().map(|ack| ack.id)));
        Fate::Lose
    });
    let mut m = net.upstream_of(1);
    m.dst = m.session.dst;
    let path = m.bytes(MessageType::Path);
    let (_, objects) = path.split_at(8);
    let last = Message::parse(&path).expect("good").envelope().objects.last().expect("an ADSPEC").body.len() + 4;
    let tspec_and_adspec = last + 36;
    let cut = &objects[..objects.len() - tspec_and_adspec];
    let mut say = |flags, id, objects: &[u8]| {
        let id = MessageId { flags, epoch: 5, id };
        let build = Builder::new(MessageType::Path, 255).flags(1).message_id(&id).sub_message(objects);
        net.inject_bytes(1, &m, &build.finish().expect("short"));
        net.drops(1).len()
    };
    let before = say(1, 1, objects);
    say(1, 1, objects);
    say(0, 2, objects);
    assert_eq!(*acks.borrow(), [1, 1]);
    assert_eq!(say(1, 3, cut), before + 1, "without SENDER_TSPEC it is dropped");
    assert_eq!(*acks.borrow(), [1, 1]);
}

/// RFC 2961 section 4.5: an older Resv does not undo a newer one, an older ResvTear does not end it.
#[test]
fn older_requests_and_tears_do_not_undo_newer_ones() {
    let mut net = reduced(&AuthMode::None);
    net.fate = Box::new(|_, _| Fate::Lose);
    let mut say = |kind, id, mbps| {
        let mut m = net.downstream_of(1);
        m.flowspec = cl(mbps);
        let bytes = m.bytes(kind);
        let id = MessageId { flags: 0, epoch: 77, id };
        let build = Builder::new(kind, 255).flags(1).message_id(&id).sub_message(&bytes[8..]);
        net.inject_bytes(1, &m, &build.finish().expect("short"));
        net.on(1, 2)
    };
    use MessageType::{Resv, ResvTear};
    assert_eq!([say(Resv, 10, 5), say(Resv, 12, 7), say(Resv, 11, 6), say(ResvTear, 9, 7)], [5, 7, 7, 7]);
    assert_eq!([say(Resv, 13, 6), say(ResvTear, 14, 6)], [6, 0]);
}

fn keys(ids: &[u64], edit: impl FnOnce(&mut KeyTable)) -> AuthMode {
    let all = ids.iter().map(|id| IntegrityKey::new(*id, Algorithm::HmacSha256, &id.to_be_bytes())).collect();
    let mut table = KeyTable::new(all).expect("good keys");
    edit(&mut table);
    AuthMode::Keys(table)
}

/// `snd - r1`, with what the second asks of the first.
fn pair(theirs: &AuthMode) -> Net {
    let mut net = Net::new(false);
    net.node("snd", Config { auth: keys(&[1], |_| {}), ..config(R) });
    net.node("r1", Config { auth: theirs.clone(), ..config(R) });
    net.link(0, 1);
    net
}

/// RFC 2747 section 4.2: how far a message may be overtaken is configured.
#[test]
fn the_reordering_window_is_as_configured() {
    for (window, taken) in [(1, [false, false]), (2, [true, false]), (64, [true, true])] {
        let mut net = pair(&keys(&[1], |table| table.window = window));
        net.announce(0, 1, 3);
        net.run(Span::from_secs(10));
        let late: Rc<RefCell<Vec<Flight>>> = Rc::default();
        let keep = Rc::clone(&late);
        net.fate = Box::new(move |_, flight| {
            if (flight.from, keep.borrow().len() < 2) == (0, true) {
                keep.borrow_mut().push(flight.clone());
                return Fate::Lose;
            }
            Fate::Deliver
        });
        [4, 5, 6].into_iter().for_each(|mbps| net.announce(0, 1, mbps));
        net.run(ms(10));
        let mbps = |net: &Net| net.engine(1).paths().next().expect("one").tspec.r.as_bps() / 1_000_000;
        assert_eq!((mbps(&net), late.borrow().len()), (6, 2));
        let late = late.borrow().clone();
        // The one just before the newest first, then the one before that.
        for ((flight, taken), was) in late.iter().rev().zip(taken).zip([5, 4]) {
            let before = mbps(&net);
            let Datagram { src, dst, ttl, ref bytes, .. } = flight.datagram;
            net.tell(1, Input::Message { iif: flight.iif, src, dst, ttl, bytes });
            assert_eq!(mbps(&net), if taken { was } else { before }, "window {window}");
        }
    }
}

/// RFC 2747 section 4.3: whether challenges are sent is configured, and so is what becomes of those who refuse them.
#[test]
fn the_handshake_is_as_configured() {
    for (handshake, challenges) in [(true, 1), (false, 0)] {
        let mut net = pair(&keys(&[1], |table| table.handshake = handshake));
        let tape: Rc<RefCell<Vec<Flight>>> = Rc::default();
        let keep = Rc::clone(&tape);
        net.fate = Box::new(move |_, flight| {
            keep.borrow_mut().push(flight.clone());
            Fate::Deliver
        });
        net.announce(0, 1, 3);
        net.run(ms(20));
        let asked = tape.borrow().iter().filter(|f| f.datagram.bytes[1] == 25).count();
        assert_eq!((net.paths()[1], asked), (1, challenges), "handshake {handshake}");
    }
}

/// RFC 2747 section 5.2: a key that is in use is deleted by hand; what it signed before, or signs from then on, is nobody's.
#[test]
fn an_active_key_can_be_deleted() {
    let mut net = pair(&keys(&[1], |_| {}));
    net.announce(0, 1, 3);
    net.run(ms(50));
    assert_eq!(net.paths()[1], 1);
    let mbps = |net: &Net| net.engine(1).paths().next().expect("one").tspec.r.as_bps() / 1_000_000;
    net.tell(1, Input::Auth { interface: IfIndex(1), auth: keys(&[2], |_| {}) });
    net.announce(0, 1, 4);
    net.run(ms(50));
    assert_eq!(mbps(&net), 3, "signed with the deleted key");
    net.tell(0, Input::Auth { interface: IfIndex(1), auth: keys(&[2], |_| {}) });
    net.announce(0, 1, 5);
    net.run(ms(50));
    assert_eq!((net.paths()[1], mbps(&net)), (1, 5), "the state lived on, and the new key counts");
}

/// A type of message, and the first octets of its INTEGRITY.
type Flags = (u8, Vec<u8>);

/// RFC 2747 sections 2.1 and 4.1: no flag but Handshake is ever set, and the reserved octet is zero.
#[test]
fn unused_flags_and_the_reserved_octet_are_zero() {
    let mut net = pair(&keys(&[1], |_| {}));
    let seen: Rc<RefCell<Vec<Flags>>> = Rc::default();
    let ears = Rc::clone(&seen);
    net.fate = Box::new(move |_, flight| {
        each(&flight.datagram.bytes, |m| {
            let signed = m.envelope().objects.filter(|o| o.class == class::INTEGRITY);
            ears.borrow_mut().extend(signed.map(|o| (m.kind().number(), o.body[..2].to_vec())));
        });
        Fate::Deliver
    });
    net.announce(0, 1, 3);
    net.run(ms(20));
    net.ask(0, 1, cl(3));
    net.run(ms(20));
    net.release(1);
    net.silence(0, 1);
    net.run(ms(20));
    let seen = seen.borrow();
    for kind in [MessageType::Path, MessageType::Resv, MessageType::ResvTear, MessageType::PathTear] {
        assert!(seen.iter().any(|(k, _)| *k == kind.number()), "{kind:?}");
    }
    assert!(seen.iter().all(|(_, flags)| *flags == [1, 0]), "{seen:?}");
}

/// A message of `pair` signed anew as a sender does that answers no challenges.
fn without_handshake(bytes: &[u8]) -> Vec<u8> {
    use hmac::{Hmac, KeyInit, Mac};
    let mut out = bytes.to_vec();
    // INTEGRITY comes first: flags, reserved, Key Identifier and Sequence Number before the digest.
    assert_eq!((out[10], out[12]), (class::INTEGRITY, 1));
    out[12] = 0;
    out[28..60].fill(0);
    let mut mac = Hmac::<sha2::Sha256>::new_from_slice(&1_u64.to_be_bytes()).expect("any length");
    mac.update(&out);
    out[28..60].copy_from_slice(&mac.finalize().into_bytes());
    out
}

/// RFC 2747 section 4.3: who says that it answers no challenges is sent none; whether it is taken without is configured.
#[test]
fn a_neighbour_that_refuses_handshakes_is_sent_no_challenge() {
    for (handshake, unwilling, taken) in [(true, false, 0), (true, true, 1), (false, false, 1)] {
        let set = |table: &mut KeyTable| (table.handshake, table.unwilling) = (handshake, unwilling);
        let mut net = pair(&keys(&[1], set));
        let tape: Rc<RefCell<Vec<Flight>>> = Rc::default();
        let keep = Rc::clone(&tape);
        net.fate = Box::new(move |_, flight| {
            keep.borrow_mut().push(flight.clone());
            Fate::Lose
        });
        net.announce(0, 1, 3);
        net.run(ms(20));
        let path = tape.borrow()[0].clone();
        let Datagram { src, dst, ttl, ref bytes, .. } = path.datagram;
        let unsigned_flag = without_handshake(bytes);
        tape.borrow_mut().clear();
        // The second time it is a replay, which is not asked about either.
        for _ in 0..2 {
            net.tell(1, Input::Message { iif: path.iif, src, dst, ttl, bytes: &unsigned_flag });
            net.run(ms(20));
            assert_eq!(net.paths()[1], taken, "handshake {handshake}, unwilling {unwilling}");
            let challenges = tape.borrow().iter().filter(|f| f.datagram.bytes[1] == 25).count();
            assert_eq!(challenges, 0, "handshake {handshake}, unwilling {unwilling}");
        }
        // With the flag it is challenged, where challenges are made, whatever becomes of those without.
        net.tell(1, Input::Message { iif: path.iif, src, dst, ttl, bytes });
        net.run(ms(20));
        let challenges = tape.borrow().iter().filter(|f| f.datagram.bytes[1] == 25).count();
        assert_eq!(challenges, usize::from(handshake), "handshake {handshake}, unwilling {unwilling}");
    }
}

/// RFC 2747 section 4: each neighbour may have an association of its own: one identifier, one key for each.
#[test]
fn a_key_for_one_neighbour_alone_is_good_for_it() {
    let stranger: std::net::IpAddr = [10, 0, 0, 77].into();
    let own =
        |peer, secret: &[u8]| IntegrityKey { peer: Some(peer), ..IntegrityKey::new(7, Algorithm::HmacSha256, secret) };
    let table = |keys: Vec<IntegrityKey>| AuthMode::Keys(KeyTable::new(keys).expect("good keys"));
    for (secret, taken) in [(b"of snd and r1 .....", 1), (b"of the other and r1", 0)] {
        let mut net = pair(&AuthMode::None);
        let [snd, r1] = [0, 1].map(|node| net.interface(node, 1).addresses[0]);
        let auth = table(vec![own(snd, b"of snd and r1 ....."), own(stranger, b"of the other and r1")]);
        net.tell(1, Input::Auth { interface: IfIndex(1), auth });
        net.tell(0, Input::Auth { interface: IfIndex(1), auth: table(vec![own(r1, secret)]) });
        net.announce(0, 1, 3);
        net.run(ms(50));
        assert_eq!(net.paths()[1], taken);
        net.ask(0, 1, cl(3));
        net.run(ms(50));
        assert_eq!(net.held(), [3 * taken as u64, 0], "and back");
    }
}

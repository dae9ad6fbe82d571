//! Stories of authentication (RFC 2747): no state before it, nothing forged, replayed or stale has any effect.
//!
//! | fault | story |
//! |---|---|
//! | A1 no INTEGRITY | `without_a_signature_nothing_happens` |
//! | A2 right identifier, wrong key; A12 another algorithm | `a_wrong_key_is_nobody` |
//! | A3 lifetimes, overlap | `keys_roll_over_without_a_gap`, `the_last_key_is_used_on` |
//! | A4 replays of the last, an old one, from before our restart | `nothing_is_taken_twice`, `after_our_restart_nothing_old_is_taken` |
//! | A5 leaps | `a_sender_that_went_back_proves_itself` |
//! | A6 reorder within and beyond the window | `nothing_is_taken_twice` |
//! | A7 challenges replayed, guessed, from elsewhere, in floods | `challenges_cost_nothing`, `a_guessed_answer_is_none` |
//! | A8, A9 numbers lost, clock back | `a_sender_that_went_back_proves_itself`, unit tests of `sequence` |
//! | A10 a group's key | documented in `integrity` |
//! | A11 constant time | by `hmac`'s `verify_slice`, used in `mac` alone |
//! | A13 forged errors | `without_a_signature_nothing_happens` |
//! | A14 another interface, another hop | `a_signature_counts_where_it_was_made_for` |
//! | A15 our own message back | `our_own_words_are_not_taken_back` |
//! | A16 AUTH_SESSION | not decoded: POLICY_DATA travels on untouched |

use crate::story::net::*;
use rsvp::integrity::{Algorithm, AuthMode, IntegrityKey, KeyTable};
use rsvp::io::{Config, Event, Input, NeighbourNews};
use std::cell::RefCell;
use std::net::IpAddr;
use std::rc::Rc;
use terms::{IfIndex, Span, Time};
use wire::{Message, MessageType};

const R: Span = Span::from_secs(30);
const SECRET: &[u8] = b"a secret of the link";

fn table(keys: Vec<IntegrityKey>) -> AuthMode {
    AuthMode::Keys(KeyTable::new(keys).unwrap())
}

fn auth(algorithm: Algorithm) -> AuthMode {
    table(vec![IntegrityKey::new(7, algorithm, SECRET)])
}

/// `snd - r1 - r2 - rcv`, each link with its keys.
fn line(auth: &AuthMode) -> Net {
    line_since(auth, Time::ZERO)
}

fn line_since(auth: &AuthMode, now: Time) -> Net {
    let mut net = Net::new(false);
    net.now = now;
    for name in ["snd", "r1", "r2", "rcv"] {
        net.node(name, Config { auth: auth.clone(), ..config(R) });
    }
    net.link_up(1..4);
    net
}

fn reserve(net: &mut Net) {
    net.announce(0, 3, 3);
    net.run(Span::from_millis(50));
    net.ask(0, 3, cl(3));
    net.run(Span::from_millis(100));
}

/// Records every datagram to `node`.
fn recorded(net: &mut Net, node: usize) -> Rc<RefCell<Vec<Flight>>> {
    let tape = Rc::new(RefCell::new(Vec::new()));
    let writer = tape.clone();
    net.fate = Box::new(move |_, flight| {
        if flight.to == node {
            writer.borrow_mut().push(flight.clone());
        }
        Fate::Deliver
    });
    tape
}

fn play(net: &mut Net, flight: &Flight) {
    let Datagram { src, dst, ttl, ref bytes, .. } = flight.datagram;
    net.tell(flight.to, Input::Message { iif: flight.iif, src, dst, ttl, bytes });
}

use rsvp::io::Datagram;

#[test]
fn a_reservation_is_set_up_with_every_algorithm() {
    for algorithm in [Algorithm::HmacSha256, Algorithm::HmacSha1, Algorithm::HmacMd5] {
        let mut net = line(&auth(algorithm));
        reserve(&mut net);
        assert_eq!(net.held(), [3, 3, 3, 0], "{algorithm:?}");
        assert_eq!(net.confirms(3).len(), 1, "{algorithm:?}");
        // It lives on by refreshes, and is torn down by a tear.
        net.run(Span::from_secs(600));
        assert_eq!(net.held(), [3, 3, 3, 0]);
        net.silence(0, 3);
        net.run(Span::from_secs(1));
        assert_eq!(net.held(), [0, 0, 0, 0]);
    }
}

/// All that leaves is signed, and has no checksum beside it (RFC 2747 section 1).
#[test]
fn every_message_is_signed() {
    let mut net = line(&auth(Algorithm::HmacSha256));
    let tape = recorded(&mut net, 1);
    reserve(&mut net);
    for flight in tape.borrow().iter() {
        let message = Message::parse(&flight.datagram.bytes).unwrap();
        if message.kind() != MessageType::IntegrityChallenge {
            let integrity = message.envelope().integrity.expect("signed");
            assert_eq!((integrity.key_id, integrity.digest.len(), integrity.handshake()), (7, 32, true));
            assert_eq!(message.envelope().header.checksum, 0);
        }
    }
    assert!(tape.borrow().len() > 3);
}

/// Two nodes of which one is never challenged by anything: the first reservation needs one more round trip a hop, no
/// refresh period.
#[test]
fn the_handshake_costs_a_round_trip() {
    let mut net = line(&auth(Algorithm::HmacSha256));
    net.announce(0, 3, 3);
    net.run(Span::from_millis(15));
    assert_eq!(net.paths(), [1, 1, 1, 1], "3 hops of 1 ms, each with a challenge and an answer");
    let news = |e: &Event| matches!(e, Event::Neighbour { news: NeighbourNews::Authenticated { key_id: 7 }, .. });
    assert_eq!([1, 2, 3].map(|n| net.saw(n, news).len()), [1, 1, 1]);
}

/// A disk that is full when a node starts, and for ten minutes: the node is mute, and no longer than that, without a hand.
#[test]
fn a_full_disk_silences_a_node_only_while_it_is_full() {
    let auth = auth(Algorithm::HmacSha256);
    let mut net = Net::new(false);
    for name in ["snd", "r1", "r2", "rcv"] {
        net.node(name, Config { auth: auth.clone(), ..config(R) });
    }
    net.nodes[1].full = true;
    net.link_up(1..4);
    net.announce(0, 3, 3);
    net.ask(0, 3, cl(3));
    net.run(Span::from_secs(600));
    assert_eq!(net.held(), [0, 0, 0, 0]);
    net.nodes[1].full = false;
    net.run(Span::from_secs(34));
    assert!(net.nodes[1].disk > 0, "it asked again by itself");
    net.run(Span::from_secs(90));
    assert_eq!(net.held(), [3, 3, 3, 0]);
}

fn state(net: &Net, node: usize) -> (u64, Vec<u64>) {
    (net.engine(node).digest(), net.held())
}

#[test]
fn without_a_signature_nothing_happens() {
    let mut net = line(&auth(Algorithm::HmacSha256));
    reserve(&mut net);
    let before = state(&net, 1);
    let (sent, dropped) = (net.log.len(), net.drops(1).len());
    for kind in rsvp::counters::SEVEN {
        let down = matches!(kind, MessageType::Path | MessageType::PathTear | MessageType::ResvErr);
        let m = if down { net.upstream_of(1) } else { net.downstream_of(1) };
        net.inject(1, kind, &m);
        // Nor is it answered, even where RFC 2205 wants an answer.
        let mut strange = m.clone();
        strange.extra.push((0x2a, 1, vec![0; 4]));
        net.inject(1, kind, &strange);
    }
    assert_eq!(state(&net, 1), before);
    assert_eq!(net.log.len(), sent, "no answer to the unauthenticated");
    assert!(net.drops(1)[dropped..].iter().all(|why| *why == "no INTEGRITY where it is required"));
    assert_eq!(net.engine(1).counters().dropped["no INTEGRITY where it is required"], 14, "each is counted");
}

#[test]
fn a_wrong_key_is_nobody() {
    let keys = [
        IntegrityKey::new(7, Algorithm::HmacSha256, b"another secret"),
        IntegrityKey::new(7, Algorithm::HmacMd5, SECRET),
        IntegrityKey::new(8, Algorithm::HmacSha256, SECRET),
        IntegrityKey { peer: Some([10, 0, 0, 99].into()), ..IntegrityKey::new(7, Algorithm::HmacSha256, SECRET) },
        IntegrityKey { until: Time::from_nanos(1), ..IntegrityKey::new(7, Algorithm::HmacSha256, SECRET) },
    ];
    for key in keys {
        let mut net = line(&auth(Algorithm::HmacSha256));
        // On the first link r1 has a good key beside the strange one, which is the only one that snd has not.
        let good =
            IntegrityKey { peer: Some([10, 0, 0, 98].into()), ..IntegrityKey::new(9, Algorithm::HmacSha256, b"x") };
        net.now = Time::from_nanos(5_000_000_000);
        net.tell(1, Input::Auth { interface: IfIndex(1), auth: table(vec![key.clone(), good]) });
        let empty = net.engine(1).digest();
        net.announce(0, 3, 3);
        net.run(Span::from_millis(100));
        let overdue = key.until != Time::FOREVER;
        assert_eq!(net.paths()[1], usize::from(overdue), "{key:?}");
        assert_eq!(net.engine(1).digest() == empty, !overdue);
    }
}

#[test]
fn nothing_is_taken_twice() {
    let mut net = line(&auth(Algorithm::HmacSha256));
    let tape = recorded(&mut net, 1);
    reserve(&mut net);
    // 100 refreshes and changes from upstream.
    for i in 0..100 {
        net.announce(0, 3, 3 + i % 2);
        net.run(Span::from_millis(10));
    }
    let before = state(&net, 1);
    // All that was signed.
    let signed = |f: &&Flight| f.from == 0 && f.datagram.bytes[1] != 25;
    let all: Vec<Flight> = tape.borrow().iter().filter(signed).cloned().collect();
    assert!(all.len() > 100);
    let sent = net.log.len();
    for flight in &all {
        play(&mut net, flight);
    }
    assert_eq!(state(&net, 1), before, "each was seen, or is too old");
    let more = &net.log[sent..];
    assert!(more.iter().all(|(_, _, _, kind)| kind.starts_with("Integrity")) && more.len() <= 2, "{more:?}");
    net.run(Span::from_secs(3));
    // What was held back and comes late within the window is taken, once.
    let late = Rc::new(RefCell::new(None));
    let keep = late.clone();
    net.fate = Box::new(move |_, f| {
        if f.to == 1 && f.from == 0 && keep.borrow().is_none() {
            *keep.borrow_mut() = Some(f.clone());
            return Fate::Lose;
        }
        Fate::Deliver
    });
    net.announce(0, 3, 5);
    net.announce(0, 3, 6);
    net.run(Span::from_millis(10));
    let late = late.borrow().clone().unwrap();
    let received = net.engine(1).counters().received;
    play(&mut net, &late);
    assert_eq!(net.engine(1).counters().received.get(MessageType::Path), received.get(MessageType::Path) + 1);
    play(&mut net, &late);
    assert_eq!(net.engine(1).counters().received.get(MessageType::Path), received.get(MessageType::Path) + 1);
}

#[test]
fn after_our_restart_nothing_old_is_taken() {
    let mut net = line(&auth(Algorithm::HmacSha256));
    let tape = recorded(&mut net, 1);
    reserve(&mut net);
    net.run(Span::from_secs(10));
    let old = tape.borrow().clone();
    // Nobody else speaks while the attacker plays back all that was ever said.
    net.fate = Box::new(|_, _| Fate::Lose);
    net.restart(1);
    let empty = net.engine(1).digest();
    for flight in old.iter() {
        play(&mut net, flight);
    }
    net.run(Span::from_secs(1));
    assert_eq!(net.engine(1).digest(), empty);
    assert_eq!((net.paths()[1], net.resvs()[1]), (0, 0));
    // When the neighbours are heard again they are challenged, answer, and all is as it was.
    net.fate = Box::new(|_, _| Fate::Deliver);
    net.run(Span::from_secs(60));
    assert_eq!((net.paths()[1], net.resvs()[1]), (1, 1));
}

/// A neighbour whose numbers went back (its clock and its disk lost) is not taken until it has shown that it is there.
#[test]
fn a_sender_that_went_back_proves_itself() {
    let mut net = line_since(&auth(Algorithm::HmacSha256), Time::from_nanos(1 << 60));
    reserve(&mut net);
    assert_eq!(net.confirms(3).len(), 1);
    // An earlier life of snd, by its clock: numbers far below those that r1 has seen.
    net.nodes[0].disk = 0;
    let now = net.now;
    net.now = Time::from_nanos(1 << 30);
    net.restart(0);
    net.now = now;
    let challenges = net.count("Integrity Challenge", now);
    net.announce(0, 3, 4);
    net.run(Span::from_millis(50));
    assert!(net.count("Integrity Challenge", now) > challenges);
    assert!(net.saw(1, |e| matches!(e, Event::Dropped { why, .. } if why.contains("too old"))).len() == 1);
    let rate = |net: &Net| net.engine(1).paths().next().unwrap().tspec.r.as_bps() / 1_000_000;
    assert_eq!(rate(&net), 4, "after its answer its words count again");
}

#[test]
fn keys_roll_over_without_a_gap() {
    let at = |secs: u64| Time::from_nanos(secs * 1_000_000_000);
    let old = IntegrityKey { until: at(1_000), ..IntegrityKey::new(1, Algorithm::HmacMd5, b"old") };
    let new = IntegrityKey { from: at(900), ..IntegrityKey::new(2, Algorithm::HmacSha256, b"new") };
    let mut net = line(&table(vec![old, new]));
    reserve(&mut net);
    let tape = recorded(&mut net, 1);
    net.run_until(at(2_000));
    assert_eq!(net.held(), [3, 3, 3, 0]);
    let gone = |e: &Event| matches!(e, Event::PathRemoved { .. } | Event::ResvRemoved { .. });
    assert!((0..4).all(|n| net.saw(n, gone).is_empty()), "not a moment without");
    let ids: Vec<u64> = tape
        .borrow()
        .iter()
        .filter_map(|f| Message::parse(&f.datagram.bytes).unwrap().envelope().integrity.map(|i| i.key_id))
        .collect();
    let first_new = ids.iter().position(|id| *id == 2).unwrap();
    assert!(ids[..first_new].iter().all(|id| *id == 1) && ids[first_new..].iter().all(|id| *id == 2));
}

/// RFC 2747 section 5.3: rather than no reservation, the last key goes on; somebody is told.
#[test]
fn the_last_key_is_used_on() {
    let end = Time::from_nanos(100_000_000_000);
    let mut net =
        line(&table(vec![IntegrityKey { until: end, ..IntegrityKey::new(1, Algorithm::HmacSha256, b"only") }]));
    reserve(&mut net);
    net.run(Span::from_secs(1_000));
    assert_eq!(net.held(), [3, 3, 3, 0]);
    let news = |e: &Event| matches!(e, Event::Neighbour { news: NeighbourNews::KeyOverdue { key_id: 1 }, .. });
    assert!(net.saw(1, news).iter().all(|t| *t >= end) && !net.saw(1, news).is_empty());
}

/// 10^5 forged messages and challenges: no memory, hardly an answer.
#[test]
fn challenges_cost_nothing() {
    let mut net = line(&auth(Algorithm::HmacSha256));
    let tape = recorded(&mut net, 1);
    reserve(&mut net);
    let challenge = wire::Builder::new(MessageType::IntegrityChallenge, 255)
        .challenge(&wire::Challenge { key_id: 7, cookie: &[1; 16] })
        .finish()
        .unwrap();
    let genuine = tape.borrow().iter().find(|f| f.from == 0 && f.datagram.bytes[1] == 1).cloned().unwrap();
    let before = state(&net, 1);
    let sent = net.log.len();
    for i in 0..50_000u32 {
        let src = IpAddr::from((0x0a00_0003 + i % 200).to_be_bytes());
        let dst = net.interface(1, 1).addresses[0];
        net.tell(1, Input::Message { iif: IfIndex(1), src, dst, ttl: 255, bytes: &challenge });
        // A recorded message under other hops: the digest is wrong then.
        let mut flight = genuine.clone();
        let at = flight.datagram.bytes.len() - 100;
        flight.datagram.bytes[at] ^= i as u8 | 1;
        play(&mut net, &flight);
    }
    assert_eq!(state(&net, 1), before);
    net.run(Span::from_millis(100));
    let more = net.log.len() - sent;
    assert!(more <= 32 + 8, "{more} messages for 100,000");
    let events = net.drops(1).len();
    assert!(events <= 32, "{events} lines in the log for 100,000 messages");
}

/// Two forged challenges a second, in a neighbour's name and with ever new cookies, at a node with 400 sessions: it says
/// no more than its answers, a few messages again, and one more round of refreshes in R. The peer's own signed messages
/// go on all the while.
#[test]
fn forged_challenges_bring_no_storm_of_refreshes() {
    const SECONDS: u64 = 120;
    let sent = |forged: bool| {
        let mut net = line(&auth(Algorithm::HmacSha256));
        let to = net.session_at(3);
        for port in 0..400 {
            let session = terms::Session { dst_port: 6000 + port, ..to };
            net.sends(0, 1, session, 6000, 1);
        }
        net.ask(0, 3, cl(1));
        net.run(Span::from_secs(40));
        let (src, dst) = (net.interface(2, 1).addresses[0], net.interface(1, 2).addresses[0]);
        net.log.clear();
        for i in 0..SECONDS * 2 {
            let cookie: Vec<u8> = (0..16).map(|n| (i >> n) as u8 ^ n as u8).collect();
            let challenge = wire::Builder::new(MessageType::IntegrityChallenge, 255)
                .challenge(&wire::Challenge { key_id: 7, cookie: &cookie })
                .finish()
                .unwrap();
            if forged {
                net.tell(1, Input::Message { iif: IfIndex(2), src, dst, ttl: 255, bytes: &challenge });
            }
            net.run(Span::from_millis(500));
        }
        net.log.len() as u64
    };
    let (quiet, forged) = (sent(false), sent(true));
    let (answers, again, rounds) = (SECONDS * 2, 256 + SECONDS * 16, (SECONDS / 30 + 1) * 400);
    // What r1 says again goes on through r2 only where it changes something: it does not.
    assert!(forged - quiet <= answers + again + rounds, "{quiet} messages without, {forged} with");
    assert!(forged > quiet + SECONDS, "the challenges were taken for real: {quiet} {forged}");
}

#[test]
fn a_guessed_answer_is_none() {
    // The attacker has the key of the link (it is a neighbour), but not the cookie.
    let mut net = line(&auth(Algorithm::HmacSha256));
    let tape = recorded(&mut net, 1);
    reserve(&mut net);
    let answer = tape.borrow().iter().find(|f| f.datagram.bytes[1] == 26).cloned().expect("a response");
    let dropped = |net: &Net| net.engine(1).counters().dropped.clone();
    // Played back: its cookie was used.
    play(&mut net, &answer);
    let stale = "INTEGRITY with a sequence number that was seen, or is too old";
    assert_eq!(dropped(&net)[stale], 1);
    // From another address.
    let mut elsewhere = answer.clone();
    elsewhere.datagram.src = [10, 0, 0, 77].into();
    play(&mut net, &elsewhere);
    // Too late.
    net.run(Span::from_secs(5));
    play(&mut net, &answer);
    assert_eq!((dropped(&net)["an Integrity Response to no challenge of ours"], dropped(&net)[stale]), (1, 2));
}

#[test]
fn a_signature_counts_where_it_was_made_for() {
    let mut net = line(&auth(Algorithm::HmacSha256));
    let tape = recorded(&mut net, 1);
    net.announce(0, 3, 3);
    net.run(Span::from_millis(50));
    let path = tape.borrow().iter().rfind(|f| f.datagram.bytes[1] == 1).cloned().unwrap();
    let before = net.engine(2).digest();
    // What snd signed for r1 is shown to r2, on a link with the same key.
    let other = Flight { to: 2, ..path };
    play(&mut net, &other);
    net.run(Span::from_millis(50));
    assert_eq!(net.engine(2).digest(), before, "snd is no neighbour there, and does not answer");
}

#[test]
fn our_own_words_are_not_taken_back() {
    let mut net = line(&auth(Algorithm::HmacSha256));
    let tape = recorded(&mut net, 2);
    reserve(&mut net);
    let before = state(&net, 1);
    for flight in tape.borrow().clone().iter().filter(|f| f.from == 1) {
        play(&mut net, &Flight { to: 1, iif: IfIndex(2), ..flight.clone() });
    }
    assert_eq!(state(&net, 1), before);
}

/// An interface without authentication beside one with it.
#[test]
fn each_interface_has_its_own_rule() {
    let mut net = line(&AuthMode::None);
    let keys = auth(Algorithm::HmacSha256);
    net.tell(1, Input::Auth { interface: IfIndex(2), auth: keys.clone() });
    net.tell(2, Input::Auth { interface: IfIndex(1), auth: keys });
    let tape = recorded(&mut net, 2);
    let plain = recorded(&mut net, 1);
    drop(tape);
    reserve(&mut net);
    assert_eq!(net.confirms(3).len(), 1);
    let signed = |f: &&Flight| Message::parse(&f.datagram.bytes).unwrap().envelope().integrity.is_some();
    let tape = plain.borrow();
    assert!(tape.iter().filter(|f| f.from == 0).all(|f| !signed(&f)));
    assert!(tape.iter().filter(|f| f.from == 2 && f.datagram.bytes[1] != 25).all(|f| signed(&f)));
}

/// Whatever is changed in a signed message, it has no effect and no answer: every bit of every message that a node heard,
/// and random changes of several places (I24).
#[test]
fn every_forgery_is_nothing() {
    let mut net = line(&auth(Algorithm::HmacSha256));
    let tape = recorded(&mut net, 1);
    reserve(&mut net);
    net.announce(0, 3, 4);
    net.run(Span::from_millis(10));
    net.ask(0, 3, cl(2));
    net.run(Span::from_millis(10));
    net.run(Span::from_secs(3));
    let before = state(&net, 1);
    let sent = net.log.len();
    let heard: Vec<Flight> = tape.borrow().iter().filter(|f| f.datagram.bytes[1] != 25).cloned().collect();
    assert!(heard.len() > 6);
    let mut forged = 0;
    let mut dice = 0x5eed_u64;
    let mut roll = |n: usize| {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (dice >> 33) as usize % n
    };
    for flight in &heard {
        let mut mutant = flight.clone();
        for bit in 0..mutant.datagram.bytes.len() * 8 {
            mutant.datagram.bytes[bit / 8] ^= 1 << (bit % 8);
            play(&mut net, &mutant);
            mutant.datagram.bytes[bit / 8] ^= 1 << (bit % 8);
            forged += 1;
        }
        assert_eq!(state(&net, 1), before, "{:02x?}", flight.datagram.bytes);
        for _ in 0..1_000 {
            let mut mutant = flight.clone();
            for _ in 0..2 + roll(4) {
                let at = roll(mutant.datagram.bytes.len());
                mutant.datagram.bytes[at] = mutant.datagram.bytes[at].wrapping_add(1 + roll(255) as u8);
            }
            play(&mut net, &mutant);
            forged += 1;
        }
        assert_eq!(state(&net, 1), before, "{:02x?}", flight.datagram.bytes);
    }
    assert_eq!(net.log.len(), sent, "no answer");
    assert!(forged > 15_000, "{forged}");
}

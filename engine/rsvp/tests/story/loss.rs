//! Messages are lost, doubled, late, out of order: soft state heals (RFC 2205 section 3.7; FAULTS S5, S9, S15).

use crate::story::net::*;
use std::cell::Cell;
use std::rc::Rc;
use terms::{Span, Time};
use wire::Message;

const R: Span = Span::from_secs(1);

fn kind_of(flight: &Flight) -> &'static str {
    Message::parse(&flight.datagram.bytes).expect("ours").kind().name()
}

/// Each message of a set-up, lost once, costs time and nothing else.
#[test]
fn any_one_message_may_be_lost() {
    for lost in ["Path", "Resv", "ResvConf"] {
        for hop in 0..3 {
            let mut net = Net::line(&["snd", "r1", "r2", "rcv"], R);
            let left = Rc::new(Cell::new(1));
            let counter = Rc::clone(&left);
            net.fate = Box::new(move |_, flight| {
                if kind_of(flight) == lost && flight.from.min(flight.to) == hop && counter.get() > 0 {
                    counter.set(counter.get() - 1);
                    return Fate::Lose;
                }
                Fate::Deliver
            });
            net.announce(0, 3, 3);
            net.ask(0, 3, cl(3));
            net.run(Span::from_millis(3 * 1_500 + 50));
            assert_eq!(left.get(), 0, "{lost} was lost on link {hop}");
            assert_eq!((net.held(), net.confirms(3).len()), (vec![3, 3, 3, 0], 1), "{lost} on link {hop}");
        }
    }
}

/// K - 1 = 2 refreshes of any kind lost in a row on a link, again and again: nothing expires anywhere.
#[test]
fn two_losses_in_a_row_never_end_a_reservation() {
    let mut net = Net::reserved_line(R, 3);
    net.run(Span::from_secs(5));
    let mut seen = std::collections::BTreeMap::new();
    net.fate = Box::new(move |_, flight| {
        let n: &mut u32 = seen.entry((flight.from, flight.to, kind_of(flight))).or_default();
        *n += 1;
        if n.is_multiple_of(3) { Fate::Deliver } else { Fate::Lose }
    });
    let digests = net.digests();
    net.run(Span::from_secs(1_000));
    assert_eq!((net.held(), net.digests()), (vec![3, 3, 3, 0], digests));
}

/// Everything arrives twice: one reservation, one error, one confirmation.
#[test]
fn doubled_messages_do_nothing_twice() {
    let mut net = Net::line(&["snd", "r1", "r2", "rcv"], R);
    net.fate = Box::new(|_, _| Fate::Double);
    net.announce(0, 3, 3);
    net.run(Span::from_millis(50));
    net.ask(0, 3, cl(3));
    net.run(Span::from_millis(50));
    assert_eq!((net.held(), net.resvs(), net.confirms(3).len()), (vec![3, 3, 3, 0], vec![1; 4], 1));
    net.ask(0, 3, cl(200));
    net.run(Span::from_millis(50));
    assert_eq!(net.held(), [3, 3, 3, 0]);
    net.release(3);
    net.run(Span::from_millis(50));
    assert_eq!((net.held(), net.resvs()), (vec![0; 4], vec![0; 4]));
}

/// Lost tears: the state they meant expires at its lifetime.
#[test]
fn lost_tears_leave_it_to_the_lifetime() {
    for lost in ["ResvTear", "PathTear"] {
        let mut net = Net::reserved_line(R, 3);
        net.fate = Box::new(move |_, f| if kind_of(f) == lost { Fate::Lose } else { Fate::Deliver });
        net.run(Span::from_secs(3));
        if lost == "ResvTear" {
            net.release(3)
        } else {
            net.silence(0, 3)
        }
        net.run(Span::from_secs(4));
        assert!(net.held().iter().sum::<u64>() > 0, "{lost}: too early");
        // Each hop in turn, because its own tear is lost as well.
        net.run(Span::from_millis(4 * (5_250 + 1_500)));
        assert_eq!(net.held(), [0; 4], "{lost}");
    }
}

/// S9: a tear that is overtaken by what came after it kills the newer state (only RFC 2961 can tell them apart); the next
/// refresh brings it back, and nobody is told an error.
#[test]
fn an_overtaken_tear_is_healed_by_the_refresh() {
    for late in ["ResvTear", "PathTear"] {
        let mut net = Net::reserved_line(R, 3);
        let sender = if late == "ResvTear" { 3 } else { 0 };
        net.fate = Box::new(move |_, f| {
            let first = kind_of(f) == late && f.from == sender;
            if first { Fate::Late(Span::from_millis(20)) } else { Fate::Deliver }
        });
        if late == "ResvTear" {
            net.release(3);
            net.ask(0, 3, cl(3));
        } else {
            net.silence(0, 3);
            net.announce(0, 3, 3);
        }
        net.run(Span::from_millis(60));
        assert!(net.held().contains(&0) && net.held()[..3] != [3, 3, 3], "{late} came last");
        net.run(Span::from_millis(2 * 1_500 + 50));
        assert_eq!((net.held(), net.resvs()), (vec![3, 3, 3, 0], vec![1; 4]), "{late}");
        assert!(net.errors(3).iter().all(|e| e.code == 3 || e.code == 4), "{late}");
    }
}

/// A lost ResvErr: the refused request is refused again at its next refresh, and then given up.
#[test]
fn a_lost_refusal_is_said_again() {
    let mut net = Net::reserved_line(R, 3);
    net.nodes[0].env.capacity.insert(terms::IfIndex(1), terms::Rate::from_mbps(10));
    let mut lost = 0;
    net.fate = Box::new(move |_, f| {
        if kind_of(f) == "ResvErr" && lost < 2 {
            lost += 1;
            return Fate::Lose;
        }
        Fate::Deliver
    });
    net.ask(0, 3, cl(20));
    net.run(Span::from_millis(50));
    assert_eq!(net.held(), [3, 20, 20, 0]);
    net.run(Span::from_millis(3_100));
    assert_eq!((net.held(), net.errors(3).len()), (vec![3, 3, 3, 0], 1));
}

/// S15: a cloud that loses a fifth, doubles a fifth and delays a fifth by up to 300 ms, under a thousand changes of mind.
/// When it has calmed down, all nodes agree with the last word.
#[test]
fn after_any_disorder_all_agree_with_the_last_word() {
    for seed in 0..20u64 {
        let mut net = Net::line(&["snd", "r1", "r2", "rcv"], R);
        let calm = Rc::new(Cell::new(false));
        let (quiet, mut state) = (Rc::clone(&calm), seed + 1);
        net.fate = Box::new(move |_, _| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            match (state >> 33) % 5 {
                _ if quiet.get() => Fate::Deliver,
                0 => Fate::Lose,
                1 => Fate::Double,
                2 => Fate::Late(Span::from_millis((state >> 40) % 300)),
                _ => Fate::Deliver,
            }
        });
        net.announce(0, 3, 3);
        for step in 0..50u64 {
            match (seed + step) % 7 {
                0 => net.release(3),
                1 => net.silence(0, 3),
                2 => net.announce(0, 3, 3 + step % 4),
                n => net.ask(0, 3, cl(n * 10)),
            }
            net.run(Span::from_millis(37 + (seed * 131 + step * 71) % 400));
        }
        net.announce(0, 3, 3);
        net.ask(0, 3, cl(7));
        calm.set(true);
        net.run(Span::from_millis(2 * 5_250 + 3_000));
        assert_eq!((net.held(), net.resvs(), net.paths()), (vec![7, 7, 7, 0], vec![1; 4], vec![1; 4]), "seed {seed}");
        net.release(3);
        net.silence(0, 3);
        net.run(Span::from_millis(10));
        assert_eq!((net.held(), net.paths()), (vec![0; 4], vec![0; 4]), "seed {seed}");
    }
}

/// A reordered pair: the Resv of a change of mind overtakes the one before it. The refresh puts it right.
#[test]
fn an_overtaken_request_is_put_right_by_the_refresh() {
    let mut net = Net::reserved_line(R, 3);
    let mut first = true;
    net.fate = Box::new(move |_, f| {
        if kind_of(f) == "Resv" && f.from == 3 && core::mem::take(&mut first) {
            return Fate::Late(Span::from_millis(20));
        }
        Fate::Deliver
    });
    net.ask(0, 3, cl(9));
    net.ask(0, 3, cl(4));
    net.run(Span::from_millis(60));
    assert_eq!(net.held(), [9, 9, 9, 0], "the older word came last");
    net.run(Span::from_millis(1_600));
    assert_eq!(net.held(), [4, 4, 4, 0]);
    assert!(net.now > Time::ZERO);
}

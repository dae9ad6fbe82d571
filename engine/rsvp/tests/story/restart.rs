//! A node loses its memory: adoption of what its plane still carries, and healing without it (DESIGN, decision 3).

use crate::story::net::*;
use rsvp::io::{Event, Input};
use terms::Span;

const R: Span = Span::from_secs(1);

/// With adoption, a Resv that comes before the Path is let go with an event; the receiver never hears of it, and the
/// reservation is whole again after the next refreshes.
#[test]
fn an_adopted_session_waits_for_its_path() {
    let mut net = Net::reserved_line(R, 3);
    net.restart(1);
    let (session, until) = (net.session_at(3), net.now + Span::from_millis(5_250));
    net.tell(1, Input::Adopted { session, until });
    net.fate = Box::new(|now, f| {
        let early = now < terms::Time::from_nanos(2_000_000_000);
        if early && f.to == 1 && f.from == 0 { Fate::Lose } else { Fate::Deliver }
    });
    net.run(Span::from_millis(1_900));
    assert!(!net.saw(1, |e| matches!(e, Event::AwaitingPath { .. })).is_empty(), "a Resv came before the Path");
    assert_eq!((net.resvs()[1], net.errors(3).len()), (0, 0));
    net.fate = Box::new(|_, _| Fate::Deliver);
    net.run(Span::from_millis(3_500));
    assert_eq!((net.resvs(), net.errors(3).len()), (vec![1; 4], 0));
    net.run(Span::from_secs(20));
    assert_eq!(net.engine(1).sessions().next().expect("one").adopted_until, None, "the adoption is over");
    assert_eq!(net.resvs(), [1; 4]);
}

/// An adopted session that never comes back is forgotten when its time is over; then Resv messages are refused again.
#[test]
fn an_adoption_ends() {
    let mut net = Net::reserved_line(R, 3);
    net.restart(1);
    let (session, until) = (net.session_at(3), net.now + Span::from_millis(5_250));
    net.tell(1, Input::Adopted { session, until });
    net.mute(0);
    net.run_until(until.saturating_sub(Span::from_nanos(1)));
    assert_eq!((net.engine(1).sessions().count(), net.errors(3).len()), (1, 0));
    net.run(Span::from_millis(1));
    assert_eq!(net.engine(1).sessions().count(), 0);
    let since = net.now;
    net.inject_resv(1, |_| {});
    assert_eq!(net.count("ResvErr", since), 1, "no path");
}

/// A Path that comes and goes while an adoption lasts does not end it.
#[test]
fn an_adoption_outlives_a_path_that_comes_and_goes() {
    let mut net = Net::line(&["snd", "r1", "r2", "rcv"], R);
    let (session, until) = (net.session_at(3), net.now + Span::from_millis(5_250));
    net.tell(1, Input::Adopted { session, until });
    net.announce(0, 3, 3);
    net.run(Span::from_millis(10));
    net.silence(0, 3);
    net.run(Span::from_millis(10));
    let since = net.now;
    net.inject_resv(1, |_| {});
    assert_eq!((net.count("ResvErr", since), net.engine(1).sessions().count()), (0, 1));
    assert_eq!(net.saw(1, |e| matches!(e, Event::AwaitingPath { .. })), [since]);
}

/// Without adoption, the receiver hears "no path" (and keeps asking); the next Path and Resv put everything right.
#[test]
fn a_node_without_memory_heals_by_refreshes() {
    let mut net = Net::reserved_line(R, 3);
    net.restart(1);
    net.nodes[1].env.held.clear();
    net.run(Span::from_millis(3 * 1_500 + 20));
    assert_eq!((net.resvs(), net.held()), (vec![1; 4], vec![3, 3, 3, 0]));
    assert!(net.errors(3).iter().all(|e| e.code == 3), "no other error than `no path`");
}

/// The receiver's node restarts and its application asks again: as if nothing had happened.
#[test]
fn a_receiver_that_restarts_asks_again() {
    let mut net = Net::reserved_line(R, 3);
    net.restart(3);
    net.ask(0, 3, cl(3));
    net.run(Span::from_millis(1_600));
    assert_eq!((net.resvs(), net.held()), (vec![1; 4], vec![3, 3, 3, 0]));
    assert_eq!(net.confirms(3).len(), 2);
}

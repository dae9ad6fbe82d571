//! I22: the worst sender that RFC 2205 allows (every refresh at 1.5 R, K of them lost in a row) never loses its state,
//! and a sender that stops loses it at L to the nanosecond. Checked for path and reservation state, against the formula.

use crate::story::net::*;
use proptest::prelude::*;
use rsvp::io::{Event, Gone, Input};
use terms::{Span, Time};

/// R as TIME_VALUES carries it, in ms, and the lifetime by RFC 2205 section 3.7, in ns, with K = 3; of an R beyond the bound of
/// the configuration, as if it were that.
fn life(refresh_ms: u64) -> Span {
    Span::from_nanos(refresh_ms.clamp(1_000, 3_600_000) * 5_250_000)
}

/// Feeds a transit node path and reservation refreshes at the given gaps (in 1/1000 R), waking it exactly when it asks.
fn feed(refresh_ms: u64, gaps: &[u64]) -> (Net, Time) {
    let mut net = Net::line(&["snd", "r1", "rcv"], Span::from_millis(refresh_ms.max(1_000)));
    net.fate = Box::new(|_, _| Fate::Lose);
    let refresh = Span::from_millis(refresh_ms);
    for gap in core::iter::once(&0).chain(gaps) {
        net.run(Span::from_nanos(refresh_ms.clamp(1_000, 3_600_000) * 1_000 * gap));
        net.inject_path(1, |m| m.refresh = refresh);
        net.inject_resv(1, |m| m.refresh = refresh);
        assert_eq!((net.paths()[1], net.resvs()[1]), (1, 1));
    }
    let last = net.now;
    (net, last)
}

fn removals(net: &Net) -> Vec<(Time, bool)> {
    let all = net.nodes[1].events.iter();
    all.filter_map(|(t, e)| match e {
        Event::PathRemoved { why: Gone::Expired, .. } => Some((*t, true)),
        Event::ResvRemoved { why: Gone::Expired | Gone::PathGone, .. } => Some((*t, false)),
        _ => None,
    })
    .collect()
}

proptest! {
    #![proptest_config(chance::cases(300))]

    /// Three losses in a row at the longest gaps: 4 * 1.5 R = 6 R is more than L = 5.25 R, so K = 3 allows three gaps of
    /// 1.5 R and a half: anything up to L.
    #[test]
    fn state_lives_exactly_to_its_lifetime(
        refresh_ms in prop_oneof![Just(0u64), 1u64..2_000, Just(1_000), Just(30_000), Just(u64::from(u32::MAX))],
        gaps in prop::collection::vec(500u64..=5_249, 0..20),
    ) {
        let (mut net, last) = feed(refresh_ms, &gaps);
        prop_assert!(removals(&net).is_empty(), "nothing ended while refreshes came in time");
        let end = last + life(refresh_ms);
        net.run_until(end.saturating_sub(Span::from_nanos(1)));
        prop_assert!(removals(&net).is_empty(), "not a nanosecond early");
        net.run_until(end);
        let gone = removals(&net);
        prop_assert_eq!(gone.len(), 2);
        prop_assert!(gone.iter().all(|(t, _)| *t == end));
        prop_assert_eq!(net.held()[1], 0);
    }

    #[test]
    fn a_changed_period_counts_from_its_message(first in 1_000u64..100_000, second in 1_000u64..100_000) {
        counts_from_its_message(first, second);
    }
}

/// A period that changes in the middle, up or down, counts from the message that says so.
fn counts_from_its_message(first: u64, second: u64) {
    let (mut net, _) = feed(first, &[1_000]);
    net.inject_path(1, |m| m.refresh = Span::from_millis(second));
    net.inject_resv(1, |m| m.refresh = Span::from_millis(second));
    let end = net.now + life(second);
    net.run_until(end);
    let gone = removals(&net);
    assert!(gone.len() == 2 && gone.iter().all(|(t, _)| *t == end), "{gone:?}, not {end:?}");
}

/// Found by chance, when the message that changed nothing was known at once.
#[test]
fn a_period_that_is_said_again_counts_from_its_message() {
    counts_from_its_message(1_000, 1_000);
}

/// A period that shrinks ends path and reservation by the shorter lifetime, each by itself, also where nothing else would
/// wake the node in time.
#[test]
fn a_shorter_period_wakes_the_node_earlier() {
    let slow = |m: &mut Forged| m.refresh = Span::from_secs(100);
    let fast = |m: &mut Forged| m.refresh = Span::from_secs(1);
    let mut net = Net::line(&["snd", "r1", "rcv"], Span::from_secs(1_000));
    net.fate = Box::new(|_, _| Fate::Lose);
    net.inject_path(1, slow);
    net.inject_resv(1, slow);
    net.inject_resv(1, fast);
    net.run_until(Time::ZERO + Span::from_millis(5_249));
    assert_eq!(net.resvs()[1], 1);
    net.run_until(Time::ZERO + Span::from_millis(5_250));
    assert_eq!((net.resvs()[1], net.paths()[1]), (0, 1));
    net.inject_path(1, fast);
    net.run(Span::from_millis(5_250));
    assert_eq!((removals(&net).len(), net.paths()[1]), (2, 0));
}

/// The law of RFC 2205: K - 1 losses at the longest legal gaps are always survived.
#[test]
fn the_worst_legal_sender_is_never_expired() {
    for refresh_ms in [1_000, 30_000] {
        // Gaps of 3 * 1.5 R: two of three refreshes lost, for 400 periods.
        let (net, _) = feed(refresh_ms, &[4_500; 100]);
        assert!(removals(&net).is_empty());
    }
}

/// Waking late is late for expiry, never early; and it happens once.
#[test]
fn a_late_wake_up_expires_once() {
    let (mut net, last) = feed(1_000, &[]);
    net.now = last + Span::from_secs(60);
    net.tell(1, Input::Wake);
    net.tell(1, Input::Wake);
    assert_eq!(removals(&net).len(), 2);
    assert_eq!(net.engine(1).wake_at(), None);
}

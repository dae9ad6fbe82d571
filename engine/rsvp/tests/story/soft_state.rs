//! Soft state: RFC 2205 section 3.7. It lives L = (K + 0.5) * 1.5 * R after the last refresh that a node received, never
//! less, and is gone at L; R is the refresher's.

use crate::story::net::*;
use rsvp::io::{AppCall, Config, Event, Gone, Input, Upcall};
use rsvp::lifetime::lifetime;
use terms::{IfIndex, Span, Time};

const SECOND: Span = Span::from_secs(1);

/// When node `to` last received a message of this type.
fn last_received(net: &Net, kind: &str, to: usize) -> Time {
    let all = net.log.iter().filter(|(_, _, t, k)| *t == to && *k == kind);
    all.map(|(t, ..)| *t + LINK_DELAY).max().expect("some came")
}

fn expired(net: &Net, node: usize) -> Vec<Time> {
    net.saw(node, |e| matches!(e, Event::ResvRemoved { why: Gone::Expired, .. }))
}

#[test]
fn lifetimes_by_the_rfc() {
    for (refresh_ms, keep, life_ms) in [
        (1_000, 3, 5_250),
        (30_000, 3, 157_500),
        (0, 3, 5_250),
        (1, 3, 5_250),
        (999, 3, 5_250),
        (1_001, 3, 5_256), // 5,255.25 ms
        (1_000, 0, 750),
        (u64::from(u32::MAX), 3, 22_548_578_299),
    ] {
        let life = lifetime(Span::from_millis(refresh_ms), keep);
        let rounded_up = life.as_nanos().div_ceil(1_000_000);
        assert_eq!(rounded_up, life_ms, "R = {refresh_ms} ms, K = {keep}");
    }
    assert_eq!(lifetime(Span::MAX, u32::MAX), Span::MAX, "saturates");
}

/// Left alone, a reservation stays for ever, and every message of it goes out within [0.5 R, 1.5 R] of the one before.
#[test]
fn refreshes_keep_everything_alive_within_their_jitter() {
    for refresh in [SECOND, Span::from_secs(30)] {
        let mut net = Net::reserved_line(refresh, 3);
        // A period first, in which the Adspecs learn of the reservation.
        net.run(Span::from_nanos(refresh.as_nanos() * 5));
        let start = net.now;
        let digests = net.digests();
        net.run(Span::from_nanos(refresh.as_nanos() * 100));
        assert_eq!(net.held(), [3, 3, 3, 0]);
        assert_eq!(net.digests(), digests);
        for (kind, from) in [("Path", 0), ("Path", 1), ("Path", 2), ("Resv", 1), ("Resv", 2), ("Resv", 3)] {
            let times: Vec<Time> =
                net.log.iter().filter(|(t, f, _, k)| *t > start && *f == from && *k == kind).map(|l| l.0).collect();
            assert!((90..=111).contains(&times.len()), "{kind} from {from}: {} in 100 periods", times.len());
            for pair in times.windows(2) {
                let gap = (pair[1] - pair[0]).as_nanos() as f64 / refresh.as_nanos() as f64;
                assert!((0.5..=1.5).contains(&gap), "{kind} from {from}: {gap} R");
            }
        }
    }
}

/// The receiver is killed: the last router expires the reservation exactly L after the last refresh it received and
/// tears upstream; one one-way delay later nothing is held. Path state stays.
#[test]
fn a_killed_receiver_expires_at_the_last_router() {
    for (refresh, life) in [(SECOND, Span::from_millis(5_250)), (Span::from_secs(30), Span::from_millis(157_500))] {
        let mut net = Net::reserved_line(refresh, 3);
        net.run(Span::from_nanos(refresh.as_nanos() * 10));
        net.mute(3);
        let last = last_received(&net, "Resv", 2);
        net.run_until((last + life).saturating_sub(Span::from_nanos(1)));
        assert_eq!((net.held(), expired(&net, 2)), (vec![3, 3, 3, 0], vec![]), "not a nanosecond early");
        net.run_until(last + life);
        assert_eq!(expired(&net, 2), [last + life]);
        net.run(Span::from_millis(2));
        assert_eq!((net.held(), net.resvs()), (vec![0; 4], vec![0; 4]));
        assert_eq!(net.heard(0, |u| matches!(u, Upcall::ResvGone { .. })), 1);
        assert_eq!(&net.paths()[..3], [1, 1, 1]);
        assert!(expired(&net, 0).is_empty() && expired(&net, 1).is_empty(), "they were torn");
    }
}

/// The sender is killed: the first router expires its path state at L and tears the path down to the receiver.
#[test]
fn a_killed_sender_expires_at_the_first_router() {
    let mut net = Net::reserved_line(SECOND, 3);
    net.run(Span::from_secs(10));
    net.mute(0);
    let last = last_received(&net, "Path", 1);
    let gone = |e: &Event| matches!(e, Event::PathRemoved { why: Gone::Expired, .. });
    net.run_until(last + Span::from_millis(5_249));
    assert_eq!(net.paths()[1..], [1, 1, 1]);
    net.run_until(last + Span::from_millis(5_253));
    assert_eq!(net.saw(1, gone), [last + Span::from_millis(5_250)]);
    assert_eq!((net.held(), net.paths()), (vec![3, 0, 0, 0], vec![0; 4]), "the dead node's plane is its own affair");
    assert_eq!(net.heard(3, |u| matches!(u, Upcall::PathGone { .. })), 1);
}

/// A router in the middle dies and the tears it would pass on with it: both sides expire by their own clocks.
#[test]
fn both_sides_of_a_dead_router_expire() {
    let mut net = Net::reserved_line(SECOND, 3);
    net.kill(1);
    net.run(Span::from_millis(5_250 + 1_500 + 10));
    assert_eq!((net.held(), net.resvs()[2]), (vec![0; 4], 0));
}

/// S6, S7: each node lives by the R in the message, whatever its own R is, also when that R changes tenfold.
#[test]
fn lifetimes_follow_the_senders_refresh_period() {
    for (theirs, ours) in [(SECOND, Span::from_secs(300)), (Span::from_secs(300), SECOND)] {
        let mut net = Net::new(false);
        net.node("snd", config(theirs));
        net.node("r1", config(ours));
        net.node("rcv", config(theirs));
        net.link_up(1..3);
        net.announce(0, 2, 3);
        net.run(Span::from_millis(10));
        net.ask(0, 2, cl(3));
        net.run(Span::from_secs(3_000));
        assert_eq!((net.held(), net.resvs()), (vec![3, 3, 0], vec![1; 3]));
        let path = net.engine(1).paths().next().expect("one");
        assert_eq!(path.refresh, theirs);
        assert_eq!(path.expires, last_received(&net, "Path", 1) + lifetime(theirs, 3));
        let resv = net.engine(0).reservations().next().expect("one");
        assert_eq!(resv.expires, last_received(&net, "Resv", 0) + lifetime(ours, 3));
    }
}

/// A neighbour that announces less than a second gets a second; one that announces 49.7 days gets the bound, and where that is
/// 50 days all of it.
#[test]
fn extreme_periods_are_held_to_their_bounds() {
    let (hour, all) = (Span::from_secs(3_600), Span::from_secs(50 * 86_400));
    for (ms, longest_refresh, life) in [
        (0, hour, Span::from_millis(5_250)),
        (u32::MAX, hour, Span::from_millis(3_600 * 5_250)),
        (u32::MAX, all, Span::from_micros(22_548_578_298_750)),
    ] {
        let mut net = Net::new(false);
        for name in ["snd", "r1", "rcv"] {
            net.node(name, rsvp::io::Config { longest_refresh, ..config(SECOND) });
        }
        net.link_up(1..3);
        net.inject_path(1, |m| m.refresh = Span::from_millis(u64::from(ms)));
        let path = net.engine(1).paths().next().expect("kept");
        assert_eq!(path.expires, net.now + life);
    }
}

/// S8: 10,000 sessions whose refreshes arrive in one instant do not go out in one instant.
#[test]
fn refreshes_of_many_sessions_spread() {
    let mut net = Net::line(&["snd", "r1"], Span::from_secs(30));
    let template = net.template_at(0);
    for port in 1..=10_000 {
        let session = terms::Session { dst_port: port, ..net.session_at(1) };
        net.tell(0, Input::App(AppCall::Sender { app: SENDER, session, template, tspec: tspec(1), ttl: 63 }));
    }
    let mut per_second = [0u32; 60];
    for path in net.engine(0).paths() {
        per_second[path.refreshed_at.as_secs() as usize] += 1;
    }
    assert!(per_second[..15].iter().all(|n| *n == 0) && per_second[45..].iter().all(|n| *n == 0));
    assert!(per_second[15..45].iter().all(|n| (230..=440).contains(n)), "{per_second:?}");
}

/// The wake-up is bounded: what is left is due at once, and nothing is lost.
#[test]
fn many_alarms_at_once_are_done_in_turns() {
    let mut net = Net::line(&["snd", "r1"], SECOND);
    let template = net.template_at(0);
    for port in 1..=3_000 {
        let session = terms::Session { dst_port: port, ..net.session_at(1) };
        net.tell(0, Input::App(AppCall::Sender { app: SENDER, session, template, tspec: tspec(1), ttl: 63 }));
    }
    net.run(Span::from_millis(10));
    assert_eq!(net.paths(), [3_000, 3_000]);
    net.mute(0);
    net.now = net.now + Span::from_secs(10);
    net.tell(1, Input::Wake);
    assert!(net.paths()[1] > 0 && net.engine(1).wake_at().expect("more is due") <= net.now);
    net.tell(1, Input::Wake);
    net.tell(1, Input::Wake);
    assert_eq!((net.paths()[1], net.engine(1).wake_at()), (0, None));
}

/// Two engines with the same seed and the same inputs say the same at the same times.
#[test]
fn runs_repeat_exactly() {
    let run = || {
        let mut net = Net::reserved_line(SECOND, 3);
        net.run(Span::from_secs(100));
        net.log
    };
    assert_eq!(run(), run());
}

/// A sender's R differs from K's default: the engine's own K counts.
#[test]
fn keep_is_configurable() {
    let mut net = Net::new(false);
    net.node("snd", config(SECOND));
    net.node("r1", Config { keep: 1, ..config(SECOND) });
    net.link(0, 1);
    net.announce(0, 1, 3);
    net.run(Span::from_millis(2));
    let path = net.engine(1).paths().next().expect("one");
    assert_eq!(path.expires, Time::ZERO + Span::from_millis(1 + 2_250));
    assert_eq!(net.engine(1).neighbours()[0].0, IfIndex(1));
}

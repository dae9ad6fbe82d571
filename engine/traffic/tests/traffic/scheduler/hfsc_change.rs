//! HFSC's classes changed while they send: the new rate counts at once, debts and advances stay, a change gives no new
//! burst, and the others notice nothing.

use crate::scheduler::link::*;
use terms::{Rate, ServiceCurve, Span, Time};
use traffic::scheduler::hfsc::{Curves, Hfsc};
use traffic::scheduler::{Scheduler, SchedulerClass};

const LINK: Rate = Rate::from_mbps(10);

fn real(mbps: u64) -> Curves {
    Curves { real_time: Some(ServiceCurve::linear(Rate::from_mbps(mbps))), ..Curves::default() }
}

fn mbps(sent: &[Departure], node: SchedulerClass, from: u64, until: u64) -> f64 {
    let of = |p: &&Departure| p.node == node && p.start >= ms(from) && p.start < ms(until);
    sent.iter().filter(of).map(|p| f64::from(p.len) * 8.0).sum::<f64>() / (until - from) as f64 / 1000.0
}

/// a goes from 2 to 5 Mb/s and back; b's 3 Mb/s and its delay stay what they were; the rest goes to best effort.
#[test]
fn a_guarantee_changes_at_once_and_for_nobody_else() {
    let mut hfsc = Hfsc::new();
    let a = hfsc.add(Time::ZERO, SchedulerClass::ROOT, real(2)).unwrap();
    let b = hfsc.add(Time::ZERO, SchedulerClass::ROOT, real(3)).unwrap();
    let rest = hfsc.add(Time::ZERO, SchedulerClass::ROOT, Curves::share(Rate::from_mbps(1))).unwrap();
    let load = merge(&[
        burst(a, 1000, 4000, ms(0)),
        cbr(b, 1000, Span::from_nanos(2_700_000), ms(0), ms(3000)),
        burst(rest, 1500, 4000, ms(0)),
    ]);
    let mut step = 0;
    let sent = Link::new(hfsc, LINK).run(&load, ms(3000), |s, p| {
        if p.start >= ms(1000 * (step + 1)) {
            step += 1;
            let curves = if step == 1 { real(5) } else { real(2) };
            s.change(p.start, a, curves).unwrap();
            s.change(p.start, a, curves).unwrap();
        }
    });
    for (from, until, want_a, want_rest) in [(0, 1000, 2.0, 5.04), (1000, 2000, 5.0, 2.04), (2000, 3000, 2.0, 5.04)] {
        let (a, rest) = (mbps(&sent, a, from, until), mbps(&sent, rest, from, until));
        assert!((a - want_a).abs() < 0.02, "{from}..{until}: a got {a}, wanted {want_a}");
        assert!((rest - want_rest).abs() < 0.05, "{from}..{until}: the rest got {rest}, wanted {want_rest}");
    }
    // Alone: a packet of b takes 8/3 ms by its curve, and one largest packet more.
    let late = sent.iter().filter(|p| p.node == b).map(|p| p.end.since(p.came)).max().unwrap();
    assert!(late <= Span::from_nanos(2_666_667 + 1_200_000), "a packet of b took {late:?}");
}

/// A class that has used its burst does not get another by being changed every millisecond.
#[test]
fn no_burst_from_changing() {
    let mut hfsc = Hfsc::new();
    let curve = |kbps| ServiceCurve { m1: Rate::from_mbps(8), d: Span::from_millis(20), m2: Rate::from_kbps(kbps) };
    let greedy = |kbps| Curves { real_time: Some(curve(kbps)), ..Curves::default() };
    let a = hfsc.add(Time::ZERO, SchedulerClass::ROOT, greedy(1000)).unwrap();
    let rest = hfsc.add(Time::ZERO, SchedulerClass::ROOT, Curves::share(Rate::from_mbps(1))).unwrap();
    let load = merge(&[burst(a, 1000, 4000, ms(0)), burst(rest, 1000, 4000, ms(0))]);
    let mut n = 0;
    let sent = Link::new(hfsc, LINK).run(&load, ms(1020), |s, p| {
        n += 1;
        s.change(p.start, a, greedy(1000 + n % 2)).unwrap();
    });
    assert!((mbps(&sent, a, 0, 20) - 8.0).abs() < 0.5, "the burst: {}", mbps(&sent, a, 0, 20));
    assert!((mbps(&sent, a, 20, 1020) - 1.0).abs() < 0.02, "after it: {}", mbps(&sent, a, 20, 1020));
}

/// Shares change at once, without a jump back or ahead; a class may lose and regain its share while it waits.
#[test]
fn a_share_changes_at_once() {
    let mut hfsc = Hfsc::new();
    let share = |mbps| Curves::share(Rate::from_mbps(mbps));
    let a = hfsc.add(Time::ZERO, SchedulerClass::ROOT, share(5)).unwrap();
    let b = hfsc.add(Time::ZERO, SchedulerClass::ROOT, share(5)).unwrap();
    let load = merge(&[burst(a, 1000, 8000, ms(0)), burst(b, 1000, 8000, ms(0))]);
    let mut step = 0;
    let sent = Link::new(hfsc, LINK).run(&load, ms(4000), |s, p| {
        if p.start >= ms(1000 * (step + 1)) {
            step += 1;
            let curves = [share(8), Curves::default(), share(2)][step as usize - 1];
            s.change(p.start, a, if step == 1 { share(8) } else { curves }).unwrap();
            s.change(p.start, b, if step == 1 { share(2) } else { share(8) }).unwrap();
        }
    });
    for (from, until, want) in [(0, 1000, 5.0), (1000, 2000, 8.0), (2000, 3000, 0.0), (3000, 4000, 2.0)] {
        let got = mbps(&sent, a, from, until);
        assert!((got - want).abs() < 0.03, "{from}..{until}: a got {got}, wanted {want}");
    }
}

/// An upper limit that is set, raised and lifted while the class is backlogged.
#[test]
fn an_upper_limit_changes_at_once() {
    let mut hfsc = Hfsc::new();
    let limit = |mbps: Option<u64>| Curves {
        upper_limit: mbps.map(|m| ServiceCurve::linear(Rate::from_mbps(m))),
        ..Curves::share(Rate::from_mbps(1))
    };
    let a = hfsc.add(Time::ZERO, SchedulerClass::ROOT, limit(None)).unwrap();
    let load = burst(a, 1000, 8000, ms(0));
    let mut step = 0;
    let sent = Link::new(hfsc, LINK).run(&load, ms(4000), |s, p| {
        if p.start >= ms(1000 * (step + 1)) {
            step += 1;
            s.change(p.start, a, limit([Some(2), Some(6), None][step as usize - 1])).unwrap();
        }
    });
    for (from, want) in [(0, 10.0), (1000, 2.0), (2000, 6.0), (3000, 10.0)] {
        let got = mbps(&sent, a, from, from + 1000);
        assert!((got - want).abs() < 0.03, "{from}: got {got}, wanted {want}");
    }
    assert_eq!(Hfsc::new().wake_at(), None);
}

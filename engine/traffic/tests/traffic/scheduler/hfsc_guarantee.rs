//! HFSC's real-time criterion against the definition: a brute-force deadline oracle, and the bound of the paper's
//! theorem 2 (no deadline missed by more than one largest packet) for real-time curves that fit the link.

use crate::scheduler::link::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};
use terms::{Bytes, Rate, ServiceCurve, Span, Time};
use traffic::scheduler::SchedulerClass;
use traffic::scheduler::hfsc::{Criterion, Curves, Hfsc};

const LINK: Rate = Rate::from_mbps(10);
const L_MAX: u32 = 1500;
/// What a time that does not come is told as.
const NEVER: u128 = u64::MAX as u128;

fn service(curve: &ServiceCurve, t: u128) -> u128 {
    let d = u128::from(curve.d.as_nanos());
    u128::from(curve.m1.as_bps()) * t.min(d) + u128::from(curve.m2.as_bps()) * t.saturating_sub(d)
}

/// Scales the curves down until their sum is nowhere above the link.
fn fit(curves: &[ServiceCurve]) -> Vec<ServiceCurve> {
    let mut ends: Vec<u128> = curves.iter().map(|c| u128::from(c.d.as_nanos())).filter(|d| *d > 0).collect();
    ends.push(1_000_000_000_000);
    let link = u128::from(LINK.as_bps());
    let scale = |r: Rate, n: u128, d: u128| Rate::from_bps((u128::from(r.as_bps()) * n / d) as u64);
    let mut worst = (1u128, 1u128);
    for t in ends {
        let sum: u128 = curves.iter().map(|c| service(c, t)).sum();
        if sum * worst.0 > link * t * worst.1 {
            worst = (link * t, sum);
        }
    }
    let slow = |c: &ServiceCurve| ServiceCurve {
        m1: scale(c.m1, worst.0, worst.1),
        d: c.d,
        m2: scale(c.m2, worst.0, worst.1),
    };
    curves.iter().map(slow).collect()
}

fn curve() -> impl Strategy<Value = ServiceCurve> {
    (0u64..4000, 0u64..40, 1u64..4000, any::<bool>()).prop_map(|(m1, d, m2, zero)| ServiceCurve {
        m1: Rate::from_kbps(if zero { 0 } else { m1 }),
        d: Span::from_millis(d),
        m2: Rate::from_kbps(m2),
    })
}

/// On-off sources of any sizes: (class, gap before the burst in us, packets, length).
fn bursts(classes: u32) -> impl Strategy<Value = Vec<(u32, u64, usize, u32)>> {
    proptest::collection::vec((0..classes, 0u64..30_000, 1usize..12, 40u32..=L_MAX), 1..60)
}

fn arrivals(nodes: &[SchedulerClass], bursts: &[(u32, u64, usize, u32)]) -> Vec<Arrival> {
    let mut at = vec![Time::ZERO; nodes.len()];
    let mut all = Vec::new();
    for (class, gap, n, len) in bursts {
        let class = *class as usize % nodes.len();
        at[class] = at[class] + Span::from_micros(*gap);
        all.push(burst(nodes[class], *len, *n, at[class]));
    }
    merge(&all)
}

/// Every period start of a class, with the work that it had then: the curve is the minimum over them.
#[derive(Default)]
struct Oracle {
    work: u128,
    periods: Vec<(u128, u128)>,
}

impl Oracle {
    /// When the lowest of the lines of slope `rate` through (`a + d`, `w + rise`), over all periods, reaches `work`.
    fn line(&self, rate: Rate, d: Span, rise: u128, work: u128) -> u128 {
        let one = |(a, w): &(u128, u128)| match (work.checked_sub(w + rise), u128::from(rate.as_bps())) {
            (None | Some(0), 0) => 0,
            (Some(_), 0) => u128::MAX,
            (Some(more), r) => a + u128::from(d.as_nanos()) + more.div_ceil(r),
            (None, r) => (a + u128::from(d.as_nanos())).saturating_sub((w + rise - work) / r),
        };
        self.periods.iter().map(one).max().unwrap()
    }

    /// When `D(t) = min S(t - a) + w(a)` reaches `work`. (A convex curve whose first slope is not zero: see `curve`.)
    fn deadline(&self, curve: &ServiceCurve, work: u128) -> u128 {
        let rise = u128::from(curve.m1.as_bps()) * u128::from(curve.d.as_nanos());
        let first = self.line(curve.m1, Span::ZERO, 0, work);
        let second = self.line(curve.m2, curve.d, rise, work);
        match (curve.is_linear(), curve.is_concave()) {
            (true, _) => self.line(curve.m2, Span::ZERO, 0, work),
            (_, true) => first.max(second),
            _ => first.min(second),
        }
    }

    /// When `E` reaches `work`.
    fn eligible(&self, curve: &ServiceCurve, work: u128) -> u128 {
        if curve.is_linear() || curve.is_concave() {
            return self.deadline(curve, work);
        }
        let ahead = self.line(curve.m2, Span::ZERO, 0, work);
        if curve.m1 == Rate::ZERO { ahead } else { ahead.min(self.line(curve.m1, Span::ZERO, 0, work)) }
    }
}

proptest! {
    #![proptest_config(chance::cases(1_500))]

    /// By the definition alone, from what went over the wire: each packet ends at most `L_max / C` after the time at
    /// which the service curve, over all starts of backlogged periods, is owed it.
    #[test]
    fn no_deadline_is_missed_by_more_than_one_packet(
        curves in proptest::collection::vec(curve(), 1..8),
        weights in proptest::collection::vec(1u64..5000, 8),
        load in bursts(8),
        greedy in any::<bool>(),
    ) {
        let curves = fit(&curves);
        let mut hfsc = Hfsc::new();
        let mut nodes = Vec::new();
        for (i, c) in curves.iter().enumerate() {
            // Half of them below an agency, some without a share of the rest.
            let share = (weights[i] % 3 > 0).then(|| ServiceCurve::linear(Rate::from_kbps(weights[i])));
            let parent = if i % 2 == 0 { SchedulerClass::ROOT } else { hfsc.add(Time::ZERO, SchedulerClass::ROOT, Curves::share(Rate::from_mbps(1))).unwrap() };
            nodes.push(hfsc.add(Time::ZERO, parent, Curves { real_time: Some(*c), link_share: share, upper_limit: None }).unwrap());
        }
        let other = hfsc.add(Time::ZERO, SchedulerClass::ROOT, Curves::share(Rate::from_mbps(5))).unwrap();
        let mut all = vec![arrivals(&nodes, &load)];
        if greedy {
            all.push(burst(other, L_MAX, 2000, Time::ZERO));
        }
        let mut link = Link::new(hfsc, LINK);
        let sent = link.run(&merge(&all), ms(20_000), |_, _| ());
        let slack = u128::from(LINK.span_for(Bytes::new(u64::from(L_MAX))).as_nanos());
        let mut oracles: BTreeMap<SchedulerClass, Oracle> = BTreeMap::new();
        for p in sent.iter().filter(|p| p.node != other) {
            let curve = &curves[nodes.iter().position(|n| *n == p.node).unwrap()];
            if curve.m2 == Rate::ZERO { continue; }
            let oracle = oracles.entry(p.node).or_default();
            if p.first {
                oracle.periods.push((u128::from(p.came.as_nanos()), oracle.work));
            }
            oracle.work += u128::from(p.len) * 8_000_000_000;
            let due = oracle.deadline(curve, oracle.work);
            // Rounding to whole ns: each packet's time on the wire, and the deadline.
            prop_assert!(u128::from(p.end.as_nanos()) <= due + slack + 2 + sent.len() as u128,
                "{:?} of {curve:?} ended at {:?}, due {} + {slack}", p.node, p.end, due);
        }
    }

    /// The scheduler's own eligible times and deadlines are, to the nanosecond, those of the brute-force oracle
    /// (also when the curves do not fit the link).
    #[test]
    fn deadlines_are_exact(
        curves in proptest::collection::vec(curve(), 1..6),
        load in bursts(6),
    ) {
        let mut hfsc = Hfsc::new();
        let add = |c: &ServiceCurve| hfsc.add(Time::ZERO, SchedulerClass::ROOT, Curves { real_time: Some(*c), ..Curves::share(Rate::from_kbps(500)) }).unwrap();
        let nodes: Vec<SchedulerClass> = curves.iter().map(add).collect();
        let mut oracles: BTreeMap<SchedulerClass, Oracle> = BTreeMap::new();
        let mut link = Link::new(hfsc, LINK);
        let mut failure = None;
        let load = arrivals(&nodes, &load);
        // The lengths of each class's packets, in their order.
        let mut heads: BTreeMap<SchedulerClass, VecDeque<u32>> = BTreeMap::new();
        load.iter().for_each(|a| heads.entry(a.node).or_default().push_back(a.len));
        link.run(&load, ms(20_000), |hfsc, p| {
            let heads = heads.get_mut(&p.node).unwrap();
            heads.pop_front();
            let curve = &curves[nodes.iter().position(|n| *n == p.node).unwrap()];
            let oracle = oracles.entry(p.node).or_default();
            if p.first {
                oracle.periods.push((u128::from(p.came.as_nanos()), oracle.work));
            }
            let work = u128::from(p.len) * 8_000_000_000;
            if hfsc.criterion() == Criterion::RealTime {
                let eligible = oracle.eligible(curve, oracle.work);
                if eligible > u128::from(p.start.as_nanos()) {
                    failure = Some(format!("{p:?} served before its eligible time {eligible}"));
                }
                oracle.work += work;
            }
            let state = hfsc.state(p.node).unwrap();
            if state.guaranteed != oracle.work {
                failure = Some(format!("{p:?}: {} of guaranteed work, oracle {}", state.guaranteed, oracle.work));
            }
            let ns = |t: Time| u128::from(t.as_nanos());
            let told = state.real_time.map(|(e, d)| (ns(e), ns(d)));
            let next = || oracle.work + u128::from(heads[0]) * 8_000_000_000;
            let expected = told.map(|_| (oracle.eligible(curve, oracle.work), oracle.deadline(curve, next())));
            if told != expected.map(|(e, d)| (e.min(NEVER), d.min(NEVER))) {
                failure = Some(format!("{p:?}: eligible and deadline {told:?}, oracle {expected:?}"));
            }
        });
        prop_assert!(failure.is_none(), "{}", failure.unwrap());
    }
}

/// A class is not punished for the idle bandwidth that it used: its guarantee and its share begin at once when the
/// others come back.
#[test]
fn idle_bandwidth_is_free() {
    let mut hfsc = Hfsc::new();
    let half =
        Curves { real_time: Some(ServiceCurve::linear(Rate::from_mbps(4))), ..Curves::share(Rate::from_mbps(5)) };
    let a = hfsc.add(Time::ZERO, SchedulerClass::ROOT, half).unwrap();
    let b = hfsc.add(Time::ZERO, SchedulerClass::ROOT, half).unwrap();
    let load = merge(&[burst(a, 1250, 4000, Time::ZERO), burst(b, 1250, 4000, ms(2000))]);
    let mut link = Link::new(hfsc, LINK);
    let sent = link.run(&load, ms(2500), |_, _| ());
    // Packets of 1 ms each. For 2 s a has the link alone; from then on each gets every other packet, from the first.
    let alone = sent.iter().filter(|p| p.start < ms(2000)).count();
    assert_eq!((alone, sent.iter().filter(|p| p.start < ms(2000)).all(|p| p.node == a)), (2000, true));
    for window in [10, 20, 50, 100, 500] {
        let of = |n| sent.iter().filter(|p| p.start >= ms(2000) && p.start < ms(2000 + window) && p.node == n).count();
        assert!(of(a) >= (window / 2 - 1) as usize, "in the first {window} ms after, a got {} ms", of(a));
        assert!(of(b) >= (window / 2 - 1) as usize, "in the first {window} ms after, b got {} ms", of(b));
    }
}

/// Delay decoupled from bandwidth: the same 64 kb/s of audio beside a greedy class with a linear, a concave and a convex
/// curve (the paper's Figure 1 and section VII).
#[test]
fn golden_delay_by_shape_of_curve() {
    let kb = Rate::from_kbps;
    let shapes = [
        ("linear   64 kb/s", ServiceCurve::linear(kb(64))),
        ("concave 256 kb/s for 5 ms, then 64", ServiceCurve { m1: kb(256), d: Span::from_millis(5), m2: kb(64) }),
        ("convex    0 kb/s for 50 ms, then 64", ServiceCurve { m1: kb(0), d: Span::from_millis(50), m2: kb(64) }),
    ];
    let mut text = String::from(
        "Audio, 160 bytes each 20 ms (64 kb/s), beside a class with packets of 1,500 bytes that wants all of a\n\
         10 Mb/s link; audio is served in real time only. One packet of 1,500 bytes lasts 1.2 ms.\n\n\
         real-time curve of audio              least ms  most ms\n",
    );
    let mut worst = Vec::new();
    for (name, curve) in shapes {
        let mut hfsc = Hfsc::new();
        let audio =
            hfsc.add(Time::ZERO, SchedulerClass::ROOT, Curves { real_time: Some(curve), ..Curves::default() }).unwrap();
        let data = hfsc
            .add(
                Time::ZERO,
                SchedulerClass::ROOT,
                Curves {
                    real_time: Some(ServiceCurve { m1: kb(9_000), d: Span::from_millis(5), m2: kb(9_900) }),
                    ..Curves::share(kb(9_000))
                },
            )
            .unwrap();
        let load =
            merge(&[cbr(audio, 160, Span::from_millis(20), ms(1), ms(2000)), burst(data, 1500, 2000, Time::ZERO)]);
        let sent = Link::new(hfsc, LINK).run(&load, ms(2000), |_, _| ());
        let delays: Vec<u64> =
            sent.iter().filter(|p| p.node == audio).map(|p| p.end.since(p.came).as_micros()).collect();
        let (least, most) = (*delays.iter().min().unwrap(), *delays.iter().max().unwrap());
        assert!(delays.len() >= 97, "{name}: {} packets", delays.len());
        text += &format!("{name:37} {:>8.3} {:>8.3}\n", least as f64 / 1000.0, most as f64 / 1000.0);
        worst.push(most);
    }
    assert!(worst[1] < worst[0] && worst[0] < worst[2], "{worst:?}");
    golden("hfsc_delay", &text);
}

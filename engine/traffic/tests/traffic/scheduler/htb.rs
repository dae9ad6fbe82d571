//! The HTB-like scheduler: rates kept, ceilings never exceeded, borrowing by priority and quantum, and its table.

use crate::scheduler::link::*;
use proptest::prelude::*;
use terms::{Bytes, Rate, ServiceCurve, Span, Time};
use traffic::plan::{ClassSpec, LinkSpec, QueueSpec};
use traffic::scheduler::htb::{Htb, HtbSpec};
use traffic::scheduler::{Misplaced, Scheduler, SchedulerClass};

const LINK: Rate = Rate::from_mbps(10);

fn htb() -> Htb {
    Htb::new(LINK, Bytes::new(1500), Time::ZERO)
}

fn spec(rate: u64, ceil: u64, priority: u8, quantum: u32) -> HtbSpec {
    let packet = Bytes::new(1500);
    HtbSpec {
        rate: Rate::from_kbps(rate),
        ceil: Rate::from_kbps(ceil),
        burst: packet,
        cburst: packet,
        priority,
        quantum,
    }
}

fn mbps(sent: &[Departure], node: SchedulerClass, from: Time, until: Time) -> f64 {
    let bytes: u64 =
        sent.iter().filter(|p| p.node == node && p.start >= from && p.start < until).map(|p| u64::from(p.len)).sum();
    bytes as f64 * 8e3 / until.since(from).as_nanos() as f64
}

#[test]
fn golden_decisions() {
    let mut scheduler = htb();
    let a = scheduler.add(Time::ZERO, spec(3000, 10_000, 1, 1500));
    let b = scheduler.add(Time::ZERO, spec(1000, 4_000, 0, 1500));
    let c = scheduler.add(Time::ZERO, spec(0, 10_000, 1, 3000));
    let name = |n| [(a, "a"), (b, "b"), (c, "c")].iter().find(|(m, _)| *m == n).unwrap().1;
    let mut text = String::from(
        "HTB on 10 Mb/s, packets of 1,250 bytes (1 ms), bursts of one packet of 1,500, all always backlogged.\n\
         a: rate 3, ceil 10 Mb/s, priority 1, quantum 1,500   b: rate 1, ceil 4, priority 0   c: no rate, ceil 10,\n\
         priority 1, quantum 3,000. Green classes go first, then those that borrow, b before a and c.\n\
         Tokens in bytes, of rate/ceil, and colours, after the choice.\n\n\
         \x20   ms  sends  a                     b                     c\n",
    );
    let load = merge(&[burst(a, 1250, 60, ms(0)), burst(b, 1250, 60, ms(0)), burst(c, 1250, 60, ms(0))]);
    Link::new(scheduler, LINK).run(&load, ms(30), |s, p| {
        let show = |n| {
            let state = s.state(n).unwrap();
            let bytes = |tokens: i64| tokens.div_euclid(8_000_000_000);
            format!("{:?} {}/{}", state.colour, bytes(state.tokens), bytes(state.ctokens))
        };
        let at = p.start.as_nanos() as f64 / 1e6;
        text += &format!("{at:>6.3}  {}      {:20}  {:20}  {}\n", name(p.node), show(a), show(b), show(c));
    });
    golden("htb", &text);
}

/// Rates that fit the link are kept whatever the others want; what is left goes by priority first.
#[test]
fn rates_are_kept_and_the_rest_is_lent_by_priority() {
    let mut scheduler = htb();
    let reserved = scheduler.add(Time::ZERO, spec(3000, 10_000, 2, 1500));
    let first = scheduler.add(Time::ZERO, spec(1000, 4_000, 1, 1500));
    let flood = scheduler.add(Time::ZERO, spec(500, 10_000, 7, 1500));
    let load = merge(&[
        cbr(reserved, 1000, Span::from_nanos(2_666_667), ms(0), ms(5000)),
        burst(first, 1000, 8000, ms(0)),
        burst(flood, 1400, 8000, ms(0)),
    ]);
    let sent = Link::new(scheduler, LINK).run(&load, ms(5000), |_, _| ());
    let rates = [reserved, first, flood].map(|n| mbps(&sent, n, ms(1000), ms(5000)));
    assert!((2.99..3.01).contains(&rates[0]), "{rates:?}");
    assert!((3.97..4.03).contains(&rates[1]), "{rates:?}: up to its ceil, before the flood");
    assert!((2.97..3.03).contains(&rates[2]), "{rates:?}: all that is left");
    let late = sent.iter().filter(|p| p.node == reserved).map(|p| p.end.since(p.came)).max().unwrap();
    assert!(late < Span::from_millis(5), "a reserved packet took {late:?}");
}

/// Among equals that borrow, bytes go in proportion to the quanta, whatever the packet sizes.
#[test]
fn borrowed_bytes_follow_the_quanta() {
    let mut scheduler = htb();
    let a = scheduler.add(Time::ZERO, spec(0, 10_000, 3, 6000));
    let b = scheduler.add(Time::ZERO, spec(0, 10_000, 3, 2000));
    let load = merge(&[burst(a, 400, 40_000, ms(0)), burst(b, 1500, 10_000, ms(0))]);
    let sent = Link::new(scheduler, LINK).run(&load, ms(5000), |_, _| ());
    let (a, b) = (mbps(&sent, a, ms(0), ms(5000)), mbps(&sent, b, ms(0), ms(5000)));
    assert!((2.95..3.05).contains(&(a / b)), "{a} {b}");
}

proptest! {
    #![proptest_config(chance::cases(100))]

    /// In every window a class sends at most `ceil x tau + cburst` and one packet, and everything goes in the end.
    #[test]
    fn the_ceil_holds_in_every_window(
        rates in proptest::collection::vec((0u64..4000, 100u64..8000, 0u8..9), 3),
        load in proptest::collection::vec((0usize..3, 0u64..20_000, 1usize..12, 40u32..1500), 1..40),
    ) {
        let mut scheduler = htb();
        let specs: Vec<HtbSpec> = rates.iter().map(|(r, c, p)| spec(*r, *c, *p, 1500)).collect();
        let nodes: Vec<SchedulerClass> = specs.iter().map(|s| scheduler.add(Time::ZERO, *s)).collect();
        let mut at = Time::ZERO;
        let mut all = Vec::new();
        for (class, gap, n, len) in load {
            at = at + Span::from_micros(gap);
            all.push(burst(nodes[class], len, n, at));
        }
        let n: usize = all.iter().map(Vec::len).sum();
        let sent = Link::new(scheduler, LINK).run(&merge(&all), Time::from_nanos(u64::MAX), |_, _| ());
        prop_assert_eq!(sent.len(), n);
        for (node, spec) in nodes.iter().zip(&specs) {
            let own: Vec<&Departure> = sent.iter().filter(|p| p.node == *node).collect();
            for i in 0..own.len() {
                let mut bytes = 0;
                for p in &own[i..] {
                    let allowed = spec.ceil.supplies(p.start.since(own[i].start)).get() + 1500 + 1;
                    prop_assert!(bytes <= allowed, "{bytes} before {:?}, allowed {allowed}", p.start);
                    bytes += u64::from(p.len);
                }
            }
        }
    }
}

/// A class changed in place keeps its tokens' debts, serves at its new rate at once, and disturbs no other.
#[test]
fn live_change() {
    let mut scheduler = htb();
    let a = scheduler.add(Time::ZERO, spec(2000, 2000, 0, 1500));
    let b = scheduler.add(Time::ZERO, spec(3000, 3000, 0, 1500));
    let load = merge(&[burst(a, 1000, 8000, ms(0)), burst(b, 1000, 8000, ms(0))]);
    let mut changed = false;
    let sent = Link::new(scheduler, LINK).run(&load, ms(2000), |s, p| {
        if !changed && p.start >= ms(1000) {
            s.change(p.start, a, spec(5000, 5000, 0, 1500)).unwrap();
            changed = true;
        }
    });
    for (node, from, until, want) in [(a, 0, 1000, 2.0), (a, 1000, 2000, 5.0), (b, 0, 1000, 3.0), (b, 1000, 2000, 3.0)]
    {
        let got = mbps(&sent, node, ms(from), ms(until));
        assert!((got - want).abs() < 0.03, "{node:?} {from}..{until}: {got}, wanted {want}");
    }
}

#[test]
fn a_class_of_the_plan_becomes_a_class_of_htb() {
    let link = LinkSpec { rate: LINK, overhead: 14, mtu: 1500, scheduler: traffic::scheduler::SchedulerKind::Htb };
    let queue = QueueSpec { packets: 1, bytes: Bytes::MAX };
    let curve = ServiceCurve { m1: Rate::from_mbps(8), d: Span::from_millis(4), m2: Rate::from_mbps(3) };
    let plan =
        ClassSpec { real_time: Some(curve), link_share: Rate::from_mbps(4), upper_limit: None, priority: 2, queue };
    let htb = HtbSpec {
        rate: Rate::from_mbps(3),
        ceil: LINK,
        burst: Bytes::new(4000),
        cburst: Bytes::new(1514),
        priority: 2,
        quantum: 5000,
    };
    assert_eq!(HtbSpec::of(&plan, &link), htb);
    let capped = ClassSpec { real_time: None, upper_limit: Some(Rate::from_mbps(1)), link_share: Rate::ZERO, ..plan };
    let least = HtbSpec { rate: Rate::ZERO, ceil: Rate::from_mbps(1), burst: Bytes::new(1514), quantum: 1514, ..htb };
    assert_eq!(HtbSpec::of(&capped, &link), least);
}

#[test]
fn what_means_nothing_is_refused() {
    let mut scheduler = htb();
    let a = scheduler.add(Time::ZERO, spec(1, 1, 0, 1));
    assert_eq!(
        scheduler.change(Time::ZERO, SchedulerClass(5), spec(1, 1, 0, 1)),
        Err(Misplaced::Unknown(SchedulerClass(5)))
    );
    scheduler.backlogged(Time::ZERO, a, 100);
    assert_eq!(scheduler.remove(a), Err(Misplaced::Backlogged(a)));
    scheduler.purged(Time::ZERO, a);
    scheduler.remove(a).unwrap();
    assert_eq!(scheduler.remove(a), Err(Misplaced::Unknown(a)));
    assert_eq!(scheduler.wake_at(), None);
}

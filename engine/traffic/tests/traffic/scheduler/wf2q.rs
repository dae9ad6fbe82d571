//! WF2Q+: against a brute-force oracle, against Bennett and Zhang's bounds, and its table.

use crate::scheduler::link::*;
use proptest::prelude::*;
use std::collections::VecDeque;
use terms::{Bytes, Rate, Span, Time};
use traffic::bucket::TokenBucket;
use traffic::plan::BucketSpec;
use traffic::scheduler::wf2q::Wf2q;
use traffic::scheduler::{Misplaced, Scheduler, SchedulerClass};

/// A byte lasts 800 ns: nothing rounds on the wire.
const LINK: Rate = Rate::from_mbps(10);
const L_MAX: u32 = 1500;
const PER_BYTE: i128 = 8_000_000_000;

#[test]
fn golden_decisions() {
    let mut wf2q = Wf2q::new(LINK);
    let (a, b, c) = (wf2q.add(Rate::from_mbps(5)), wf2q.add(Rate::from_kbps(2500)), wf2q.add(Rate::from_kbps(2500)));
    let name = |n| [(a, "a"), (b, "b"), (c, "c")].iter().find(|(m, _)| *m == n).unwrap().1;
    let mut text = String::from(
        "WF2Q+ on 10 Mb/s: a 5 Mb/s, b and c 2.5 Mb/s; packets of 1,250 bytes (1 ms). a and b always backlogged, c with\n\
         three packets from 6 ms on. Start and finish of each head and virtual time V, ms, after the choice. WFQ would\n\
         send a three times before b's second; WF2Q+ waits for a's start.\n\n  ms  sends       V    a S   a F    b S   b F    c S   c F\n",
    );
    let load = merge(&[burst(a, 1250, 20, ms(0)), burst(b, 1250, 20, ms(0)), burst(c, 1250, 3, ms(6))]);
    Link::new(wf2q, LINK).run(&load, ms(18), |s, p| {
        let show = |n| match s.head(n) {
            Some((start, finish)) => format!("{:>6.1} {:>5.1}", start as f64 / 1e6, finish as f64 / 1e6),
            None => "     -     -".into(),
        };
        let v = s.virtual_time() as f64 / 1e6;
        text += &format!(
            "{:>4}  {:5}  {v:>6.1} {} {} {}\n",
            p.start.as_nanos() / 1_000_000,
            name(p.node),
            show(a),
            show(b),
            show(c)
        );
    });
    golden("wf2q", &text);
}

/// The definition on plain lists, for rates at which every start and finish is a whole ns.
struct Oracle {
    rates: Vec<u64>,
    queues: Vec<VecDeque<u32>>,
    start: Vec<u64>,
    finish: Vec<u64>,
    v: u64,
}

impl Oracle {
    fn span(len: u32, mbps: u64) -> u64 {
        u64::from(len) * 8000 / mbps
    }

    fn push(&mut self, i: usize, len: u32) {
        self.queues[i].push_back(len);
        if self.queues[i].len() == 1 {
            self.start[i] = self.finish[i].max(self.v);
            self.finish[i] = self.start[i] + Self::span(len, self.rates[i]);
        }
    }

    fn pop(&mut self) -> Option<(usize, u32)> {
        let active: Vec<usize> = (0..self.rates.len()).filter(|i| !self.queues[*i].is_empty()).collect();
        let least = active.iter().map(|i| self.start[*i]).min()?;
        self.v = self.v.max(least);
        let i = active.into_iter().filter(|i| self.start[*i] <= self.v).min_by_key(|i| (self.finish[*i], *i))?;
        let len = self.queues[i].pop_front()?;
        self.v += Self::span(len, 10);
        if let Some(next) = self.queues[i].front() {
            self.start[i] = self.finish[i];
            self.finish[i] = self.start[i] + Self::span(*next, self.rates[i]);
        }
        Some((i, len))
    }
}

/// Rates that sum to the link's or less.
fn rates() -> impl Strategy<Value = Vec<Rate>> {
    proptest::collection::vec(1u64..10_000, 1..8).prop_map(|weights| {
        let sum: u64 = weights.iter().sum();
        weights.iter().map(|w| LINK.share(*w, sum)).collect()
    })
}

proptest! {
    #![proptest_config(chance::cases(400))]

    /// The same packet each time as the definition.
    #[test]
    fn as_plain_lists(
        rates in proptest::collection::vec(proptest::sample::select(vec![1u64, 2, 4, 5, 8]), 1..7),
        steps in proptest::collection::vec((0usize..7, proptest::option::weighted(0.55, 1u32..=L_MAX)), 1..300),
    ) {
        let mut wf2q = Wf2q::new(LINK);
        let nodes: Vec<SchedulerClass> = rates.iter().map(|r| wf2q.add(Rate::from_mbps(*r))).collect();
        let n = rates.len();
        let mut oracle = Oracle { rates, queues: vec![VecDeque::new(); n], start: vec![0; n], finish: vec![0; n], v: 0 };
        let mut queues = vec![VecDeque::new(); n];
        let mut now = Time::ZERO;
        for (i, push) in steps {
            let i = i % n;
            if let Some(len) = push {
                if queues[i].is_empty() {
                    wf2q.backlogged(now, nodes[i], len);
                }
                queues[i].push_back(len);
                oracle.push(i, len);
                continue;
            }
            let sent = wf2q.choose(now).map(|node| {
                let i = nodes.iter().position(|m| *m == node).unwrap();
                let len = queues[i].pop_front().unwrap();
                wf2q.served(now, node, len, queues[i].front().copied());
                now = now + LINK.span_for(Bytes::new(u64::from(len)));
                (i, len)
            });
            prop_assert_eq!(sent, oracle.pop());
            prop_assert_eq!(wf2q.virtual_time(), oracle.v);
        }
    }

    /// From any instant `t1` at which class `i` is backlogged to the end `t2` of any of its packets:
    /// `W_i(t1, t2) >= r_i (t2 - t1) - [L_i,max + (L_max - L_i,max) r_i / r]` (3 ns for the rounding of comparisons).
    /// The theorem counts a packet as served when it ends; bit by bit within a packet it would be up to `L_i,max` more.
    #[test]
    fn worst_case_fair(
        rates in rates(),
        lens in proptest::collection::vec(40u32..=L_MAX, 8),
        load in proptest::collection::vec((0usize..8, 0u64..8_000, 1usize..10, 0u32..40), 1..120),
    ) {
        let mut wf2q = Wf2q::new(LINK);
        let nodes: Vec<SchedulerClass> = rates.iter().map(|r| wf2q.add(*r)).collect();
        let mut at = Time::ZERO;
        let mut all = Vec::new();
        for (class, gap, n, less) in load {
            let class = class % nodes.len();
            at = at + Span::from_micros(gap);
            all.push(burst(nodes[class], lens[class] - less, n, at));
        }
        let sent = Link::new(wf2q, LINK).run(&merge(&all), Time::from_nanos(u64::MAX), |_, _| ());
        for ((node, rate), len) in nodes.iter().zip(&rates).zip(&lens) {
            let r = i128::from(rate.as_bps());
            let (own, other) = (i128::from(*len), i128::from(L_MAX - len));
            let allowed = own * PER_BYTE + other * PER_BYTE * r / i128::from(LINK.as_bps()) + 1 + 3 * r;
            // g = W - r t at the corners of each backlogged period; it must not fall by more than that.
            let (mut work, mut high, mut end) = (0i128, i128::MIN, Time::ZERO);
            for p in sent.iter().filter(|p| p.node == *node) {
                let g = |work: i128, t: Time| work - r * i128::from(t.as_nanos());
                if p.first && p.came >= end {
                    high = g(work, p.came);
                }
                end = p.end;
                high = high.max(g(work, p.start));
                work += i128::from(p.len) * PER_BYTE;
                prop_assert!(high - g(work, p.end) <= allowed, "{node:?} at {:?}", p.end);
                high = high.max(g(work, p.end));
            }
        }
    }

    /// What conforms to a bucket `(r_i, sigma)` waits at most `sigma / r_i + L_max / r`, whatever the others do.
    #[test]
    fn delay_is_bounded(
        rates in rates(),
        sigma in 1500u64..10_000,
        load in proptest::collection::vec((0u64..6_000, 40u32..=L_MAX), 1..200),
    ) {
        let mut wf2q = Wf2q::new(LINK);
        let nodes: Vec<SchedulerClass> = rates.iter().map(|r| wf2q.add(*r)).collect();
        let mut bucket = TokenBucket::new(&BucketSpec { rate: rates[0], depth: Bytes::new(sigma), min_unit: 0 }, Time::ZERO);
        let mut at = Time::ZERO;
        let mut own = Vec::new();
        for (gap, len) in load {
            at = at + Span::from_micros(gap);
            if bucket.take(at, len) {
                own.push(Arrival { at, node: nodes[0], len });
            }
        }
        let mut all = vec![own];
        all.extend(nodes[1..].iter().map(|n| burst(*n, L_MAX, 1200 / nodes.len(), Time::ZERO)));
        let sent = Link::new(wf2q, LINK).run(&merge(&all), Time::from_nanos(u64::MAX), |_, _| ());
        let bound = rates[0].span_for(Bytes::new(sigma)) + LINK.span_for(Bytes::new(u64::from(L_MAX))) + Span::from_nanos(3);
        for p in sent.iter().filter(|p| p.node == nodes[0]) {
            prop_assert!(p.end.since(p.came) <= bound, "{:?} > {bound:?}", p.end.since(p.came));
        }
    }
}

/// After a million packets at an odd rate the start is what it must be to the nanosecond.
#[test]
fn nothing_drifts() {
    let mut wf2q = Wf2q::new(Rate::from_bps(400_000_000_000));
    let rate = 123_456_789_123;
    let node = wf2q.add(Rate::from_bps(rate));
    wf2q.backlogged(Time::ZERO, node, 64);
    for _ in 0..1_000_000 {
        assert_eq!(wf2q.choose(Time::ZERO), Some(node));
        wf2q.served(Time::ZERO, node, 64, Some(64));
    }
    let exact = (64u128 * 1_000_000 * PER_BYTE as u128).div_ceil(u128::from(rate));
    assert_eq!(u128::from(wf2q.head(node).unwrap().0), exact);
}

/// Virtual time that would end in minutes begins anew, and shares stay what they are.
#[test]
fn virtual_time_never_ends() {
    let mut wf2q = Wf2q::new(Rate::from_bps(3));
    let (a, b) = (wf2q.add(Rate::from_bps(1)), wf2q.add(Rate::from_bps(2)));
    let mut sent = [0u64; 2];
    wf2q.backlogged(Time::ZERO, a, 60_000);
    wf2q.backlogged(Time::ZERO, b, 60_000);
    for _ in 0..120_000 {
        let node = wf2q.choose(Time::ZERO).unwrap();
        sent[usize::from(node == b)] += 1;
        wf2q.served(Time::ZERO, node, 60_000, Some(60_000));
        let (start, finish) = wf2q.head(node).unwrap();
        assert!(start < finish && finish < 1 << 63, "{start} {finish}");
    }
    assert!(sent[0].abs_diff(40_000) <= 1, "{sent:?}");
}

#[test]
fn what_means_nothing_is_refused() {
    let mut wf2q = Wf2q::new(Rate::ZERO);
    let a = wf2q.add(Rate::ZERO);
    wf2q.backlogged(Time::ZERO, a, u32::MAX);
    assert_eq!(wf2q.choose(Time::ZERO), Some(a));
    wf2q.served(Time::ZERO, a, u32::MAX, Some(u32::MAX));
    assert_eq!(wf2q.remove(a), Err(Misplaced::Backlogged(a)));
    assert_eq!(wf2q.choose(Time::ZERO), Some(a), "a rate of 0 counts as 1 bit/s");
    wf2q.purged(Time::ZERO, a);
    assert_eq!(wf2q.choose(Time::ZERO), None);
    wf2q.remove(a).unwrap();
    assert_eq!(wf2q.change(a, LINK), Err(Misplaced::Unknown(a)));
}

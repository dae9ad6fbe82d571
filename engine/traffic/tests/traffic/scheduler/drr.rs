//! Deficit round robin: as a plain list, its fairness bound, and its table.

use crate::scheduler::link::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};
use terms::{Rate, Time};
use traffic::scheduler::drr::Drr;
use traffic::scheduler::{Misplaced, Scheduler, SchedulerClass};

const LINK: Rate = Rate::from_mbps(10);

#[test]
fn golden_decisions() {
    let mut drr = Drr::new();
    let (a, b, c) = (drr.add(1500), drr.add(1500), drr.add(3000));
    let name = |n| [(a, "a"), (b, "b"), (c, "c")].iter().find(|(m, _)| *m == n).unwrap().1;
    let mut text = String::from(
        "DRR, all backlogged. a: quantum 1,500, packets of 600; b: quantum 1,500, packets of 1,500; c: quantum 3,000,\n\
         packets of 1,000. Deficits in bytes, after the choice.\n\n  sends  bytes      a     b     c\n",
    );
    let load = merge(&[burst(a, 600, 30, ms(0)), burst(b, 1500, 30, ms(0)), burst(c, 1000, 30, ms(0))]);
    Link::new(drr, LINK).run(&load, ms(16), |s, p| {
        let of = |n| s.deficit(n).unwrap();
        text += &format!("  {:5}  {:>5}  {:>5} {:>5} {:>5}\n", name(p.node), p.len, of(a), of(b), of(c));
    });
    golden("drr", &text);
}

/// The paper's pseudo code on plain lists.
#[derive(Default)]
struct Oracle {
    quanta: Vec<u64>,
    queues: Vec<VecDeque<u32>>,
    active: VecDeque<(usize, u64, bool)>,
}

impl Oracle {
    fn push(&mut self, i: usize, len: u32) {
        if self.queues[i].is_empty() {
            self.active.push_back((i, 0, false));
        }
        self.queues[i].push_back(len);
    }

    fn pop(&mut self) -> Option<(usize, u32)> {
        loop {
            let (i, deficit, credited) = self.active.front_mut()?;
            if !*credited {
                *deficit += self.quanta[*i];
                *credited = true;
            }
            let head = self.queues[*i][0];
            if u64::from(head) > *deficit {
                let (i, deficit, _) = self.active.pop_front()?;
                self.active.push_back((i, deficit, false));
                continue;
            }
            *deficit -= u64::from(head);
            let i = *i;
            self.queues[i].pop_front();
            if self.queues[i].is_empty() {
                self.active.pop_front();
            }
            return Some((i, head));
        }
    }
}

proptest! {
    #![proptest_config(chance::cases(256))]

    /// The same packet each time as the paper's pseudo code.
    #[test]
    fn as_a_plain_list(
        quanta in proptest::collection::vec(1u32..4000, 1..6),
        steps in proptest::collection::vec((0usize..6, proptest::option::weighted(0.55, 1u32..3000)), 1..300),
    ) {
        let mut drr = Drr::new();
        let nodes: Vec<SchedulerClass> = quanta.iter().map(|q| drr.add(*q)).collect();
        let n = quanta.len();
        let mut oracle = Oracle { quanta: quanta.iter().map(|q| u64::from(*q)).collect(), queues: vec![VecDeque::new(); n], ..Oracle::default() };
        let mut queues = vec![VecDeque::new(); n];
        for (i, push) in steps {
            let i = i % n;
            if let Some(len) = push {
                if queues[i].is_empty() {
                    drr.backlogged(Time::ZERO, nodes[i], len);
                }
                queues[i].push_back(len);
                oracle.push(i, len);
                continue;
            }
            let sent = drr.choose(Time::ZERO).map(|node| {
                let i = nodes.iter().position(|m| *m == node).unwrap();
                let len = queues[i].pop_front().unwrap();
                drr.served(Time::ZERO, node, len, queues[i].front().copied());
                (i, len)
            });
            prop_assert_eq!(sent, oracle.pop());
        }
    }

    /// Two backlogged classes, in any window: `|W_i / q_i - W_j / q_j| <= 1 + L_max / q_i + L_max / q_j`.
    #[test]
    fn fair_in_every_window(
        quanta in proptest::collection::vec(100u32..6000, 2..6),
        lens in proptest::collection::vec(proptest::collection::vec(40u32..=1500, 1..6), 6),
    ) {
        let mut drr = Drr::new();
        let quanta: BTreeMap<SchedulerClass, f64> = quanta.iter().map(|q| (drr.add(*q), f64::from(*q))).collect();
        let load: Vec<_> = quanta.keys().zip(&lens).map(|(n, lens)| {
            lens.iter().cycle().take(40_000 / lens.len()).map(|len| Arrival { at: Time::ZERO, node: *n, len: *len }).collect()
        }).collect();
        let mut work: BTreeMap<SchedulerClass, f64> = BTreeMap::new();
        let mut range: BTreeMap<(SchedulerClass, SchedulerClass), (f64, f64)> = BTreeMap::new();
        Link::new(drr, LINK).run(&merge(&load), ms(250), |_, p| {
            *work.entry(p.node).or_default() += f64::from(p.len);
            let rounds = |n: &SchedulerClass| work.get(n).copied().unwrap_or(0.0) / quanta[n];
            for other in quanta.keys().filter(|n| **n != p.node) {
                let d = rounds(&p.node.min(*other)) - rounds(&p.node.max(*other));
                let r = range.entry((p.node.min(*other), p.node.max(*other))).or_insert((0.0, 0.0));
                *r = (r.0.min(d), r.1.max(d));
            }
        });
        for ((i, j), (low, high)) in range {
            prop_assert!(high - low <= 1.0 + 1500.0 / quanta[&i] + 1500.0 / quanta[&j] + 1e-9, "{low} to {high}");
        }
    }
}

#[test]
fn what_means_nothing_is_refused() {
    let mut drr = Drr::new();
    let a = drr.add(0);
    drr.backlogged(Time::ZERO, a, 9000);
    assert_eq!(drr.choose(Time::ZERO), Some(a), "a quantum of 0 counts as 1 and gets there in the end");
    assert_eq!(drr.remove(a), Err(Misplaced::Backlogged(a)));
    drr.purged(Time::ZERO, a);
    assert_eq!(drr.choose(Time::ZERO), None);
    drr.remove(a).unwrap();
    assert_eq!(drr.change(a, 1), Err(Misplaced::Unknown(a)));
}

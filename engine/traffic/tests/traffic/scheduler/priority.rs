//! Strict priority: its table, and that nothing lower goes while something higher waits.

use crate::scheduler::link::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};
use terms::{Rate, Span, Time};
use traffic::scheduler::priority::Priority;
use traffic::scheduler::{Misplaced, Scheduler, SchedulerClass};

#[test]
fn golden_decisions() {
    let mut scheduler = Priority::new();
    let [voice, video, a, b] = [0, 1, 7, 7].map(|p| scheduler.add(p));
    let name = |n| [(voice, "voice"), (video, "video"), (a, "a"), (b, "b")].iter().find(|(m, _)| *m == n).unwrap().1;
    let mut text = String::from(
        "Strict priority on 10 Mb/s: voice 0, video 1, a and b 7. Packets of 1,250 bytes (1 ms).\n\n\
         \x20 ms  came  sends\n",
    );
    let load = merge(&[
        burst(a, 1250, 4, ms(0)),
        burst(b, 1250, 4, ms(0)),
        cbr(voice, 1250, Span::from_millis(4), ms(1), ms(10)),
        burst(video, 1250, 3, ms(2)),
    ]);
    Link::new(scheduler, Rate::from_mbps(10)).run(&load, ms(20), |_, p| {
        text +=
            &format!("{:>4}  {:>4}  {}\n", p.start.as_nanos() / 1_000_000, p.came.as_nanos() / 1_000_000, name(p.node));
    });
    golden("priority", &text);
}

proptest! {
    #![proptest_config(chance::cases(256))]

    /// Against a brute-force list: always the head of the lowest number, and in turn among equals; also while classes
    /// change their priority and are purged.
    #[test]
    fn as_a_plain_list(steps in proptest::collection::vec((0u8..8, 0usize..6, any::<u8>()), 1..300)) {
        let mut scheduler = Priority::new();
        let nodes: Vec<SchedulerClass> = (0..6).map(|_| scheduler.add(9)).collect();
        let mut rings: BTreeMap<u8, VecDeque<usize>> = BTreeMap::new();
        let (mut queued, mut priority) = ([0u32; 6], [9u8; 6]);
        for (what, i, p) in steps {
            let drop = |rings: &mut BTreeMap<u8, VecDeque<usize>>| rings.values_mut().for_each(|r| r.retain(|n| *n != i));
            match what {
                0..=3 => {
                    if queued[i] == 0 {
                        scheduler.backlogged(Time::ZERO, nodes[i], 100);
                        rings.entry(priority[i]).or_default().push_back(i);
                    }
                    queued[i] += 1;
                }
                4 if p % 4 == 0 => {
                    scheduler.purged(Time::ZERO, nodes[i]);
                    queued[i] = 0;
                    drop(&mut rings);
                }
                5 if p != priority[i] => {
                    scheduler.change(nodes[i], p).unwrap();
                    drop(&mut rings);
                    priority[i] = p;
                    if queued[i] > 0 {
                        rings.entry(p).or_default().push_back(i);
                    }
                }
                _ => {
                    let expected = rings.values_mut().find(|r| !r.is_empty()).map(|r| r.pop_front().unwrap());
                    prop_assert_eq!(scheduler.choose(Time::ZERO), expected.map(|n| nodes[n]));
                    if let Some(n) = expected {
                        queued[n] -= 1;
                        scheduler.served(Time::ZERO, nodes[n], 100, (queued[n] > 0).then_some(100));
                        if queued[n] > 0 {
                            rings.get_mut(&priority[n]).unwrap().push_back(n);
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn what_means_nothing_is_refused() {
    let mut scheduler = Priority::new();
    let a = scheduler.add(1);
    assert_eq!(scheduler.change(SchedulerClass(9), 1), Err(Misplaced::Unknown(SchedulerClass(9))));
    assert_eq!(scheduler.remove(SchedulerClass::ROOT), Err(Misplaced::Unknown(SchedulerClass::ROOT)));
    scheduler.backlogged(Time::ZERO, a, 1);
    assert_eq!(scheduler.remove(a), Err(Misplaced::Backlogged(a)));
    scheduler.purged(Time::ZERO, a);
    scheduler.remove(a).unwrap();
    assert_eq!(scheduler.change(a, 1), Err(Misplaced::Unknown(a)));
    assert_eq!(scheduler.add(3), a, "numbers are given out again");
}

//! Each choice of HFSC against a scan over all classes: no heap, no tree walk of its own, only the rules.

use proptest::prelude::*;
use std::collections::BTreeMap;
use terms::{Rate, ServiceCurve, Span, Time};
use traffic::scheduler::hfsc::{Criterion, Curves, Hfsc};
use traffic::scheduler::{Scheduler, SchedulerClass};

const PER_BYTE: u128 = 8_000_000_000;

/// What the scan knows: the tree, the queues, and each class's starts in virtual time.
#[derive(Default)]
struct Model {
    parent: BTreeMap<SchedulerClass, SchedulerClass>,
    share: BTreeMap<SchedulerClass, Rate>,
    queue: BTreeMap<SchedulerClass, Vec<u32>>,
    total: BTreeMap<SchedulerClass, u128>,
    /// What of it was received while it took part in sharing.
    counted: BTreeMap<SchedulerClass, u128>,
    /// (virtual time, counted work) at each start of an active period.
    starts: BTreeMap<SchedulerClass, Vec<(u128, u128)>>,
}

impl Model {
    fn children(&self, of: SchedulerClass) -> Vec<SchedulerClass> {
        self.parent.iter().filter(|(_, p)| **p == of).map(|(n, _)| *n).collect()
    }

    fn is_leaf(&self, node: SchedulerClass) -> bool {
        self.children(node).is_empty()
    }

    /// Whether something below it waits that may be sent by link sharing.
    fn active(&self, node: SchedulerClass) -> bool {
        if !self.share.contains_key(&node) {
            return false;
        }
        if self.is_leaf(node) {
            !self.queue[&node].is_empty()
        } else {
            self.children(node).iter().any(|c| self.active(*c))
        }
    }

    /// The leaf that must be chosen, by scanning.
    fn choice(&self, hfsc: &Hfsc, now: Time) -> Option<(SchedulerClass, Criterion)> {
        let state = |n: SchedulerClass| hfsc.state(n).unwrap();
        let due =
            self.queue.keys().filter_map(|n| state(*n).real_time.filter(|(e, _)| *e <= now).map(|(_, d)| (d, *n)));
        if let Some((_, leaf)) = due.min() {
            return Some((leaf, Criterion::RealTime));
        }
        let mut at = SchedulerClass::ROOT;
        loop {
            let fit = self.children(at).into_iter().filter(|c| self.active(*c) && self.fits(hfsc, *c, now));
            at = fit.min_by_key(|c| (state(*c).virtual_time, *c))?;
            if self.is_leaf(at) {
                return Some((at, Criterion::LinkShare));
            }
        }
    }

    /// Its own limit allows it (as the scheduler says, for a leaf), and some child fits.
    fn fits(&self, hfsc: &Hfsc, node: SchedulerClass, now: Time) -> bool {
        hfsc.state(node).unwrap().fit <= now
            && (self.is_leaf(node) || self.children(node).iter().any(|c| self.active(*c) && self.fits(hfsc, *c, now)))
    }

    /// The virtual time of a class with a linear share: the latest of the lines from its starts.
    fn virtual_time(&self, node: SchedulerClass) -> u128 {
        let rate = u128::from(self.share[&node].as_bps());
        let lines = self.starts[&node].iter().map(|(start, work)| start + (self.counted[&node] - work).div_ceil(rate));
        lines.max().unwrap()
    }
}

/// A tree of three agencies, two of them with three leaves and one with an agency of its own.
fn tree(shares: &[u64], real: &[Option<ServiceCurve>]) -> (Hfsc, Model) {
    let (mut hfsc, mut model) = (Hfsc::new(), Model::default());
    let mut add = |hfsc: &mut Hfsc, parent, i: usize, leaf: bool| {
        let rate = Rate::from_kbps(shares[i]);
        let real_time = real[i].filter(|_| leaf);
        // Some leaves are served in real time only.
        let shared = !leaf || real_time.is_none() || !i.is_multiple_of(4);
        let link_share = shared.then(|| ServiceCurve::linear(rate));
        let node = hfsc.add(Time::ZERO, parent, Curves { real_time, link_share, upper_limit: None }).unwrap();
        model.parent.insert(node, parent);
        model.total.insert(node, 0);
        model.counted.insert(node, 0);
        if shared {
            model.share.insert(node, rate);
        }
        if leaf {
            model.queue.insert(node, Vec::new());
        }
        node
    };
    let a = add(&mut hfsc, SchedulerClass::ROOT, 0, false);
    let b = add(&mut hfsc, SchedulerClass::ROOT, 1, false);
    let c = add(&mut hfsc, b, 2, false);
    for (i, parent) in [(3, a), (4, a), (5, a), (6, b), (7, c), (8, c), (9, SchedulerClass::ROOT)] {
        add(&mut hfsc, parent, i, true);
    }
    (hfsc, model)
}

fn curve() -> impl Strategy<Value = Option<ServiceCurve>> {
    proptest::option::of((0u64..4000, 0u64..20, 1u64..2000).prop_map(|(m1, d, m2)| ServiceCurve {
        m1: Rate::from_kbps(m1),
        d: Span::from_millis(d),
        m2: Rate::from_kbps(m2),
    }))
}

proptest! {
    #![proptest_config(chance::cases(500))]

    #[test]
    fn every_choice_is_the_one_that_a_scan_finds(
        shares in proptest::collection::vec(1u64..10_000, 10),
        real in proptest::collection::vec(curve(), 10),
        steps in proptest::collection::vec((0usize..7, proptest::option::weighted(0.5, 40u32..1500), 0u64..3000), 1..250),
    ) {
        let (mut hfsc, mut model) = tree(&shares, &real);
        let leaves: Vec<SchedulerClass> = model.queue.keys().copied().collect();
        let mut now = Time::ZERO;
        for (i, push, wait) in steps {
            now = now + Span::from_micros(wait);
            let before: Vec<SchedulerClass> = model.parent.keys().filter(|n| model.active(**n)).copied().collect();
            if let Some(len) = push {
                let queue = model.queue.get_mut(&leaves[i]).unwrap();
                queue.push(len);
                if queue.len() == 1 {
                    hfsc.backlogged(now, leaves[i], len);
                }
            } else {
                let expected = model.choice(&hfsc, now);
                let chosen = hfsc.choose(now);
                prop_assert_eq!(chosen.map(|n| (n, hfsc.criterion())), expected);
                let Some(leaf) = chosen else { continue };
                let queue = model.queue.get_mut(&leaf).unwrap();
                let len = queue.remove(0);
                hfsc.served(now, leaf, len, queue.first().copied());
                let mut at = leaf;
                while at != SchedulerClass::ROOT {
                    *model.total.get_mut(&at).unwrap() += u128::from(len) * PER_BYTE;
                    *model.counted.get_mut(&at).unwrap() += if before.contains(&at) { u128::from(len) * PER_BYTE } else { 0 };
                    at = model.parent[&at];
                }
            }
            for (node, _) in model.parent.clone() {
                let state = hfsc.state(node).unwrap();
                prop_assert_eq!(state.virtual_time.is_some(), model.active(node), "{:?}", node);
                prop_assert_eq!(state.total, model.total[&node]);
                let Some(virtual_time) = state.virtual_time else { continue };
                if !before.contains(&node) {
                    let counted = model.counted[&node];
                    model.starts.entry(node).or_default().push((virtual_time, counted));
                }
                prop_assert_eq!(virtual_time, model.virtual_time(node), "{:?}", node);
            }
        }
    }
}

//! The queue against a sorted map.

use super::{Alarm, Timers};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use proptest::prelude::*;
use terms::Time;

#[derive(Clone, Copy, Debug)]
enum Step {
    Set(usize, u64),
    SetBy(usize, u64),
    Clear(usize),
    Fire(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0usize..40, 0u64..50).prop_map(|(w, t)| Step::Set(w, t)),
        2 => (0usize..40, 0u64..50).prop_map(|(w, t)| Step::SetBy(w, t)),
        2 => (0usize..40).prop_map(Step::Clear),
        1 => (0u64..50).prop_map(Step::Fire),
    ];
    prop::collection::vec(step, 0..500)
}

proptest! {
    /// Exact order of time and, at one time, of arming; nothing is left of what was cleared.
    #[test]
    fn like_a_sorted_map(steps in steps()) {
        let mut timers: Timers<usize> = Timers::new();
        let mut alarms: Vec<Alarm> = (0..40).map(|_| Alarm::OFF).collect();
        let mut model: BTreeMap<(u64, usize), usize> = BTreeMap::new();
        for (turn, step) in steps.into_iter().enumerate() {
            let due = |model: &BTreeMap<(u64, usize), usize>, w| model.iter().find(|(_, v)| **v == w).map(|(k, _)| k.0);
            match step {
                Step::Set(w, t) => {
                    timers.set(&mut alarms[w], Time::from_nanos(t), w);
                    model.retain(|_, v| *v != w);
                    model.insert((t, turn), w);
                }
                Step::SetBy(w, t) => {
                    timers.set_by(&mut alarms[w], Time::from_nanos(t), w);
                    if due(&model, w).is_none_or(|d| d > t) {
                        model.retain(|_, v| *v != w);
                        model.insert((t, turn), w);
                    }
                }
                Step::Clear(w) => {
                    timers.clear(&mut alarms[w]);
                    model.retain(|_, v| *v != w);
                }
                Step::Fire(t) => {
                    while let Some(w) = timers.due_at(Time::from_nanos(t)) {
                        prop_assert_eq!(model.pop_first().map(|(_, v)| v), Some(w));
                        timers.clear(&mut alarms[w]);
                    }
                    prop_assert!(model.keys().all(|k| k.0 > t));
                }
            }
            prop_assert_eq!(timers.next(), model.keys().next().map(|k| Time::from_nanos(k.0)));
            for (w, alarm) in alarms.iter().enumerate() {
                prop_assert_eq!(timers.due(alarm), due(&model, w).map(Time::from_nanos));
            }
            prop_assert_eq!(timers.heap.len(), model.len());
        }
    }
}

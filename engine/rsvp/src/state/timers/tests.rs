//! The queue against a sorted map.

use super::{Alarm, SHIFT, Timers};
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

/// From within a tick to many of them ahead.
fn instant() -> impl Strategy<Value = u64> {
    prop_oneof![0u64..1 << 12, 0u64..1 << SHIFT, 0u64..1 << 30, 0u64..1 << 36]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0usize..40, instant()).prop_map(|(w, t)| Step::Set(w, t)),
        2 => (0usize..40, instant()).prop_map(|(w, t)| Step::SetBy(w, t)),
        2 => (0usize..40).prop_map(Step::Clear),
        1 => instant().prop_map(Step::Fire),
    ];
    prop::collection::vec(step, 0..500)
}

fn in_ticks(ns: u64) -> u64 {
    ns.div_ceil(1 << SHIFT)
}

/// Never early, late by less than a tick, in the order of ticks; nothing is left of what was cleared; and whoever comes
/// when told to come is never late.
fn as_a_map(steps: &[Step]) -> Result<(), TestCaseError> {
    let mut timers: Timers<usize> = Timers::new();
    let mut alarms: Vec<Alarm> = (0..40).map(|_| Alarm::OFF).collect();
    let mut model: Vec<Option<u64>> = alloc::vec![None; 40];
    let mut now = 0;
    for step in steps {
        match *step {
            Step::Set(w, t) => {
                timers.set(&mut alarms[w], Time::from_nanos(t), w);
                model[w] = Some(t);
            }
            Step::SetBy(w, t) => {
                timers.set_by(&mut alarms[w], Time::from_nanos(t), w);
                if model[w].is_none_or(|due| in_ticks(due) << SHIFT > t) {
                    model[w] = Some(t);
                }
            }
            Step::Clear(w) => {
                timers.clear(&mut alarms[w]);
                model[w] = None;
            }
            Step::Fire(t) => {
                // What was past when it was set is due at once, first or not.
                let (before, mut last) = (now >> SHIFT, 0);
                now = now.max(t);
                while let Some(w) = timers.due_at(Time::from_nanos(now)) {
                    let at = model[w].take().expect("what fires was armed");
                    prop_assert!(in_ticks(at) <= now >> SHIFT, "never early");
                    let at = in_ticks(at).max(before);
                    prop_assert!(at >= last, "first things first");
                    last = at;
                    timers.clear(&mut alarms[w]);
                }
                prop_assert!(model.iter().flatten().all(|at| in_ticks(*at) > now >> SHIFT), "nothing due is left");
            }
        }
        let armed = model.iter().flatten().count();
        prop_assert_eq!(timers.armed(), armed);
        let first = model.iter().flatten().map(|at| in_ticks(*at).max(now >> SHIFT) << SHIFT).min();
        prop_assert!(timers.next().map(Time::as_nanos) <= first || first.is_none(), "never too late");
        prop_assert_eq!(timers.next().is_some(), first.is_some());
        for (w, alarm) in alarms.iter().enumerate() {
            let due = model[w].map(in_ticks);
            prop_assert_eq!(timers.due(alarm).map(|t| t.as_nanos() >> SHIFT), due);
        }
        prop_assert!(timers.whose.len() <= 40);
    }
    Ok(())
}

proptest! {
    #![proptest_config(chance::cases(256))]

    #[test]
    fn like_a_sorted_map(steps in steps()) {
        as_a_map(&steps)?;
    }
}

/// Found by chance: what is set for a time long past is due at once, and does not overtake what was set before.
#[test]
fn set_for_the_past_behind_one_that_is_due() {
    as_a_map(&[Step::Fire(939_524_096), Step::SetBy(0, 1_048_577), Step::Set(1, 0), Step::Fire(0)]).unwrap();
}

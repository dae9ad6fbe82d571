//! The timing wheel against an ordered map, and a table of how one timer comes down the levels.

use proptest::prelude::*;
use std::collections::BTreeMap;
use terms::{Span, Time};
use wheel::Wheel;

#[derive(Clone, Debug)]
enum Step {
    Set(u32, u64),
    Cancel(u32),
    Go(u64),
}

/// Spans from one nanosecond to centuries, evenly on a logarithmic scale.
fn span() -> impl Strategy<Value = u64> {
    (0f64..62.0).prop_map(|x| x.exp2() as u64 - 1)
}

fn steps(cancels: bool) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        5 => (0u32..60, span()).prop_map(|(t, d)| Step::Set(t, d)),
        2 => (0u32..60, 0u64..3000).prop_map(|(t, d)| Step::Set(t, d)),
        u32::from(cancels) => (0u32..60).prop_map(Step::Cancel),
        3 => span().prop_map(Step::Go),
        2 => (0u64..3000).prop_map(Step::Go),
    ];
    proptest::collection::vec(step, 1..400)
}

/// Timers by tick, then by the order of setting.
#[derive(Default)]
struct Oracle {
    by_time: BTreeMap<(u64, u64), u32>,
    keys: BTreeMap<u32, (u64, u64)>,
    count: u64,
}

impl Oracle {
    fn set(&mut self, timer: u32, tick: u64) {
        self.cancel(timer);
        self.count += 1;
        self.by_time.insert((tick, self.count), timer);
        self.keys.insert(timer, (tick, self.count));
    }

    fn cancel(&mut self, timer: u32) -> bool {
        self.keys.remove(&timer).is_some_and(|key| self.by_time.remove(&key).is_some())
    }

    /// The tick of this timer, if it is among the first (the very first unless there were cancels).
    fn expire(&mut self, timer: u32, cancels: bool) -> Option<u64> {
        let first = *self.by_time.first_key_value()?.0;
        let key = self.keys.remove(&timer)?;
        self.by_time.remove(&key);
        (key == first || cancels && key.0 == first.0).then_some(key.0)
    }

    fn first(&self) -> Option<u64> {
        self.by_time.keys().next().map(|(tick, _)| *tick)
    }
}

/// The instant at which a tick begins, if time goes that far.
fn start_of(tick: u64, shift: u32) -> Time {
    u64::try_from(u128::from(tick) << shift).map_or(Time::FOREVER, Time::from_nanos)
}

proptest! {
    #![proptest_config(chance::cases(2_000))]

    /// The same timers at the same times, whatever the tick; without cancelling in the same order too; `wake_at` is
    /// never too late, and going from wake-up to wake-up gets there.
    #[test]
    fn as_an_ordered_map(shift in 0u32..24, start in span(), (cancels, steps) in any::<bool>().prop_flat_map(|c| (Just(c), steps(c)))) {
        let mut now = start;
        let mut wheel = Wheel::new(shift, Time::from_nanos(now), 60);
        let mut oracle = Oracle::default();
        let mut set_to = [0; 60];
        for step in steps {
            match step {
                Step::Set(timer, _) if !cancels && wheel.is_set(timer) => {}
                Step::Set(timer, span) => {
                    let at = now.saturating_add(span);
                    wheel.set(timer, Time::from_nanos(at));
                    set_to[timer as usize] = at;
                    // Not due before: rounded up to a tick. What is past is due in the present tick.
                    let tick = at.div_ceil(1 << shift).max(now >> shift);
                    oracle.set(timer, tick);
                }
                Step::Cancel(timer) => prop_assert_eq!(wheel.cancel(timer), oracle.cancel(timer)),
                Step::Go(span) => {
                    now = now.saturating_add(span).min(u64::MAX / 2);
                    while let Some(timer) = wheel.expire(Time::from_nanos(now)) {
                        let tick = oracle.expire(timer, cancels);
                        prop_assert!(tick.is_some_and(|tick| tick << shift <= now), "early, or out of order: {tick:?}");
                    }
                    prop_assert!(oracle.first().is_none_or(|tick| tick > now >> shift), "late");
                }
            }
            prop_assert_eq!(wheel.len(), oracle.by_time.len());
            let wake = wheel.wake_at().map(Time::as_nanos);
            prop_assert_eq!(wake.is_some(), oracle.first().is_some());
            if let (Some(wake), Some(first)) = (wake, oracle.first()) {
                prop_assert!(wake >> shift <= first, "wakes at {wake}, after tick {first}");
                let next = wheel.next().expect("something is set");
                prop_assert_eq!(next, start_of(first.max(now >> shift), shift), "the next is exact");
            }
            for timer in 0..60 {
                let at = oracle.keys.contains_key(&timer).then(|| start_of(set_to[timer as usize].div_ceil(1 << shift), shift));
                prop_assert_eq!(wheel.due(timer), at);
            }
        }
        // From wake-up to wake-up, as a driver does.
        let mut hops = 0;
        while let Some(wake) = wheel.wake_at() {
            now = now.max(wake.as_nanos());
            while let Some(timer) = wheel.expire(Time::from_nanos(now)) {
                prop_assert!(oracle.expire(timer, cancels).is_some());
            }
            hops += 1;
            prop_assert!(hops <= 60 * 8 + 8, "does not get there");
        }
        prop_assert!(oracle.by_time.is_empty());
    }
}

#[test]
fn the_end_of_time_never_comes() {
    for shift in [0, 10, 63, 99] {
        let mut wheel = Wheel::new(shift, Time::ZERO, 2);
        wheel.set(0, Time::FOREVER);
        wheel.set(1, Time::from_nanos(5));
        assert_eq!(wheel.expire(Time::from_nanos(4)), None);
        if shift < 63 {
            assert_eq!(wheel.expire(Time::from_nanos(1 << 20)), Some(1));
        }
        assert!(wheel.wake_at().is_some() && wheel.is_set(0) && wheel.cancel(0) && !wheel.cancel(0));
    }
}

#[test]
fn golden_table() {
    let mut wheel = Wheel::new(20, Time::ZERO, 3);
    let mut text = String::from(
        "Timing wheel with ticks of 2^20 ns (1.048576 ms). Set at 0: a for 100 ms, b for 30 s, c for 157.5 s.\n\
         Woken only when it asks; a level-1 slot is 268 ms wide, a level-2 slot 68.7 s.\n\n   woken at s  expired\n",
    );
    for (timer, ms) in [(0, 100), (1, 30_000), (2, 157_500)] {
        wheel.set(timer, Time::ZERO + Span::from_millis(ms));
    }
    while let Some(wake) = wheel.wake_at() {
        let expired = wheel.expire(wake).map_or("deals a slot out", |t| ["a", "b", "c"][t as usize]);
        text += &format!("{:>13.6}  {expired}\n", wake.as_nanos() as f64 / 1e9);
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/wheel.txt");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(path, &text).unwrap();
    }
    let golden = std::fs::read_to_string(path).unwrap_or_default();
    assert_eq!(text, golden, "{path} differs; check it by hand, then run again with UPDATE_GOLDEN=1");
}

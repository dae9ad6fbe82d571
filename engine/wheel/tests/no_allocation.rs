//! Setting, moving, cancelling and expiring allocate nothing, also when every slot has a timer of its own.

use crate::counting;
use terms::Time;
use wheel::Wheel;

#[test]
fn nothing_is_allocated() {
    const TIMERS: u32 = 5_000;
    let mut wheel = Wheel::new(0, Time::ZERO, TIMERS as usize);
    let (mut now, mut seed, mut expired) = (0, 1u64, 0);
    let count = counting::allocations(|| {
        for round in 0..200_000u32 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let timer = (seed >> 33) as u32 % TIMERS;
            // From the next nanosecond to centuries, as evenly as levels and slots.
            let span = (seed >> 3) >> (seed % 61);
            match round % 8 {
                0 => drop(wheel.cancel(timer)),
                _ => wheel.set(timer, Time::from_nanos(span.saturating_add(now))),
            }
            now = now.saturating_add(u64::from(round % 8 == 3) * (span >> 20));
            while wheel.expire(Time::from_nanos(now)).is_some() {
                expired += 1;
            }
        }
    });
    assert_eq!(count, 0);
    assert!(expired > 1_000 && wheel.len() > 1_000, "{expired} expired, {} set", wheel.len());
}

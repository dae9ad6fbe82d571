//! The wheel with a million timers: ns per operation. `cargo bench -p sluice-wheel`.

use bench::{Bench, Draw};
use terms::{Span, Time};
use wheel::Wheel;

const RUNS: usize = 7;

/// A million timers of 1 to 60 s in ticks of 2^20 ns (a millisecond).
fn main() {
    let bench = Bench::from_args();
    const TIMERS: u32 = 1_000_000;
    if !bench.wants("wheel_insert") && !bench.wants("wheel_expire") {
        return;
    }
    let mut draw = Draw::new(1);
    let mut span = move || Span::from_nanos(1_000_000_000 + draw.next_u64() % 59_000_000_000);
    let spans: Vec<Span> = (0..TIMERS).map(|_| span()).collect();
    // Two wheels in turn, so that the one that is filled is empty and its memory has been touched.
    let mut wheels = [(); 2].map(|()| Wheel::new(20, Time::ZERO, TIMERS as usize));
    let mut now = Time::ZERO;
    let mut fill = |wheel: &mut Wheel| {
        while wheel.expire(now + Span::from_secs(60)).is_some() {}
        now = now + Span::from_secs(60);
        bench::nanos(|| (0..TIMERS).zip(&spans).for_each(|(timer, span)| wheel.set(timer, now + *span)))
    };
    for wheel in &mut wheels {
        fill(wheel);
    }
    let mut runs: Vec<f64> = (0..RUNS).map(|i| fill(&mut wheels[i % 2]) / f64::from(TIMERS)).collect();
    bench.report("wheel_insert", bench::median(&mut runs), "ns", RUNS);
    let [mut wheel, _] = wheels;
    // Each timer that expires is set again.
    let mut n = 0;
    bench.time("wheel_expire", RUNS, u64::from(TIMERS), || {
        let mut expired = 0;
        while expired < TIMERS {
            if let Some(timer) = wheel.expire(now) {
                wheel.set(timer, now + spans[n % spans.len()]);
                (expired, n) = (expired + 1, n + 1);
            } else {
                now = now + Span::from_nanos(1 << 20);
            }
        }
    });
}

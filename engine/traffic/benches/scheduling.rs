//! Timing wheel and schedulers: ns per operation. `cargo bench -p sluice-traffic --bench scheduling -- hfsc`.
//!
//! A scheduler's figure is one enqueue and one dequeue of a 1,500-byte packet, queues included. *Backlogged*: every class
//! always holds packets; what goes out is replaced. *Drained*: 32 packets come for random classes, then all go out,
//! so classes become active and idle all the time. The link is 10 Gb/s and always busy.

mod plane;

use bench::{Bench, Draw};
use plane::{LEN, Plane};
use terms::{Bytes, Rate, ServiceCurve, Span, Time};
use traffic::scheduler::Node;
use traffic::scheduler::drr::Drr;
use traffic::scheduler::hfsc::{Curves, Hfsc};
use traffic::scheduler::htb::{Htb, HtbSpec};
use traffic::scheduler::priority::Priority;
use traffic::scheduler::wf2q::Wf2q;
use traffic::wheel::Wheel;

const RUNS: usize = 7;
const PACKETS: u64 = 1 << 19;

fn main() {
    let bench = Bench::from_args();
    wheel(&bench);
    for classes in [1, 1_000, 100_000] {
        schedulers(&bench, classes);
    }
}

/// A million timers of 1 to 60 s in ticks of 2^20 ns (a millisecond).
fn wheel(bench: &Bench) {
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

fn schedulers(bench: &Bench, classes: u32) {
    let share = Rate::from_bps(10_000_000_000 / u64::from(classes));
    for (kind, backlogged) in [("drained", false), ("backlogged", true)] {
        let name = |scheduler: &str| format!("sched_{scheduler}_{classes}_{kind}");
        let run = |scheduler: &str, make: &mut dyn FnMut() -> Plane| {
            if bench.wants(&name(scheduler)) {
                let mut plane = make();
                plane.prepare(classes, backlogged);
                bench.time(&name(scheduler), RUNS, PACKETS, || plane.run(PACKETS, backlogged));
            }
        };
        run("prio", &mut || {
            let mut s = Priority::new();
            let nodes = (0..classes).map(|i| s.add((i % 8) as u8)).collect();
            Plane::new(Box::new(s), nodes)
        });
        run("wf2q", &mut || {
            let mut s = Wf2q::new(Rate::from_mbps(10_000));
            let nodes = (0..classes).map(|_| s.add(share)).collect();
            Plane::new(Box::new(s), nodes)
        });
        run("drr", &mut || {
            let mut s = Drr::new();
            let nodes = (0..classes).map(|_| s.add(LEN)).collect();
            Plane::new(Box::new(s), nodes)
        });
        run("hfsc", &mut || {
            let mut s = Hfsc::new();
            let half = ServiceCurve::linear(Rate::from_bps(share.as_bps() / 2));
            let burst = ServiceCurve { m1: share, d: Span::from_millis(10), m2: half.m2 };
            let curves = |i: u32| Curves {
                real_time: Some(if i.is_multiple_of(2) { half } else { burst }),
                link_share: Some(ServiceCurve::linear(share)),
                upper_limit: None,
            };
            let nodes = (0..classes).map(|i| s.add(Time::ZERO, Node::ROOT, curves(i)).expect("below the root"));
            let nodes = nodes.collect();
            Plane::new(Box::new(s), nodes)
        });
        run("htb", &mut || {
            let rate = Rate::from_mbps(10_000);
            let packet = Bytes::new(u64::from(LEN));
            let mut s = Htb::new(rate, packet, Time::ZERO);
            let spec = HtbSpec { rate: share, ceil: rate, burst: packet, cburst: packet, priority: 0, quantum: LEN };
            let nodes = (0..classes).map(|_| s.add(Time::ZERO, spec)).collect();
            Plane::new(Box::new(s), nodes)
        });
    }
}

//! Schedulers: ns per operation. `cargo bench -p sluice-traffic --bench scheduling -- hfsc`.
//!
//! A scheduler's figure is one enqueue and one dequeue of a 1,500-byte packet, queues included. *Backlogged*: every class
//! always holds packets; what goes out is replaced. *Drained*: 32 packets come for random classes, then all go out,
//! so classes become active and idle all the time. The link is 10 Gb/s and always busy.

mod plane;

use bench::Bench;
use plane::{LEN, Plane};
use terms::{Bytes, Rate, ServiceCurve, Span, Time};
use traffic::scheduler::SchedulerClass;
use traffic::scheduler::drr::Drr;
use traffic::scheduler::hfsc::{Curves, Hfsc};
use traffic::scheduler::htb::{Htb, HtbSpec};
use traffic::scheduler::priority::Priority;
use traffic::scheduler::wf2q::Wf2q;

const RUNS: usize = 7;
const PACKETS: u64 = 1 << 19;

fn main() {
    let bench = Bench::from_args();
    for classes in [1, 1_000, 100_000] {
        schedulers(&bench, classes);
    }
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
            let nodes =
                (0..classes).map(|i| s.add(Time::ZERO, SchedulerClass::ROOT, curves(i)).expect("below the root"));
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

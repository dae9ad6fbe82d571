//! The schedulers: each class's share of a link, added up over time.

use super::link::{RATE, burst, run, service, steady};
use super::{chart, line, ms};
use figures::{Chart, Mark, Rgb};
use terms::{Bytes, Rate, ServiceCurve, Span, Time};
use traffic::scheduler::drr::Drr;
use traffic::scheduler::hfsc::{Curves, Hfsc};
use traffic::scheduler::htb::{Htb, HtbSpec};
use traffic::scheduler::priority::Priority;
use traffic::scheduler::wf2q::Wf2q;
use traffic::scheduler::{Scheduler, SchedulerClass};

const TIME: &str = "Time (ms)";
const GONE: &str = "Sent (kB)";

/// Draws voice with priority, video for a while, and the rest in the gaps.
pub fn priority() -> Chart {
    let end = ms(120);
    let mut scheduler = Priority::new();
    let [voice, video, rest] = [0, 1, 7].map(|priority| scheduler.add(priority));
    let load =
        [steady(voice, 1250, 24, Span::from_millis(5)), burst(video, 1250, 32, ms(30)), burst(rest, 1250, 120, ms(0))];
    let sent = run(scheduler, &load, end);
    chart(
        "Strict priority: the lowest waits until nobody above has anything",
        "10 Mb/s. voice sends 2 Mb/s; 40 kB of video come at 30 ms; the rest is always backlogged",
        TIME,
        GONE,
        vec![
            line("the rest, priority 7", Rgb::RED, Mark::Solid, service(&sent, rest, end)),
            line("video, 1", Rgb::BLUE, Mark::Solid, service(&sent, video, end)),
            line("voice, 0", Rgb::GREEN, Mark::Solid, service(&sent, voice, end)),
        ],
    )
}

/// Draws quanta 1, 1 and 2, packets of different sizes, the third class idle for a while.
pub fn drr() -> Chart {
    let end = ms(120);
    let mut scheduler = Drr::new();
    let [a, b, c] = [1500, 1500, 3000].map(|quantum| scheduler.add(quantum));
    let load = [
        burst(a, 600, 250, ms(0)),
        burst(b, 1500, 100, ms(0)),
        [burst(c, 1000, 25, ms(0)), burst(c, 1000, 100, ms(80))].concat(),
    ];
    let sent = run(scheduler, &load, end);
    chart(
        "Deficit round robin: bytes in proportion to the quanta",
        "10 Mb/s. a and b are always backlogged; c has 25 kB at 0 and more from 80 ms on",
        TIME,
        GONE,
        vec![
            line("c: 3,000, of 1,000", Rgb::BLUE, Mark::Solid, service(&sent, c, end)),
            line("b: 1,500, of 1,500", Rgb::AMBER, Mark::Solid, service(&sent, b, end)),
            line("a: quantum 1,500, packets of 600", Rgb::GREEN, Mark::Solid, service(&sent, a, end)),
        ],
    )
}

/// Draws one class of half the link among ten of a twentieth each, by WF2Q+ and by DRR.
pub fn wf2q() -> Chart {
    fn half(scheduler: impl Scheduler, a: SchedulerClass, others: &[SchedulerClass]) -> Vec<(f64, f64)> {
        let mut load = vec![burst(a, 1250, 60, ms(0))];
        load.extend(others.iter().map(|other| burst(*other, 1250, 60, ms(0))));
        service(&run(scheduler, &load, ms(40)), a, ms(40))
    }
    let mut fair = Wf2q::new(RATE);
    let a = fair.add(Rate::from_mbps(5));
    let others = [(); 10].map(|()| fair.add(Rate::from_kbps(500)));
    let fair = half(fair, a, &others);
    let mut round = Drr::new();
    let a = round.add(12_500);
    let others = [(); 10].map(|()| round.add(1250));
    let round = half(round, a, &others);
    chart(
        "WF2Q+: never more than a packet from its rate",
        "10 Mb/s, packets of 1,250 bytes, all backlogged: a class of 5 Mb/s beside ten of 0.5 Mb/s",
        TIME,
        GONE,
        vec![
            line("the same shares by DRR", Rgb::RED, Mark::Solid, round),
            line("the class of 5 Mb/s by WF2Q+", Rgb::BLUE, Mark::Solid, fair),
            line("5 Mb/s", Rgb::GREY, Mark::None, vec![(0.0, 0.0), (40.0, 25.0)]),
        ],
    )
}

/// Draws audio whose delay is decoupled from its rate, data, and a class with an upper limit.
pub fn hfsc() -> Chart {
    const END: Time = ms(130);
    const BURST: u32 = 15_000;
    let bursts = [ms(20), ms(90)];
    let mut scheduler = Hfsc::new();
    let mut add =
        |curves| scheduler.add(Time::ZERO, SchedulerClass::ROOT, curves).expect("a class below the root always fits");
    let promise = ServiceCurve { m1: Rate::from_mbps(8), d: Span::from_millis(10), m2: Rate::from_mbps(2) };
    let audio = add(Curves { real_time: Some(promise), ..Curves::share(Rate::from_mbps(2)) });
    let data = add(Curves::share(Rate::from_mbps(4)));
    let limit = ServiceCurve::linear(Rate::from_mbps(2));
    let other = add(Curves { upper_limit: Some(limit), ..Curves::share(Rate::from_mbps(4)) });
    let load = [
        bursts.map(|at| burst(audio, 1250, BURST as usize / 1250, at)).concat(),
        burst(data, 1250, 140, ms(0)),
        burst(other, 1250, 140, ms(0)),
    ];
    let sent = run(scheduler, &load, END);
    // What the curve owes of each burst, from its arrival.
    let mut owed = vec![(0.0, 0.0)];
    for (before, at) in [0, BURST].into_iter().zip(bursts) {
        for after in [0, 10, 30] {
            let service = promise.service(Span::from_millis(after)).get().min(u64::from(BURST));
            let at = at + Span::from_millis(after);
            owed.push((super::in_ms(at), (u64::from(before) + service) as f64 / 1e3));
        }
    }
    chart(
        "HFSC: a burst goes at once, though the rate is small",
        "10 Mb/s, packets of 1,250 bytes. audio: 15 kB at 20 and 90 ms; data and other are always backlogged",
        TIME,
        GONE,
        vec![
            line("data, share 4", Rgb::RED, Mark::Solid, service(&sent, data, END)),
            line("other, at most 2 Mb/s", Rgb::AMBER, Mark::Solid, service(&sent, other, END)),
            line("audio", Rgb::BLUE, Mark::Solid, service(&sent, audio, END)),
            line("owed to audio", Rgb::GREY, Mark::None, owed),
        ],
    )
}

/// Draws three classes, of which the first lends its rate while it is idle.
pub fn htb() -> Chart {
    let end = ms(150);
    let packet = Bytes::new(1500);
    let mut scheduler = Htb::new(RATE, packet, Time::ZERO);
    let mut add = |rate, ceil, priority| {
        let (rate, ceil) = (Rate::from_mbps(rate), Rate::from_mbps(ceil));
        scheduler.add(Time::ZERO, HtbSpec { rate, ceil, burst: packet, cburst: packet, priority, quantum: 1500 })
    };
    let (a, b, c) = (add(5, 10, 1), add(2, 4, 0), add(1, 10, 1));
    let load = [
        [burst(a, 1250, 25, ms(0)), burst(a, 1250, 100, ms(100))].concat(),
        burst(b, 1250, 150, ms(0)),
        burst(c, 1250, 150, ms(0)),
    ];
    let sent = run(scheduler, &load, end);
    chart(
        "HTB: what one leaves, others borrow up to their ceil",
        "10 Mb/s, packets of 1,250 bytes. b and c are always backlogged; a has 31 kB at 0 and more from 100 ms on",
        TIME,
        GONE,
        vec![
            line("c: 1, 10, 1", Rgb::AMBER, Mark::Solid, service(&sent, c, end)),
            line("b: 2, 4, 0", Rgb::GREEN, Mark::Solid, service(&sent, b, end)),
            line("a: rate 5, ceil 10 Mb/s, priority 1", Rgb::BLUE, Mark::Solid, service(&sent, a, end)),
        ],
    )
}

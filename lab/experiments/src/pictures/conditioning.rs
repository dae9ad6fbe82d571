//! Bucket, meter, dropper and shaper: the treatment of packets before the queue of a link.

use super::{chart, in_ms, line, ms};
use figures::{Chart, Mark, Rgb};
use terms::{Bytes, Rate, Rng, Span, Time};
use traffic::bucket::TokenBucket;
use traffic::dropper::{Coupling, RedCurve, Rio, RioProfile, Verdict};
use traffic::meter::{self, TrTcm};
use traffic::plan::BucketSpec;
use traffic::shaper::RateCurve;

/// Draws the tokens during bursts, and the packets that found too few.
pub fn bucket() -> Chart {
    let spec = BucketSpec { rate: Rate::from_mbps(1), depth: Bytes::new(6000), min_unit: 64 };
    let mut bucket = TokenBucket::new(&spec, Time::ZERO);
    let mut due: Vec<Time> = [10, 80].into_iter().flat_map(|at| [ms(at); 5]).collect();
    due.extend([20, 30, 40, 100, 110].map(ms));
    due.sort();
    let (mut level, mut refused) = (Vec::new(), Vec::new());
    // The level bends where packets come, and where the bucket is full: a point each 0.5 ms shows both.
    for at in (0..=280).map(|half| Time::from_nanos(half * 500_000)) {
        let tokens = |bucket: &TokenBucket| (in_ms(at), bucket.bytes_at(at).get() as f64);
        level.push(tokens(&bucket));
        for _ in due.iter().filter(|due| **due == at) {
            if bucket.take(at, 1500) {
                level.push(tokens(&bucket));
            } else {
                refused.push(tokens(&bucket));
            }
        }
    }
    chart(
        "Token bucket: its depth at once, its rate in the long run",
        "1 Mb/s, 6,000 bytes deep; packets of 1,500 bytes: five at 10 and at 80 ms, one at 20, 30, 40, 100 and 110 ms",
        "Time (ms)",
        "Tokens (bytes)",
        vec![
            line("tokens", Rgb::BLUE, Mark::Solid, level),
            line("a packet did not conform", Rgb::RED, Mark::Alone, refused),
        ],
    )
}

/// Draws the colours of traffic at twice the peak rate.
pub fn meters() -> Chart {
    let (cir, pir, burst) = (Rate::from_mbps(2), Rate::from_mbps(4), Bytes::new(10_000));
    let meter = TrTcm::new(cir, burst, pir, burst).expect("PIR is above CIR and the bursts are small");
    let mut state = meter.start(Time::ZERO);
    let mut bytes = [0.0; 3];
    let mut lines = [(); 3].map(|()| vec![(0.0, 0.0)]);
    for at in (0..100).map(ms) {
        let color = meter.meter(&mut state, at, 1000, meter::Color::Green);
        bytes[color as usize] += 1.0;
        for (line, bytes) in lines.iter_mut().zip(bytes) {
            line.push((in_ms(at), bytes));
        }
    }
    let [green, yellow, red] = lines;
    let committed = [0, 99].map(|at| {
        let most = cir.supplies(Span::from_millis(at)).saturating_add(burst);
        (at as f64, most.get() as f64 / 1e3)
    });
    chart(
        "trTCM: green up to CIR, yellow up to PIR, then red",
        "RFC 2698, colour-blind: CIR 2 Mb/s, PIR 4 Mb/s, CBS and PBS 10 kB; a packet of 1,000 bytes each ms, 8 Mb/s",
        "Time (ms)",
        "Coloured (kB)",
        vec![
            line("CBS + CIR x t", Rgb::GREY, Mark::None, committed.to_vec()),
            line("red", Rgb::RED, Mark::Solid, red),
            line("yellow", Rgb::AMBER, Mark::Solid, yellow),
            line("green", Rgb::GREEN, Mark::Solid, green),
        ],
    )
}

/// Draws the share of packets that each colour loses, by count.
pub fn rio() -> Chart {
    const DRAWS: u32 = 10_000;
    let curve = |min, max, percent: u32| RedCurve { min, max, max_p: percent * 65_536 / 100, gentle: true };
    let curves = [curve(400, 800, 2), curve(200, 400, 5), curve(100, 200, 10)];
    // Weight one: the average is what waits.
    let profile = RioProfile::new(curves, 1 << 32, Span::from_micros(100), Coupling::Single)
        .expect("the values of RFC 2963 appendix A are within limits");
    let mut random = Rng::seeded(1);
    let mut lost = |color| {
        let share = |waiting: u32| {
            let mut rio = Rio::new();
            let mut decide = || rio.decide(&profile, Time::ZERO, color, waiting, random.next_u32());
            let dropped = (0..DRAWS).filter(|_| decide() != Verdict::Accept).count();
            (f64::from(waiting), 100.0 * dropped as f64 / f64::from(DRAWS))
        };
        (0..=1600).step_by(20).map(share).collect::<Vec<_>>()
    };
    chart(
        "RIO: red is dropped before yellow before green",
        "Gentle; min/max: green 400/800, yellow 200/400, red 100/200; 10,000 packets a point",
        "Average queue (packets)",
        "Dropped (%)",
        vec![
            line("green", Rgb::GREEN, Mark::Solid, lost(meter::Color::Green)),
            line("yellow", Rgb::AMBER, Mark::Solid, lost(meter::Color::Yellow)),
            line("red", Rgb::RED, Mark::Solid, lost(meter::Color::Red)),
        ],
    )
}

/// Draws the shaping rate against the queue's length.
pub fn ras() -> Chart {
    let [cir, average, pir, mir] = [1000, 1500, 2000, 8000].map(Rate::from_kbps);
    let [low, middle, high, buffer] = [2000, 4000, 8000, 10_000].map(Bytes::new);
    let fits = "the rates and thresholds ascend";
    let single = RateCurve::single(cir, mir, [low, high], buffer, mir).expect(fits);
    let two = RateCurve::two(cir, pir, mir, [low, middle, high], buffer, mir).expect(fits);
    let rates = |curve: &RateCurve, average| {
        let rate = |waiting| curve.shaping_rate(Bytes::new(waiting), average).as_bps() as f64 / 1e6;
        (0..=10_000).step_by(100).map(|waiting| (waiting as f64, rate(waiting))).collect::<Vec<_>>()
    };
    chart(
        "Rate adaptive shapers: the more waits, the faster",
        "RFC 2963: CIR 1 Mb/s to 2,000 bytes, PIR 2 Mb/s at 4,000 (trRAS only), MIR 8 Mb/s from 8,000",
        "Waiting (bytes)",
        "Shaping rate (Mb/s)",
        vec![
            line("srRAS", Rgb::GREEN, Mark::Solid, rates(&single, Rate::ZERO)),
            line("trRAS, average of arrivals 1.5 Mb/s", Rgb::AMBER, Mark::Solid, rates(&two, average)),
            line("trRAS, average low", Rgb::BLUE, Mark::Solid, rates(&two, Rate::ZERO)),
        ],
    )
}

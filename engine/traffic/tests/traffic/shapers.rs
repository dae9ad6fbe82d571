//! The rate adaptive shapers against RFC 2963's formulas in floating point, 10^6 random packets, and a golden table.

use proptest::prelude::*;
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr};
use terms::{Bytes, Dscp, FlowKey, PacketMeta, Rate, Span, Time};
use traffic::meter::{Color, TokenCounts, TrTcm};
use traffic::queue::Pool;
use traffic::shaper::*;

const LINE: Rate = Rate::from_mbps(34);

fn packet(len: u32, id: u64, arrival: Time) -> PacketMeta {
    let addr = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let flow = FlowKey { src: addr, dst: addr, protocol: 6, src_port: 1, dst_port: 2, wild: terms::Wild::NONE };
    PacketMeta { flow, len, dscp: Dscp(0), arrival, group: None, id }
}

/// The parameters of customer router C6 with CBS 3 KB, thresholds at 1, 2 and 4 times CBS.
fn curve(buffer: u64) -> RateCurve {
    let th = [3_000, 6_000, 12_000].map(Bytes::new);
    RateCurve::two(Rate::from_mbps(2), Rate::from_mbps(4), LINE, th, Bytes::new(buffer), LINE).unwrap()
}

/// Where what waits lies.
fn pool() -> Pool<PacketMeta> {
    let mut pool = Pool::new(10_000);
    pool.reserve(10_000);
    pool
}

fn draw(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*seed >> 33) ^ (*seed >> 11)
}

/// Sections 2.3 and 2.5 as they are written, in bit/s, bytes and nanoseconds.
#[derive(Default)]
struct Oracle {
    ear: f64,
    last: f64,
    waiting: f64,
}

impl Oracle {
    fn arrival(&mut self, now: f64, len: f64, k: f64) {
        let t = (now - self.last).max(0.0);
        let bits = len * 8e9;
        self.ear = if t == 0.0 { bits / k } else { -(-t / k).exp_m1() * bits / t } + (-t / k).exp() * self.ear;
        self.last = self.last.max(now);
    }

    fn rate(&self) -> f64 {
        let x = self.waiting;
        let f = if x <= 3e3 {
            2e6
        } else if x < 6e3 {
            2e6 + (x - 3e3) / 3e3 * 2e6
        } else if x < 12e3 {
            4e6 + (x - 6e3) / 6e3 * 30e6
        } else {
            return 34e6;
        };
        f.max(self.ear)
    }
}

/// Bursts and silences; at every event the shaper's rate and the head's release time equal the oracle's.
fn compare(mut seed: u64, packets: u64, green: bool) -> u64 {
    let k = Span::from_millis(400);
    let mut ras = Ras::new(curve(40_000), Exponential::new(k, Time::ZERO));
    let mut pool = pool();
    let mut oracle = Oracle::default();
    let tcm = TrTcm::new(Rate::from_mbps(2), Bytes::new(3000), Rate::from_mbps(4), Bytes::new(6000)).unwrap();
    let mut state = tcm.start(Time::ZERO);
    let (mut now, mut next, mut released, mut sent, mut early) = (Time::ZERO, Time::ZERO, None::<Time>, 0, 0);
    let mut left: Vec<(u64, u32)> = Vec::new();
    while sent < packets {
        let t2 = |state: &TokenCounts, now, len| if green { tcm.green_at(state, now, len) } else { None };
        let wake = if green { ras.wake_at(now, &(&tcm, &state), &pool) } else { ras.wake_at(now, &NeverGreen, &pool) };
        if wake.is_none_or(|wake| next < wake) {
            now = now.max(next);
            let len = 40 + (draw(&mut seed) % 1461) as u32;
            oracle.arrival(now.as_nanos() as f64, f64::from(len), k.as_nanos() as f64);
            if ras.enqueue(now, packet(len, sent, now), &mut pool) {
                left.push((sent, len));
                oracle.waiting += f64::from(len);
            }
            sent += 1;
            // Mostly bursts at line rate, sometimes equal time stamps, sometimes silence.
            let gap = match draw(&mut seed) % 10 {
                0 => 0,
                1..7 => 300_000,
                7..9 => draw(&mut seed) % 10_000_000,
                _ => draw(&mut seed) % 400_000_000,
            };
            next = now + Span::from_nanos(gap);
        } else {
            now = wake.unwrap();
            let (id, len) = left.remove(0);
            let out = if green {
                ras.release(now, &(&tcm, &state), &mut pool)
            } else {
                ras.release(now, &NeverGreen, &mut pool)
            };
            assert_eq!(out.map(|p| (p.id, p.len)), Some((id, len)), "FIFO, seed {seed}");
            if green && t2(&state, now, len) == Some(now) {
                early += 1;
                assert_eq!(tcm.meter(&mut state, now, len, Color::Green), Color::Green, "asking took no tokens");
            } else {
                tcm.meter(&mut state, now, len, Color::Green);
            }
            oracle.waiting -= f64::from(len);
            released = Some(now);
        }
        let (ours, theirs) = (ras.shaping_rate().as_bps() as f64, oracle.rate());
        assert!((ours - theirs).abs() <= 2.0 + theirs * 1e-6, "seed {seed}: rate {ours}, RFC {theirs}");
        if let (Some(&(_, len)), Some(released)) = (left.first(), released) {
            let due = released.as_nanos() as f64 + f64::from(len) * 8e9 / theirs;
            let due = t2(&state, now, len).map_or(due, |t2| due.min(t2.as_nanos() as f64)).max(now.as_nanos() as f64);
            let wake =
                if green { ras.wake_at(now, &(&tcm, &state), &pool) } else { ras.wake_at(now, &NeverGreen, &pool) };
            let ours = wake.unwrap().as_nanos() as f64;
            assert!((ours - due).abs() <= 300.0, "seed {seed}: due {ours}, RFC {due}");
        }
    }
    early
}

#[test]
fn a_million_packets_against_the_rfcs_formulas() {
    let mut early = 0;
    for seed in 0..50 {
        compare(seed, 10_000, false);
        early += compare(seed, 10_000, true);
    }
    assert!(early > 10_000, "the green form released {early} packets by the meter's word");
}

/// Output in any window is at most MIR x window + one packet, whatever comes in.
#[test]
fn no_window_exceeds_mir() {
    let mut ras = Ras::new(curve(200_000), Exponential::new(Span::from_millis(400), Time::ZERO));
    let mut pool = pool();
    let (mut seed, mut now, mut next) = (5, Time::ZERO, Time::ZERO);
    let mut out: Vec<(u64, u64)> = Vec::new();
    for id in 0..1500u64 {
        now = now.max(next);
        ras.enqueue(now, packet(1500, id, now), &mut pool);
        next = now + Span::from_nanos(draw(&mut seed) % 500_000);
        while let Some(wake) = ras.wake_at(now, &NeverGreen, &pool).filter(|&wake| wake <= next) {
            now = wake;
            out.extend(ras.release(now, &NeverGreen, &mut pool).map(|p| (now.as_nanos(), u64::from(p.len))));
        }
    }
    for (i, &(from, _)) in out.iter().enumerate() {
        let mut bytes = 0;
        for &(to, len) in &out[i..] {
            bytes += len;
            let allowed = u128::from(LINE.as_bps()) * u128::from(to - from) + 1500 * 8_000_000_000;
            assert!(u128::from(bytes) * 8_000_000_000 <= allowed);
        }
    }
    assert!(out.len() > 1000);
}

proptest! {
    #![proptest_config(chance::cases(256))]

    #[test]
    fn the_rate_never_falls_as_the_queue_grows(a in 0u64..20_000, b in 0u64..20_000) {
        let curve = curve(20_000);
        let (low, high) = (Bytes::new(a.min(b)), Bytes::new(a.max(b)));
        prop_assert!(curve.rate(low) <= curve.rate(high));
        prop_assert!(curve.rate(high) <= curve.mir());
    }
}

#[test]
fn corners_of_the_curve() {
    let curve = curve(20_000);
    let at = |bytes| curve.rate(Bytes::new(bytes));
    assert_eq!([at(0), at(3_000), at(6_000)], [Rate::from_mbps(2), Rate::from_mbps(2), Rate::from_mbps(4)]);
    assert_eq!([at(4_500), at(9_000), at(12_000), at(20_000)], [Rate::from_mbps(3), Rate::from_mbps(19), LINE, LINE]);
    // MIR above MIR_th whatever the average, also when the average is higher.
    assert_eq!(curve.shaping_rate(Bytes::new(12_000), Rate::from_mbps(90)), LINE);
    assert_eq!(curve.shaping_rate(Bytes::new(11_999), Rate::from_mbps(90)), Rate::from_mbps(90));
}

#[test]
fn the_estimators_limit_at_equal_time_stamps_is_l_over_k() {
    let mut estimator = Exponential::new(Span::from_millis(100), Time::ZERO);
    assert_eq!(estimator.arrival(Time::ZERO, 1250), Rate::from_bps(100_000));
    assert_eq!(estimator.arrival(Time::ZERO, 1250), Rate::from_bps(200_000));
    // A steady 1 Mb/s is estimated as 1 Mb/s.
    for n in 1..1000 {
        estimator.arrival(Time::ZERO + Span::from_millis(10 * n), 1250);
    }
    assert!(estimator.average().as_bps().abs_diff(1_000_000) <= 2, "{}", estimator.average());
}

#[test]
fn relations_of_the_configuration() {
    let [a, b, c] = [1, 2, 3].map(Rate::from_mbps);
    let [x, y, z] = [1000, 2000, 3000].map(Bytes::new);
    assert!(RateCurve::two(a, b, c, [x, y, z], z, c).is_ok());
    assert_eq!(RateCurve::two(b, a, c, [x, y, z], z, c), Err(BadShaper::Rates { cir: b, pir: a, mir: c, line: c }));
    assert_eq!(RateCurve::single(a, c, [x, y], y, b), Err(BadShaper::Rates { cir: a, pir: a, mir: c, line: b }));
    let wrong = BadShaper::Thresholds { cir_th: y, pir_th: y, mir_th: x, buffer: z };
    assert_eq!(RateCurve::single(a, c, [y, x], z, c), Err(wrong));
    assert!(matches!(RateCurve::two(a, b, c, [x, y, z], y, c), Err(BadShaper::Thresholds { .. })));
}

/// A burst of eight packets into an empty shaper whose estimator is slow, so that F alone decides.
#[test]
fn golden_table() {
    let th = [2_000, 4_000, 8_000].map(Bytes::new);
    let curve = RateCurve::two(
        Rate::from_mbps(1),
        Rate::from_mbps(2),
        Rate::from_mbps(8),
        th,
        Bytes::new(9_000),
        Rate::from_mbps(8),
    )
    .unwrap();
    let mut ras = Ras::new(curve, Exponential::new(Span::from_secs(3600), Time::ZERO));
    let mut pool = pool();
    let mut text = String::from(
        "trRAS, RFC 2963 section 2.5: CIR 1 Mb/s to 2000 bytes, PIR 2 Mb/s at 4000, MIR 8 Mb/s from 8000, buffer 9000\n\
         ten packets of 1000 bytes at 0 ms\n\n      ms  event     waiting  rate kb/s\n",
    );
    for id in 0..10 {
        let taken = ras.enqueue(Time::ZERO, packet(1000, id, Time::ZERO), &mut pool);
        let event = if taken { "arrives" } else { "dropped" };
        // The first leaves at once: nothing was released before it.
        let rate = ras.shaping_rate().as_bps() / 1000;
        writeln!(text, "{:8.3}  {event:8}  {:7}  {rate:9}", 0.0, ras.occupancy().get()).unwrap();
    }
    let mut now = Time::ZERO;
    while let Some(wake) = ras.wake_at(now, &NeverGreen, &pool) {
        now = wake;
        ras.release(now, &NeverGreen, &mut pool).unwrap();
        let (ms, rate) = (now.as_nanos() as f64 / 1e6, ras.shaping_rate().as_bps() / 1000);
        writeln!(text, "{ms:8.3}  {:8}  {:7}  {rate:9}", "leaves", ras.occupancy().get()).unwrap();
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/trras.txt");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(path, &text).unwrap();
    }
    let golden = std::fs::read_to_string(path).unwrap_or_default();
    assert_eq!(text, golden, "{path} differs; check it by hand, then run again with UPDATE_GOLDEN=1");
}

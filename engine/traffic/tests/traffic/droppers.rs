//! RED and RIO against the papers' formulas in floating point, and a golden table.

use std::collections::VecDeque;
use std::fmt::Write as _;
use terms::{Span, Time};
use traffic::dropper::*;
use traffic::meter::Color;

const COLORS: [Color; 3] = [Color::Green, Color::Yellow, Color::Red];

/// Floyd and Jacobson 1993 section 4, as it is written, in floating point.
struct Oracle {
    curves: [RedCurve; 3],
    weight: f64,
    slot: f64,
    coupling: Coupling,
    average: [f64; 3],
    idle: [Option<f64>; 3],
    count: [f64; 3],
    queued: [u32; 3],
}

impl Oracle {
    fn counted(&self, c: usize) -> Vec<usize> {
        match self.coupling {
            Coupling::Coupled => (c..3).collect(),
            Coupling::Decoupled => vec![c],
            Coupling::Single => vec![0, 1, 2],
        }
    }

    fn waiting(&self, queue: usize) -> u32 {
        match self.coupling {
            Coupling::Coupled => self.queued[..=queue].iter().sum(),
            Coupling::Decoupled => self.queued[queue],
            Coupling::Single => self.queued.iter().sum(),
        }
    }

    /// The probability `p_a` of dropping this packet.
    fn arrival(&mut self, now: f64, c: usize) -> f64 {
        for queue in self.counted(c) {
            let q = f64::from(self.waiting(queue));
            if q == 0.0
                && let Some(since) = self.idle[queue]
            {
                self.average[queue] *= (1.0 - self.weight).powf(((now - since) / self.slot).floor());
                self.idle[queue] = Some(now);
            }
            self.average[queue] += self.weight * (q - self.average[queue]);
        }
        let (curve, average) = (self.curves[c], self.average[c]);
        let (min, max, max_p) = (f64::from(curve.min), f64::from(curve.max), f64::from(curve.max_p) / 65536.0);
        let p = if average < min {
            0.0
        } else if average < max {
            max_p * (average - min) / (max - min)
        } else if curve.gentle && average < 2.0 * max {
            max_p + (1.0 - max_p) * (average - max) / max
        } else {
            1.0
        };
        if p == 0.0 || p == 1.0 { p } else { (p / (1.0 - self.count[c] * p).max(1e-12)).min(1.0) }
    }

    fn settle(&mut self, c: usize, verdict: Verdict, below: bool) {
        if verdict == Verdict::Accept {
            for queue in self.counted(c) {
                self.idle[queue] = None;
            }
            self.queued[c] += 1;
        }
        self.count[c] = if verdict == Verdict::Accept && !below { self.count[c] + 1.0 } else { 0.0 };
    }

    fn departure(&mut self, now: f64, c: usize) {
        self.queued[c] -= 1;
        for queue in self.counted(c) {
            if self.waiting(queue) == 0 {
                self.idle[queue] = Some(now);
            }
        }
    }
}

fn draw(seed: &mut u64) -> u32 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*seed >> 33) as u32 ^ (*seed >> 12) as u32
}

fn curves(gentle: bool) -> [RedCurve; 3] {
    // RFC 2963 appendix A.1, a tenth of it, so that all is visited.
    let curve = |min, max, p: f64| RedCurve { min, max, max_p: (p * 65536.0) as u32, gentle };
    [curve(40, 80, 0.02), curve(20, 40, 0.05), curve(10, 20, 0.1)]
}

const WEIGHT: u64 = 8_589_935; // 0.002

fn compare(coupling: Coupling, gentle: bool, mut seed: u64, packets: u32) -> [u32; 3] {
    let slot = Span::from_micros(100);
    let profile = RioProfile::new(curves(gentle), WEIGHT, slot, coupling).unwrap();
    let mut rio = Rio::new();
    let mut oracle = Oracle {
        curves: curves(gentle),
        weight: WEIGHT as f64 / 4_294_967_296.0,
        slot: 100_000.0,
        coupling,
        average: [0.0; 3],
        idle: [None; 3],
        count: [0.0; 3],
        queued: [0; 3],
    };
    let mut queue: VecDeque<Color> = VecDeque::new();
    let (mut now, mut seen, mut load) = (0u64, [0u32; 3], 2);
    for n in 0..packets {
        now += u64::from(draw(&mut seed) % 100_000);
        if n % 5000 == 0 {
            // Overload, balance, and long silences in which the average must decay.
            load = draw(&mut seed) % 4;
            now += u64::from(draw(&mut seed) % 50_000_000);
        }
        if draw(&mut seed) % 4 <= load {
            let color = COLORS[(draw(&mut seed) % 3) as usize];
            let chance = draw(&mut seed);
            let p = oracle.arrival(now as f64, color as usize);
            let verdict = rio.arrival(&profile, Time::from_nanos(now), color, 1, chance);
            let margin = f64::from(chance) / 4_294_967_296.0 - p;
            if margin.abs() > 1e-4 {
                assert_eq!(verdict != Verdict::Accept, margin < 0.0, "seed {seed}, packet {n}: p {p}, chance {chance}");
            }
            let average = oracle.average[color as usize];
            assert!(rio.average(color).abs_diff(average as u64) <= 1, "packet {n}: {} {average}", rio.average(color));
            oracle.settle(color as usize, verdict, average < f64::from(oracle.curves[color as usize].min));
            seen[match verdict {
                Verdict::Accept => 0,
                Verdict::Early => 1,
                Verdict::Forced => 2,
            }] += 1;
            if verdict == Verdict::Accept {
                queue.push_back(color);
            }
        } else if let Some(color) = queue.pop_front() {
            rio.departure(&profile, Time::from_nanos(now), color, 1);
            oracle.departure(now as f64, color as usize);
        }
    }
    let counted: u64 = COLORS.iter().map(|&c| rio.counters(c)).map(|c| c.accepted + c.early + c.forced).sum();
    assert_eq!(counted, seen.iter().map(|&n| u64::from(n)).sum::<u64>(), "every packet is counted once");
    seen
}

#[test]
fn a_million_packets_against_the_papers_formulas() {
    for coupling in [Coupling::Coupled, Coupling::Decoupled, Coupling::Single] {
        for gentle in [false, true] {
            let mut seen = [0; 3];
            for seed in 0..4 {
                let one = compare(coupling, gentle, seed, 50_000);
                (0..3).for_each(|i| seen[i] += one[i]);
            }
            assert!(
                seen[0] > 10_000 && seen[1] > 100,
                "{coupling:?} gentle {gentle}: {seen:?}: not everything was visited"
            );
        }
    }
}

/// Told the queue, a dropper decides as one that counts it itself (de-coupled: a colour is judged by what waits of it).
#[test]
fn told_the_queue_it_decides_the_same() {
    for gentle in [false, true] {
        let profile = RioProfile::new(curves(gentle), WEIGHT, Span::from_micros(100), Coupling::Decoupled).unwrap();
        let (mut told, mut own) = (Rio::new(), Rio::new());
        let (mut queue, mut waiting) = (VecDeque::new(), [0u32; 3]);
        let (mut seed, mut now) = (9, 0);
        for _ in 0..200_000 {
            now += u64::from(draw(&mut seed) % 300_000);
            let time = Time::from_nanos(now);
            if draw(&mut seed) % 100 < 51 {
                let (color, chance) = (COLORS[(draw(&mut seed) % 3) as usize], draw(&mut seed));
                let verdict = told.decide(&profile, time, color, waiting[color as usize], chance);
                assert_eq!(verdict, own.arrival(&profile, time, color, 1, chance));
                if verdict == Verdict::Accept {
                    queue.push_back(color);
                    waiting[color as usize] += 1;
                }
            } else if let Some(color) = queue.pop_front() {
                own.departure(&profile, time, color, 1);
                waiting[color as usize] -= 1;
                if waiting[color as usize] == 0 {
                    told.emptied(time, color);
                }
            }
        }
        assert!(COLORS.iter().any(|&c| told.counters(c).early > 100), "drops occur");
        assert!(COLORS.iter().all(|&c| told.counters(c) == own.counters(c) && told.average(c) == own.average(c)));
    }
}

#[test]
fn coupled_red_suffers_before_yellow_and_green() {
    let profile = RioProfile::new(curves(false), WEIGHT, Span::from_micros(100), Coupling::Coupled).unwrap();
    let mut rio = Rio::new();
    let mut queue = VecDeque::new();
    let (mut seed, mut now) = (1, 0);
    for n in 0..200_000u64 {
        now += 100_000;
        let color = COLORS[(draw(&mut seed) % 3) as usize];
        if rio.arrival(&profile, Time::from_nanos(now), color, 1, draw(&mut seed)) == Verdict::Accept {
            queue.push_back(color);
        }
        // The link carries 8 of 10: the excess is one colour's worth of packets.
        if n % 10 < 8
            && let Some(color) = queue.pop_front()
        {
            rio.departure(&profile, Time::from_nanos(now), color, 1);
        }
    }
    let lost = COLORS.map(|c| rio.counters(c)).map(|c| c.early + c.forced);
    assert_eq!(lost[0], 0, "green is untouched while red can pay: {lost:?}");
    assert!(lost[2] > 20 * lost[1].max(1), "{lost:?}");
}

#[test]
fn droppers_that_cannot_work_are_refused() {
    let slot = Span::from_micros(1);
    let good = curves(false);
    let with = |curve: RedCurve| RioProfile::new([curve, good[1], good[2]], WEIGHT, slot, Coupling::Coupled);
    assert_eq!(with(RedCurve { min: 5, max: 5, ..good[0] }), Err(BadDropper::Thresholds { min: 5, max: 5 }));
    assert_eq!(with(RedCurve { max_p: 0, ..good[0] }), Err(BadDropper::Probability { max_p: 0 }));
    assert_eq!(with(RedCurve { max_p: 65_537, ..good[0] }), Err(BadDropper::Probability { max_p: 65_537 }));
    assert!(matches!(RioProfile::new(good, 0, slot, Coupling::Single), Err(BadDropper::Weight { .. })));
}

/// A queue that grows by one a slot and then drains; weight 1/4, so that the averages can be checked by hand.
#[test]
fn golden_table() {
    let curve = |min, max| RedCurve { min, max, max_p: 32768, gentle: false };
    let profile =
        RioProfile::new([curve(6, 12), curve(4, 8), curve(2, 6)], 1 << 30, Span::from_millis(1), Coupling::Coupled)
            .unwrap();
    let mut rio = Rio::new();
    let mut text = String::from(
        "RIO, coupled, weight 1/4; green 6/12, yellow 4/8, red 2/6, max_p 1/2; chance is always 0.3\n\n  \
         ms  came     verdict    green yellow red\n",
    );
    for n in 0..24u64 {
        let color = COLORS[(n % 3) as usize];
        let now = Time::ZERO + Span::from_millis(n);
        let verdict = rio.arrival(&profile, now, color, 1, (0.3 * 4_294_967_296.0) as u32);
        let averages = COLORS.map(|c| rio.average(c));
        let (came, verdict) = (format!("{color:?}"), format!("{verdict:?}"));
        writeln!(text, "  {n:2}  {came:7}  {verdict:9} {:5} {:6} {:3}", averages[0], averages[1], averages[2]).unwrap();
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/rio.txt");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(path, &text).unwrap();
    }
    let golden = std::fs::read_to_string(path).unwrap_or_default();
    assert_eq!(text, golden, "{path} differs; check it by hand, then run again with UPDATE_GOLDEN=1");
}

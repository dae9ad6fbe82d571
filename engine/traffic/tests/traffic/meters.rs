//! Meters against exact oracles: 10^6 random packets each, and golden tables that can be checked by hand.

use proptest::prelude::*;
use std::fmt::Write as _;
use terms::{Bytes, Dscp, Rate, Span, Time};
use traffic::meter::*;

/// The RFCs' own words over unbounded integers: nothing saturates, nothing is clever. Unit: 10^-9 bit.
#[derive(Clone, Copy)]
enum Rule {
    Single,
    Two,
    Diffserv,
}

struct Oracle {
    rule: Rule,
    rate: [u128; 2],
    burst: [u128; 2],
    credit: [u128; 2],
    at: u128,
}

impl Oracle {
    fn new(rule: Rule, rate: [u64; 2], burst: [u64; 2], now: Time) -> Oracle {
        let burst = burst.map(|b| u128::from(b) * 8_000_000_000);
        Oracle { rule, rate: rate.map(u128::from), burst, credit: burst, at: u128::from(now.as_nanos()) }
    }

    fn meter(&mut self, now: Time, len: u32, color: Color) -> Color {
        let now = u128::from(now.as_nanos()).max(self.at);
        let dt = now - self.at;
        self.at = now;
        self.credit[0] += self.rate[0] * dt;
        let over = self.credit[0].saturating_sub(self.burst[0]);
        self.credit[0] -= over;
        self.credit[1] += if matches!(self.rule, Rule::Single) { over } else { self.rate[1] * dt };
        self.credit[1] = self.credit[1].min(self.burst[1]);
        let cost = u128::from(len) * 8_000_000_000;
        match self.rule {
            Rule::Two => {
                if color == Color::Red || self.credit[1] < cost {
                    return Color::Red;
                }
                self.credit[1] -= cost;
                if color == Color::Yellow || self.credit[0] < cost {
                    return Color::Yellow;
                }
                self.credit[0] -= cost;
                Color::Green
            }
            Rule::Single | Rule::Diffserv => {
                if color == Color::Green && self.credit[0] >= cost {
                    self.credit[0] -= cost;
                    Color::Green
                } else if color != Color::Red && self.credit[1] >= cost {
                    self.credit[1] -= cost;
                    Color::Yellow
                } else {
                    Color::Red
                }
            }
        }
    }
}

/// A small generator, so that a failing case is its seed.
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let x = self.0 ^ (self.0 >> 32);
        x.wrapping_mul(0xd6e8_feb8_6659_fd93) ^ (x >> 29)
    }

    /// Log-uniform in `[1, 2^bits)`.
    fn wide(&mut self, bits: u32) -> u64 {
        let shift = self.next() % u64::from(bits);
        (self.next() & ((2u64 << shift) - 1)).max(1)
    }
}

/// One profile, `packets` arrivals; equal colours and equal credit at every packet.
fn compare(rule: Rule, seed: u64, packets: u32) {
    let mut draw = Draw(seed);
    // 1 kb/s to 400 Gb/s, bursts up to a GB.
    let (slow, fast) = (1_000 + draw.wide(38), 1_000 + draw.wide(38));
    let rate = [slow.min(fast), slow.max(fast)];
    let burst = [draw.wide(30), draw.wide(30)];
    let mut now = Time::from_nanos(draw.wide(60));
    let mut oracle = Oracle::new(rule, rate, burst, now);
    let [r0, r1] = rate.map(Rate::from_bps);
    let [b0, b1] = burst.map(Bytes::new);
    let profile: Box<dyn BatchProfile<State = TokenCounts>> = match rule {
        Rule::Single => Box::new(SrTcm::new(r0, b0, b1).unwrap()),
        Rule::Two => Box::new(TrTcm::new(r0, b0, r1, b1).unwrap()),
        Rule::Diffserv => Box::new(Rfc4115::new(r0, b0, r1, b1).unwrap()),
    };
    let mut state = profile.start(now);
    for n in 0..packets {
        let gap = match draw.next() % 8 {
            0 => 0,
            // Once in a while a year passes.
            1 if n % 1000 == 0 => 31_536_000_000_000_000,
            _ => draw.wide(30),
        };
        now = if draw.next().is_multiple_of(64) {
            Time::from_nanos(now.as_nanos().saturating_sub(gap))
        } else {
            now + Span::from_nanos(gap)
        };
        let len = (draw.next() % 9001) as u32;
        let color = [Color::Green, Color::Yellow, Color::Red][(draw.next() % 3) as usize];
        let (ours, theirs) = (profile.meter(&mut state, now, len, color), oracle.meter(now, len, color));
        assert_eq!(ours, theirs, "seed {seed}, packet {n}");
        assert_eq!(u128::from(state.committed()), oracle.credit[0], "seed {seed}, packet {n}: committed credit");
        assert_eq!(u128::from(state.excess()), oracle.credit[1], "seed {seed}, packet {n}: excess credit");
    }
}

#[test]
fn a_million_packets_each_equal_the_exact_oracle() {
    for seed in 0..1000 {
        compare(Rule::Single, seed, 1000);
        compare(Rule::Two, seed, 1000);
        compare(Rule::Diffserv, seed, 1000);
    }
}

/// Bursts of a gigabyte and more, no rate at all, packets that no link carries: where credit passes half of 64 bits.
#[test]
fn the_largest_numbers_equal_the_exact_oracle() {
    let mut draw = Draw(21);
    for (rate, burst) in [
        ([0, 0], [2_000_000_000, 1]),
        ([0, 400_000_000_000], [1_200_000_000, 1_000_000_000]),
        ([0, 1_000], [1, 2_000_000_000]),
        ([1_000, 400_000_000_000], [1_100_000_000, 1_100_000_000]),
    ] {
        let mut now = Time::ZERO;
        let mut oracle = Oracle::new(Rule::Two, rate, burst, now);
        let [r0, r1] = rate.map(Rate::from_bps);
        let [b0, b1] = burst.map(Bytes::new);
        let profile = TrTcm::new(r0, b0, r1, b1).unwrap();
        let mut state = profile.start(now);
        for n in 0..10_000 {
            now = now + Span::from_nanos(draw.wide(40));
            let (len, color) = (draw.wide(32) as u32, [Color::Green, Color::Yellow, Color::Red][n % 3]);
            assert_eq!(profile.meter(&mut state, now, len, color), oracle.meter(now, len, color), "packet {n}");
            assert_eq!(u128::from(state.committed()), oracle.credit[0], "packet {n}");
            assert_eq!(u128::from(state.excess()), oracle.credit[1], "packet {n}");
        }
    }
}

/// In every window, what a colour passed is at most its rate times the window plus its burst.
#[test]
fn no_window_holds_more_green_than_rate_and_burst_allow() {
    let profile = TrTcm::new(Rate::from_mbps(2), Bytes::new(3000), Rate::from_mbps(4), Bytes::new(6000)).unwrap();
    let mut state = profile.start(Time::ZERO);
    let mut draw = Draw(7);
    let mut now = Time::ZERO;
    let mut green: Vec<(u64, u64)> = vec![(0, 0)];
    for _ in 0..2000 {
        now = now + Span::from_nanos(draw.next() % 6_000_000);
        let len = 40 + (draw.next() % 1461) as u32;
        if profile.meter(&mut state, now, len, Color::Green) == Color::Green {
            green.push((now.as_nanos(), green.last().unwrap().1 + u64::from(len)));
        }
    }
    for (i, from) in green.iter().enumerate().skip(1) {
        for to in &green[i..] {
            let sent = u128::from(to.1 - green[i - 1].1) * 8_000_000_000;
            let allowed = u128::from(to.0 - from.0) * 2_000_000 + 3000 * 8_000_000_000;
            assert!(sent <= allowed, "{from:?} to {to:?}");
        }
    }
}

proptest! {
    #![proptest_config(chance::cases(256))]

    #[test]
    fn green_at_is_the_first_instant(tokens_gone in 0u32..3001, len in 1u32..3200, later in 0u64..20_000_000) {
        let profile = SrTcm::new(Rate::from_mbps(2), Bytes::new(3000), Bytes::new(1)).unwrap();
        let mut state = profile.start(Time::ZERO);
        profile.meter(&mut state, Time::ZERO, tokens_gone, Color::Green);
        let now = Time::from_nanos(later);
        match profile.green_at(&state, now, len) {
            None => prop_assert!(len > 3000),
            Some(at) => {
                prop_assert!(at >= now);
                prop_assert!(profile.would_be_green(&state, at, len));
                prop_assert!(at == now || !profile.would_be_green(&state, Time::from_nanos(at.as_nanos() - 1), len));
            }
        }
    }

    #[test]
    fn a_batch_is_the_same_as_one_by_one(picks in proptest::collection::vec((0u32..10, 0u32..2000, 0u8..3), 0..100)) {
        let profile = TrTcm::new(Rate::from_mbps(1), Bytes::new(3000), Rate::from_mbps(2), Bytes::new(6000)).unwrap();
        let color = |n: u8| [Color::Green, Color::Yellow, Color::Red][usize::from(n)];
        let jobs: Vec<Job> = picks.iter().map(|&(meter, len, _)| Job { meter, len }).collect();
        let mut colors: Vec<Color> = picks.iter().map(|&(_, _, c)| color(c)).collect();
        let mut alone = vec![profile.start(Time::ZERO); 8];
        let mut together = alone.clone();
        let now = Time::from_nanos(1_000_000);
        let expected: Vec<Color> = jobs.iter().zip(&colors).map(|(job, &came)| match alone.get_mut(job.meter as usize) {
            Some(state) => profile.meter(state, now, job.len, came),
            None => Color::Red,
        }).collect();
        meter_batch(&profile, &mut together, now, &jobs, &mut colors, &|_: &TokenCounts| {});
        prop_assert_eq!(&colors, &expected);
        prop_assert_eq!(&alone, &together);
        // Colour-blind: as if all had come green, whatever was there.
        let mut green = vec![Color::Green; jobs.len()];
        meter_batch(&profile, &mut alone, now, &jobs, &mut green, &|_: &TokenCounts| {});
        blind_batch(&profile, &mut together, now, &jobs, &mut colors, &|_: &TokenCounts| {});
        prop_assert_eq!(colors, green);
        prop_assert_eq!(alone, together);
    }
}

/// The same colours and the same credit at every packet, with profiles whose rates are anything from round to odd.
#[test]
fn packed_meters_equal_those_of_full_size() {
    let (mut draw, mut fit) = (Draw(8), 0);
    for _ in 0..2_000 {
        let step = [1, 1_000, 8_000, 64_000, 1_000_000, 10_000_000][(draw.next() % 6) as usize];
        let rate = [draw.wide(30), draw.wide(30)].map(|r| (r / step * step).min(400_000_000_000));
        let [cir, pir] = [rate[0].min(rate[1]), rate[0].max(rate[1])].map(Rate::from_bps);
        let [cbs, pbs] = [draw.wide(20), draw.wide(20)].map(Bytes::new);
        let wide = TrTcm::new(cir, cbs, pir, pbs).unwrap();
        let packed = match PackedTrTcm::new(cir, cbs, pir, pbs) {
            Ok(packed) => packed,
            Err(BadProfile::TooFine { asked, limit }) => {
                assert!(asked == cbs.max(pbs) && limit < asked);
                // A burst of just the limit fits.
                assert!(limit == Bytes::ZERO || PackedTrTcm::new(cir, cbs.min(limit), pir, pbs.min(limit)).is_ok());
                continue;
            }
            Err(other) => panic!("{other}"),
        };
        fit += 1;
        let mut now = Time::from_nanos(draw.wide(60));
        let (mut small, mut large) = (packed.start(now), wide.start(now));
        for n in 0..500 {
            let gap = match draw.next() % 8 {
                0 => 0,
                1 if n % 100 == 0 => 31_536_000_000_000_000,
                _ => draw.wide(30),
            };
            let back = draw.next().is_multiple_of(64);
            now = if back { Time::from_nanos(now.as_nanos().saturating_sub(gap)) } else { now + Span::from_nanos(gap) };
            let len = if draw.next().is_multiple_of(50) { draw.next() as u32 } else { (draw.next() % 9001) as u32 };
            let came = [Color::Green, Color::Yellow, Color::Red][(draw.next() % 3) as usize];
            let went = packed.meter(&mut small, now, len, came);
            assert_eq!(went, wide.meter(&mut large, now, len, came), "{packed:?}, packet {n}");
            assert_eq!(packed.unpack(&small), large, "{packed:?}, packet {n}");
        }
    }
    assert!((500..1_900).contains(&fit), "{fit} of 2,000 profiles fit");
    assert_eq!(size_of::<PackedState>(), 16);
}

#[test]
fn tswtcm_marks_in_proportion() {
    // 4 Mb/s offered to CTR 1, PTR 2 Mb/s: red (4 - 2) / 4, yellow (2 - 1) / 4, green 1 / 4 of the packets.
    let profile = TswTcm::new(Rate::from_mbps(1), Rate::from_mbps(2), Span::from_secs(1)).unwrap();
    let mut state = profile.start(Time::ZERO);
    let mut draw = Draw(3);
    let mut now = Time::ZERO;
    let mut counts = [0u32; 3];
    for n in 0..200_000 {
        now = now + Span::from_millis(2);
        let color = profile.meter(&mut state, now, 1000, draw.next() as u32);
        if n >= 10_000 {
            counts[color as usize] += 1;
        }
    }
    let average = profile.average(&state).as_bps();
    assert!((3_990_000..=4_010_000).contains(&average), "{average}");
    let share = counts.map(|c| f64::from(c) / 190_000.0);
    for (got, want) in share.iter().zip([0.25, 0.25, 0.5]) {
        assert!((got - want).abs() < 0.01, "{share:?}");
    }
}

#[test]
fn a_batch_of_windows_is_the_same_as_one_by_one() {
    let profile = TswTcm::new(Rate::from_mbps(1), Rate::from_mbps(2), Span::from_millis(20)).unwrap();
    let mut alone = vec![profile.start(Time::ZERO); 8];
    let mut together = alone.clone();
    let mut pick = Draw(11);
    let (mut one, mut many) = (Draw(5), Draw(5));
    for n in 1..200 {
        let now = Time::ZERO + Span::from_millis(n);
        let jobs: Vec<Job> =
            (0..40).map(|_| Job { meter: pick.next() as u32 % 9, len: pick.next() as u32 % 1500 }).collect();
        let expected: Vec<Color> = jobs
            .iter()
            .map(|job| match alone.get_mut(job.meter as usize) {
                Some(state) => profile.meter(state, now, job.len, one.next() as u32),
                None => Color::Red,
            })
            .collect();
        let mut colors = vec![Color::Green; jobs.len()];
        tsw_batch(&profile, &mut together, now, &jobs, &mut colors, || many.next() as u32, &|_: &TswState| {});
        assert_eq!(colors, expected);
        assert_eq!(alone, together);
    }
}

#[test]
fn tswtcm_below_the_committed_rate_is_all_green() {
    let profile = TswTcm::new(Rate::from_mbps(1), Rate::from_mbps(2), Span::from_secs(1)).unwrap();
    let mut state = profile.start(Time::ZERO);
    for n in 1..1000u64 {
        assert_eq!(profile.meter(&mut state, Time::ZERO + Span::from_millis(10 * n), 1000, 0), Color::Green);
    }
}

#[test]
fn profiles_that_cannot_work_are_refused() {
    let (one, two) = (Rate::from_mbps(1), Rate::from_mbps(2));
    let (none, some, huge) = (Bytes::ZERO, Bytes::new(1500), Bytes::new(1 << 40));
    assert_eq!(SrTcm::new(one, none, none), Err(BadProfile::NoBurst));
    assert!(SrTcm::new(one, none, some).is_ok());
    assert_eq!(TrTcm::new(two, some, one, some), Err(BadProfile::PeakBelowCommitted { committed: two, peak: one }));
    assert_eq!(TrTcm::new(one, some, two, none), Err(BadProfile::NoBurst));
    assert!(matches!(TrTcm::new(one, huge, two, some), Err(BadProfile::BurstTooLarge { .. })));
    assert_eq!(TswTcm::new(one, two, Span::ZERO), Err(BadProfile::BadInterval));
}

#[test]
fn af_code_points() {
    // RFC 2597 section 6: AF11 = 001010 ... AF43 = 100110.
    let marker = Marker::af(AfClass::new(1).unwrap());
    assert_eq!([Color::Green, Color::Yellow, Color::Red].map(|c| marker.mark(c)), [Dscp(10), Dscp(12), Dscp(14)]);
    assert_eq!(AfClass::new(4).unwrap().dscp(Color::Red), Dscp(38));
    assert_eq!(AfClass::new(5), None);
    assert_eq!(marker.color_of(Dscp(12)), Color::Yellow);
    assert_eq!(marker.color_of(Dscp(0)), Color::Green);
}

/// One table per meter, bytes of credit after each packet; `UPDATE_GOLDEN=1` writes it anew.
#[test]
fn golden_tables() {
    let sr = SrTcm::new(Rate::from_bps(8_000), Bytes::new(2000), Bytes::new(1500)).unwrap();
    let tr = TrTcm::new(Rate::from_bps(8_000), Bytes::new(2000), Rate::from_bps(16_000), Bytes::new(3000)).unwrap();
    let ds = Rfc4115::new(Rate::from_bps(8_000), Bytes::new(2000), Rate::from_bps(8_000), Bytes::new(1500)).unwrap();
    golden("srtcm", "srTCM, RFC 2697: CIR 1000 byte/s, CBS 2000, EBS 1500", ["Tc", "Te"], &sr);
    golden("trtcm", "trTCM, RFC 2698: CIR 1000 byte/s, CBS 2000, PIR 2000 byte/s, PBS 3000", ["Tc", "Tp"], &tr);
    golden("rfc4115", "RFC 4115: CIR 1000 byte/s, CBS 2000, EIR 1000 byte/s, EBS 1500", ["Tc", "Te"], &ds);
}

fn golden(name: &str, title: &str, buckets: [&str; 2], profile: &dyn BatchProfile<State = TokenCounts>) {
    use Color::{Green, Red, Yellow};
    let packets = [
        (0, 1500, Green),
        (0, 1000, Green),
        (0, 1000, Green),
        (500, 800, Green),
        (1000, 800, Yellow),
        (1500, 800, Red),
        (2500, 1500, Green),
        (2500, 1500, Green),
        (5000, 2500, Green),
        (9000, 2000, Green),
        (9000, 1500, Green),
    ];
    let mut text = format!("{title}\n\n  ms  bytes  came     goes    {:>6} {:>6}\n", buckets[0], buckets[1]);
    let mut state = profile.start(Time::ZERO);
    for (ms, len, came) in packets {
        let goes = profile.meter(&mut state, Time::ZERO + Span::from_millis(ms), len, came);
        let (first, second) = (state.committed() / 8_000_000_000, state.excess() / 8_000_000_000);
        let (came, goes) = (format!("{came:?}"), format!("{goes:?}"));
        writeln!(text, "{ms:4}  {len:5}  {came:7}  {goes:7} {first:6} {second:6}").unwrap();
    }
    let path = format!("{}/tests/golden/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, golden, "{path} differs; check it by hand, then run again with UPDATE_GOLDEN=1");
}

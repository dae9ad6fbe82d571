//! The token bucket against an oracle that counts from the beginning, its bound in every window, and its table.

use proptest::prelude::*;
use terms::{Bytes, Rate, Span, Time};
use traffic::bucket::TokenBucket;
use traffic::plan::BucketSpec;

const PER_BYTE: u128 = 8_000_000_000;

fn spec(rate: Rate, depth: u64, min_unit: u32) -> BucketSpec {
    BucketSpec { rate, depth: Bytes::new(depth), min_unit }
}

/// The definition, in 128 bits and without any saturation but the depth.
struct Oracle {
    rate: u128,
    depth: u128,
    tokens: u128,
    at: u64,
}

impl Oracle {
    fn take(&mut self, at: u64, len: u32) -> bool {
        self.tokens = (self.tokens + self.rate * u128::from(at - self.at)).min(self.depth);
        self.at = at;
        let cost = u128::from(len) * PER_BYTE;
        let conforms = cost <= self.tokens;
        self.tokens -= if conforms { cost } else { 0 };
        conforms
    }
}

/// Rates from 1 kb/s to 400 Gb/s, evenly on a logarithmic scale, and the extremes.
fn rate() -> impl Strategy<Value = u64> {
    prop_oneof![1 => Just(0), 1 => Just(u64::MAX), 20 => (10f64..38.6).prop_map(|x| x.exp2() as u64)]
}

/// Gaps from nanoseconds to months.
fn gap() -> impl Strategy<Value = u64> {
    (0f64..53.0).prop_map(|x| x.exp2() as u64)
}

proptest! {
    #![proptest_config(chance::cases(2_000))]

    /// 10^6 packets in all, over years of simulated time: the same answer and the same tokens at every packet.
    #[test]
    fn exact_at_every_packet(rate in rate(), depth in 0u64..3_000_000_000, mtu in 1u32..9000,
                             packets in proptest::collection::vec((gap(), 0u32..=100), 500)) {
        let mut bucket = TokenBucket::new(&spec(Rate::from_bps(rate), depth, 0), Time::ZERO);
        let full = u128::from(depth.min(TokenBucket::MAX_DEPTH.get())) * PER_BYTE;
        let mut oracle = Oracle { rate: u128::from(rate), depth: full, tokens: full, at: 0 };
        let mut at = 0u64;
        for (gap, size) in packets {
            // Mostly about as fast as the bucket fills, so that both answers come.
            let gap = if size % 3 == 0 { gap } else { (u128::from(mtu) * PER_BYTE / u128::from(rate.max(1))) as u64 % 1_000_000_000 };
            at += gap;
            let len = mtu * size / 100;
            let (was, may) = (bucket.would_take(Time::from_nanos(at), len), bucket.when(Time::from_nanos(at), len));
            let conforms = bucket.take(Time::from_nanos(at), len);
            prop_assert_eq!((conforms, was, may == Some(Time::from_nanos(at))), (oracle.take(at, len), conforms, conforms));
            prop_assert_eq!(u128::from(bucket.level_at(Time::from_nanos(at))), oracle.tokens);
        }
    }

    /// Every window: at most `rate x tau + depth` conforms.
    #[test]
    fn bounded_in_every_window(rate in 1_000u64..10_000_000_000, depth in 0u64..20_000,
                               packets in proptest::collection::vec((0u64..100_000, 0u32..3000), 1..120)) {
        let mut bucket = TokenBucket::new(&spec(Rate::from_bps(rate), depth, 0), Time::ZERO);
        let mut at = Time::ZERO;
        let mut passed: Vec<(Time, u128)> = Vec::new();
        for (gap, len) in packets {
            at = at + Span::from_nanos(gap);
            if bucket.take(at, len) {
                passed.push((at, u128::from(len)));
            }
        }
        for (i, (from, _)) in passed.iter().enumerate() {
            let mut bytes = 0;
            for (until, len) in &passed[i..] {
                bytes += len;
                let allowed = u128::from(rate) * u128::from(until.since(*from).as_nanos()) + u128::from(depth) * PER_BYTE;
                prop_assert!(bytes * PER_BYTE <= allowed);
            }
        }
    }

    /// `when` is the first nanosecond: the packet conforms then and not one before.
    #[test]
    fn when_is_the_first_instant(rate in 1u64..1_000_000_000_000, depth in 1u64..100_000, spent in 0u32..100_000, len in 0u32..100_000) {
        let mut bucket = TokenBucket::new(&spec(Rate::from_bps(rate), depth, 0), Time::ZERO);
        bucket.take(Time::ZERO, spent);
        match bucket.when(Time::ZERO, len) {
            None => prop_assert!(u64::from(len) > depth),
            Some(when) => {
                prop_assert!(bucket.would_take(when, len));
                prop_assert!(when == Time::ZERO || !bucket.would_take(Time::from_nanos(when.as_nanos() - 1), len));
            }
        }
    }
}

#[test]
fn the_edges() {
    let now = Time::from_nanos(5);
    let nothing = spec(Rate::ZERO, 0, 0);
    let mut bucket = TokenBucket::new(&nothing, now);
    assert!(!bucket.take(Time::FOREVER, 1) && bucket.take(Time::FOREVER, 0), "an empty bucket passes empty packets");
    let mut bucket = TokenBucket::new(&spec(Rate::INFINITE, 1500, 0), now);
    assert!(bucket.take(now, 1500) && !bucket.take(now, 1500) && bucket.take(now + Span::from_nanos(1), 1500));
    assert!(!bucket.take(Time::FOREVER, 1501), "longer than the bucket is deep");
    let mut bucket = TokenBucket::new(&spec(Rate::from_mbps(8), u64::MAX, 0), now);
    assert_eq!(bucket.depth(), TokenBucket::MAX_DEPTH);
    assert!(!bucket.take(now, u32::MAX));
    let mut bucket = TokenBucket::new(&spec(Rate::from_mbps(8), 1000, 100), now);
    for _ in 0..10 {
        assert!(bucket.take(now, 1), "counts as 100");
    }
    assert!(!bucket.take(now, 1));
    assert!(!bucket.take(Time::ZERO, 1), "time that runs backwards adds nothing");
    assert!(bucket.take(now + Span::from_micros(100), 100), "and takes nothing away");
}

#[test]
fn a_change_keeps_the_level() {
    let mut bucket = TokenBucket::new(&spec(Rate::from_mbps(8), 1000, 0), Time::ZERO);
    assert!(bucket.take(Time::ZERO, 900));
    bucket.change(&spec(Rate::from_mbps(80), 5000, 0), Time::from_nanos(100_000));
    assert_eq!(bucket.bytes_at(Time::from_nanos(100_000)), Bytes::new(200), "100 left and 100 at the old rate");
    assert_eq!(bucket.bytes_at(Time::from_nanos(200_000)), Bytes::new(1200), "then the new rate");
    bucket.change(&spec(Rate::from_mbps(80), 300, 0), Time::from_nanos(200_000));
    assert_eq!(bucket.bytes_at(Time::from_nanos(200_000)), Bytes::new(300));
}

#[test]
fn golden_table() {
    let mut bucket = TokenBucket::new(&spec(Rate::from_mbps(1), 3000, 64), Time::ZERO);
    let mut text = String::from(
        "Token bucket: 1 Mb/s (125 bytes a ms), 3,000 bytes deep, minimum policed unit 64.\n\n    \
         ms  bytes  tokens before  conforms  tokens after\n",
    );
    let packets = [
        (0, 1500),
        (1, 1500),
        (2, 1500),
        (10, 1500),
        (11, 1500),
        (11, 40),
        (12, 40),
        (40, 3001),
        (40, 3000),
        (64, 3000),
        (65, 64),
    ];
    for (ms, len) in packets {
        let now = Time::from_nanos(ms * 1_000_000);
        let before = bucket.bytes_at(now).get();
        let verdict = if bucket.take(now, len) { "yes" } else { "no" };
        text += &format!("{ms:>6}  {len:>5}  {before:>13}  {verdict:>8}  {:>12}\n", bucket.bytes_at(now).get());
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/bucket.txt");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(path, &text).unwrap();
    }
    let golden = std::fs::read_to_string(path).unwrap_or_default();
    assert_eq!(text, golden, "{path} differs; check it by hand, then run again with UPDATE_GOLDEN=1");
}

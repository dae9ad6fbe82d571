//! Meters and droppers: ns per packet. `cargo bench -p sluice-traffic --bench conditioning -- meter_trtcm`.

#[path = "../../../driver/linux/src/cache.rs"]
mod cache;

use bench::{Bench, Draw};
use std::hint::black_box;
use terms::{Bytes, Rate, Span, Time};
use traffic::dropper::{Coupling, RedCurve, Rio, RioProfile, Verdict};
use traffic::meter::*;

/// Packets per measured run.
const PACKETS: u64 = 1 << 20;
const RUNS: usize = 9;
/// Packets a batch.
const BATCH: usize = 1024;

fn main() {
    let bench = Bench::from_args();
    let srtcm = SrTcm::new(Rate::from_mbps(10), Bytes::new(20_000), Bytes::new(40_000)).expect("a valid profile");
    let trtcm = TrTcm::new(Rate::from_mbps(10), Bytes::new(20_000), Rate::from_mbps(20), Bytes::new(40_000))
        .expect("a valid profile");
    meters(&bench, "meter_srtcm", &srtcm);
    meters(&bench, "meter_trtcm", &trtcm);
    let packed = PackedTrTcm::new(Rate::from_mbps(10), Bytes::new(20_000), Rate::from_mbps(20), Bytes::new(40_000));
    meters(&bench, "meter_packed_trtcm", &packed.expect("a profile that packs"));
    tswtcm(&bench);
    rio(&bench);
}

/// Packet lengths and colours as a link carries them, and time so that all three colours occur.
fn jobs(meters: u32, seed: u64) -> Vec<Job> {
    let mut draw = Draw::new(seed);
    let job = |draw: &mut Draw| Job { meter: draw.next_u32() % meters, len: 64 + draw.next_u32() % 1437 };
    (0..PACKETS).map(|_| job(&mut draw)).collect()
}

/// 15 Mb/s on average per meter: between the rates, so that colours are mixed.
fn gap(meters: u64) -> u64 {
    782 * 8 * 1000 / 15 / meters.max(1)
}

fn meters<P: BatchProfile<State: Clone>>(bench: &Bench, name: &str, profile: &P) {
    for (suffix, count) in [("1", 1u32), ("64k", 1 << 16), ("1m", 1 << 20)] {
        let (one, batch) = (format!("{name}_{suffix}"), format!("{name}_{suffix}_batch"));
        if !bench.wants(&one) && !bench.wants(&batch) {
            continue;
        }
        let mut states = vec![profile.start(Time::ZERO); count as usize];
        let work = jobs(count, u64::from(count));
        let gap = Span::from_nanos(gap(u64::from(count)).max(1));
        let mut now = Time::ZERO;
        bench.time(&one, RUNS, PACKETS, || {
            for job in &work {
                now = now + gap;
                black_box(profile.meter(&mut states[job.meter as usize], now, job.len, Color::Green));
            }
        });
        let mut colors = [Color::Green; BATCH];
        bench.time(&batch, RUNS, PACKETS, || {
            for chunk in work.chunks(BATCH) {
                now = now + Span::from_nanos(gap.as_nanos() * BATCH as u64);
                blind_batch(profile, &mut states, now, chunk, &mut colors, &cache::prefetch::<P::State>);
            }
            black_box(&colors);
        });
    }
}

fn tswtcm(bench: &Bench) {
    let profile = TswTcm::new(Rate::from_mbps(10), Rate::from_mbps(20), Span::from_secs(1)).expect("a valid profile");
    for (suffix, count) in [("1", 1u32), ("64k", 1 << 16), ("1m", 1 << 20)] {
        let (name, batch) = (format!("meter_tswtcm_{suffix}"), format!("meter_tswtcm_{suffix}_batch"));
        if !bench.wants(&name) && !bench.wants(&batch) {
            continue;
        }
        let mut states = vec![profile.start(Time::ZERO); count as usize];
        let (work, mut draw, mut now) = (jobs(count, u64::from(count)), Draw::new(1), Time::ZERO);
        let gap = Span::from_nanos(gap(u64::from(count)).max(1));
        bench.time(&name, RUNS, PACKETS, || {
            for job in &work {
                now = now + gap;
                black_box(profile.meter(&mut states[job.meter as usize], now, job.len, draw.next_u32()));
            }
        });
        let mut colors = [Color::Green; BATCH];
        bench.time(&batch, RUNS, PACKETS, || {
            for chunk in work.chunks(BATCH) {
                now = now + Span::from_nanos(gap.as_nanos() * BATCH as u64);
                tsw_batch(
                    &profile,
                    &mut states,
                    now,
                    chunk,
                    &mut colors,
                    || draw.next_u32(),
                    &cache::prefetch::<TswState>,
                );
            }
            black_box(&colors);
        });
    }
}

/// One arrival and, if accepted, the departure of a queue that hovers between the thresholds.
fn rio(bench: &Bench) {
    let curve = |min, max, p: f64| RedCurve { min, max, max_p: (p * 65536.0) as u32, gentle: false };
    let curves = [curve(400, 800, 0.02), curve(200, 400, 0.05), curve(100, 200, 0.1)];
    let profile =
        RioProfile::new(curves, 8_589_935, Span::from_micros(171), Coupling::Coupled).expect("a valid profile");
    let mut rio = Rio::new();
    let mut draw = Draw::new(2);
    let packets: Vec<(Color, u32)> = (0..PACKETS)
        .map(|_| ([Color::Green, Color::Yellow, Color::Red][(draw.next_u32() % 3) as usize], draw.next_u32()))
        .collect();
    let mut now = Time::ZERO;
    let mut waiting = std::collections::VecDeque::with_capacity(1024);
    bench.time("rio_decide", RUNS, PACKETS, || {
        for &(color, chance) in &packets {
            now = now + Span::from_micros(171);
            if rio.arrival(&profile, now, color, 1, chance) == Verdict::Accept {
                waiting.push_back(color);
            }
            if waiting.len() > 300 {
                let color = waiting.pop_front().expect("more than 300 wait");
                rio.departure(&profile, now, color, 1);
            }
        }
    });
}

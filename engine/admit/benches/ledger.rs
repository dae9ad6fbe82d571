//! The ledger with 10^3, 10^5 and 10^6 booked slots.
//!
//! Workload: starts uniform in nanoseconds over a year, lengths log-uniform from 1 minute to 7 days, rates 1 to
//! 100 Mb/s; asked about windows of 1 hour that nobody asked about before. Every operation is timed by itself, the
//! reading of the clock included (`clock_ns` says how much that is); the figure is the median, or the percentile that
//! its name says.

use admit::{Limits, SlotOffer, SlotTable};
use bench::{Bench, Draw, nanos, percentile};
use std::hint::black_box;
use std::time::Instant;
use terms::{Rate, Span, Time, Window};

const YEAR: u64 = 365 * 86_400 * Span::NANOS_PER_SEC;
const HOUR: u64 = 3_600 * Span::NANOS_PER_SEC;
const SIZES: [(usize, &str); 3] = [(1_000, "1e3"), (100_000, "1e5"), (1_000_000, "1e6")];
/// How many operations of a kind are timed.
const SAMPLES: usize = 100_000;

fn main() {
    let bench = Bench::from_args();
    let mut clock: Vec<f64> = (0..SAMPLES).map(|_| nanos(|| ())).collect();
    bench.report("ledger_clock_ns", percentile(&mut clock, 0.5), "ns", SAMPLES);
    let (mut peaks, mut holds) = (Vec::new(), Vec::new());
    for (slots, name) in SIZES {
        if !wanted(&bench, name, slots == 1_000_000) {
            continue;
        }
        let resident = resident_bytes();
        let mut table = booked(slots);
        let grown = resident_bytes().saturating_sub(resident);
        peaks.push(peak(&bench, &table, name));
        holds.push(hold(&bench, &mut table, name));
        if slots == 1_000_000 {
            let per_slot = |total: f64| total / slots as f64;
            bench.report("ledger_bytes_per_slot", per_slot(table.bytes() as f64), "B", 1);
            bench.report("ledger_resident_bytes_per_slot", per_slot(grown as f64), "B", 1);
            bench.report("ledger_edges_per_slot", per_slot(table.edges() as f64), "edges", 1);
            find(&bench, &mut table);
        }
    }
    find_at_worst(&bench);
    if let ([small, _, large], [quick, _, slow]) = (peaks.as_slice(), holds.as_slice()) {
        bench.report("ledger_peak_growth_1e3_1e6", large / small, "x", SAMPLES);
        bench.report("ledger_hold_growth_1e3_1e6", slow / quick, "x", SAMPLES);
    }
}

fn wanted(bench: &Bench, name: &str, largest: bool) -> bool {
    let of_size = ["peak_ns", "peak_p99_ns", "hold_ns", "hold_p99_ns"].map(|what| format!("ledger_{what}_{name}"));
    let growth = ["ledger_peak_growth_1e3_1e6", "ledger_hold_growth_1e3_1e6"];
    let of_largest = ["ledger_bytes_per_slot", "ledger_resident_bytes_per_slot", "ledger_edges_per_slot"]
        .into_iter()
        .chain(["ledger_find_ns_1e6", "ledger_find_p99_ns_1e6", "ledger_full_windows_1e6"]);
    of_size.iter().any(|name| bench.wants(name))
        || growth.into_iter().any(|name| bench.wants(name))
        || (largest && of_largest.into_iter().any(|name| bench.wants(name)))
}

/// A slot as the workload draws it.
fn request(draw: &mut Draw) -> (Window, Rate) {
    let start = (draw.unit() * YEAR as f64) as u64;
    let (shortest, longest) = (60.0_f64.ln(), (7.0 * 86_400.0_f64).ln());
    let seconds = (shortest + draw.unit() * (longest - shortest)).exp();
    let length = ((seconds * 1e9) as u64).max(1);
    let rate = Rate::from_bps(1_000_000 + (draw.unit() * 99_000_001.0) as u64);
    match Window::new(Time::from_nanos(start), Time::from_nanos(start + length)) {
        Ok(window) => (window, rate),
        Err(_) => unreachable!("the length is not zero"),
    }
}

fn hour(draw: &mut Draw) -> (Time, Time) {
    let start = (draw.unit() * YEAR as f64) as u64;
    (Time::from_nanos(start), Time::from_nanos(start + HOUR))
}

/// A table with so many committed slots, under a capacity that all of them fit under.
fn booked(slots: usize) -> SlotTable {
    let limits = Limits { slots: slots * 2, ..Limits::default() };
    let mut table = SlotTable::new(SlotOffer::of(Rate::from_bps(1 << 50)), limits);
    let mut draw = Draw::new(slots as u64);
    for _ in 0..slots {
        let (window, rate) = request(&mut draw);
        let booked = table.hold(window, rate, Time::FOREVER).and_then(|id| {
            table.promise(id)?;
            Ok(table.commit(id)?)
        });
        assert!(booked.is_ok(), "everything fits");
    }
    table
}

fn peak(bench: &Bench, table: &SlotTable, name: &str) -> f64 {
    let mut draw = Draw::new(1);
    let mut times: Vec<f64> = (0..SAMPLES)
        .map(|_| {
            let (start, end) = hour(&mut draw);
            timed(|| table.peak(start, end))
        })
        .collect();
    let median = percentile(&mut times, 0.5);
    bench.report(&format!("ledger_peak_ns_{name}"), median, "ns", SAMPLES);
    bench.report(&format!("ledger_peak_p99_ns_{name}"), percentile(&mut times, 0.99), "ns", SAMPLES);
    median
}

/// Times holds, a 50th of the table at a time, which are then released untimed, so that the size stays.
fn hold(bench: &Bench, table: &mut SlotTable, name: &str) -> f64 {
    let mut draw = Draw::new(2);
    let until = Time::from_nanos(30 * Span::NANOS_PER_SEC);
    let batch = (table.len() / 50).min(50_000);
    let mut times = Vec::with_capacity(SAMPLES);
    let mut held = Vec::with_capacity(batch);
    while times.len() < SAMPLES {
        for _ in 0..batch {
            let (window, rate) = request(&mut draw);
            times.push(timed(|| held.extend(table.hold(window, rate, until))));
        }
        assert_eq!(held.len(), batch, "everything fits");
        for id in held.drain(..) {
            assert!(table.release(id).is_ok());
        }
    }
    let median = percentile(&mut times, 0.5);
    bench.report(&format!("ledger_hold_ns_{name}"), median, "ns", times.len());
    bench.report(&format!("ledger_hold_p99_ns_{name}"), percentile(&mut times, 0.99), "ns", times.len());
    median
}

/// Lowers the capacity until 9 of 10 random hours have no room for 10 Mb/s, then looks for such an hour from random
/// instants on.
fn find(bench: &Bench, table: &mut SlotTable) {
    if !["ledger_find_ns_1e6", "ledger_find_p99_ns_1e6", "ledger_full_windows_1e6"].iter().any(|name| bench.wants(name))
    {
        return;
    }
    let asked = Rate::from_mbps(10);
    let mut draw = Draw::new(3);
    let hours: Vec<(Time, Time)> = (0..SAMPLES).map(|_| hour(&mut draw)).collect();
    let mut peaks: Vec<f64> = hours.iter().map(|(start, end)| table.peak(*start, *end).as_bps() as f64).collect();
    let capacity = Rate::from_bps(percentile(&mut peaks, 0.1) as u64).saturating_add(asked);
    let ever = Window::open(Time::ZERO).map_err(Into::into);
    assert!(ever.and_then(|ever| table.set_capacity(ever, capacity)).is_ok());
    let full = hours.iter().filter(|(start, end)| table.available(*start, *end) < asked).count();
    bench.report("ledger_full_windows_1e6", full as f64 / SAMPLES as f64, "of 1", SAMPLES);
    let mut times: Vec<f64> = (0..SAMPLES / 10)
        .map(|_| {
            let (earliest, _) = hour(&mut draw);
            timed(|| table.find(asked, Span::from_nanos(HOUR), earliest, Time::FOREVER))
        })
        .collect();
    bench.report("ledger_find_ns_1e6", percentile(&mut times, 0.5), "ns", SAMPLES / 10);
    bench.report("ledger_find_p99_ns_1e6", percentile(&mut times, 0.99), "ns", SAMPLES / 10);
}

/// The worst that can be asked: a million slots of one second with gaps of one second, and a search for two.
fn find_at_worst(bench: &Bench) {
    if !bench.wants("ledger_find_worst_ms_1e6") {
        return;
    }
    let mut table = SlotTable::new(SlotOffer::of(Rate::from_mbps(1)), Limits::default());
    let second = |n: u64| Time::from_nanos(n * Span::NANOS_PER_SEC);
    for i in 0..1_000_000 {
        let granted = Window::new(second(2 * i), second(2 * i + 1)).map_err(Into::into);
        assert!(granted.and_then(|window| table.grant(window, Rate::from_mbps(1))).is_ok(), "the windows are apart");
    }
    let mut times: Vec<f64> = (0..5)
        .map(|_| timed(|| table.find(Rate::from_mbps(1), Span::from_secs(2), Time::ZERO, Time::FOREVER)) / 1e6)
        .collect();
    bench.report("ledger_find_worst_ms_1e6", percentile(&mut times, 0.5), "ms", times.len());
}

fn timed<T>(work: impl FnOnce() -> T) -> f64 {
    let start = Instant::now();
    black_box(work());
    start.elapsed().as_nanos() as f64
}

/// What the process occupies; 0 where the kernel does not say.
fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * 4096
}

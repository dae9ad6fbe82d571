//! What is asked: starts uniform over a year, lengths log-uniform from 1 minute to 7 days, rates 1 to 100 Mb/s.

use bench::Draw;
use terms::{Span, Time};

/// What an enquiry is about, bit/s for an hour.
pub const ENQUIRED: u64 = 50_000_000;
/// Owners of reservations.
pub const OWNERS: u64 = 1_000;
/// The interface.
pub const INTERFACE: &str = "near";

const YEAR: f64 = 365.0 * 86_400.0;

/// A window and a rate.
#[derive(Clone, Copy)]
pub struct Wish {
    pub start: Time,
    pub end: Time,
    pub rate: u64,
}

/// The next one.
pub fn wish(draw: &mut Draw, now: Time) -> Wish {
    let start = later(draw, now);
    let (shortest, longest) = (60.0_f64.ln(), (7.0 * 86_400.0_f64).ln());
    let seconds = (shortest + draw.unit() * (longest - shortest)).exp();
    let rate = 1_000_000 + (draw.unit() * 99_000_001.0) as u64;
    Wish { start, end: start + Span::from_nanos((seconds * 1e9) as u64), rate }
}

/// A moment of the coming year, but for its first hour: nothing begins while it is measured.
pub fn later(draw: &mut Draw, now: Time) -> Time {
    now + Span::from_secs(3_600 + (draw.unit() * YEAR) as u64)
}

/// What the process occupies; 0 where the kernel does not say.
pub fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * 4096
}

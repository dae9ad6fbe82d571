//! Rates, sizes and times of the application list, by `tc`'s convention as everywhere in Sluice: `bit` is bits/s, `bps` is
//! bytes/s, k = 1,000 for rates and 1,024 for sizes. Whole numbers alone: a list needs no fractions.

use alloc::format;
use alloc::string::String;
use terms::{Bytes, Rate, Span};

const RATES: &[(&str, u64)] = &[
    ("bit", 1),
    ("kbit", 1_000),
    ("mbit", 1_000_000),
    ("gbit", 1_000_000_000),
    ("bps", 8),
    ("kbps", 8_000),
    ("mbps", 8_000_000),
];
const SIZES: &[(&str, u64)] = &[("b", 1), ("kb", 1 << 10), ("mb", 1 << 20)];
const TIMES: &[(&str, u64)] =
    &[("ms", 1_000_000), ("s", 1_000_000_000), ("m", 60_000_000_000), ("h", 3_600_000_000_000)];

/// A rate, for example `64kbit`.
pub(crate) fn rate(text: &str) -> Result<Rate, String> {
    number(text, RATES, "rate", "64kbit").map(Rate::from_bps)
}

/// A size, for example `8kb`.
pub(crate) fn size(text: &str) -> Result<Bytes, String> {
    number(text, SIZES, "size", "8kb").map(Bytes::new)
}

/// A time, for example `30s`.
pub(crate) fn time(text: &str) -> Result<Span, String> {
    number(text, TIMES, "time", "30s").map(Span::from_nanos)
}

fn number(text: &str, units: &[(&str, u64)], what: &str, example: &str) -> Result<u64, String> {
    let wrong = || format!("{text:?} is no {what}: write a whole number and its unit, as {example}");
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    let (_, factor) = units.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
    let digits: u64 = digits.parse().map_err(|_| wrong())?;
    digits.checked_mul(*factor).ok_or_else(|| format!("{text:?} is too large for a {what}"))
}

//! Rates in words.

/// A rate for people: three significant places.
pub fn rate(bps: u64) -> String {
    match bps {
        u64::MAX => "any rate".to_string(),
        n if n >= 1_000_000_000 => format!("{:.2}gbit", n as f64 / 1e9),
        n if n >= 1_000_000 => format!("{:.2}mbit", n as f64 / 1e6),
        n if n >= 1_000 => format!("{:.1}kbit", n as f64 / 1e3),
        n => format!("{n}bit"),
    }
}

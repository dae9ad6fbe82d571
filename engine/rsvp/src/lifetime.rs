//! The lifetime and the refresh period of soft state: RFC 2205 section 3.7.
//!
//! A node sends a refresh every R, jittered over `[0.5 R, 1.5 R]` so that refreshes of many states do not
//! fall into step. State lives for `L >= (K + 0.5) * 1.5 * R`, with the R that its *sender* put into
//! TIME_VALUES: the node that refreshes knows its period, we do not. K is the number of refreshes in a row
//! that may be lost.

use terms::Rng;
use terms::Span;

/// The shortest R that state lives by, whatever its sender says: a tiny R would have us expire state faster
/// than any network can refresh it.
pub const LEAST_REFRESH: Span = Span::from_secs(1);

/// `L` for state that its sender refreshes every `refresh`: `(K + 0.5) * 1.5 * R`, rounded up, saturating. A
/// `refresh` below [`LEAST_REFRESH`] is raised to it. A neighbour's `refresh` above the configured bound was
/// lowered to it when the message came.
pub fn lifetime(refresh: Span, keep: u32) -> Span {
    refresh.max(LEAST_REFRESH).mul_div_ceil(3 * (2 * u64::from(keep) + 1), 4)
}

/// The time from this refresh to the next: evenly distributed over `[0.5 R, 1.5 R]`.
pub fn jittered(refresh: Span, pcg: &mut Rng) -> Span {
    // The half is rounded up and the one and a half down, so that rounding never leaves the interval.
    let low = refresh.mul_div_ceil(1, 2);
    let high = Span::from_nanos(refresh.as_nanos().saturating_add(refresh.as_nanos() / 2));
    pcg.span_between(low, high)
}

#[cfg(test)]
mod tests;

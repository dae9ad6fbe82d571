//! The receiver's choice of R (RFC 2212 section 4): the least service rate whose composed bound on queueing is within
//! what is wanted.

use api::agent::TspecDoc;

/// `C_tot` in bytes and `D_tot` in microseconds, as the ADSPEC tells them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Terms {
    pub c_bytes: u32,
    pub d_us: u32,
}

/// The longest that a conforming packet is queued on the whole path at service rate `rate_bps`, in nanoseconds, rounded
/// up (RFC 2212 section 4, both cases). `rate_bps` is at least `r` and not zero.
pub fn bound_ns(t: &TspecDoc, terms: Terms, rate_bps: u64) -> u128 {
    let (rate, bits) = (u128::from(rate_bps.max(1)), |bytes: u64| u128::from(bytes) * 8);
    let second = 1_000_000_000u128;
    let (largest, c) = (bits(t.max_bytes.into()), bits(terms.c_bytes.into()));
    let burst = bits(t.b_bytes.saturating_sub(t.max_bytes.into()));
    let (r, p) = (u128::from(t.r_bps), t.p_bps.map(u128::from));
    let queued = match p {
        // (b - M) / R x (p - R) / (p - r): what the burst adds while it comes faster than it is served.
        Some(p) if p > rate && p > r => (burst * second).div_ceil(rate).saturating_mul(p - rate).div_ceil(p - r),
        Some(_) => 0,
        None => (burst * second).div_ceil(rate),
    };
    queued + ((largest + c) * second).div_ceil(rate) + u128::from(terms.d_us) * 1000
}

/// The least R, not below `r`, that keeps the bound; `None`: no rate does, the fixed part `D_tot` is too much.
pub fn least_rate(t: &TspecDoc, terms: Terms, wanted_ns: u64) -> Option<u64> {
    let keeps = |rate: u64| bound_ns(t, terms, rate) <= u128::from(wanted_ns);
    // RFC 2210's floats hold no larger rate than this.
    let (mut low, mut high) = (t.r_bps.max(1), 320_000_000_000_000u64.max(t.r_bps));
    if !keeps(high) {
        return None;
    }
    while low < high {
        let middle = low + (high - low) / 2;
        if keeps(middle) { high = middle } else { low = middle + 1 }
    }
    Some(low)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tspec(p_bps: Option<u64>) -> TspecDoc {
        TspecDoc { r_bps: 1_000_000, b_bytes: 12_500, p_bps, m_bytes: 64, max_bytes: 1_250 }
    }

    const NONE: Terms = Terms { c_bytes: 0, d_us: 0 };
    const TWO_HOPS: Terms = Terms { c_bytes: 2_500, d_us: 3_000 };

    #[test]
    fn bounds_by_hand() {
        let table = [
            // (b - M)/R + (M + C)/R + D, peak not bounded: 90 kbit, 10 kbit
            (None, NONE, 1_000_000, 100_000_000),
            (None, NONE, 10_000_000, 10_000_000),
            (None, TWO_HOPS, 10_000_000, 15_000_000),
            // p = 5 Mbit/s, R = 3 Mbit/s: 30 ms x 2/4 + 10/3 ms
            (Some(5_000_000), NONE, 3_000_000, 15_000_000 + 3_333_334),
            // R above p: the burst never queues
            (Some(5_000_000), NONE, 10_000_000, 1_000_000),
            (Some(5_000_000), TWO_HOPS, 10_000_000, 6_000_000),
        ];
        for (peak, terms, rate, bound) in table {
            assert_eq!(bound_ns(&tspec(peak), terms, rate), bound, "{peak:?} {terms:?} {rate}");
        }
    }

    #[test]
    fn the_least_rate_keeps_the_bound_and_one_less_does_not() {
        for peak in [None, Some(1_000_000), Some(5_000_000), Some(100_000_000)] {
            for terms in [NONE, TWO_HOPS] {
                for ms in [4, 10, 20, 50, 99, 100, 1_000] {
                    let t = tspec(peak);
                    let Some(rate) = least_rate(&t, terms, ms * 1_000_000) else { panic!("{peak:?} {terms:?} {ms}") };
                    assert!(bound_ns(&t, terms, rate) <= u128::from(ms * 1_000_000), "{peak:?} {terms:?} {ms}: {rate}");
                    let less = bound_ns(&t, terms, rate - 1) > u128::from(ms * 1_000_000);
                    assert!(less || rate == t.r_bps, "{peak:?} {terms:?} {ms}: {rate} is not the least");
                }
            }
        }
        assert_eq!(least_rate(&tspec(None), TWO_HOPS, 3_000_000), None, "D alone takes 3 ms");
    }
}

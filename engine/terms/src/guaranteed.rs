//! The delay bound of guaranteed service, and the receiver's choice of a rate for the bound it wants: RFC 2212,
//! "Exported Information" and "Guidelines for Implementors". Exact integers, rounded to the safe side.

use crate::{Adspec, FlowSpec, Rate, Rspec, Span, Tspec};

/// Bits in a byte times nanoseconds in a second.
const NS_BITS: u128 = 8_000_000_000;

/// The largest queueing delay of a flow of this description on a path that exports `c_tot` bytes and `d_tot`
/// microseconds, if each hop reserves `rate` for it; rounded up. [`Span::MAX`]: there is no bound.
///
/// `(b-M)/R * (p-R)/(p-r) + (M+Ctot)/R + Dtot` where `p > R >= r`, `(M+Ctot)/R + Dtot` where `R >= p >= r`.
pub fn delay_bound(tspec: &Tspec, rate: Rate, c_tot: u32, d_tot: u32) -> Span {
    queueing(tspec, rate, c_tot).map_or(Span::MAX, |ns| {
        let all = ns.saturating_add(u128::from(d_tot) * 1_000);
        Span::from_nanos(u64::try_from(all).unwrap_or(u64::MAX))
    })
}

/// The part of the bound that depends on the rate, in nanoseconds.
fn queueing(t: &Tspec, rate: Rate, c_tot: u32) -> Option<u128> {
    let (r, p, big) = (u128::from(t.r.as_bps()), u128::from(t.p.as_bps()), u128::from(rate.as_bps()));
    if big == 0 || big < r {
        return None;
    }
    let (b, largest) = (u128::from(t.b.get()), u128::from(t.M));
    let fixed = largest.checked_add(u128::from(c_tot))?.checked_mul(NS_BITS)?;
    let burst = b.saturating_sub(largest).checked_mul(NS_BITS)?;
    if t.p.is_infinite() {
        return Some(fixed.checked_add(burst)?.div_ceil(big));
    }
    if big >= p {
        return Some(fixed.div_ceil(big));
    }
    // One fraction for both terms, so that rounding happens once.
    let above = burst.checked_mul(p - big)?.checked_add(fixed.checked_mul(p - r)?)?;
    Some(above.div_ceil(big.checked_mul(p - r)?))
}

/// The least service rate whose bound is no more than `wanted`, and the slack that is left; `None`: no rate is enough
/// (the path's own delays are longer), or the path promises no bound.
///
/// `wanted` is queueing delay: subtract the path's minimum latency before the call.
pub fn rspec_for(tspec: &Tspec, adspec: &Adspec, wanted: Span) -> Option<Rspec> {
    let terms = adspec.guaranteed.filter(|g| !g.break_bit && !adspec.break_bit)?;
    let bound = |bps: u64| delay_bound(tspec, Rate::from_bps(bps), terms.c_tot, terms.d_tot);
    let (mut low, mut high) = (tspec.r.as_bps().max(1), u64::MAX - 1);
    if bound(high) > wanted {
        return None;
    }
    // The bound falls with the rate: the least one that keeps it.
    while low < high {
        let middle = low + (high - low) / 2;
        if bound(middle) <= wanted { high = middle } else { low = middle + 1 }
    }
    let slack = wanted.as_nanos().saturating_sub(bound(low).as_nanos());
    Some(Rspec { R: Rate::from_bps(low), S: Span::from_nanos(slack) })
}

/// A sender's Tspec as a receiver asks for it. `M` is the least of the sender's value (zero: unset), the
/// path's MTU and the MTU of the receiver's own link (RFC 2210 section 3.2.1); `m` is not above it. Some
/// senders set M = 2^31 - 1.
pub fn received(tspec: &Tspec, path_mtu: Option<u32>, own_mtu: Option<u32>) -> Tspec {
    let said = Some(tspec.M).filter(|m| *m > 0);
    let least = [said, path_mtu, own_mtu].into_iter().flatten().filter(|mtu| *mtu > 0).min();
    let most = least.unwrap_or(tspec.M);
    Tspec { M: most, m: if most == 0 { tspec.m } else { tspec.m.min(most) }, ..*tspec }
}

/// The request of a receiver that wants a delay of at most `wanted` from end to end, for packets that the
/// path carries whole. `None`: the path cannot keep that delay.
pub fn request_for(tspec: &Tspec, adspec: &Adspec, wanted: Span) -> Option<FlowSpec> {
    let queueing = wanted.as_nanos().checked_sub(adspec.min_latency?.as_nanos())?;
    let tspec = received(tspec, Some(adspec.path_mtu), None);
    let rspec = rspec_for(&tspec, adspec, Span::from_nanos(queueing))?;
    Some(FlowSpec::Guaranteed(tspec, rspec))
}

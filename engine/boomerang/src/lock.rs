//! KEY: a suspicious node locks a new context with a prime and multiplies KEY by it. The context lives on
//! only if the initiating node sends a multiple, which shows that it receives the replies to its requests.
//!
//! The draft speaks of 64-bit primes, whose products do not fit into 64 bits. Ours have 16: four nodes
//! in a row can lock, and a fifth refuses.

use crate::table::bits;
use core::net::IpAddr;
use terms::Span;

/// The time for which a locked context waits for its key.
pub(crate) const PATIENCE: Span = Span::from_secs(3);

/// The prime of a context: secret, and the same for one initiating node and transaction while the node runs.
pub(crate) fn prime(secret: [u64; 2], initiator: IpAddr, transaction: u32) -> u64 {
    let bits = bits(initiator);
    let mut state = secret[0] ^ bits as u64;
    for word in [(bits >> 64) as u64, u64::from(transaction), secret[1]] {
        let product = u128::from(state ^ word) * u128::from(secret[1] | 1);
        state = (product as u64) ^ ((product >> 64) as u64);
    }
    let mut candidate = (1 << 15) | (state & 0x7fff) | 1;
    while !is_prime(candidate) {
        candidate = if candidate >= 65_521 { 32_771 } else { candidate + 2 };
    }
    candidate
}

fn is_prime(n: u64) -> bool {
    (3..).step_by(2).take_while(|d| d * d <= n).all(|d| !n.is_multiple_of(d))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_locks_fit_into_a_key() {
        let mut seen = alloc::collections::BTreeSet::new();
        for n in 0..1_000u32 {
            let prime = prime([0x3c6e_f372_fe94_f82b, 0xa54f_f53a_5f1d_36f1], [10, 0, 0, 1].into(), n);
            assert!((32_771..=65_521).contains(&prime) && is_prime(prime));
            seen.insert(prime);
        }
        assert!(seen.len() > 600, "they differ: {}", seen.len());
        assert!(65_521u64.checked_pow(4).is_some());
    }
}

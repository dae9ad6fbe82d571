//! The choice of the waiting handshake that is dropped when a listener is full: the oldest of the busiest
//! source. A source that fills the listener displaces only its own handshakes.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};

/// The address that counts as one source: an IPv4 address, or the /64 prefix that one IPv6 host can own (RFC
/// 6177).
pub fn source_of(from: IpAddr) -> IpAddr {
    match from.to_canonical() {
        IpAddr::V4(v4) => IpAddr::V4(v4),
        IpAddr::V6(v6) => {
            let [a, b, c, d, ..] = v6.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
    }
}

/// The number of the handshake to drop, from the numbers and sources of those that wait. Among equally busy
/// sources it is the one whose first handshake is the oldest.
pub fn displaced<S: Ord + Copy>(waiting: impl IntoIterator<Item = (u64, S)>) -> Option<u64> {
    let mut sources: BTreeMap<S, (usize, u64)> = BTreeMap::new();
    for (number, source) in waiting {
        let (count, oldest) = sources.entry(source).or_insert((0, number));
        *count += 1;
        *oldest = number.min(*oldest);
    }
    sources.into_values().max_by_key(|&(count, oldest)| (count, std::cmp::Reverse(oldest))).map(|(_, oldest)| oldest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_of_ipv6_is_one_source() {
        let source = |text: &str| source_of(text.parse().unwrap()).to_string();
        assert_eq!(source("2001:db8:1:2:3:4:5:6"), source("2001:db8:1:2:ffff::1"));
        assert_ne!(source("2001:db8:1:2::1"), source("2001:db8:1:3::1"));
        assert_ne!(source("10.0.0.1"), source("10.0.0.2"));
        assert_eq!(source("::ffff:10.0.0.1"), "10.0.0.1");
    }

    #[test]
    fn the_busiest_makes_way() {
        assert_eq!(displaced::<u8>([]), None);
        assert_eq!(displaced([(1, 'a'), (2, 'b'), (3, 'b')]), Some(2));
        assert_eq!(displaced([(1, 'a'), (2, 'b'), (3, 'a'), (4, 'b')]), Some(1));
        assert_eq!(displaced([(5, 'b'), (6, 'a')]), Some(5));
    }
}

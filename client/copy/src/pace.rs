//! Conversion between a grant, in bit/s of IP bytes, and a file, in bytes of payload.

use std::net::SocketAddr;
use terms::Span;

/// Bytes of a full packet on an Ethernet, IP header included.
const FULL: u64 = 1_500;
/// TCP's header with the time stamps that every Linux sends (RFC 7323).
const TCP: u64 = 32;
/// The part of a grant that is used, in thousandths. The rest is for retransmissions, for acknowledgements
/// and for clocks that differ.
const USED: u64 = 990;
/// The volume asked for before a deadline, in thousandths of the file's: covers the unused part of the grant
/// and the first round trips.
const RESERVE: u64 = 1_030;
/// The reserve of every file, whatever its size, in bytes.
const START: u64 = 256 << 10;
/// The time for the connection before the first byte and for the receiver's check after the last.
const AROUND: Span = Span::from_secs(1);

/// Bytes of headers in each packet to that address.
fn headers(to: &SocketAddr) -> u64 {
    TCP + if to.is_ipv4() { 20 } else { 40 }
}

/// Returns the payload, bytes per second, that fits in a grant of bit/s of IP bytes, rounded down.
pub fn payload_rate(grant_bps: u64, to: &SocketAddr) -> u64 {
    let wide = u128::from(grant_bps) / 8 * u128::from(FULL - headers(to)) * u128::from(USED);
    (wide / u128::from(FULL * 1_000)) as u64
}

/// Returns the IP bytes that carry a file in the given time. Adds a reserve in bytes, and leaves a second (an
/// eighth of a time below eight seconds) for connecting and for the receiver's check. Rounded up.
pub fn volume(file: u64, to: &SocketAddr, time: Span) -> u64 {
    let wide = u128::from(file) * u128::from(FULL) * u128::from(RESERVE);
    let bytes = wide.div_ceil(u128::from(FULL - headers(to)) * 1_000) + u128::from(START);
    let time = u128::from(time.as_nanos().max(1));
    let used = time - (time / 8).min(u128::from(AROUND.as_nanos()));
    u64::try_from((bytes * time).div_ceil(used)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to(text: &str) -> SocketAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn a_grant_carries_less_than_itself() {
        // 40.5 Mb/s are 5,062,500 bytes a second; of 1,500 bytes 1,448 are payload; 99 % of that is used.
        assert_eq!(payload_rate(40_500_000, &to("10.0.0.1:1")), 4_838_130);
        assert_eq!(payload_rate(40_500_000, &to("[fd00::1]:1")), 4_771_305);
        assert_eq!(payload_rate(0, &to("10.0.0.1:1")), 0);
        assert!(payload_rate(u64::MAX, &to("10.0.0.1:1")) < u64::MAX / 8);
    }

    #[test]
    fn a_volume_at_its_rate_is_there_in_time() {
        for file in [0u64, 1, 1_000_000, 2_000_000_000, u64::MAX] {
            for to in [to("10.0.0.1:1"), to("[fd00::1]:1")] {
                let volume = volume(file, &to, Span::from_secs(1_000));
                // If the grant carries the volume in a thousand seconds, the file is through a second earlier.
                let bps = volume / 1_000 * 8;
                let through = u128::from(payload_rate(bps, &to)) * 999;
                assert!(volume == u64::MAX || through >= u128::from(file), "{file}: {volume} {through}");
            }
        }
    }
}

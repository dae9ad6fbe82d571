//! The Internet checksum, RFC 1071.

/// The ones' complement of the ones' complement sum of `bytes`, taken as big-endian 16-bit words; an odd last byte
/// counts as if a zero followed it.
///
/// Over bytes that hold their own right checksum the result is zero.
pub fn internet(bytes: &[u8]) -> u16 {
    !fold(sum(bytes))
}

/// The unfolded sum, so that several pieces of even length can be added (pseudo headers, RFC 768, RFC 8200 section 8.1).
pub fn sum(bytes: &[u8]) -> u64 {
    let mut words = bytes.chunks_exact(4);
    let mut total: u64 = 0;
    for word in &mut words {
        // A 32-bit word adds like two 16-bit words, because 2^16 is congruent to 1 (mod 2^16 - 1), RFC 1071 section 2.
        let word = word.first_chunk::<4>().map_or(0, |w| u32::from_be_bytes(*w));
        total = total.wrapping_add(u64::from(word));
    }
    let tail = match *words.remainder() {
        [a, b, c] => (u64::from(a) << 8 | u64::from(b)).wrapping_add(u64::from(c) << 8),
        [a, b] => u64::from(a) << 8 | u64::from(b),
        [a] => u64::from(a) << 8,
        _ => 0,
    };
    total.wrapping_add(tail)
}

/// Folds a sum into 16 bits, with end-around carry.
pub fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff).wrapping_add(sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_rfc_1071_section_3() {
        assert_eq!(fold(sum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7])), 0xddf2);
        assert_eq!(internet(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), !0xddf2);
    }

    #[test]
    fn odd_and_short_lengths_are_padded_with_zero() {
        for bytes in [&[0xab][..], &[0xab, 0xcd, 0xef], &[1, 2, 3, 4, 5], &[]] {
            let mut padded = bytes.to_vec();
            padded.push(0);
            padded.truncate(bytes.len().next_multiple_of(2));
            assert_eq!(internet(bytes), internet(&padded), "{bytes:?}");
        }
    }

    #[test]
    fn the_longest_message_does_not_overflow() {
        assert_eq!(internet(&[0xff; 65_535]), !fold(0xffff * 32_767 + 0xff00));
    }
}

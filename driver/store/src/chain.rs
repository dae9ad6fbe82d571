//! The hash chain of the audit trail. Each entry's SHA-256 is over its number, its bytes and the hash before
//! it. To change, remove or insert an entry, one must change all later entries and the last hash.

use sha2::{Digest, Sha256};

/// An entry's place in the chain.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ChainLink {
    /// Its number; 0 before the first.
    pub number: u64,
    /// The hash up to it; zeros before the first.
    pub hash: [u8; 32],
}

impl ChainLink {
    /// The link of an entry `body` that follows this one.
    #[must_use]
    pub fn next(&self, body: &[u8]) -> ChainLink {
        let number = self.number + 1;
        let mut digest = Sha256::new();
        digest.update(self.hash);
        digest.update(number.to_be_bytes());
        digest.update(body);
        ChainLink { number, hash: digest.finalize().into() }
    }
}

/// A record's checksum. It covers the table, the length of the key, the key and the value.
pub(crate) fn checksum(table: u16, key: &[u8], value: &[u8]) -> i64 {
    let mut digest = Sha256::new();
    digest.update(table.to_be_bytes());
    digest.update((key.len() as u64).to_be_bytes());
    digest.update(key);
    digest.update(value);
    let whole: [u8; 32] = digest.finalize().into();
    i64::from_be_bytes([whole[0], whole[1], whole[2], whole[3], whole[4], whole[5], whole[6], whole[7]])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_before_it_is_in_a_hash() {
        let chain = |bodies: &[&[u8]]| bodies.iter().fold(ChainLink::default(), |link, body| link.next(body));
        let whole = chain(&[b"a", b"b", b"c"]);
        assert_eq!(whole.number, 3);
        let others: [&[&[u8]]; 5] = [&[b"a", b"b"], &[b"a", b"x", b"c"], &[b"b", b"a", b"c"], &[b"ab", b"c"], &[]];
        assert!(others.iter().all(|other| chain(other).hash != whole.hash));
    }

    #[test]
    fn a_byte_between_key_and_value_counts() {
        assert_ne!(checksum(1, b"ab", b"c"), checksum(1, b"a", b"bc"));
        assert_ne!(checksum(1, b"a", b"b"), checksum(2, b"a", b"b"));
    }
}

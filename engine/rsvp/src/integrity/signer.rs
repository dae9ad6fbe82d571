//! A signer that has a key and is no node: it signs messages that were written elsewhere, each with the next
//! number. Tools and tests that speak as a neighbour use it; a node signs by [`super::seal`].

use super::key::IntegrityKey;
use super::mac::Mac;
use super::seal;
use alloc::vec::Vec;

/// A signer with one key.
pub struct Signer {
    id: u64,
    mac: Mac,
    next: u64,
}

impl Signer {
    /// A signer with this key. The time in nanoseconds is a good `first` number: no number may be used in two
    /// lives (RFC 2747 section 3.1).
    pub fn new(key: &IntegrityKey, first: u64) -> Signer {
        Signer { id: key.id, mac: Mac::new(key.algorithm, &key.secret), next: first }
    }

    /// The message with an INTEGRITY, even outside the lifetime of the key; `None` if it is no message or
    /// would be too long. A Bundle is not signed: its messages are, each before it goes in (RFC 2961 section
    /// 3.1).
    pub fn sign(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
        let signed = seal::sign(bytes, self.id, &self.mac, self.next);
        self.next = self.next.wrapping_add(1);
        signed
    }
}

impl core::fmt::Debug for Signer {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        // The secret is for nobody's log.
        f.debug_struct("Signer").field("id", &self.id).field("next", &self.next).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::integrity::Algorithm;
    use wire::{Builder, Challenge, MessageType, Outline};

    #[test]
    fn what_it_signs_is_signed() {
        for algorithm in [Algorithm::HmacSha256, Algorithm::HmacSha1, Algorithm::HmacMd5] {
            let key = IntegrityKey::new(9, algorithm, b"of the link");
            let challenge = Challenge { key_id: 9, cookie: &[1; 16] };
            let plain = Builder::new(MessageType::IntegrityResponse, 255).challenge(&challenge).finish().unwrap();
            let mut signer = Signer::new(&key, 41);
            for number in [41, 42] {
                let bytes = signer.sign(&plain).unwrap();
                let outline = Outline::read(&bytes).unwrap();
                let integrity = outline.integrity.unwrap();
                assert_eq!((integrity.key_id, integrity.sequence, integrity.handshake()), (9, number, true));
                let parts = outline.signed_parts(&bytes).unwrap();
                assert!(Mac::new(algorithm, b"of the link").verify(&parts, integrity.digest));
            }
            assert!(signer.sign(&[]).is_none(), "no message at all");
        }
    }
}

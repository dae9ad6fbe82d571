//! Is a captured message signed by a key of a table? For people who read captures; a node decides by
//! [`super::check`], which also knows lifetimes, neighbours and sequence numbers.

use super::key::KeyTable;
use super::mac::Mac;
use wire::Outline;

/// The verdict of a key table on a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IntegrityVerdict {
    /// The message has no INTEGRITY.
    Unsigned,
    /// Its digest is that of a key with its Key Identifier.
    Good,
    /// No key with its Key Identifier gives its digest.
    Bad,
    /// The table has no key with its Key Identifier.
    UnknownKey,
}

impl KeyTable {
    /// The verdict on a message, by all keys with its Key Identifier, whatever their lifetime and neighbour.
    /// `None`: its header or its INTEGRITY cannot be read. A Bundle is unsigned: its messages are signed, each
    /// by itself (RFC 2961 section 3.1).
    pub fn verdict(&self, bytes: &[u8]) -> Option<IntegrityVerdict> {
        let outline = Outline::read(bytes).ok()?;
        let Some((integrity, parts)) = outline.integrity.zip(outline.signed_parts(bytes)) else {
            return Some(IntegrityVerdict::Unsigned);
        };
        let mut known = self.keys().iter().filter(|key| key.id == integrity.key_id).peekable();
        if known.peek().is_none() {
            return Some(IntegrityVerdict::UnknownKey);
        }
        let mut macs = known.map(|key| Mac::new(key.algorithm, &key.secret));
        Some(match macs.any(|mac| mac.verify(&parts, integrity.digest)) {
            true => IntegrityVerdict::Good,
            false => IntegrityVerdict::Bad,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::integrity::{Algorithm, IntegrityKey, Signer};
    use alloc::vec;
    use wire::{Builder, Challenge, MessageType};

    #[test]
    fn a_message_is_good_bad_unknown_or_unsigned() {
        let of = |id: u64, peer: Option<u8>, secret: &[u8]| IntegrityKey {
            peer: peer.map(|last| [10, 0, 0, last].into()),
            ..IntegrityKey::new(id, Algorithm::HmacSha1, secret)
        };
        let table = KeyTable::new(vec![of(7, Some(1), b"one"), of(7, Some(2), b"two"), of(8, None, b"all")]).unwrap();
        let challenge = Challenge { key_id: 7, cookie: &[1; 16] };
        let plain = Builder::new(MessageType::IntegrityResponse, 255).challenge(&challenge).finish().unwrap();
        let signed = |id, secret: &[u8]| Signer::new(&of(id, None, secret), 9).sign(&plain).unwrap();
        assert_eq!(table.verdict(&plain), Some(IntegrityVerdict::Unsigned));
        for secret in [b"one", b"two"] {
            assert_eq!(table.verdict(&signed(7, secret)), Some(IntegrityVerdict::Good), "of either neighbour");
        }
        assert_eq!(table.verdict(&signed(8, b"one")), Some(IntegrityVerdict::Bad));
        assert_eq!(table.verdict(&signed(9, b"one")), Some(IntegrityVerdict::UnknownKey));
        let mut changed = signed(7, b"one");
        *changed.last_mut().unwrap() ^= 1;
        assert_eq!(table.verdict(&changed), Some(IntegrityVerdict::Bad));
        assert_eq!(table.verdict(&plain[..4]), None);
    }
}

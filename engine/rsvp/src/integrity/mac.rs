//! Keyed digests: HMAC (RFC 2104) over SHA-256, SHA-1 and MD5.

use super::key::Algorithm;
use alloc::boxed::Box;
use hmac::{Hmac, KeyInit, Mac as _};
use md5::Md5;
use sha1::Sha1;
use sha2::Sha256;

/// Longest digest, bytes.
pub(super) const LONGEST: usize = 32;

/// A digest that has absorbed its key and nothing else; it is copied for each message.
#[derive(Clone)]
pub(super) enum Mac {
    Sha256(Box<Hmac<Sha256>>),
    Sha1(Box<Hmac<Sha1>>),
    Md5(Box<Hmac<Md5>>),
}

impl Mac {
    pub fn new(algorithm: Algorithm, secret: &[u8]) -> Mac {
        const ANY: &str = "HMAC takes keys of any length";
        match algorithm {
            Algorithm::HmacSha256 => Mac::Sha256(Box::new(Hmac::new_from_slice(secret).expect(ANY))),
            Algorithm::HmacSha1 => Mac::Sha1(Box::new(Hmac::new_from_slice(secret).expect(ANY))),
            Algorithm::HmacMd5 => Mac::Md5(Box::new(Hmac::new_from_slice(secret).expect(ANY))),
        }
    }

    /// Bytes of the digest.
    pub fn len(&self) -> usize {
        match self {
            Mac::Sha256(_) => 32,
            Mac::Sha1(_) => 20,
            Mac::Md5(_) => 16,
        }
    }

    /// The digest of the parts, one after the other; the first [`Mac::len`] bytes count.
    pub fn sign(&self, parts: &[&[u8]]) -> [u8; LONGEST] {
        let mut out = [0; LONGEST];
        match self {
            Mac::Sha256(mac) => out.copy_from_slice(&fed(&**mac, parts).finalize().into_bytes()),
            Mac::Sha1(mac) => out[..20].copy_from_slice(&fed(&**mac, parts).finalize().into_bytes()),
            Mac::Md5(mac) => out[..16].copy_from_slice(&fed(&**mac, parts).finalize().into_bytes()),
        }
        out
    }

    /// True if this is the digest of the parts. It takes as long for a wrong digest as for the right one.
    pub fn verify(&self, parts: &[&[u8]], digest: &[u8]) -> bool {
        match self {
            Mac::Sha256(mac) => fed(&**mac, parts).verify_slice(digest).is_ok(),
            Mac::Sha1(mac) => fed(&**mac, parts).verify_slice(digest).is_ok(),
            Mac::Md5(mac) => fed(&**mac, parts).verify_slice(digest).is_ok(),
        }
    }
}

fn fed<M: hmac::Mac + Clone>(mac: &M, parts: &[&[u8]]) -> M {
    let mut mac = mac.clone();
    parts.iter().for_each(|part| mac.update(part));
    mac
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn hex(text: &str) -> Vec<u8> {
        (0..text.len() / 2).map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).expect("hex")).collect()
    }

    /// RFC 2202 (MD5, SHA-1) and RFC 4231 (SHA-256), test cases 1, 2, 3 and 6.
    #[test]
    fn known_answers() {
        let long = [0xaa; 131];
        let block = b"Test Using Larger Than Block-Size Key - Hash Key First";
        let cases: [(Algorithm, &[u8], &[u8], &str); 12] = [
            (Algorithm::HmacMd5, &[0x0b; 16], b"Hi There", "9294727a3638bb1c13f48ef8158bfc9d"),
            (Algorithm::HmacMd5, b"Jefe", b"what do ya want for nothing?", "750c783e6ab0b503eaa86e310a5db738"),
            (Algorithm::HmacMd5, &[0xaa; 16], &[0xdd; 50], "56be34521d144c88dbb8c733f0e8b3f6"),
            (Algorithm::HmacMd5, &long[..80], block, "6b1ab7fe4bd7bf8f0b62e6ce61b9d0cd"),
            (Algorithm::HmacSha1, &[0x0b; 20], b"Hi There", "b617318655057264e28bc0b6fb378c8ef146be00"),
            (Algorithm::HmacSha1, b"Jefe", b"what do ya want for nothing?", "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79"),
            (Algorithm::HmacSha1, &[0xaa; 20], &[0xdd; 50], "125d7342b9ac11cd91a39af48aa17b4f63f175d3"),
            (Algorithm::HmacSha1, &long[..80], block, "aa4ae5e15272d00e95705637ce8a3b55ed402112"),
            (
                Algorithm::HmacSha256,
                &[0x0b; 20],
                b"Hi There",
                "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7",
            ),
            (
                Algorithm::HmacSha256,
                b"Jefe",
                b"what do ya want for nothing?",
                "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
            ),
            (
                Algorithm::HmacSha256,
                &[0xaa; 20],
                &[0xdd; 50],
                "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe",
            ),
            (Algorithm::HmacSha256, &long, block, "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"),
        ];
        for (algorithm, key, data, expected) in cases {
            let mac = Mac::new(algorithm, key);
            let expected = hex(expected);
            assert_eq!(mac.len(), expected.len());
            // In one part and in two.
            assert_eq!(mac.sign(&[data])[..mac.len()], expected, "{algorithm:?}");
            assert!(mac.verify(&[&data[..3], &data[3..]], &expected));
            let mut wrong = expected.clone();
            for bit in 0..wrong.len() * 8 {
                wrong[bit / 8] ^= 1 << (bit % 8);
                assert!(!mac.verify(&[data], &wrong), "bit {bit}");
                wrong[bit / 8] ^= 1 << (bit % 8);
            }
            assert!(!mac.verify(&[data], &expected[..mac.len() - 4]), "a shorter digest");
            assert!(!mac.verify(&[data], &[]), "no digest");
        }
    }
}

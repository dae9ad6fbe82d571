//! POLICY_DATA (RFC 2205 section A.13, RFC 2750) and INTEGRITY (RFC 2747 section 2): checked, not interpreted.

use super::unknown_ctype;
use crate::MalformedMessage;
use crate::object::{HEADER, MAX_OBJECTS, Object, Objects};

/// POLICY_DATA, RFC 2750 section 2.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PolicyData<'a> {
    /// The option list: RSVP objects, their headers checked.
    pub options: Objects<'a>,
    /// The policy elements.
    pub elements: Elements<'a>,
}

/// One policy element.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Element<'a> {
    /// P-type.
    pub kind: u16,
    /// The bytes after the element's header.
    pub data: &'a [u8],
}

/// The policy elements, in order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Elements<'a> {
    rest: &'a [u8],
}

/// INTEGRITY: its fields. The digest can only be verified with the key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Integrity<'a> {
    /// Flags as sent; see [`Integrity::handshake`].
    pub flags: u8,
    /// Key Identifier, 48 bits.
    pub key_id: u64,
    /// Sequence Number.
    pub sequence: u64,
    /// Keyed Message Digest.
    pub digest: &'a [u8],
    /// The offset of the digest, in bytes from the start of the message: it counts as zeros in the computation.
    pub digest_at: usize,
}

impl<'a> PolicyData<'a> {
    pub(super) fn decode(object: &Object<'a>) -> Result<PolicyData<'a>, MalformedMessage> {
        if object.ctype != 1 {
            return Err(unknown_ctype(object));
        }
        let Some((&[hi, lo, _, _], rest)) = object.body.split_first_chunk::<4>() else {
            return Err(object.fault("POLICY_DATA is cut off", 0));
        };
        // The Data Offset counts from the object header.
        let offset = usize::from(u16::from_be_bytes([hi, lo]));
        let head = HEADER.saturating_add(4);
        let Some((options, elements)) = offset.checked_sub(head).and_then(|at| rest.split_at_checked(at)) else {
            return Err(object.fault("policy data offset is outside the object", 0));
        };
        let options = Objects::new(options, object.offset.saturating_add(head));
        options.check()?;
        let all = Elements { rest: elements };
        let mut walk = all;
        let mut left = MAX_OBJECTS;
        while !walk.rest.is_empty() {
            let at = object.body.len().saturating_sub(walk.rest.len());
            if walk.next().is_none() || left == 0 {
                return Err(object.fault("policy element passes the end of its object", at));
            }
            left = left.saturating_sub(1);
        }
        Ok(PolicyData { options, elements: all })
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = Element<'a>;

    fn next(&mut self) -> Option<Element<'a>> {
        let &[hi, lo, k0, k1] = self.rest.first_chunk::<4>()?;
        let length = usize::from(u16::from_be_bytes([hi, lo]));
        if length < HEADER || !length.is_multiple_of(4) {
            return None;
        }
        let (element, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(Element { kind: u16::from_be_bytes([k0, k1]), data: element.get(HEADER..)? })
    }
}

impl<'a> Integrity<'a> {
    /// Shortest digest: HMAC-MD5, RFC 2747 section 2.
    pub const MIN_DIGEST: usize = 16;

    pub(super) fn decode(object: &Object<'a>) -> Result<Integrity<'a>, MalformedMessage> {
        if object.ctype != 1 {
            return Err(unknown_ctype(object));
        }
        let Some((head, digest)) = object.body.split_first_chunk::<16>() else {
            return Err(object.fault("INTEGRITY is cut off", 0));
        };
        let &[flags, _, k0, k1, k2, k3, k4, k5, s0, s1, s2, s3, s4, s5, s6, s7] = head;
        if digest.len() < Integrity::MIN_DIGEST {
            return Err(object.fault("digest is shorter than HMAC-MD5", 16));
        }
        Ok(Integrity {
            flags,
            key_id: u64::from_be_bytes([0, 0, k0, k1, k2, k3, k4, k5]),
            sequence: u64::from_be_bytes([s0, s1, s2, s3, s4, s5, s6, s7]),
            digest,
            digest_at: object.offset.saturating_add(HEADER).saturating_add(16),
        })
    }

    /// Handshake Flag: the sender answers an Integrity Challenge. RFC 2747 draws bit 0 leftmost (0x80); Cisco IOS
    /// sends 0x01. Both count.
    pub fn handshake(&self) -> bool {
        self.flags & 0x81 != 0
    }
}

//! HELLO (RFC 3209 section 5.2) and CHALLENGE (RFC 2747 section 4.3).

use super::unknown_ctype;
use crate::MalformedMessage;
use crate::iana::ctype;
use crate::object::Object;

/// HELLO: two neighbours exchange their instance numbers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct HelloObject {
    /// True for a REQUEST, which needs an ACK.
    pub request: bool,
    /// Src_Instance: a new value means that the sender has restarted. Never zero from a conforming sender.
    pub src_instance: u32,
    /// Dst_Instance: the receiver's instance as the sender last received it; zero if it has not.
    pub dst_instance: u32,
}

/// CHALLENGE: a cookie that a receiver of INTEGRITY wants signed, to learn a sender's sequence number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Challenge<'a> {
    /// Key Identifier, 48 bits.
    pub key_id: u64,
    /// Challenge Cookie, at least 32 bits.
    pub cookie: &'a [u8],
}

impl HelloObject {
    pub(super) fn decode(object: &Object<'_>) -> Result<HelloObject, MalformedMessage> {
        let request = match object.ctype {
            ctype::HELLO_REQUEST => true,
            ctype::HELLO_ACK => false,
            _ => return Err(unknown_ctype(object)),
        };
        let &[a, b, c, d, e, f, g, h] = object.body else {
            return Err(object.fault("HELLO has the wrong length", 0));
        };
        let (src_instance, dst_instance) = (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h]));
        Ok(HelloObject { request, src_instance, dst_instance })
    }
}

impl<'a> Challenge<'a> {
    pub(super) fn decode(object: &Object<'a>) -> Result<Challenge<'a>, MalformedMessage> {
        if object.ctype != 1 {
            return Err(unknown_ctype(object));
        }
        let Some((&[_, _, k0, k1, k2, k3, k4, k5], cookie)) = object.body.split_first_chunk::<8>() else {
            return Err(object.fault("CHALLENGE is cut off", 0));
        };
        if cookie.is_empty() {
            return Err(object.fault("CHALLENGE without a cookie", 8));
        }
        Ok(Challenge { key_id: u64::from_be_bytes([0, 0, k0, k1, k2, k3, k4, k5]), cookie })
    }
}

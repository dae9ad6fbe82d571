//! Errors: ERROR_SPEC (RFC 2205 section A.5) and USER_ERROR_SPEC (RFC 5284), the refusing node's own text.

use super::address::split_address;
use crate::MalformedMessage;
use crate::iana::error;
use crate::object::Object;
use core::net::IpAddr;

/// ERROR_SPEC.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ErrorSpec {
    /// The node that found the error.
    pub node: IpAddr,
    /// Flags: [`error::IN_PLACE`], [`error::NOT_GUILTY`].
    pub flags: u8,
    /// Error Code; 0 is a confirmation.
    pub code: u8,
    /// Error Value.
    pub value: u16,
}

/// USER_ERROR_SPEC: text for people, beside an ERROR_SPEC.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct UserError<'a> {
    /// The private enterprise number of the organisation that defines `sub_org` and `value`; 0 if none does.
    pub enterprise: u32,
    /// A part of that organisation, or 0.
    pub sub_org: u8,
    /// The organisation's own error value.
    pub value: u16,
    /// The text: UTF-8 up to the first invalid byte, at most 255 bytes, without the padding.
    pub text: &'a str,
}

impl ErrorSpec {
    pub(super) fn decode(object: &Object<'_>) -> Result<ErrorSpec, MalformedMessage> {
        let (node, rest) = split_address(object)?;
        let &[flags, code, hi, lo] = rest else {
            return Err(object.fault("ERROR_SPEC has the wrong length", 0));
        };
        Ok(ErrorSpec { node, flags, code, value: u16::from_be_bytes([hi, lo]) })
    }

    /// True if the old reservation is still in place.
    pub fn in_place(&self) -> bool {
        self.flags & error::IN_PLACE != 0
    }

    /// True if another receiver's request caused the error.
    pub fn not_guilty(&self) -> bool {
        self.flags & error::NOT_GUILTY != 0
    }
}

impl<'a> UserError<'a> {
    /// Longest text, in bytes: its length field has eight bits.
    pub const MAX_TEXT: usize = 255;

    /// The part of `text` that one object can carry, cut between two characters.
    pub fn fitting(text: &str) -> &str {
        let mut end = text.len().min(UserError::MAX_TEXT);
        while !text.is_char_boundary(end) {
            end = end.saturating_sub(1);
        }
        text.get(..end).unwrap_or_default()
    }

    pub(super) fn decode(object: &Object<'a>) -> Result<UserError<'a>, MalformedMessage> {
        let Some((&[e0, e1, e2, e3, sub_org, length, hi, lo], rest)) = object.body.split_first_chunk::<8>() else {
            return Err(object.fault("USER_ERROR_SPEC is cut off", 0));
        };
        let Some(words) = rest.get(..usize::from(length)) else {
            return Err(object.fault("error description passes the end of its object", 5));
        };
        let end = words.iter().position(|b| *b == 0).unwrap_or(words.len());
        Ok(UserError {
            enterprise: u32::from_be_bytes([e0, e1, e2, e3]),
            sub_org,
            value: u16::from_be_bytes([hi, lo]),
            text: readable(words.get(..end).unwrap_or_default()),
        })
    }
}

fn readable(bytes: &[u8]) -> &str {
    match core::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(e) => bytes.get(..e.valid_up_to()).and_then(|good| core::str::from_utf8(good).ok()).unwrap_or_default(),
    }
}

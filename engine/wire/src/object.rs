//! The object header and the walk over objects: RFC 2205 section 3.1.2.

use crate::MalformedMessage;

/// The most objects in one message, and the most sub-objects in one object: bounds the work for any message.
pub const MAX_OBJECTS: usize = 256;

/// Bytes of an object header: Length (16), Class-Num (8), C-Type (8).
pub const HEADER: usize = 4;

/// One object, not yet decoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Object<'a> {
    /// Class-Num.
    pub class: u8,
    /// C-Type.
    pub ctype: u8,
    /// The bytes after the header; their length is a multiple of four.
    pub body: &'a [u8],
    /// The offset of the object header, in bytes from the start of the message.
    pub offset: usize,
}

impl Object<'_> {
    /// A fault `rel` bytes into the body, which is not answered.
    pub(crate) fn fault(&self, what: &'static str, rel: usize) -> MalformedMessage {
        MalformedMessage::silent(what, self.offset.saturating_add(HEADER).saturating_add(rel))
    }

    /// A fault `rel` bytes into the body, which is answered.
    pub(crate) fn answered(&self, what: &'static str, rel: usize, code: u8, value: u16) -> MalformedMessage {
        MalformedMessage::answered(what, self.offset.saturating_add(HEADER).saturating_add(rel), code, value)
    }

    /// Class-Num and C-Type as the Error Value of codes 13 and 14 (RFC 2205 appendix B).
    pub fn class_and_ctype(&self) -> u16 {
        u16::from_be_bytes([self.class, self.ctype])
    }
}

/// The objects in a run of bytes, in order. In unchecked bytes it ends at the first wrong header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Objects<'a> {
    rest: &'a [u8],
    offset: usize,
}

impl<'a> Objects<'a> {
    /// The objects in `bytes`, which start `offset` bytes into the message.
    pub(crate) const fn new(bytes: &'a [u8], offset: usize) -> Objects<'a> {
        Objects { rest: bytes, offset }
    }

    /// The bytes after the walk's position.
    pub fn as_bytes(&self) -> &'a [u8] {
        self.rest
    }

    /// The next object; `None` at the end; an error for a wrong header.
    pub(crate) fn step(&mut self) -> Result<Option<Object<'a>>, MalformedMessage> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let wrong = |what| Err(MalformedMessage::silent(what, self.offset));
        let Some((&[hi, lo, class, ctype], _)) = self.rest.split_first_chunk::<HEADER>() else {
            return wrong("object header is cut off");
        };
        let length = usize::from(u16::from_be_bytes([hi, lo]));
        if length < HEADER {
            return wrong("object length is below 4");
        }
        if !length.is_multiple_of(4) {
            return wrong("object length is not a multiple of 4");
        }
        let Some((object, rest)) = self.rest.split_at_checked(length) else {
            return wrong("object passes the end of what contains it");
        };
        let body = object.get(HEADER..).unwrap_or_default();
        let found = Object { class, ctype, body, offset: self.offset };
        self.rest = rest;
        self.offset = self.offset.saturating_add(length);
        Ok(Some(found))
    }

    /// Checks all remaining headers.
    pub(crate) fn check(mut self) -> Result<(), MalformedMessage> {
        for _ in 0..MAX_OBJECTS {
            if self.step()?.is_none() {
                return Ok(());
            }
        }
        if self.rest.is_empty() { Ok(()) } else { Err(MalformedMessage::silent("more than 256 objects", self.offset)) }
    }
}

impl<'a> Iterator for Objects<'a> {
    type Item = Object<'a>;

    fn next(&mut self) -> Option<Object<'a>> {
        self.step().ok().flatten()
    }
}

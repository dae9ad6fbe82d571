//! Bundle: RFC 2961 section 3. Whole messages in one, each checked separately.

use super::{COMMON_HEADER, Envelope, Header};
use crate::MalformedMessage;
use crate::iana::MessageType;
use crate::object::Objects;

/// Several messages to one neighbour in one datagram. It has no objects of its own; INTEGRITY and checksums are in the
/// sub-messages.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Bundle<'a> {
    /// Header; no objects.
    pub envelope: Envelope<'a>,
    body: &'a [u8],
}

impl<'a> Bundle<'a> {
    /// Checks the sub-messages' headers as far as needed to separate them.
    pub(super) fn new(header: Header, body: &'a [u8]) -> Result<Bundle<'a>, MalformedMessage> {
        let mut rest = body;
        if rest.is_empty() {
            return Err(MalformedMessage::silent("Bundle of nothing", COMMON_HEADER));
        }
        while !rest.is_empty() {
            let at = header.length.saturating_sub(rest.len());
            let wrong = |what| Err(MalformedMessage::silent(what, at));
            let Some((&[version, kind, _, _, _, _, hi, lo], _)) = rest.split_first_chunk::<COMMON_HEADER>() else {
                return wrong("sub-message is shorter than the common header");
            };
            if version >> 4 != 1 {
                return wrong("version of a sub-message is not 1");
            }
            if kind == MessageType::Bundle.number() {
                return wrong("Bundle in a Bundle");
            }
            let length = usize::from(u16::from_be_bytes([hi, lo]));
            if length < COMMON_HEADER || !length.is_multiple_of(4) {
                return wrong("length of a sub-message is below 8 or not whole words");
            }
            let Some(after) = rest.get(length..) else {
                return wrong("sub-message passes the end of its Bundle");
            };
            rest = after;
        }
        let objects = Objects::new(&[], header.length);
        Ok(Bundle { envelope: Envelope { header, integrity: None, message_id: None, objects }, body })
    }

    /// The sub-messages, in order, each with its own common header.
    pub fn messages(&self) -> impl Iterator<Item = &'a [u8]> + Clone + 'a {
        let mut rest = self.body;
        core::iter::from_fn(move || {
            let &[hi, lo] = rest.get(6..8)?.first_chunk::<2>()?;
            let (message, after) = rest.split_at_checked(usize::from(u16::from_be_bytes([hi, lo])))?;
            rest = after;
            Some(message).filter(|m| !m.is_empty())
        })
    }
}

//! The parts of a message that are needed before it is decoded: its type, its INTEGRITY and its claimed sender.
//!
//! A receiver that requires signed messages starts here (RFC 2747 section 4.2): nothing else of an unsigned
//! message is decoded, and nothing is answered.

use crate::MalformedMessage;
use crate::iana::{MessageType, class};
use crate::message::{Header, envelope};
use crate::objects::{Content, Integrity, RsvpHop, decode};

/// The outline of a message.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Outline<'a> {
    /// The common header, checked.
    pub header: Header,
    /// INTEGRITY, if the message begins with one. Its digest has **not** been checked.
    pub integrity: Option<Integrity<'a>>,
    /// The first RSVP_HOP, if it can be read.
    pub hop: Option<RsvpHop>,
}

impl<'a> Outline<'a> {
    /// Reads the common header, and the headers of objects as far as the RSVP_HOP.
    ///
    /// # Errors
    /// [`MalformedMessage`], never with an answer: the common header or an INTEGRITY at its place is wrong.
    pub fn read(bytes: &'a [u8]) -> Result<Outline<'a>, MalformedMessage> {
        let (header, objects) = envelope(bytes)?;
        let mut outline = Outline { header, integrity: None, hop: None };
        // The body of a Bundle is messages, not objects.
        if header.kind == MessageType::Bundle {
            return Ok(outline);
        }
        for (i, object) in objects.enumerate() {
            match object.class {
                class::INTEGRITY if i == 0 => match decode(&object) {
                    Ok(Content::Integrity(integrity)) => outline.integrity = Some(integrity),
                    Ok(_) => {}
                    Err(m) => return Err(MalformedMessage { answer: None, ..m }),
                },
                class::RSVP_HOP => {
                    if let Ok(Content::Hop(hop)) = decode(&object) {
                        outline.hop = Some(hop);
                    }
                    break;
                }
                _ => {}
            }
        }
        Ok(outline)
    }

    /// The message in pieces for its digest: checksum and digest are zero (RFC 2747 section 4.1). `None`: it
    /// has no INTEGRITY.
    pub fn signed_parts(&self, bytes: &'a [u8]) -> Option<[&'a [u8]; 5]> {
        const ZEROS: [u8; 64] = [0; 64];
        let integrity = self.integrity?;
        let after = integrity.digest_at.checked_add(integrity.digest.len())?;
        Some([
            bytes.get(..2)?,
            ZEROS.get(..2)?,
            bytes.get(4..integrity.digest_at)?,
            ZEROS.get(..integrity.digest.len())?,
            bytes.get(after..self.header.length)?,
        ])
    }
}

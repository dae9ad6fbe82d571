//! PathTear: RFC 2205 section 3.1.5.

use super::Envelope;
use super::found::Found;
use crate::MalformedMessage;
use crate::objects::{FilterObject, RsvpHop};
use terms::Session;

/// The end of a sender's path state. SENDER_TSPEC and ADSPEC, if there, mean nothing.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PathTear<'a> {
    /// Header, INTEGRITY, all objects.
    pub envelope: Envelope<'a>,
    /// SESSION.
    pub session: Session,
    /// RSVP_HOP: the previous hop.
    pub hop: RsvpHop,
    /// SENDER_TEMPLATE.
    pub sender: FilterObject,
}

impl<'a> PathTear<'a> {
    pub(super) fn new(found: &Found<'a>) -> Result<PathTear<'a>, MalformedMessage> {
        let session = found.session()?.session;
        Ok(PathTear { envelope: found.envelope(), session, hop: found.hop()?, sender: found.sender()? })
    }
}

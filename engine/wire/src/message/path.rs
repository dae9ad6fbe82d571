//! Path: RFC 2205 section 3.1.3.

use super::Envelope;
use super::found::Found;
use crate::MalformedMessage;
use crate::objects::{AdspecObject, FilterObject, RsvpHop};
use terms::{Session, Span, Tspec};

/// A sender's announcement of its destination and traffic.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Path<'a> {
    /// Header, INTEGRITY, all objects.
    pub envelope: Envelope<'a>,
    /// SESSION.
    pub session: Session,
    /// SESSION flags; 0x01: E_Police, the sender's edge does not police.
    pub session_flags: u8,
    /// RSVP_HOP: the previous hop.
    pub hop: RsvpHop,
    /// TIME_VALUES: the sender's refresh period, as sent.
    pub refresh: Span,
    /// SENDER_TEMPLATE.
    pub sender: FilterObject,
    /// SENDER_TSPEC.
    pub tspec: Tspec,
    /// ADSPEC.
    pub adspec: Option<AdspecObject<'a>>,
}

impl<'a> Path<'a> {
    pub(super) fn new(found: &Found<'a>) -> Result<Path<'a>, MalformedMessage> {
        let session = found.session()?;
        Ok(Path {
            envelope: found.envelope(),
            session: session.session,
            session_flags: session.flags,
            hop: found.hop()?,
            refresh: found.time_values()?,
            sender: found.sender()?,
            tspec: found.need(found.tspec, "no SENDER_TSPEC")?,
            adspec: found.adspec,
        })
    }
}

//! ResvTear: RFC 2205 section 3.1.6.

use super::Envelope;
use super::found::Found;
use crate::MalformedMessage;
use crate::flows::Descriptors;
use crate::objects::{RsvpHop, Scope};
use terms::{Session, Style};

/// The end of a reservation. FLOWSPECs, if there, mean nothing.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ResvTear<'a> {
    /// Header, INTEGRITY, all objects.
    pub envelope: Envelope<'a>,
    /// SESSION.
    pub session: Session,
    /// RSVP_HOP: the next hop, which sent this message.
    pub hop: RsvpHop,
    /// SCOPE.
    pub scope: Option<Scope<'a>>,
    /// STYLE.
    pub style: Style,
    list: Descriptors<'a>,
}

impl<'a> ResvTear<'a> {
    pub(super) fn new(found: &Found<'a>) -> Result<ResvTear<'a>, MalformedMessage> {
        Ok(ResvTear {
            envelope: found.envelope(),
            session: found.session()?.session,
            hop: found.hop()?,
            scope: found.scope,
            style: found.style()?,
            list: found.descriptors()?,
        })
    }

    /// The flow descriptors: one per filter; for WF one without a filter.
    pub fn flows(&self) -> Descriptors<'a> {
        self.list
    }
}

//! Resv: RFC 2205 section 3.1.4.

use super::Envelope;
use super::found::Found;
use crate::MalformedMessage;
use crate::flows::{Descriptors, Reserved};
use crate::objects::{RsvpHop, Scope};
use core::net::IpAddr;
use terms::{Session, Span, Style};

/// A reservation request from the receivers.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Resv<'a> {
    /// Header, INTEGRITY, all objects.
    pub envelope: Envelope<'a>,
    /// SESSION.
    pub session: Session,
    /// RSVP_HOP: the next hop, which sent this message.
    pub hop: RsvpHop,
    /// TIME_VALUES: its refresh period, as sent.
    pub refresh: Span,
    /// RESV_CONFIRM: the receiver that asks for a confirmation.
    pub confirm: Option<IpAddr>,
    /// SCOPE.
    pub scope: Option<Scope<'a>>,
    /// STYLE.
    pub style: Style,
    list: Descriptors<'a>,
}

impl<'a> Resv<'a> {
    pub(super) fn new(found: &Found<'a>) -> Result<Resv<'a>, MalformedMessage> {
        Ok(Resv {
            envelope: found.envelope(),
            session: found.session()?.session,
            hop: found.hop()?,
            refresh: found.time_values()?,
            confirm: found.confirm,
            scope: found.scope,
            style: found.style()?,
            list: found.descriptors()?,
        })
    }

    /// The flow descriptors: for FF one per filter with its own flowspec; for SE one per filter, all with the same
    /// flowspec; for WF one without a filter.
    pub fn flows(&self) -> impl Iterator<Item = Reserved<'a>> + Clone + 'a {
        self.list.reserved()
    }
}

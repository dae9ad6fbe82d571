//! ResvErr: RFC 2205 section 3.1.8.

use super::Envelope;
use super::found::Found;
use crate::MalformedMessage;
use crate::flows::Descriptors;
use crate::objects::{ErrorSpec, RsvpHop, Scope, UserError};
use terms::{Session, Style};

/// A refusal of a Resv, sent downstream to the receivers whose requests are part of it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ResvErr<'a> {
    /// Header, INTEGRITY, all objects.
    pub envelope: Envelope<'a>,
    /// SESSION.
    pub session: Session,
    /// RSVP_HOP: the previous hop, which sent this message.
    pub hop: RsvpHop,
    /// ERROR_SPEC.
    pub error: ErrorSpec,
    /// SCOPE.
    pub scope: Option<Scope<'a>>,
    /// STYLE.
    pub style: Style,
    /// USER_ERROR_SPEC: the refusing node's own words.
    pub user_error: Option<UserError<'a>>,
    list: Descriptors<'a>,
}

impl<'a> ResvErr<'a> {
    pub(super) fn new(found: &Found<'a>) -> Result<ResvErr<'a>, MalformedMessage> {
        Ok(ResvErr {
            envelope: found.envelope(),
            session: found.session()?.session,
            hop: found.hop()?,
            error: found.error_spec()?,
            scope: found.scope,
            style: found.style()?,
            user_error: found.user_error,
            list: found.descriptors()?,
        })
    }

    /// The error flow descriptor: one per filter; for WF one without a filter. Its flowspec was refused.
    pub fn flows(&self) -> Descriptors<'a> {
        self.list
    }
}

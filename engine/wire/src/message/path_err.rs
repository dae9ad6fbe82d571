//! PathErr: RFC 2205 section 3.1.7.

use super::Envelope;
use super::found::Found;
use crate::MalformedMessage;
use crate::objects::{ErrorSpec, FilterObject, UserError};
use terms::{Session, Tspec};

/// An error about a Path, sent upstream hop by hop to the sender. No state changes on the way.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PathErr<'a> {
    /// Header, INTEGRITY, all objects.
    pub envelope: Envelope<'a>,
    /// SESSION.
    pub session: Session,
    /// ERROR_SPEC.
    pub error: ErrorSpec,
    /// SENDER_TEMPLATE.
    pub sender: Option<FilterObject>,
    /// SENDER_TSPEC, if readable: it may be the error.
    pub tspec: Option<Tspec>,
    /// USER_ERROR_SPEC: the node's own words.
    pub user_error: Option<UserError<'a>>,
}

impl<'a> PathErr<'a> {
    pub(super) fn new(found: &Found<'a>) -> Result<PathErr<'a>, MalformedMessage> {
        Ok(PathErr {
            envelope: found.envelope(),
            session: found.session()?.session,
            error: found.error_spec()?,
            sender: found.maybe_sender(),
            tspec: found.tspec,
            user_error: found.user_error,
        })
    }
}

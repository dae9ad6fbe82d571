//! ResvConf: RFC 2205 section 3.1.9.

use super::Envelope;
use super::found::Found;
use crate::MalformedMessage;
use crate::flows::{Descriptors, Reserved};
use crate::objects::ErrorSpec;
use core::net::IpAddr;
use terms::{Session, Style};

/// A confirmation that a reservation is in place, as far as the sending node knows.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ResvConf<'a> {
    /// Header, INTEGRITY, all objects.
    pub envelope: Envelope<'a>,
    /// SESSION.
    pub session: Session,
    /// ERROR_SPEC with code 0: the node that confirms (or the sender's address, from some routers).
    pub error: ErrorSpec,
    /// RESV_CONFIRM: the receiver that asked.
    pub confirm: IpAddr,
    /// STYLE.
    pub style: Style,
    list: Descriptors<'a>,
}

impl<'a> ResvConf<'a> {
    pub(super) fn new(found: &Found<'a>) -> Result<ResvConf<'a>, MalformedMessage> {
        Ok(ResvConf {
            envelope: found.envelope(),
            session: found.session()?.session,
            error: found.error_spec()?,
            confirm: found.need(found.confirm, "no RESV_CONFIRM")?,
            style: found.style()?,
            list: found.descriptors()?,
        })
    }

    /// The confirmed flow descriptors.
    pub fn flows(&self) -> impl Iterator<Item = Reserved<'a>> + Clone + 'a {
        self.list.reserved()
    }
}
